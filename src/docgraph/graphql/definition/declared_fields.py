"""Declared fields of a list: names of the schema, their stored paths, and the allowed operators."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from graphql import (
    GraphQLEnumType,
    GraphQLField,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLSchema,
    get_named_type,
    get_nullable_type,
    is_abstract_type,
    is_composite_type,
    is_list_type,
    is_non_null_type,
)

from docgraph.exchange.data import Filter
from docgraph.graphql.conditions import is_comparable
from docgraph.graphql.definition.findings import Findings
from docgraph.graphql.definition.mapping import AnyMapping, EnumMapping, FieldMapping
from docgraph.graphql.definition.scalars import SCALARS, STORED_TYPES
from docgraph.graphql.related import RelationSpec
from docgraph.graphql.where import OPERATORS, RANGE
from docgraph.variables.compilation import describe

MAX_DEPTH: Final = 8
COUNTABLE: Final = ("eq", "ne", "in", "nin", *RANGE)  # operators of the number of documents

_EQUALITY: Final = frozenset({"eq", "ne", "in", "nin", "exists"})
_ORDERED: Final = frozenset({"Int", "Float", "String"}).union(
    name for name, scalar in SCALARS.items() if scalar.has_range
)
# Types of values that a text index does not contain.
_WORDLESS: Final = frozenset({"Int", "Float", "Boolean", *SCALARS}) - {"BsonDocument"}
_UNORDERED: Final = frozenset({"BsonDocument", "Regex"})
_KNOWN: Final = (*OPERATORS, "range")


@dataclass(slots=True)
class DeclaredField:
    """A field with operators, or an object with declared fields below it, or both.

    `fit` is what each element of a list satisfies, because the list is null otherwise.
    """

    path: str
    type: Any  # of the field, without its `!`
    fit: Filter | None = None
    operators: dict[str, None] = field(default_factory=dict)
    below: FieldTree | None = None

    @property
    def is_list(self) -> bool:
        """Whether the field is a list."""
        return is_list_type(self.type)

    def operand_type(self, operator: str) -> str:
        """Return the type of an operator's operand."""
        name: str = get_named_type(self.type).name
        match operator:
            case "exists":
                return "Boolean"
            case "near":
                return "GeoNear"
            case "in" | "nin" | "any":
                return f"[{name}!]"
        return name


@dataclass(slots=True)
class DeclaredRelation:
    """A relation with the declared fields of its documents, or a count with operators."""

    spec: RelationSpec
    tree: FieldTree | None = None
    operators: dict[str, None] = field(default_factory=dict)

    def operand_type(self, operator: str) -> str:
        """Return the type of an operator's operand."""
        return "[Int!]" if operator in ("in", "nin") else "Int"


