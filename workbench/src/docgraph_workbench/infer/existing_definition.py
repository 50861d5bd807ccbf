"""Existing definition: its types, fields and mappings, as far as inferring again needs them.

Inferring again adds to an existing definition and never replaces. Names that authors chose are
kept: a renamed type, or a field that reads the same property under another name, counts as the one
that would have been inferred. Parts that are commented out in the schema (`# name: …`,
`# type Name`) were removed on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from graphql import (
    DocumentNode,
    EnumTypeDefinitionNode,
    EnumTypeExtensionNode,
    FieldDefinitionNode,
    ListTypeNode,
    NamedTypeNode,
    NonNullTypeNode,
    ObjectTypeDefinitionNode,
    ObjectTypeExtensionNode,
    TypeDefinitionNode,
    TypeNode,
    print_ast,
)

from docgraph import DefinitionError
from docgraph.tools.apps import parse_schema

_TAKEN_OUT: Final = re.compile(r"^[ \t]*#[ \t]*([_A-Za-z]\w*)[ \t]*[:(]", re.MULTILINE)
_TYPE_OUT: Final = re.compile(r"^[ \t]*#[ \t]*(?:type|enum)[ \t]+([_A-Za-z]\w*)", re.MULTILINE)


@dataclass(slots=True)
class ExistingType:
    """A type of the schema: its fields or values by name with their types as text.

    `end` is the position of its closing bracket, `paths` what its fields read, `queries` what they
    query, `taken_out` names that were commented out.
    """

    end: int
    fields: dict[str, str] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    queries: set[str] = field(default_factory=set)
    lists: set[str] = field(default_factory=set)
    taken_out: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Existing:
    """The schema as a text, its types, and the types that were commented out."""

    schema: str = ""
    mappings: Mapping[str, Any] = field(default_factory=dict)
    types: dict[str, ExistingType] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)  # names of interfaces, unions, inputs
    taken_out: set[str] = field(default_factory=set)

    def find_db(self) -> str | None:
        """Return the database of the first field of `Query` that names one."""
        mappings = self.mappings.get("Query")
        fields = mappings.values() if isinstance(mappings, Mapping) else ()
        databases = (mapping.get("db") for mapping in fields if isinstance(mapping, Mapping))
        return next((db for db in databases if isinstance(db, str)), None)

    def name_collections(self, db: str) -> dict[str, str]:
        """Return the types of collections: those of the fields of `Query` that query them."""
        query, type_names = self.types.get("Query"), dict[str, str]()
        mappings = self.mappings.get("Query")
        for name, mapping in mappings.items() if isinstance(mappings, Mapping) else ():
            match mapping:
                case {"db": str(field_db), "collection": str(collection)} if (
                    field_db == db and query
                ):
                    if query.named.get(name) in self.types:
                        type_names.setdefault(collection, query.named[name])
        return type_names

    def name_nested(self) -> dict[tuple[str, str], str]:
        """Return the types of objects and enums, by the type and the property that has them."""
        return {
            (owner, path): type_.named[name]
            for owner, type_ in self.types.items()
            for path, name in type_.paths.items()
            if type_.named.get(name) in self.types
        }


def read_existing(schema: str, mappings: Mapping[str, Any]) -> Existing:
    """Read an existing definition; raise `DefinitionError` if its schema cannot be parsed."""
    try:
        document = parse_schema(schema)
    except DefinitionError as error:
        raise DefinitionError(
            f"the schema that is there cannot be read: {error.message}"
        ) from error
    existing = Existing(schema, mappings, taken_out=set(_TYPE_OUT.findall(schema)))
    for node in _type_nodes(document):
        _read_type(existing, node)
    for definition in document.definitions:
        if isinstance(definition, TypeDefinitionNode):
            existing.others.add(definition.name.value)
    existing.others -= existing.types.keys()
    return existing


_TypeNode = (
    ObjectTypeDefinitionNode
    | ObjectTypeExtensionNode
    | EnumTypeDefinitionNode
    | EnumTypeExtensionNode
)


def _type_nodes(document: DocumentNode) -> Iterator[_TypeNode]:
    """Yield types before their extensions."""
    kinds = (
        (ObjectTypeDefinitionNode, EnumTypeDefinitionNode),
        (ObjectTypeExtensionNode, EnumTypeExtensionNode),
    )
    for kind in kinds:
        yield from (node for node in document.definitions if isinstance(node, kind))


def _read_type(existing: Existing, node: _TypeNode) -> None:
    name, loc = node.name.value, node.loc
    if loc is None:
        return
    type_ = existing.types.setdefault(name, ExistingType(loc.end - 1))
    type_.taken_out.update(_TAKEN_OUT.findall(existing.schema[loc.start : loc.end]))
    if isinstance(node, EnumTypeDefinitionNode | EnumTypeExtensionNode):
        type_.fields.update((value.name.value, "") for value in node.values or ())
        return
    mappings = existing.mappings.get(name)
    field_mappings = mappings if isinstance(mappings, Mapping) else {}
    for field_node in node.fields or ():
        _read_field(type_, field_node, field_mappings.get(field_node.name.value))


def _read_field(type_: ExistingType, node: FieldDefinitionNode, mapping: Any) -> None:
    name = node.name.value
    type_.fields[name] = print_ast(node.type)
    type_.named[name] = _name_of(node.type)
    if isinstance(mapping, Mapping):
        type_.queries.add(describe_query(mapping))
        if type_.fields[name].startswith("["):
            type_.lists.add(f"{mapping.get('db')}.{mapping.get('collection')}")
    else:
        type_.paths[mapping if isinstance(mapping, str) else name] = name


def _name_of(node: TypeNode) -> str:
    while isinstance(node, NonNullTypeNode | ListTypeNode):
        node = node.type
    return node.name.value if isinstance(node, NamedTypeNode) else ""


def describe_query(mapping: Mapping[str, Any]) -> str:
    """Return the query in a form that does not depend on the names of its arguments."""
    content = [mapping.get("db"), mapping.get("collection"), _without_names(mapping.get("find"))]
    return orjson.dumps(content, default=str, option=orjson.OPT_SORT_KEYS).decode()


def _without_names(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            str(key): None if key == "$arg" else _without_names(part) for key, part in value.items()
        }
    return [_without_names(part) for part in value] if isinstance(value, list) else value
