"""Connections: a list becomes pages with cursors (the Relay cursor specification; decision 56).

A mapping with `connection` gives its field the generated type `PostConnection` in place of the list
`[Post!]!`, with the arguments of pages. With `"field"`, the list stays and a second field is added.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from graphql import (
    GraphQLField,
    GraphQLObjectType,
    GraphQLOutputType,
    GraphQLSchema,
    NameNode,
    get_nullable_type,
    is_composite_type,
    is_list_type,
    is_non_null_type,
)

from docgraph.graphql.definition.findings import Findings
from docgraph.graphql.definition.generated_types import (
    GeneratedTypes,
    build_type,
    fill_definition,
    list_queries,
    parse_arguments,
    parse_definition,
)
from docgraph.graphql.definition.mapping import (
    AnyMapping,
    ConnectionSpec,
    FieldMapping,
    Mappings,
    QueryMapping,
)
from docgraph.variables import Template
from docgraph.variables.compilation import describe

_PAGE_INFO: Final = '''
"""Where a page of a connection is."""
type PageInfo {
  "Whether there are more edges after the last one."
  hasNextPage: Boolean!
  "Whether there are more edges before the first one."
  hasPreviousPage: Boolean!
  "The cursor of the first edge; null without edges."
  startCursor: String
  "The cursor of the last edge; null without edges."
  endCursor: String
}
'''
_CONNECTION: Final = '''
"""A page of a list."""
type Connection {
  "The items of the page, each with its cursor."
  edges: [Edge!]!
  "The items of the page without their cursors."
  nodes: [Node]!
  "Where the page is."
  pageInfo: PageInfo!
  "The number of all items of the list; null with an error if counting takes too long."
  totalCount: Int
}
'''
_EDGE: Final = '''
"""An item of a page."""
type Edge {
  "The position of the item: an opaque text for `after` and `before`."
  cursor: String!
  "The item."
  node: Node
}
'''
_ARGUMENTS: Final = """
"The number of items, from the beginning or after `after`." first: Int
"The cursor that the page begins after." after: String
"The number of items, up to the end or before `before`." last: Int
"The cursor that the page ends before." before: String
"""
_SIZES: Final = "remove it: callers use first and last, up to the option graphql.max-limit"
_WRAPPERS: Final = frozenset({"edges", "pageInfo"})
_PARTS: Final = {
    "PageInfo": ("hasNextPage", "hasPreviousPage", "startCursor", "endCursor"),
    "Connection": ("edges", "nodes", "pageInfo", "totalCount"),
    "Edge": ("cursor", "node"),
}


_KEYS: Final = ("field",)
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def read_connection(
    where: str, value: Mapping[str, Any], sort: Template | None, findings: Findings
) -> ConnectionSpec | None:
    """Return the parsed `connection` of a mapping; None if it is absent or invalid."""
    options = value.get("connection")
    if options is None:
        return None
    place = f"{where}.connection"
    if not isinstance(options, dict):
        findings.error(place, f"must be an object, not {describe(options)}")
        return None
    for key in options:
        if key not in _KEYS:
            what = "is not known and has no effect"
            findings.warn_unknown(f"{place}.{key}", what, key, _KEYS)
    field = options.get("field")
    if field is not None and (not isinstance(field, str) or not _NAME.fullmatch(field)):
        findings.error(f"{place}.field", "must be the name of a field", "such as postsPages")
        return None
    for key in () if field else ("skip", "limit"):
        if value.get(key) is not None:
            findings.error(f"{where}.{key}", "has no effect with connection", _SIZES)
    if sort is not None and sort.depends_on_parent:
        findings.error(f"{where}.sort", "a connection has the same order for all parents")
    elif sort is not None and any(
        path == "$natural" or (isinstance(direction, dict) and "$meta" in direction)
        for path, direction in sort.source.items()
    ):
        findings.error(f"{where}.sort", "a connection cannot follow $natural or $meta")
    return ConnectionSpec(field)


def add_connections(
    schema: GraphQLSchema, mappings: Mappings, generated: GeneratedTypes, findings: Findings
) -> Mappings:
    """Return the mappings with those of connections; collect their types."""
    changed = {name: dict(fields) for name, fields in mappings.items()}
    for type_, name, mapping in list_queries(schema, mappings):
        if mapping.connection is not None:
            _check_interfaces(type_, name, mapping.connection, findings)
            adding = _Adding(schema, generated, findings, type_.name, name)
            changed = {**changed, **adding.add(type_.fields[name], mapping, changed)}
    return changed


def _check_interfaces(
    type_: GraphQLObjectType, name: str, spec: ConnectionSpec, findings: Findings
) -> None:
    """Reject a connection in place of a list that an interface has."""
    for one in type_.interfaces if spec.field is None else ():
        if name in one.fields:
            findings.error(
                f"mappings.{type_.name}.{name}.connection",
                f"the interface {one.name} has {name} as a list",
                f'add the pages next to it: "connection": {{"field": "{name}Pages"}}',
            )


@dataclass(frozen=True)
class _Adding:
    """Adds the connection of one field."""

    _schema: GraphQLSchema
    _generated: GeneratedTypes
    _findings: Findings
    _type: str
    _name: str

    @property
    def _where(self) -> str:
        return f"mappings.{self._type}.{self._name}.connection"

    def add(
        self, field: GraphQLField, mapping: QueryMapping, mappings: Mappings
    ) -> dict[str, dict[str, AnyMapping]]:
        """Add types and arguments; return the mappings of the types that have changed."""
        spec = mapping.connection
        inner = get_nullable_type(field.type)
        item = inner.of_type if is_list_type(inner) else None
        if spec is None or item is None or not is_composite_type(get_nullable_type(item)):
            what = f"a connection needs a list of objects, and the field is {field.type}"
            self._findings.error(self._where, what, "declare it as [Type!]!")
            return {}
        connection, edge = self._add_types(item)
        own = dict(mappings[self._type])
        target = spec.field or self._name
        paged = replace(
            mapping,
            skip=None,
            limit=None,
            connection=ConnectionSpec(spec.field, str(get_nullable_type(item))),
        )
        shown = f"{connection}!" if is_non_null_type(field.type) else connection
        if spec.field is None:
            arguments = parse_arguments(_ARGUMENTS)
            self._generated.add_arguments(self._type, self._name, arguments, self._where)
            self._generated.replace_field_type(self._type, self._name, shown)
        else:
            self._add_field(spec.field, field, shown, _find_replaced(mapping))
            own[self._name] = replace(mapping, connection=None)
        own[target] = paged
        return {self._type: own, **_map_parts(connection, edge)}

    def _add_types(self, item: GraphQLOutputType) -> tuple[str, str]:
        """Add the types for items of this type; return the names of connection and edge."""
        base = str(get_nullable_type(item))
        names = f"{base}Connection", f"{base}Edge"
        nodes = _build_types(*names, str(item))
        if any(name in self._schema.type_map for name in names):
            pass  # the author's own: they must have this shape
        elif not all(map(self._generated.can_add, nodes)):
            # The same item type with another nullability.
            base = f"{self._type}{self._name[:1].upper()}{self._name[1:]}"
            names = f"{base}Connection", f"{base}Edge"
            nodes = _build_types(*names, str(item))
        for node in (*nodes, parse_definition(_PAGE_INFO)):
            self._generated.add_type(node, self._where)
        connection, edge = names
        # Without the items there is nothing to page through.
        self._generated.follow((connection,), (edge, "node"))
        self._generated.follow((edge,), (edge, "node"))
        return connection, edge

    def _add_field(
        self, name: str, field: GraphQLField, shown: str, replaced: frozenset[str]
    ) -> None:
        """Add a field next to the list, with its directives, and arguments for pages."""
        node = field.ast_node
        assert node is not None  # noqa: S101 - the author has written the field
        own = ((one.name.value, one) for one in node.arguments or ())
        given = {key: one for key, one in own if key not in replaced}
        given |= self._generated.arguments_of(self._type, self._name)
        given |= {one.name.value: one for one in parse_arguments(_ARGUMENTS)}
        added = replace(
            node,
            name=NameNode(value=name),
            type=build_type(shown),
            arguments=tuple(given.values()),
        )
        self._generated.add_field(self._type, added, self._where)


def _find_replaced(mapping: QueryMapping) -> frozenset[str]:
    """Return the arguments that only `skip` and `limit` use: pages replace them."""
    sizes = [one for one in (mapping.skip, mapping.limit) if one is not None]
    others = [one for one in (mapping.find, mapping.sort) if one is not None]
    names, kept = (frozenset().union(*(t.names for t in some)) for some in (sizes, others))
    return names - kept


def _build_types(connection: str, edge: str, node: str) -> tuple[Any, Any]:
    return (
        fill_definition(_CONNECTION, connection, {"edges": f"[{edge}!]!", "nodes": f"[{node}]!"}),
        fill_definition(_EDGE, edge, {"node": node}),
    )


def _map_parts(connection: str, edge: str) -> dict[str, dict[str, AnyMapping]]:
    """Return the mappings of the generated types: each field reads the part of its name."""
    names = {"PageInfo": "PageInfo", "Connection": connection, "Edge": edge}
    return {
        names[kind]: {part: FieldMapping((part,), is_wrapper=part in _WRAPPERS) for part in parts}
        for kind, parts in _PARTS.items()
    }
