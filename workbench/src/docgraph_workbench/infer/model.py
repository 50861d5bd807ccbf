"""Model of a definition that was inferred: types, fields, mappings and comments, and its text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final


@dataclass(slots=True)
class Argument:
    """An argument of a field; `default` as it is written in SDL."""

    name: str
    type: str
    default: str | None = None


@dataclass(slots=True)
class Field:
    """A field; without `mapping` it reads the property of its own name."""

    name: str
    type: str
    mapping: Any = None
    arguments: list[Argument] = field(default_factory=list)
    description: str = ""
    remarks: list[str] = field(default_factory=list)  # comments above it
    aside: str = ""  # a comment after it


@dataclass(slots=True)
class ObjectType:
    """An object type; `left_out` are names of properties with the reason."""

    name: str
    description: str = ""
    remarks: list[str] = field(default_factory=list)
    fields: dict[str, Field] = field(default_factory=dict)
    left_out: list[tuple[str, str]] = field(default_factory=list)

    def add(self, field: Field) -> None:
        """Add a field."""
        self.fields[field.name] = field


@dataclass(slots=True)
class EnumType:
    """An enum: names of the schema with the stored values."""

    name: str
    values: dict[str, Any]
    description: str = ""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScalarProperty:
    """A scalar property of a collection, for filters and sorts."""

    path: tuple[str, ...]
    type: str  # of a single value
    is_list: bool
    is_repeated: bool  # its path contains an array, in most documents
    distinct: int
    filled: int
    is_varied: bool = False  # there are more values than were counted
    is_prose: bool = False  # some are long texts
    # The steps of its path to each array, and whether some documents have a single value there.
    arrays: tuple[tuple[int, bool], ...] = ()

    @property
    def text(self) -> str:
        """Its path in dot notation."""
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class CollectionType:
    """A collection and the type of its documents; `documents` is None if it is not reported."""

    name: str
    kind: str
    type: str
    documents: int | None
    sampled: int


@dataclass(slots=True)
class ModelRelation:
    """A relation between collections: the fields in both directions, and the evidence."""

    source: str
    target: str
    type: str
    field: str
    evidence: str
    back: str | None = None  # the field of the target's type


@dataclass(slots=True)
class Model:
    """Everything that is inferred; the first type is `Query`."""

    types: dict[str, ObjectType] = field(default_factory=dict)
    enums: dict[str, EnumType] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    collections: list[CollectionType] = field(default_factory=list)
    relations: dict[tuple[str, ...], ModelRelation] = field(default_factory=dict)  # by their source

    def describe(self) -> dict[str, Any]:
        """Return collections, relations and left-out properties for JSON."""
        return {
            "collections": [asdict(collection) for collection in self.collections],
            "relations": [asdict(relation) for relation in self.relations.values()],
            "leftOut": [
                {"type": type_.name, "name": name, "reason": reason}
                for type_ in self.types.values()
                for name, reason in type_.left_out
            ],
        }


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
        yield from map(_comment, type_.remarks)
        yield from _describe(type_.description)
        yield f"enum {type_.name} {{"
        yield from (f"{_INDENT}{name}" for name in type_.values)
        yield "}"
        return
    yield from map(_comment, type_.remarks)
    yield from _describe(type_.description)
    yield f"type {type_.name} {{"
    for type_field in type_.fields.values():
        yield from render_field(type_field)
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
    arguments = [_render_argument(argument) for argument in field.arguments]
    line = f"{field.name}({', '.join(arguments)})" if arguments else field.name
    line = f"{line}: {field.type}"
    if len(line) + len(_INDENT) <= _WIDTH or not arguments:
        yield line + aside
        return
    yield f"{field.name}("
    yield from (f"{_INDENT}{argument}" for argument in arguments)
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
        field_mappings = {
            field.name: field.mapping
            for field in type_.fields.values()
            if field.mapping is not None
        }
        if field_mappings:
            mappings[type_.name] = field_mappings
    for enum in model.enums.values():
        if stored := map_enum(enum):
            mappings[enum.name] = stored
    return mappings


def map_enum(enum: EnumType) -> dict[str, Any]:
    """Return the values that are not stored under their names."""
    return {name: value for name, value in enum.values.items() if name != value}
