"""The effective configuration as text: every value, where it comes from, no secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from docgraph.config.decode import Decoded
from docgraph.config.options import options_of
from docgraph.config.render import render_value
from docgraph.config.secrets import mask
from docgraph.config.tree import Tree

__all__ = ["show"]

_COLUMN: Final = 56  # where comments begin, unless the value is longer


def show(tree: Tree, decoded: Decoded) -> str:
    """YAML, with the origin of each value as a trailing comment."""
    lines: list[str] = []
    for name, section in decoded.sections.items():
        lines.append(f"{name}:")
        values = msgspec.to_builtins(section)
        lines.extend(_show_struct(tree, type(section), values, f"/{name}"))
        lines.append("")
    return "\n".join(lines)


def _show_struct(
    tree: Tree, struct: type[msgspec.Struct], values: Mapping[str, Any], path: str
) -> Iterator[str]:
    indent = "  " * path.count("/")
    for name, option in options_of(struct).items():
        if "deprecated" in option.extra and values[name] is None:
            continue
        here = f"{path}/{name}"
        if option.struct is not None:
            yield f"{indent}{name}:"
            yield from _show_struct(tree, option.struct, values[name], here)
            continue
        shown = render_value(mask(name, values[name], option.extra))
        origin = tree.origin(_find_giver(tree, struct, path, name))
        yield f"{f'{indent}{name}: {shown}':<{_COLUMN}}  # {origin}"


def _find_giver(tree: Tree, struct: type[msgspec.Struct], path: str, name: str) -> str:
    """The path that gave an option its value: its own, or that of the option it replaces."""
    if tree.find(f"{path}/{name}") is None:
        for option in options_of(struct).values():
            if option.extra.get("replaced-by") == name and tree.is_set(f"{path}/{option.name}"):
                return f"{path}/{option.name}"
    return f"{path}/{name}"
