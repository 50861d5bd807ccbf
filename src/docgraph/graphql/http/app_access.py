"""Authorization of callers for apps: each use of an app is a request to its endpoint.

Agents and tools use apps on behalf of a caller who was authorized elsewhere. An app exists for that
caller only if the caller could send it a query. The row filters of both permissions apply.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

from docgraph.codec import JsonMode
from docgraph.exchange import Account, Exchange
from docgraph.exchange.errors import DefinitionError, NotFound
from docgraph.graphql.apps.apps import Apps
from docgraph.graphql.apps.compiled_app import App, VisibleApp
from docgraph.graphql.apps.stored_definitions import StoredDefinition
from docgraph.graphql.http.body import AppRequest, GraphqlRequest, render_body
from docgraph.graphql.http.live_service import DryRun
from docgraph.graphql.http.service import GraphqlService
from docgraph.plugins.kinds import Decision

_AT_ONCE: Final = 16  # apps
_NO_QUERY: Final = GraphqlRequest("{ __typename }")


@dataclass(frozen=True, slots=True)
class AppSession:
    """An app, and the exchange of a request to it."""

    app: App
    exchange: Exchange


@dataclass(frozen=True, slots=True)
class AppAccess:
    """Authorizes callers for apps; `mode` is the JSON mode of results, None: that of the app."""

    graphql: GraphqlService
    apps: Apps
    dry_run: DryRun
    mode: JsonMode | None = None

    async def authorize(
        self,
        outer: Exchange,
        uri: Any,
        account: Account | None,
        request: GraphqlRequest | None = None,
        *,
        quietly: bool = False,
    ) -> tuple[Exchange, Decision] | None:
        """Return the request of `account` to the app, and the decision about it.

        None: no request could reach the app. The exchange has the permission if there is one.
        """
        path = self.graphql.find_path(uri) if isinstance(uri, str) else None
        if path is None:
            return None
        request = request or _NO_QUERY
        exchange = self.dry_run.build_post(outer, path, render_body(request), account)
        if not isinstance(exchange.parsed, AppRequest) or exchange.parsed.refusal is not None:
            return None
        exchange.parsed.asked.describe(request)
        return exchange, await self.dry_run.authorize(exchange, outer, quietly=quietly)

    async def admit(
        self,
        outer: Exchange,
        uri: Any,
        request: GraphqlRequest | None = None,
        *,
        quietly: bool = False,
    ) -> AppSession:
        """Return the app for a query of the caller; raise `NotFound` if it does not exist for them.

        Listing apps is no attempt to use them: `quietly` leaves denials out of the log.
        """
        authorized = await self.authorize(outer, uri, outer.account, request, quietly=quietly)
        if authorized is None or not authorized[1].allowed:
            raise NotFound("GraphQL app not found")
        session = await self.open(uri, authorized[0])
        if not quietly:
            outer.app = session.exchange.app
        return session

    async def open(self, uri: str, exchange: Exchange) -> AppSession:
        """Return the app at this uri, with the exchange that was authorized for it."""
        app = await self.apps.find(uri)
        if self.mode is not None:
            kept = app.kept_variant(self.mode)
            if kept is None:
                kept = await self.graphql.work_aside(app.build_variant, self.mode)
            app = kept
        exchange.app = str(app.definition.id)
        return AppSession(app, exchange)

    async def find_apps(
        self,
        outer: Exchange,
        *,
        after: str = "",
        wanted: Callable[[StoredDefinition], bool] | None = None,
    ) -> AsyncIterator[StoredDefinition]:
        """Yield the apps that exist for the caller, by URI; they may still be invalid.

        Each costs an evaluation of the rules: `wanted` skips those that are not needed.
        """
        async for entry, _ in self._authorize_apps(outer, after, wanted):
            yield entry

    async def admit_apps(
        self,
        outer: Exchange,
        wanted: Callable[[StoredDefinition], bool] | None = None,
        *,
        after: str = "",
    ) -> AsyncIterator[AppSession]:
        """Yield the valid apps that exist for the caller, by URI, ready to be used."""
        async for entry, exchange in self._authorize_apps(outer, after, wanted):
            try:
                session = await self.open(entry.uri, exchange)
            except (NotFound, DefinitionError):
                continue  # it is invalid, or was removed meanwhile
            yield session

    async def _authorize_apps(
        self, outer: Exchange, after: str, wanted: Callable[[StoredDefinition], bool] | None
    ) -> AsyncIterator[tuple[StoredDefinition, Exchange]]:
        for number, entry in enumerate(await self.apps.list_served(), 1):
            if entry.uri <= after or not (wanted is None or wanted(entry)):
                continue
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)  # let other tasks run
            authorized = await self.authorize(outer, entry.uri, outer.account, quietly=True)
            if authorized is not None and authorized[1].allowed:
                yield entry, authorized[0]

    async def view(self, session: AppSession) -> VisibleApp:
        """Return the app as the caller of the session sees it."""
        return await self.graphql.view(session.app, session.exchange)
