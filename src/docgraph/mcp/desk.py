"""What a caller may do with the apps: each use of one is judged as a request to its endpoint.

Who is let in at the endpoint of agents has not been let in anywhere else: an app is there only for
callers who might send it a query themselves, and with the row filters of both permissions. For
anybody else it is as if it had never been.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from docgraph.access.authorize import Authorization
from docgraph.exchange import DocgraphError, Exchange, Headers, Permission, Request
from docgraph.exchange.errors import DefinitionError, NotFound, Unauthenticated
from docgraph.exchange.path import encode_path
from docgraph.graphql.apps.app import App, VisibleApp
from docgraph.graphql.apps.apps import Apps
from docgraph.graphql.apps.stored_definitions import Entry
from docgraph.graphql.definition.definition import normalise_uri
from docgraph.graphql.http.body import GraphqlRequest
from docgraph.graphql.http.service import GraphqlService
from docgraph.mcp.call import Call
from docgraph.mcp.sections import Mcp
from docgraph.observe import emit
from docgraph.observe.events import AccessDenied
from docgraph.plugins.binding import bound_path, is_secured

__all__ = ["Admission", "Desk"]

_MOST_BYTES: Final = 1 << 30  # of a body that is here already
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
        self, graphql: GraphqlService, apps: Apps, authorization: Authorization, settings: Mcp
    ) -> None:
        self.graphql = graphql
        self.settings = settings
        self._apps = apps
        self._authorization = authorization
        self._base = bound_path(graphql, graphql.config)
        self._secured = is_secured(graphql, graphql.config)

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
        if not isinstance(uri, str):
            return None
        segments = tuple(normalise_uri(uri).split("/"))
        try:
            path = encode_path((*self._base, *segments)).encode()
            inner = _build_request(outer.request, path, _render_body(request))
        except (ValueError, DocgraphError):
            return None
        if inner.segments != (*self._base, *segments):
            return None  # `..` would lead elsewhere than the rules look
        inner.account = outer.account
        exchange = Exchange(
            inner,
            outer.id,
            started=outer.started,
            deadline=outer.deadline,
            service=self.graphql.name,
            account=outer.account,
            attributes=outer.attributes,
        )
        exchange.parsed = self.graphql.parse(exchange)
        return None if exchange.parsed.refusal is not None else exchange

    async def _is_allowed(self, exchange: Exchange, outer: Exchange, *, quietly: bool) -> bool:
        """Vetoers and allowers judge it as any request; the permission is part of the exchange."""
        try:
            decision = await self._authorization.find_veto(exchange)
            if decision is None:
                decision = await self._authorization.find_approval(exchange, secured=self._secured)
        except Unauthenticated:
            return False
        if not decision.allowed:
            if not quietly:
                emit(AccessDenied(exchange.id, decision.authorizer, decision.reason))
            return False
        exchange.permission = _combine(outer.permission, decision.permission)
        return True


def _build_request(outer: Request, path: bytes, body: bytes) -> Request:
    async def read(limit: int) -> bytes:
        return body

    kept = [(name, value) for name, value in outer.headers.raw if not name.startswith(b"content-")]
    kept.append((b"content-type", b"application/json"))
    request = Request("POST", path, headers=Headers(kept), body=read, connection=outer.connection)
    request.body_limit = _MOST_BYTES
    request.pages = outer.pages
    return request


def _render_body(request: GraphqlRequest) -> bytes:
    """The body as a client of the endpoint would have sent it, for rules that look at it."""
    content: dict[str, Any] = {"query": request.query, "variables": dict(request.variables)}
    if request.operation_name is not None:
        content["operationName"] = request.operation_name
    return json.dumps(content).encode()


def _combine(outer: Permission | None, inner: Permission | None) -> Permission | None:
    """What the app's own rule says, and no row that the rule of the endpoint for agents hides."""
    if outer is None or not outer.read_filters:
        return inner
    if inner is None:
        return Permission(outer.rule, read_filters=outer.read_filters)
    filters: dict[str, Mapping[str, Any]] = {**outer.read_filters}
    for namespace, one in inner.read_filters.items():
        other = filters.get(namespace)
        filters[namespace] = one if other is None else {"$and": [other, one]}
    return replace(inner, read_filters=filters)
