"""Generated types: what docgraph adds to the author's SDL when an app is built (decision 56).

Mappings such as `filter` give fields arguments and types that the SDL does not have. They are added
to the parsed SDL, so that everything that reads a schema sees them: validation, introspection, the
visible schema of a role, agents. The stored text stays as the author wrote it.

A generated part follows fields of the author: it does not exist for callers who do not see them
(decision 20). Parts are named by coordinates: `("PostEdge",)` is a type, `("PostWhere", "title")` a
field of a type, `("Query", "posts", "where")` an argument.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from operator import is_
from typing import Any, Final

from graphql import (
    DefinitionNode,
    DocumentNode,
    FieldDefinitionNode,
    GraphQLObjectType,
    GraphQLSchema,
    InputValueDefinitionNode,
    ListTypeNode,
    NamedTypeNode,
    NameNode,
    NonNullTypeNode,
    ObjectTypeDefinitionNode,
    TypeDefinitionNode,
    TypeExtensionNode,
    TypeNode,
    parse,
    print_ast,
)

from docgraph.graphql.definition.findings import Findings
from docgraph.graphql.definition.mapping import AnyMapping, QueryMapping
from docgraph.graphql.definition.visibility import Coordinates, SchemaPart

MAX_GENERATED: Final = 20_000  # fields and values of all generated types of an app
_SHORT: Final = 2_000  # characters of a text whose nodes are cached


def parse_definition(text: str) -> TypeDefinitionNode:
    """Return the type definition of a text; apps that are alike generate the same texts."""
    return _parse_short(text) if len(text) <= _SHORT else _parse(text)


def _parse(text: str) -> TypeDefinitionNode:
    (node,) = parse(text, no_location=True).definitions
    assert isinstance(node, TypeDefinitionNode)  # noqa: S101 - texts of our own
    return node


_parse_short = lru_cache(maxsize=256)(_parse)  # nodes are immutable


@lru_cache(maxsize=1_024)
def build_type(text: str) -> Any:
    """Return the type that the parser would return: an app has hundreds of generated ones."""
    if text.endswith("!"):
        return NonNullTypeNode(type=build_type(text[:-1]))
    if text.startswith("["):
        return ListTypeNode(type=build_type(text[1:-1]))
    return NamedTypeNode(name=NameNode(value=text))


def fill_definition(text: str, name: str, types: Mapping[str, str]) -> TypeDefinitionNode:
    """Return the object type of a text with another name, and other types of some fields."""
    node = parse_definition(text)
    fields = [
        replace(field, type=build_type(types[field.name.value]))
        if field.name.value in types
        else field
        for field in _parts_of(node)
    ]
    return ObjectTypeDefinitionNode(
        name=NameNode(value=name), description=node.description, fields=tuple(fields)
    )


def parse_arguments(text: str) -> tuple[InputValueDefinitionNode, ...]:
    """Return the argument definitions of a text: `where: PostWhere, orderBy: [PostOrder!]`."""
    return getattr(parse_definition(f"input Arguments {{ {text} }}"), "fields", None) or ()


class GeneratedTypes:
    """Collects additions to one SDL; a contradiction is an error at `where`, a mapping."""

    def __init__(self, document: DocumentNode, findings: Findings) -> None:
        self._document = document
        self._findings = findings
        self._declared = {
            node.name.value: node
            for node in document.definitions
            if isinstance(node, TypeDefinitionNode)
        }
        self._types: dict[str, TypeDefinitionNode] = {}
        self._arguments: dict[Coordinates, dict[str, InputValueDefinitionNode]] = defaultdict(dict)
        self._field_types: dict[Coordinates, TypeNode] = {}
        self._fields: dict[str, dict[str, FieldDefinitionNode]] = defaultdict(dict)
        # The fields that each generated part follows.
        self.follows: dict[SchemaPart, frozenset[Coordinates]] = {}
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._types or self._arguments or self._field_types or self._fields)

    @property
    def is_full(self) -> bool:
        """Whether the generated types exceed their limit, which was reported as an error."""
        return self._count > MAX_GENERATED

    @property
    def names(self) -> Collection[str]:
        """The names of the generated types."""
        return self._types.keys()

    def find(self, name: str) -> TypeDefinitionNode | None:
        """Return the type of this name, generated or written by the author."""
        return self._types.get(name) or self._declared.get(name)

    def can_add(self, node: TypeDefinitionNode) -> bool:
        """Return whether the name of the type is free, or has the same shape."""
        known = self.find(node.name.value)
        return known is None or known is node or _shape(known) == _shape(node)

    def add_type(self, node: TypeDefinitionNode, where: str) -> None:
        """Add a type; one of the same name and shape is shared."""
        name = node.name.value
        if not self.can_add(node):
            self._findings.error(
                where,
                f"generates the type {name}, which the schema has with another shape",
                f"rename the type {name} of the schema",
            )
        elif self.find(name) is None:
            self._types[name] = node
            self._add_count(len(_parts_of(node)), where)

    def add_arguments(
        self, type_: str, field: str, nodes: Iterable[InputValueDefinitionNode], where: str
    ) -> None:
        """Add arguments to a field; the author may have declared them with the same type."""
        declared = self._declared_fields.get((type_, field))
        known = {one.name.value: one for one in (declared.arguments or ())} if declared else {}
        added = self._arguments[type_, field]
        for node in nodes:
            name = node.name.value
            own = known.get(name) or added.get(name)
            if own is None:
                added[name] = node
                self._add_count(1, where)
            elif print_ast(own.type) != print_ast(node.type):
                what = f"needs an argument {name} of the type {print_ast(node.type)}"
                hint = f"the field has one of the type {print_ast(own.type)}: rename it"
                self._findings.error(where, what, hint)

    def arguments_of(self, type_: str, field: str) -> Mapping[str, InputValueDefinitionNode]:
        return dict(self._arguments.get((type_, field), {}))

    def replace_field_type(self, type_: str, field: str, node: TypeNode | str) -> None:
        """Change the type of a field of the author."""
        self._field_types[type_, field] = build_type(node) if isinstance(node, str) else node

    def add_field(self, type_: str, node: FieldDefinitionNode, where: str) -> None:
        name = node.name.value
        if (type_, name) in self._declared_fields or name in self._fields[type_]:
            self._findings.error(where, f"the type {type_} already has a field {name}")
            return
        self._fields[type_][name] = node
        self._add_count(1, where)

    def follow(self, generated: SchemaPart, *fields: Coordinates) -> None:
        """Remove a generated part from the schema of callers who do not see all these fields."""
        self.follows[generated] = self.follows.get(generated, frozenset()) | {*fields}

    def extend(self) -> DocumentNode:
        """Return the SDL with all additions."""
        placed: set[str] = set()
        definitions = [self._extend(node, placed) for node in self._document.definitions]
        return DocumentNode(definitions=(*definitions, *self._types.values()))

    def _extend(self, node: DefinitionNode, placed: set[str]) -> DefinitionNode:
        name_node, fields = getattr(node, "name", None), getattr(node, "fields", None)
        if name_node is None or fields is None:
            return node
        name = name_node.value
        changed: list[Any] = [self._extend_field(name, field) for field in fields]
        if isinstance(node, TypeDefinitionNode) and name not in placed:
            placed.add(name)
            changed += self._fields.get(name, {}).values()
        if len(changed) == len(fields) and all(map(is_, changed, fields)):
            return node
        return replace(node, fields=tuple(changed))  # type: ignore[call-arg]  # nodes with fields

    def _extend_field(self, type_: str, node: Any) -> Any:
        place = (type_, node.name.value)
        added, changed = self._arguments.get(place), self._field_types.get(place)
        if added:
            node = replace(node, arguments=(*(node.arguments or ()), *added.values()))
        return replace(node, type=changed) if changed is not None else node

    @cached_property
    def _declared_fields(self) -> Mapping[Coordinates, FieldDefinitionNode]:
        """The fields of the author, also those of extensions."""
        return {
            (node.name.value, field.name.value): field
            for node in self._document.definitions
            if isinstance(node, TypeDefinitionNode | TypeExtensionNode)
            for field in getattr(node, "fields", None) or ()
        }

    def _add_count(self, number: int, where: str) -> None:
        before = self._count
        self._count += number
        if before <= MAX_GENERATED < self._count:
            what = f"the mappings generate more than {MAX_GENERATED} fields"
            self._findings.error(where, what, "declare fewer fields, or the same ones everywhere")


def _parts_of(node: TypeDefinitionNode) -> Sequence[Any]:
    return getattr(node, "fields", None) or getattr(node, "values", None) or ()


def _shape(node: TypeDefinitionNode) -> Any:
    """Return the shape that types of one name must share."""
    return node.kind, frozenset(map(_describe_part, _parts_of(node)))


def _describe_part(part: Any) -> Any:
    """Describe a field, an argument or an enum value, without its description."""
    type_ = getattr(part, "type", None)
    arguments = frozenset(map(_describe_part, getattr(part, "arguments", None) or ()))
    return part.name.value, type_ and print_ast(type_), arguments


def list_queries(
    schema: GraphQLSchema, mappings: Mapping[str, Mapping[str, AnyMapping]]
) -> Iterator[tuple[GraphQLObjectType, str, QueryMapping]]:
    """Yield the fields that are mapped to queries, those of Query first."""
    for type_name in sorted(mappings, key=lambda name: name != "Query"):
        type_ = schema.type_map[type_name]
        for name, mapping in mappings[type_name].items():
            if isinstance(mapping, QueryMapping) and isinstance(type_, GraphQLObjectType):
                yield type_, name, mapping
