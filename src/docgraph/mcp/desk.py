"""What a caller may do with the apps: each use of one is judged as a request to its endpoint.

Who is let in at the endpoint of agents has not been let in anywhere else: an app is there only for
callers who might send it a query themselves, and with the row filters of both permissions. For
anybody else it is as if it had never been.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

from docgraph.access.authorize import LOGIN_DEMANDED
from docgraph.access.definitions.imagined import Imagination, combine
from docgraph.exchange import Exchange
from docgraph.exchange.errors import DefinitionError, NotFound
from docgraph.graphql.apps.app import App, VisibleApp
from docgraph.graphql.apps.apps import Apps
from docgraph.graphql.apps.stored_definitions import Entry
from docgraph.graphql.definition.definition import normalise_uri
from docgraph.graphql.http.body import GraphqlRequest, render_body
from docgraph.graphql.http.service import AppRequest, GraphqlService
from docgraph.mcp.call import Call
from docgraph.mcp.sections import Mcp
from docgraph.observe import emit
from docgraph.observe.events import AccessDenied

__all__ = ["Admission", "Desk"]

_AT_ONCE: Final = 16  # apps
_NO_QUERY: Final = GraphqlRequest("{ __typename }")


@dataclass(frozen=True, slots=True)
class Admission:
    """An app that the caller may query, what he sees of it, and the exchange to do it with."""

    app: App
    exchange: Exchange
    view: VisibleApp


class Desk:
    """Finds apps for callers."""

    def __init__(
        self, graphql: GraphqlService, apps: Apps, imagination: Imagination, settings: Mcp
    ) -> None:
        self.graphql = graphql
        self.settings = settings
        self._apps = apps
        self._imagination = imagination

    async def admit(
        self, call: Call, uri: Any, request: GraphqlRequest = _NO_QUERY, *, quietly: bool = False
    ) -> Admission:
        """The app for a query; raises `NotFound` for what is not there for this caller.

        Listing apps is no attempt to use them: `quietly` leaves refusals out of the log.
        """
        exchange = self._imagine(call.exchange, uri, request)
        if exchange is None or not await self._is_allowed(exchange, call.exchange, quietly=quietly):
            raise NotFound("GraphQL app not found")
        app = await self._apps.find(normalise_uri(uri))
        exchange.app = str(app.definition.id)
        if not quietly:
            call.exchange.app = exchange.app
        return Admission(app, exchange, await self.graphql.view(app, exchange))

    async def find_apps(
        self, call: Call, *, after: str = "", wanted: Callable[[Entry], bool] | None = None
    ) -> AsyncIterator[Entry]:
        """The apps that are there for this caller, by uri; they may still be invalid.

        Each costs a look at the rules: `wanted` leaves out what nobody would use.
        """
        for number, entry in enumerate(await self._apps.list_served()):
            if entry.uri <= after or not (wanted is None or wanted(entry)):
                continue
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)  # others have their turn
            exchange = self._imagine(call.exchange, entry.uri, _NO_QUERY)
            if exchange is not None and await self._is_allowed(
                exchange, call.exchange, quietly=True
            ):
                yield entry

    async def try_admit(self, call: Call, entry: Entry) -> Admission | None:
        """The app of a definition; None for one that cannot work, or has gone in between."""
        try:
            return await self.admit(call, entry.uri, quietly=True)
        except (NotFound, DefinitionError):
            return None

    def _imagine(self, outer: Exchange, uri: Any, request: GraphqlRequest) -> Exchange | None:
        """The exchange of a request to the app; None when no request could be meant."""
        path = self.graphql.find_path(uri) if isinstance(uri, str) else None
        if path is None:
            return None
        body = render_body(request)
        exchange = self._imagination.imagine_post(outer, path, body, outer.account)
        if not isinstance(exchange.parsed, AppRequest) or exchange.parsed.refusal is not None:
            return None
        exchange.parsed.asked.settle(request)
        return exchange

    async def _is_allowed(self, exchange: Exchange, outer: Exchange, *, quietly: bool) -> bool:
        """Vetoers and allowers judge it as any request; the permission is part of the exchange."""
        decision = await self._imagination.judge(exchange)
        if not decision.allowed:
            if not quietly and decision is not LOGIN_DEMANDED:
                emit(AccessDenied(exchange.id, decision.authorizer, decision.reason))
            return False
        exchange.permission = combine(outer.permission, decision.permission)
        return True