@dataclass(slots=True)
class FieldTree:
    """The declared fields and relations of a type."""

    type_name: str
    fields: dict[str, DeclaredField] = field(default_factory=dict)
    relations: dict[str, DeclaredRelation] = field(default_factory=dict)

    @classmethod
    def build(  # noqa: PLR0913 - what a declaration is read with
        cls,
        items: ItemFields,
        type_: GraphQLNamedType,
        declared: Mapping[str, Any] | Sequence[Any],
        where: str,
        findings: Findings,
        *,
        is_order: bool,
        related: Container[str] = (),
        place: str = "",
    ) -> FieldTree:
        """Parse the declared fields; mistakes become errors of the definition.

        `related` fields are left out. `place` is that of the only field.
        """
        tree, only = cls(type_.name), place
        for number, name in enumerate(declared):
            if isinstance(name, str) and name.partition(".")[0] in related:
                continue
            place = only or (f"{where}[{number}]" if is_order else f"{where}.{name}")
            if not isinstance(name, str):
                findings.error(place, f"must be the name of a field, not {describe(name)}")
                continue
            reader = _DeclarationReader(items, place, findings)
            own = reader.find(tree, type_, name.split("."))
            if own is not None and is_order:
                reader.check_order(own)
            elif own is not None and isinstance(declared, Mapping):
                reader.read_operators(own, declared[name])
        return tree

    def names(self) -> frozenset[str]:
        """Return the names that conditions may use."""
        return frozenset({*self.fields, *self.relations})

    def merge(self, other: FieldTree) -> FieldTree:
        """Return a tree with the fields of both."""
        return FieldTree(self.type_name, {**other.fields, **self.fields})

    def describe(self) -> list[Any]:
        """Return what distinguishes the generated types of two trees."""
        leaves = sorted((name, sorted(operators)) for name, _, operators in self.list_leaves())
        inner = sorted(self.relations.items())
        return [
            self.type_name,
            leaves,
            [
                (name, sorted(own.operators), own.tree and own.tree.describe())
                for name, own in inner
            ],
        ]

    def has_operator(self, name: str) -> bool:
        """Return whether a field in the tree has this operator."""
        trees = [own.below for own in self.fields.values()]
        trees += [own.tree for own in self.relations.values()]
        return any(name in own.operators for own in self.fields.values()) or any(
            tree.has_operator(name) for tree in trees if tree is not None
        )

    def list_leaves(
        self, name: str = "", path: str = ""
    ) -> Iterator[tuple[str, str, frozenset[str]]]:
        """Yield name, path and operators of each field that has some, or is no object."""
        for key, own in self.fields.items():
            place = f"{path}{own.path}"
            if own.operators or own.below is None:
                yield f"{name}{key}", place, frozenset(own.operators)
            if own.below is not None:
                yield from own.below.list_leaves(f"{name}{key}.", f"{place}.")


@dataclass(frozen=True)
class ItemFields:
    """The stored fields of types, and the `enums` of the schema."""

    _schema: GraphQLSchema
    mappings: Mapping[str, Mapping[str, AnyMapping]]
    enums: Mapping[str, EnumMapping]

    def find(self, type_: GraphQLNamedType, name: str) -> tuple[GraphQLField, str] | str:
        """Return a field and its path, or why it has none."""
        fields: Mapping[str, GraphQLField] = getattr(type_, "fields", {})
        own = fields.get(name)
        if own is None:
            return f"the type {type_.name} has no field {name}"
        owners = [type_]
        if is_abstract_type(type_):
            owners = [*self._schema.get_possible_types(type_)]
        paths: set[str] = set()
        for owner in owners:
            mapping = self.mappings.get(owner.name, {}).get(name)
            if not isinstance(mapping, FieldMapping):
                return (
                    f"{owner.name}.{name} is fetched by a query of its own: it is not stored here"
                )
            paths.add(mapping.text)
        if len(paths) != 1:
            return f"the types of {type_.name} store {name} in different places"
        return own, paths.pop()

    def find_fit(self, type_: Any) -> Filter | None:
        """Return the condition of the database on elements of `[T!]`; None for other types."""
        if not is_list_type(type_) or not is_non_null_type(type_.of_type):
            return None
        element = type_.of_type.of_type
        if is_list_type(element) or is_composite_type(element):
            return {"$type": "array" if is_list_type(element) else "object"}
        if element.name in STORED_TYPES:
            return {"$type": STORED_TYPES[element.name]}
        enum = self.enums.get(element.name)  # one with a mistake has none
        values = [] if enum is None else [*enum.stored.values()]
        return {"$in": values} if values and all(map(is_comparable, values)) else {"$ne": None}

    def list_texts(self, type_: GraphQLNamedType) -> Iterator[tuple[str, str]]:
        """Yield the stored fields of a type, and of objects in it, that may show texts."""
        pending, known = [type_], {type_.name}
        while pending:
            owner = pending.pop()
            below: list[GraphQLNamedType] = []
            if is_abstract_type(owner):
                below += self._schema.get_possible_types(owner)
            for name, own in getattr(owner, "fields", {}).items():
                named = get_named_type(own.type)
                mapping = self.mappings.get(owner.name, {}).get(name)
                if isinstance(mapping, FieldMapping) and named.name not in _WORDLESS:
                    yield owner.name, name
                    below += [named] if is_composite_type(named) else []
            pending += [one for one in below if one.name not in known]
            known.update(one.name for one in below)


