"""What a field set names may not be more hidden than its directive, whose text names it.

The SDL of `_service` has the texts of `@key`, `@requires` and `@provides`. A name in them that a
caller may not see would be shown, and gateways could not compose the schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphql import (
    DocumentNode,
    FieldNode,
    GraphQLSchema,
    InlineFragmentNode,
    SelectionSetNode,
    TypeDefinitionNode,
    TypeExtensionNode,
    get_named_type,
)

from docgraph.graphql.definition.entity_mappings import DeclaredKey
from docgraph.graphql.definition.findings import Findings
from docgraph.graphql.definition.visibility import SchemaPart, Visibility, find_visible
from docgraph.graphql.federation.field_sets import parse_selections
from docgraph.graphql.federation.subgraph import Subgraph, read_text


def check_key_visibility(
    schema: GraphQLSchema,
    visibility: Visibility,
    keys: Mapping[str, Sequence[DeclaredKey]],
    findings: Findings,
) -> None:
    """Reject keys of which a caller who sees the type may not see a field."""
    for name, declared in keys.items():
        type_ = schema.type_map.get(name)
        for path in dict.fromkeys(path for key in declared for path in key.paths):
            inner: Any = type_
            for step in path:
                part = (inner.name, step)
                if any(seen[0] == name for seen in _find_seen_without(part, schema, visibility)):
                    what = f"@key: {'.'.join(path)} is hidden from callers who see {name}"
                    findings.error(f"schema: {name}", what, "remove its @visible")
                inner = get_named_type(inner.fields[step].type)


def check_field_visibility(
    schema: GraphQLSchema,
    visibility: Visibility,
    document: DocumentNode,
    subgraph: Subgraph,
    findings: Findings,
) -> None:
    """Reject `@requires` and `@provides` that name what a caller who sees their field may not."""
    for place, directive, type_, text in _list_uses(document, schema, subgraph):
        where = f"schema: {'.'.join(place)}"
        try:
            parts = dict.fromkeys(_list_parts(parse_selections(text), type_, schema))
        except ValueError as error:
            findings.error(where, f"@{directive}: {error}")
            continue
        for part in parts:
            if place in _find_seen_without(part, schema, visibility):
                what = f"@{directive}: {'.'.join(part)} is hidden from callers who see the field"
                findings.error(where, what, "give the field the same @visible")


def _list_uses(
    document: DocumentNode, schema: GraphQLSchema, subgraph: Subgraph
) -> Iterator[tuple[SchemaPart, str, Any, str]]:
    """Yield the field of each use, the directive, the type that its text is about, and the text."""
    for node in document.definitions:
        if not isinstance(node, TypeDefinitionNode | TypeExtensionNode):
            continue
        owner: Any = schema.type_map[node.name.value]
        for field in getattr(node, "fields", None) or ():
            for use in subgraph.find(field, "requires"):
                yield (owner.name, field.name.value), "requires", owner, read_text(use, "fields")
            for use in subgraph.find(field, "provides"):
                place = owner.name, field.name.value
                type_ = get_named_type(owner.fields[field.name.value].type)
                yield place, "provides", type_, read_text(use, "fields")


def _list_parts(
    selections: SelectionSetNode, type_: Any, schema: GraphQLSchema
) -> Iterator[SchemaPart]:
    """Yield the fields that selections name, at any depth; raise ValueError for an unknown one."""
    for node in selections.selections:
        if isinstance(node, InlineFragmentNode):
            condition = node.type_condition
            inner = schema.type_map.get(condition.name.value) if condition else type_
            yield from _list_parts(node.selection_set, inner, schema)
        elif isinstance(node, FieldNode) and node.name.value != "__typename":
            field = getattr(type_, "fields", {}).get(node.name.value)
            if field is None:
                raise ValueError(f"the type {type_} has no field {node.name.value}")
            yield type_.name, node.name.value
            if node.selection_set is not None:
                yield from _list_parts(node.selection_set, get_named_type(field.type), schema)


def _find_seen_without(
    part: SchemaPart, schema: GraphQLSchema, visibility: Visibility
) -> set[SchemaPart]:
    """Return what callers see who lack all roles that see this part; nothing if everybody may."""
    roles = visibility.roles.get(part)
    if roles is None:
        return set()
    hidden = visibility.hidden_from(visibility.all_roles - roles)
    return find_visible(schema, hidden, visibility.follows)
