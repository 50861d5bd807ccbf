"""Model of a definition that is being inferred: types, fields, mappings and comments."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


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

    def add(self, one: Field) -> None:
        """Add a field."""
        self.fields[one.name] = one


@dataclass(slots=True)
class EnumType:
    """An enum: names of the schema with the stored values."""

    name: str
    values: dict[str, Any]
    description: str = ""


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
            "collections": [asdict(one) for one in self.collections],
            "relations": [asdict(one) for one in self.relations.values()],
            "leftOut": [
                {"type": one.name, "name": name, "reason": reason}
                for one in self.types.values()
                for name, reason in one.left_out
            ],
        }