class _DeclarationReader:
    """Reads one declared field."""

    def __init__(self, items: ItemFields, where: str, findings: Findings) -> None:
        self._items = items
        self._where = where
        self._findings = findings

    def find(
        self, tree: FieldTree, type_: GraphQLNamedType, steps: Sequence[str]
    ) -> DeclaredField | None:
        """Return the field at the end of a path, added to the tree; None with an error."""
        found = self._items.find(type_, steps[0])
        if isinstance(found, str) or len(steps) > MAX_DEPTH:
            self._error(found if isinstance(found, str) else f"has more than {MAX_DEPTH} steps")
            return None
        definition, path = found
        own = tree.fields.get(steps[0])
        if own is None:
            inner = get_nullable_type(definition.type)
            own = tree.fields[steps[0]] = DeclaredField(path, inner, self._items.find_fit(inner))
        if len(steps) == 1:
            return own
        named = get_named_type(own.type)
        if not is_composite_type(named) or _depth(own.type) > 1:
            self._error(f"{steps[0]} has no fields: it is of the type {own.type}")
            return None
        if own.below is None:
            own.below = FieldTree(named.name)
        return self.find(own.below, named, steps[1:])

    def check_order(self, own: DeclaredField) -> None:
        """Reject fields without an order."""
        named = get_named_type(own.type)
        if is_composite_type(named):
            names = named.fields if isinstance(named, GraphQLObjectType) else ()
            example = next(iter(names), "…")
            self._error(f"is an object: name one of its fields, such as {example}")
        elif own.is_list:
            self._error("is a list, which has no order")
        elif named.name in _UNORDERED:
            self._error(f"is a {named.name}, which has no order")

    def read_operators(self, own: DeclaredField, value: Any) -> None:
        """Add the operators of the field."""
        if not isinstance(value, list) or not value:
            self._error(f"must be a list of operators, not {describe(value)}", _hint(own))
            return
        allowed = _allow(own)
        for name in value:
            if name not in _KNOWN:
                self._error(f"{name!r} is not an operator", f"operators are {', '.join(_KNOWN)}")
            elif name not in allowed and not (name == "range" and "lt" in allowed):
                self._error(f"{name} is not possible for the type {own.type}", _hint(own))
            else:
                own.operators |= dict.fromkeys(RANGE if name == "range" else (name,))
        for name in own.below.fields if own.below is not None else ():
            if name in (*own.operators, *(("any",) if own.is_list else ())):
                self._error(f"the field {name} of {own.type} has the name of an operator")

    def _error(self, what: str, hint: str | None = None) -> None:
        self._findings.error(self._where, what, hint)


def _allow(own: DeclaredField) -> frozenset[str]:
    """Return the operators that are possible for a type."""
    named = get_named_type(own.type)
    if _depth(own.type) > 1:
        return frozenset({"exists"})
    if is_composite_type(named):
        return frozenset({"exists"} if own.is_list else {"exists", "near"})
    if own.is_list:
        near = {"near"} if named.name == "Float" else set()
        return frozenset({"has", "any", "exists"} | near)
    if isinstance(named, GraphQLEnumType) or named.name not in (_ORDERED | {"BsonDocument"}):
        return _EQUALITY
    if named.name == "BsonDocument":
        return _EQUALITY | {"near"}
    texts = {"prefix", "contains"} if named.name == "String" else set()
    return _EQUALITY | {*RANGE} | texts


def _hint(own: DeclaredField) -> str:
    allowed = _allow(own)
    names: list[str] = [name for name in OPERATORS if name in allowed]
    if "lt" in allowed:
        names.append("range")
    return f"possible are {', '.join(names)}"


def _depth(type_: Any) -> int:
    """Return how many lists are around the values."""
    depth = 0
    inner = get_nullable_type(type_)
    while is_list_type(inner):
        depth += 1
        inner = get_nullable_type(inner.of_type)
    return depth
