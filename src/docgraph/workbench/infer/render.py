"""Rendering of a model: the schema in SDL with comments, and the mappings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from docgraph.workbench.infer.model import Argument, EnumType, Field, Model, ObjectType

_WIDTH: Final = 100
_INDENT: Final = "  "


def render_schema(model: Model) -> str:
    """Return the whole schema."""
    parts = [*map(render_type, model.types.values()), *map(render_type, model.enums.values())]
    return "\n".join(parts)


def render_type(type_: ObjectType | EnumType) -> str:
    """Return one type, from its comments to its closing bracket."""
    return "".join(f"{line}\n" for line in _type_lines(type_))


def _type_lines(type_: ObjectType | EnumType) -> Iterator[str]:
    if isinstance(type_, EnumType):
        yield from _describe(type_.description)
        yield f"enum {type_.name} {{"
        yield from (f"{_INDENT}{name}" for name in type_.values)
        yield "}"
        return
    yield from map(_comment, type_.remarks)
    yield from _describe(type_.description)
    yield f"type {type_.name} {{"
    for field in type_.fields.values():
        yield from render_field(field)
    for name, reason in type_.left_out:
        yield render_left_out(name, reason)
    yield "}"


def render_left_out(name: str, reason: str) -> str:
    """Return a comment in place of a field."""
    return f"{_INDENT}{_comment(f'{name}: left out, {reason}')}"


def render_field(field: Field) -> Iterator[str]:
    """Yield the lines of a field."""
    for line in _field_lines(field):
        yield f"{_INDENT}{line}"


def _field_lines(field: Field) -> Iterator[str]:
    yield from map(_comment, field.remarks)
    yield from _describe(field.description)
    aside = f"  {_comment(field.aside)}" if field.aside else ""
    arguments = [_render_argument(one) for one in field.arguments]
    line = f"{field.name}({', '.join(arguments)})" if arguments else field.name
    line = f"{line}: {field.type}"
    if len(line) + len(_INDENT) <= _WIDTH or not arguments:
        yield line + aside
        return
    yield f"{field.name}("
    yield from (f"{_INDENT}{one}" for one in arguments)
    yield f"): {field.type}{aside}"


def _render_argument(argument: Argument) -> str:
    default = "" if argument.default is None else f" = {argument.default}"
    return f"{argument.name}: {argument.type}{default}"


def _describe(text: str) -> Iterator[str]:
    if text:
        yield json.dumps(_printable(text), ensure_ascii=False)


def _comment(text: str) -> str:
    return f"# {_printable(text)}"


def _printable(text: str) -> str:
    """Return text without line breaks: names and values from the data stay on one line."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def build_mappings(model: Model) -> dict[str, Any]:
    """Return the mappings of the schema; types that need none are left out."""
    mappings: dict[str, Any] = {}
    for type_ in model.types.values():
        own = {one.name: one.mapping for one in type_.fields.values() if one.mapping is not None}
        if own:
            mappings[type_.name] = own
    for enum in model.enums.values():
        if stored := map_enum(enum):
            mappings[enum.name] = stored
    return mappings


def map_enum(enum: EnumType) -> dict[str, Any]:
    """Return the values that are not stored under their names."""
    return {name: value for name, value in enum.values.items() if name != value}
