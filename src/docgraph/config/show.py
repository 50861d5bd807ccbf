"""Effective configuration: every value with its origin, secrets masked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from docgraph.config.config_tree import ConfigTree
from docgraph.config.decode import Decoded
from docgraph.config.options import options_of
from docgraph.config.render import render_value
from docgraph.config.secrets import mask

_COLUMN: Final = 56  # where comments begin, unless the value is longer


class _OptionLine(NamedTuple):
    """An option and its value, secrets masked; a group of options has no origin."""

    path: str
    value: Any = None
    origin: str | None = None


def show(tree: ConfigTree, decoded: Decoded) -> str:
    """Render YAML with the origin of each value as a trailing comment."""
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


def list_values(tree: ConfigTree, decoded: Decoded) -> list[dict[str, Any]]:
    """Return the path, value and origin of each option, for machines."""
    return [
        line._asdict()
        for name, section in decoded.sections.items()
        for line in _walk(tree, type(section), msgspec.to_builtins(section), f"/{name}")
        if line.origin is not None
    ]


def _walk(
    tree: ConfigTree, struct: type[msgspec.Struct], values: Mapping[str, Any], path: str
) -> Iterator[_OptionLine]:
    for name, option in options_of(struct).items():
        if "deprecated" in option.extra and values[name] is None:
            continue
        here = f"{path}/{name}"
        if option.struct is not None:
            yield _OptionLine(here)
            yield from _walk(tree, option.struct, values[name], here)
            continue
        origin = tree.origin(_find_giver(tree, struct, path, name))
        yield _OptionLine(here, mask(name, values[name], option.extra), str(origin))


def _find_giver(tree: ConfigTree, struct: type[msgspec.Struct], path: str, name: str) -> str:
    """Return the path that set an option: its own, or that of the option it replaces."""
    if tree.find(f"{path}/{name}") is None:
        for option in options_of(struct).values():
            if option.extra.get("replaced-by") == name and tree.is_set(f"{path}/{option.name}"):
                return f"{path}/{option.name}"
    return f"{path}/{name}"
