"""`GET /_tools/apps`: the GraphQL apps that the caller can query, as on the front page.

It needs no allower, because it shows only what the caller could find out: an app is listed if a
query to it would be permitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, ClassVar, Final

import orjson

from docgraph.access.dry_run import RequestDryRun
from docgraph.exchange import Answer, Body, Exchange
from docgraph.graphql.apps.apps import Apps
from docgraph.graphql.apps.stored_definitions import StoredDefinition
from docgraph.graphql.http.app_access import AppAccess
from docgraph.mcp.service import build_access
from docgraph.plugins.kinds import Service
from docgraph.plugins.registry import PluginRegistry
from docgraph.server.services.sections import VisibleApps as VisibleAppsConfig

_MAX_APPS: Final = 100  # maximum number in a response
_MAX_CHECKED: Final = 300  # each evaluates the rules, also for anonymous callers
_MAX_CHECKED_FOR_USERS: Final = 3000
_LONGEST_MS: Final = 10_000


class VisibleApps(Service):
    """Lists the apps that the caller may query."""

    name: ClassVar[str] = "visibleApps"
    description: ClassVar[str] = "names the apps that the caller may ask"
    part_of: ClassVar[str] = "graphql"
    uri: ClassVar[str] = "/_tools/apps"
    exact: ClassVar[bool] = True
    secured: ClassVar[bool] = False
    Config = VisibleAppsConfig

    def __init__(
        self,
        config: VisibleAppsConfig,
        registry: PluginRegistry,
        gql_app_definition_cache: Apps,
        imagined_requests: RequestDryRun,
    ) -> None:
        self.config = config
        self._registry = registry
        self._apps = gql_app_definition_cache
        self._imagination = imagined_requests

    async def provision(self) -> None:
        """Find the service of the apps."""
        self._access = build_access(self._registry, self._apps, self._imagination)

    def time_limit_ms(self, exchange: Exchange) -> int:
        """Return a short limit: a slow list is useless."""
        return _LONGEST_MS

    async def handle(self, exchange: Exchange) -> Answer:
        """Return a hundred apps by uri, after the given one, and where to continue."""
        after = exchange.request.query.get("after") or ""
        found, has_more = await find_visible_apps(self._access, exchange, after=after)
        content: dict[str, Any] = {"apps": [self._describe(entry) for entry in found]}
        if has_more:
            content["next"] = found[-1].uri
        headers = [("Cache-Control", "no-store")]
        return Body(200, orjson.dumps(content), "application/json", headers)

    def _describe(self, entry: StoredDefinition) -> dict[str, Any]:
        path = self._access.graphql.find_path(entry.uri)
        description = find_description(entry)
        about = {} if description is None else {"description": description}
        return {"app": entry.uri, "path": path, **about}


async def find_visible_apps(
    access: AppAccess, exchange: Exchange, *, after: str = ""
) -> tuple[Sequence[StoredDefinition], bool]:
    """Return the first apps that the caller can query, and whether there are more."""
    checked = count(1)
    most = _MAX_CHECKED if exchange.account is None else _MAX_CHECKED_FOR_USERS
    found: list[StoredDefinition] = []
    async for entry in access.find_apps(
        exchange, after=after, wanted=lambda _: next(checked) <= most
    ):
        if len(found) == _MAX_APPS:
            return found, True
        found.append(entry)
    return found, False


def find_description(entry: StoredDefinition) -> str | None:
    """Return the author's description of an app; a stored definition may be anything."""
    descriptor = entry.document.get("descriptor")
    description = descriptor.get("description") if isinstance(descriptor, Mapping) else None
    return description if isinstance(description, str) else None
