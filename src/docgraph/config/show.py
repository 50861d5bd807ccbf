"""The effective configuration: every value, where it comes from, no secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from docgraph.config.decode import Decoded
from docgraph.config.options import options_of
from docgraph.config.render import render_value
from docgraph.config.secrets import mask
from docgraph.config.tree import Tree

__all__ = ["list_values", "show"]

_COLUMN: Final = 56  # where comments begin, unless the value is longer


class _Line(NamedTuple):
    """An option and its value, masked where it is a secret; a group of options has no origin."""

    path: str
    value: Any = None
    origin: str | None = None


def show(tree: Tree, decoded: Decoded) -> str:
    """YAML, with the origin of each value as a trailing comment."""
    lines: list[str] = []
    for name, section in decoded.sections.items():
        lines.append(f"{name}:")
        for line in _walk(tree, type(section), msgspec.to_builtins(section), f"/{name}"):
            *above, option = line.path[1:].split("/")
            text = f"{'  ' * len(above)}{option}:"
            if line.origin is not None:
                text = f"{f'{text} {render_value(line.value)}':<{_COLUMN}}  # {line.origin}"
            lines.append(text)
        lines.append("")
    return "\n".join(lines)


def list_values(tree: Tree, decoded: Decoded) -> list[dict[str, Any]]:
    """The same for machines: the path of each option, its value and its origin."""
    return [
        line._asdict()
        for name, section in decoded.sections.items()
        for line in _walk(tree, type(section), msgspec.to_builtins(section), f"/{name}")
        if line.origin is not None
    ]


def _walk(
    tree: Tree, struct: type[msgspec.Struct], values: Mapping[str, Any], path: str
) -> Iterator[_Line]:
    for name, option in options_of(struct).items():
        if "deprecated" in option.extra and values[name] is None:
            continue
        here = f"{path}/{name}"
        if option.struct is not None:
            yield _Line(here)
            yield from _walk(tree, option.struct, values[name], here)
            continue
        origin = tree.origin(_find_giver(tree, struct, path, name))
        yield _Line(here, mask(name, values[name], option.extra), str(origin))


def _find_giver(tree: Tree, struct: type[msgspec.Struct], path: str, name: str) -> str:
    """The path that gave an option its value: its own, or that of the option it replaces."""
    if tree.find(f"{path}/{name}") is None:
        for option in options_of(struct).values():
            if option.extra.get("replaced-by") == name and tree.is_set(f"{path}/{option.name}"):
                return f"{path}/{option.name}"
    return f"{path}/{name}"
