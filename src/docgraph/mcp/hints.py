"""Hints for agents that name an app, a field, an argument or an enum value that does not exist.

The names come from what the caller sees, so that a hint shows no more than `list_apps` and
`get_schema` do.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from docgraph.config.nearest import list_nearest
from docgraph.exchange.errors import NotFound
from docgraph.graphql.apps.compiled_app import VisibleApp
from docgraph.graphql.errors import GraphqlError, OperationRefused
from docgraph.graphql.http.app_access import AppAccess, AppSession
from docgraph.mcp.rpc import McpCall

_MAX_APPS: Final = 300
_MAX_NAMES: Final = 2_000  # of one type; the search compares each of them
_FEW: Final = 10
# The messages of graphql-core, without its suggestions.
_UNKNOWN: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"Cannot query field '(?P<name>\w+)' on type '(?P<type>\w+)'",
        r"Unknown argument '(?P<name>\w+)' on field '(?P<type>\w+)\.(?P<field>\w+)'",
        r"of type '(?P<type>\w+)' not to include unknown field '(?P<name>\w+)'",
        r"Value '(?P<name>[^']*)' does not exist in '(?P<type>\w+)' enum",
        r"Enum '(?P<type>\w+)' cannot represent non-enum value: \"(?P<name>[^\"]*)\"",
    )
)


def find_hint(error: GraphqlError, app: VisibleApp) -> str | None:
    """Return the nearest names for the one that the error is about, if it is about one."""
    for pattern in _UNKNOWN:
        if match := pattern.search(error.message):
            parts = match.groupdict()
            names = _list_names(app, parts["type"], parts.get("field"))
            rest = f"get_schema shows {parts['type']}"
            return _suggest(parts["name"], names, rest) if names else None
    return None


async def add_hint(
    refusal: OperationRefused, access: AppAccess, session: AppSession
) -> OperationRefused:
    """Return the refusal with a hint, for a caller who may read the schema."""
    if refusal.hint is not None or not access.graphql.may_introspect(session.exchange.account):
        return refusal
    app = await access.view(session)
    hinted = OperationRefused(refusal.errors)  # other requests may have received this one
    hinted.hint = find_hint(refusal.errors[0], app)
    return hinted


async def hint_at_apps(call: McpCall, access: AppAccess, uri: str) -> NotFound:
    """Return the error for an app that does not exist for the caller, with the nearest ones."""
    names: list[str] = []
    async for entry in access.find_apps(call.exchange):
        names.append(entry.uri)
        if len(names) == _MAX_APPS:
            break
    hint = _suggest(uri, names, "list_apps shows the apps that you may query")
    return NotFound("GraphQL app not found", hint=hint)


def _list_names(app: VisibleApp, type_name: str, field: str | None) -> Collection[str]:
    """Return the fields or values of a type, or the arguments of one of its fields."""
    type_ = app.schema.get_type(type_name)
    members = getattr(type_, "values", None) or getattr(type_, "fields", None) or {}
    if field is not None:
        members = getattr(members.get(field), "args", {})
    return members if len(members) <= _MAX_NAMES else ()


def _suggest(name: str, names: Collection[str], rest: str) -> str:
    """Return the nearest names, or all of few; `rest` is how to find the others."""
    if nearest := list_nearest(name, names, 3):
        return f"did you mean {' or '.join(map(repr, nearest))}? {rest}"
    return f"there are: {', '.join(names)}" if 0 < len(names) <= _FEW else rest
