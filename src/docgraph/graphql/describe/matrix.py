"""Visibility matrix: which roles see which fields of an app (`@visible`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from graphql import GraphQLInputObjectType, GraphQLObjectType, GraphQLSchema

from docgraph.graphql.apps.compiled_app import App
from docgraph.graphql.definition.visibility import Coordinates, find_visible

ANONYMOUS: Final = "(nobody)"  # an anonymous caller, or one without relevant roles


class VisibilityRow(NamedTuple):
    """A field, and whether a caller with only this role sees it."""

    field: Coordinates
    seen_by: Mapping[str, bool]


def cross(app: App, roles: Iterable[str] | None = None) -> Iterator[VisibilityRow]:
    """Yield a row per field: what a caller without roles sees, and what each role adds.

    Without `roles`, the rows have all roles that `@visible` mentions.
    """
    chosen = sorted(app.visibility.all_roles if roles is None else set(roles))
    visibility, schema = app.visibility, app.schema
    held: dict[str, list[str]] = {ANONYMOUS: [], **{role: [role] for role in chosen}}
    seen = {
        name: find_visible(schema, visibility.hidden_from(roles), visibility.follows)
        for name, roles in held.items()
    }
    for field in list_fields(schema):
        yield VisibilityRow(field, {role: field in visible for role, visible in seen.items()})


def list_fields(schema: GraphQLSchema) -> Iterator[Coordinates]:
    """Yield type and field of every object and input type, except those of GraphQL itself."""
    for name, type_ in sorted(schema.type_map.items()):
        if type_.ast_node is None:
            continue
        if isinstance(type_, GraphQLObjectType | GraphQLInputObjectType):
            yield from ((name, field) for field in type_.fields)
