"""Which roles see which fields of an app (`@visible`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from graphql import GraphQLInputObjectType, GraphQLObjectType, GraphQLSchema

from docgraph.graphql.apps.app import App
from docgraph.graphql.definition.visibility import Coordinates, find_visible

__all__ = ["NOBODY", "Row", "cross", "list_fields"]

NOBODY: Final = "(nobody)"  # an unknown caller, or one without roles that matter


class Row(NamedTuple):
    """A field, and whether somebody with just this role sees it."""

    field: Coordinates
    seen_by: Mapping[str, bool]


def cross(app: App, roles: Iterable[str] | None = None) -> Iterator[Row]:
    """A row per field: what nobody in particular sees, and what each role adds.

    Without `roles`, all those that make a difference.
    """
    chosen = sorted(app.visibility.all_roles if roles is None else set(roles))
    visibility, schema = app.visibility, app.schema
    seen = {NOBODY: find_visible(schema, visibility.hidden_from(()))}
    seen |= {role: find_visible(schema, visibility.hidden_from([role])) for role in chosen}
    for field in list_fields(schema):
        yield Row(field, {role: field in visible for role, visible in seen.items()})


def list_fields(schema: GraphQLSchema) -> Iterator[Coordinates]:
    """Type and field of every object and input type that the author has written."""
    for name, type_ in sorted(schema.type_map.items()):
        if type_.ast_node is None:
            continue
        if isinstance(type_, GraphQLObjectType | GraphQLInputObjectType):
            yield from ((name, field) for field in type_.fields)
