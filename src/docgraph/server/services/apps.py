"""`GET /_tools/apps`: the apps that are there for the caller, as the front page names them.

It needs no allower, as it says nothing but what the caller may ask for himself: an app is named
where a query to it would be admitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, ClassVar, Final

import orjson

from docgraph.access.definitions.imagined import Imagination
from docgraph.exchange import Answer, Body, Exchange
from docgraph.graphql.apps.apps import Apps
from docgraph.graphql.apps.stored_definitions import Entry
from docgraph.mcp.call import Call
from docgraph.mcp.desk import Desk
from docgraph.mcp.sections import Mcp
from docgraph.mcp.service import build_desk
from docgraph.plugins.kinds import Service
from docgraph.plugins.registry import PluginRegistry
from docgraph.server.services.sections import VisibleApps as VisibleAppsConfig

__all__ = ["VisibleApps", "find_description", "find_visible_apps"]

_MOST_APPS: Final = 100  # that are named
_MOST_JUDGED: Final = 300  # each is a look at the rules, which strangers can ask for, too
_MOST_JUDGED_FOR_USERS: Final = 3000
_LONGEST_MS: Final = 10_000


class VisibleApps(Service):
    """Names the apps that the caller may ask."""

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
        imagined_requests: Imagination,
    ) -> None:
        self.config = config
        self._registry = registry
        self._apps = gql_app_definition_cache
        self._imagination = imagined_requests

    async def provision(self) -> None:
        """Find the service of the apps."""
        self._desk = build_desk(self._registry, self._apps, self._imagination, Mcp())

    def time_limit_ms(self, exchange: Exchange) -> int:
        """A list that takes longer is of no use."""
        return _LONGEST_MS

    async def handle(self, exchange: Exchange) -> Answer:
        """A hundred apps by uri, after the one that is given, and where to go on."""
        after = exchange.request.query.get("after") or ""
        found, has_more = await find_visible_apps(self._desk, exchange, after=after)
        content: dict[str, Any] = {"apps": [self._describe(entry) for entry in found]}
        if has_more:
            content["next"] = found[-1].uri
        headers = [("Cache-Control", "no-store")]
        return Body(200, orjson.dumps(content), "application/json", headers)

    def _describe(self, entry: Entry) -> dict[str, Any]:
        path = self._desk.graphql.find_path(entry.uri)
        description = find_description(entry)
        about = {} if description is None else {"description": description}
        return {"app": entry.uri, "path": path, **about}


async def find_visible_apps(
    desk: Desk, exchange: Exchange, *, after: str = ""
) -> tuple[Sequence[Entry], bool]:
    """The first apps that are there for the caller, and whether there are more for him."""
    judged = count(1)
    most = _MOST_JUDGED if exchange.account is None else _MOST_JUDGED_FOR_USERS
    found: list[Entry] = []
    async for entry in desk.find_apps(
        Call(exchange), after=after, wanted=lambda _: next(judged) <= most
    ):
        if len(found) == _MOST_APPS:
            return found, True
        found.append(entry)
    return found, False


def find_description(entry: Entry) -> str | None:
    """What the author says of an app; a stored definition may be anything."""
    descriptor = entry.document.get("descriptor")
    told = descriptor.get("description") if isinstance(descriptor, Mapping) else None
    return told if isinstance(told, str) else None
