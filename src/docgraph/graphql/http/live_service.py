"""Live queries of the endpoint: authorization, limits, and connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Final, Protocol

from docgraph.events.sections import Events
from docgraph.exchange import Account, Answer, Exchange, Headers, Request, Stream, Upgrade
from docgraph.exchange.close_reason import LEFT, CloseReason
from docgraph.exchange.errors import (
    DocgraphError,
    Forbidden,
    MethodNotAllowed,
    NotFound,
    Overloaded,
    StoreError,
    Unauthenticated,
)
from docgraph.exchange.exchange import Admission
from docgraph.exchange.hosts import group_address
from docgraph.exchange.origin import check_socket_origin
from docgraph.exchange.response import EVENT_HEADERS
from docgraph.graphql.errors import OperationRefused
from docgraph.graphql.http.body import AppRequest, GraphqlRequest
from docgraph.graphql.http.live_engine import (
    AppEngine,
    Authorize,
    LiveRequest,
    LiveRuns,
    finish,
    release,
    render_answer,
)
from docgraph.graphql.http.live_transports import (
    EVENTS,
    PROTOCOL,
    LiveEvents,
    LiveSocket,
    send_once,
)
from docgraph.graphql.http.response_shape import list_errors
from docgraph.graphql.live.live_query import LiveQuery, find_ending
from docgraph.graphql.live.run_schedule import RunSchedule
from docgraph.graphql.live.shared_answers import SharedAnswers
from docgraph.graphql.sections import GraphqlLive
from docgraph.observe import emit
from docgraph.observe.engine_events import LiveQueryChanged
from docgraph.plugins.kinds import Decision
from docgraph.runtime import Generations, Tasks, allocations
from docgraph.runtime.open_streams import (
    CONCERNING,
    Announced,
    EndableClient,
    Reauthorizer,
    Session,
    StreamLimits,
)

_NO_QUERY: Final = b'{"query":"{ __typename }"}'


@dataclass(eq=False)
class LiveSession(Session):
    """A connection with live queries, which run again after it was authorized again."""

    exchange: Exchange
    list_queries: Callable[[], Iterable[LiveQuery]]

    async def find_ending(self, now: float, interval: float) -> CloseReason | None:
        """Return why the connection must end; its queries are authorized on their own."""
        admission = self.exchange.admission
        assert admission is not None  # noqa: S101 - the request came through the pipeline
        try:
            await admission.readmit(self.exchange)
        except (StoreError, Overloaded):
            return None  # the next check tries again
        except DocgraphError as error:
            return find_ending(error)
        for query in self.list_queries():
            query.mark_changed()
        return None


class LiveService:
    """The live queries of this process."""

    def __init__(
        self,
        engine: AppEngine,
        dry_run: DryRun,
        options: GraphqlLive,
        events: Events,
        workers: int,
        generations: Generations,
    ) -> None:
        answers = SharedAnswers(count_writes=lambda: generations.read("writes"))
        self._engine = engine
        self._answers = answers
        self._runs = LiveRuns(engine, answers)
        self._dry_run = dry_run
        self._interval = options.min_interval_ms / 1000
        self._max_queries = ceil(options.max_queries / workers)
        self._shares = StreamLimits(
            "live queries",
            per_user=ceil(options.max_queries_per_user / workers),
            per_address=ceil(options.max_queries_per_address / workers),
        )
        self._schedule = RunSchedule(options.max_executions / workers)
        self._limits = StreamLimits(
            "connections with live queries",
            per_user=ceil(events.max_connections_per_user / workers),
            per_address=ceil(events.max_connections_per_address / workers),
        )
        self._heartbeat = events.heartbeat_interval_ms / 1000
        renewal = events.renewal_interval_ms / 1000
        self._renewals = Reauthorizer(generations, renewal, concerning=(*CONCERNING, "apps"))
        self._tasks = Tasks()
        self._open: dict[LiveQuery, str] = {}  # with their transports
        self._give_back: dict[LiveQuery, Callable[[], None]] = {}  # their shares

    def start(self) -> None:
        """Start the reauthorization of connected clients."""
        self._tasks.start("live-renewals", self._renewals.run)
        self._tasks.start("live-expiries", self._renewals.close_expired)

    async def close(self) -> None:
        """Cancel all runs."""
        await self._tasks.close()
        await self._schedule.close()

    async def answer_events(self, exchange: Exchange, request: GraphqlRequest) -> Answer:
        """Answer a POST with the events of its operation."""
        since = self._renewals.read_announced()
        live = LiveRequest(exchange, request, exchange)
        give_back = self._limits.acquire(exchange.account, exchange.request.connection.client)
        try:
            content, query = await self._begin(live, partial(self._authorize, exchange), "sse")
        except OperationRefused as refusal:
            content, query = allocations.dumps({"errors": list_errors(refusal)}), None
        except BaseException:
            give_back()
            raise
        if query is None:
            give_back()
            return Stream(send_once(content or b""), media_type=EVENTS, headers=[*EVENT_HEADERS])
        session = self._add_session(query, exchange, lambda: (query,), since)

        def close(_: object) -> None:
            self._renewals.remove(session)
            self.close_query(query, query.ending.word if query.ending else "left")
            give_back()

        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - requests are answered in tasks
        task.add_done_callback(close)
        events = LiveEvents(query, self._heartbeat)
        return Stream(events, media_type=EVENTS, headers=[*EVENT_HEADERS], stop=events.stop)

    async def answer_socket(self, exchange: Exchange) -> Answer:
        """Accept the handshake of a WebSocket.

        A caller without credentials may send them in the first message. Until then all apps look
        alike to that caller, whether they exist or not.
        """
        check_socket_origin(exchange.request.page)
        try:
            await self._check_app(exchange)
        except Unauthenticated:
            if exchange.account is not None or not await self._engine.has_live_apps():
                raise
        client = LiveSocket(self, exchange)
        address = exchange.request.connection.client
        client.closers.append(self._limits.acquire(exchange.account, address))
        headers = [("Sec-WebSocket-Protocol", PROTOCOL)]
        return Upgrade(client.serve, headers=headers)

    async def connect(
        self, client: LiveSocket, exchange: Exchange, authorization: bytes | None
    ) -> Exchange:
        """Return the exchange of an initialized connection; raise its rejection."""
        since = self._renewals.read_announced()
        if exchange.account is None and authorization is not None:
            given = Exchange(_add_credentials(exchange.request, authorization), exchange.id)
            exchange = await _admission_of(exchange).readmit(
                given, is_counted=True, is_renewal=False
            )
            release(exchange)
            client.closers.append(self._limits.acquire(exchange.account, None))
        await self._check_app(exchange)
        session = self._add_session(client, exchange, client.queries.values, since)
        client.closers.append(partial(self._renewals.remove, session))
        return exchange

    async def open_operation(
        self, exchange: Exchange, payload: bytes
    ) -> tuple[bytes | None, LiveQuery | None]:
        """Run an operation; return its one answer, or the live query."""
        authorize = partial(self._authorize, exchange, payload)
        live = await authorize()
        try:
            return await self._begin(live, authorize, "websocket")
        finally:
            release(live.outer)

    def close_query(self, query: LiveQuery, reason: str) -> None:
        transport = self._open.pop(query, None)
        if transport is not None:
            query.end(LEFT)
            self._give_back.pop(query)()
            self._answers.leave(query)
            emit(LiveQueryChanged(transport, reason))

    async def _authorize(self, exchange: Exchange, payload: bytes | None = None) -> LiveRequest:
        """Authorize a POST again, or the payload of a message as one; it counts in the limits."""
        outer = await _admission_of(exchange).readmit(exchange, is_counted=True)
        try:
            inner = outer if payload is None else await self._authorize_post(outer, payload)
            return LiveRequest(inner, await _read_request(inner), outer)
        except BaseException:
            release(outer)
            raise

    async def _authorize_post(self, outer: Exchange, body: bytes) -> Exchange:
        path = outer.request.raw_path.decode("latin-1")
        inner = self._dry_run.build_post(outer, path, body, outer.account)
        decision = await self._dry_run.authorize(inner, outer)
        if decision.allowed:
            return inner
        if outer.account is None:
            raise Unauthenticated("authentication required")
        raise Forbidden(decision.reason)

    async def _check_app(self, exchange: Exchange) -> None:
        """Reject callers who may not send queries to the app, and apps without live queries."""
        inner = await self._authorize_post(exchange, _NO_QUERY)
        try:
            app = await self._engine.find_app(inner)
        except NotFound:  # 405 comes before 404 (decision 21)
            raise MethodNotAllowed("GET", ("POST", "OPTIONS")) from None
        if not app.definition.has_live(exchange.roles):
            raise MethodNotAllowed("GET", ("POST", "OPTIONS"))

    async def _begin(
        self, live: LiveRequest, authorize: Authorize, transport: str
    ) -> tuple[bytes | None, LiveQuery | None]:
        """Run an operation for the first time."""
        app = await self._engine.find_app(live.exchange)
        plan = await self._engine.endpoint.plan(app, live.request, live.exchange)
        if not plan.is_live:
            run = self._engine.endpoint.run_recorded
            result = await run(app, live.request, live.exchange, None)
            return (await finish(render_answer(result, app), live)).content, None
        if len(self._open) >= self._max_queries:
            raise Overloaded("too many live queries are open", bound="live-queries")
        exchange = live.exchange
        give_back = self._shares.acquire(exchange.account, exchange.request.connection.client)
        work = partial(self._runs.run_again, authorize)
        query = LiveQuery(_find_user(live.exchange), work, self._schedule, self._interval)
        self._open[query], self._give_back[query] = transport, give_back
        try:
            worked = await self._runs.begin(live, query)
        except BaseException:
            del self._open[query]
            self._give_back.pop(query)()
            self._answers.leave(query)
            raise
        query.begin(worked.answer)
        emit(LiveQueryChanged(transport))
        return None, query

    def _add_session(
        self,
        client: EndableClient,
        exchange: Exchange,
        list_queries: Callable[[], Iterable[LiveQuery]],
        since: Announced,
    ) -> LiveSession:
        expires_at = None if exchange.account is None else exchange.account.expires_at
        session = LiveSession(client, exchange, list_queries, expires_at=expires_at)
        self._renewals.add(session, since)
        return session


def _admission_of(exchange: Exchange) -> Admission:
    assert exchange.admission is not None  # noqa: S101 - the request came through the pipeline
    return exchange.admission


async def _read_request(exchange: Exchange) -> GraphqlRequest:
    parsed = AppRequest.of(exchange)
    if parsed.refusal is not None:
        raise parsed.refusal
    return await parsed.asked.find(
        await exchange.request.read_body(), exchange.request.content_type
    )


def _add_credentials(request: Request, authorization: bytes) -> Request:
    """Return the request of a handshake with the credentials of the first message."""
    headers = Headers([*request.headers.raw, (b"authorization", authorization)])
    return Request(
        request.method,
        request.raw_path,
        query_string=request.query_string,
        headers=headers,
        connection=request.connection,
    )


def _find_user(exchange: Exchange) -> str:
    """Return the user whose turn in the schedule a run uses."""
    if exchange.account is not None:
        return f"user {exchange.account.name}"
    client = exchange.request.connection.client
    return f"address {group_address(client[0]) if client else ''}"


class DryRun(Protocol):
    """The provider `imagined-requests`: authorizes requests that no one has sent."""

    def build_post(
        self, outer: Exchange, path: str, body: bytes, account: Account | None
    ) -> Exchange:
        """Return the exchange of a JSON POST by `account`, with the time that `outer` has left."""

    async def authorize(
        self, exchange: Exchange, outer: Exchange, *, quietly: bool = False
    ) -> Decision:
        """Return the decision about such a request; `quietly` leaves a denial out of the log."""
