"""GraphQL over HTTP: body to operation, plan, result and status.

The service finds the app of the URI, the part of it that the caller sees and the plan of the
operation, and executes it within the time limit. Errors are raised; the pipeline passes them to
`render_error`, so that every response has the same shape.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from math import inf
from typing import Any, ClassVar, TypeVar

from docgraph.codec import decode
from docgraph.codec.csv_table import CSV, CsvCells, parse_formulas
from docgraph.events.sections import Events
from docgraph.exchange import Account, Answer, Body, Deadline, DocgraphError, Exchange
from docgraph.exchange.errors import NotAcceptable, NotFound, StoreError, TimeLimitExceeded
from docgraph.exchange.headers import find_acceptance
from docgraph.graphql.apps.apps import Apps
from docgraph.graphql.apps.compiled_app import App, VisibleApp
from docgraph.graphql.cache.answer_cache import AnswerCache, CachedBody, Miss, add_headers, bypass
from docgraph.graphql.definition.definition import normalise_uri
from docgraph.graphql.errors import OperationRefused, OperationsOnly
from docgraph.graphql.execute.cost_estimate import CostEstimate, estimate_cost
from docgraph.graphql.execute.cursor_keys import KeyRing
from docgraph.graphql.execute.execute import Result, execute
from docgraph.graphql.execute.execution import Run
from docgraph.graphql.execute.introspection_cache import IntrospectionCache
from docgraph.graphql.execute.report import report_failure
from docgraph.graphql.freshness.change_watch import ChangeWatch
from docgraph.graphql.freshness.recorder import DependencyRecorder, explain_freshness
from docgraph.graphql.http.body import (
    AppRequest,
    GraphqlRequest,
    RequestedOperation,
    encode_segments,
    find_uri,
    is_stored,
    reject_unknown,
)
from docgraph.graphql.http.live_engine import AppEngine
from docgraph.graphql.http.live_service import DryRun, LiveService
from docgraph.graphql.http.live_transports import is_live_handshake, wants_events
from docgraph.graphql.http.plan_cache import Operations, is_bound, may_introspect
from docgraph.graphql.http.response_shape import (
    JSON_TYPES,
    MEDIA_TYPE,
    CsvShape,
    Ran,
    RunOptions,
    answer_table,
    find_shape,
    record_operation,
    render_error,
    render_result,
)
from docgraph.graphql.plan.plan import Plan
from docgraph.graphql.sections import Graphql, GraphqlLimits
from docgraph.observe import emit
from docgraph.observe.engine_events import OperationFinished
from docgraph.observe.sections import Logging
from docgraph.plugins.kinds import Kind, Point, Service
from docgraph.plugins.registry import PluginRegistry, bound_path
from docgraph.runtime import Blocking, Generations, Instance, run_blocking
from docgraph.runtime.sections import Core
from docgraph.runtime.timeouts import TimeoutWheel
from docgraph.store import Store
from docgraph.variables import Resolvers

T = TypeVar("T")

# The database ends a command in time itself, and its connection survives: wait for that.
_GRACE = 0.1
_WRONG = "invalid-query"


class GraphqlService(Service):
    """One endpoint per app, at `<uri>/<app uri>`."""

    name: ClassVar[str] = "graphql"
    description: ClassVar[str] = "the GraphQL apps"
    uri: ClassVar[str] = "/graphql"
    methods: ClassVar[tuple[str, ...]] = ("POST",)
    Config = Graphql

    def __init__(  # noqa: PLR0913, PLR0917 - the providers and sections
        self,
        config: Graphql,
        store: Store,
        registry: PluginRegistry,
        blocking: Blocking,
        root_role: str | None,
        gql_app_definition_cache: Apps,
        logging: Logging,
        generations: Generations,
        core: Core,
        events: Events,
        imagined_requests: DryRun,
        instance: Instance,
    ) -> None:
        self.max_body_size = config.max_body_size
        self.config = config
        self._store = store
        self._registry = registry
        self._apps = gql_app_definition_cache
        self._lane = blocking.lane("plan", concurrency=1)
        self._operations = Operations(self._lane)
        self._answers = IntrospectionCache()
        self._key_ring = KeyRing(store, config, instance.secret("draft-cursors"))
        self._wheel = TimeoutWheel()
        self.watch = ChangeWatch(store, config.cache.max_lag_ms)
        max_bytes = config.cache.max_bytes // max(1, core.workers)
        self._cache = AnswerCache(store, generations, self.watch, max_bytes, MEDIA_TYPE)
        engine = AppEngine(self, self._apps, store, self._lane, registry)
        self._live = LiveService(
            engine, imagined_requests, config.live, events, core.workers, generations
        )
        self._base = bound_path(self, config)
        self._root_role = root_role
        self._slow_after = logging.slow_operation_ms / 1000 or inf

    async def provision(self) -> None:
        """Collect the variables of all plugins."""
        self.resolvers = Resolvers(decode, self._registry.of_kind(Kind.VARIABLE_RESOLVER))
        self._cache.resolvers = self.resolvers
        interceptors = self._registry.of_kind(Kind.INTERCEPTOR)
        self._cache.interceptors = [each for each in interceptors if each.point is Point.RESPONSE]
        self._live.start()

    async def close(self) -> None:
        """Cancel work in progress for callers."""
        await self._live.close()
        await self._operations.close()
        await self._answers.close()
        await self.watch.close()
        self._wheel.close()

    def parse(self, exchange: Exchange) -> AppRequest:
        """Find the app of the path; the body is parsed on first use, the same way for all."""
        uri = find_uri(exchange.request.segments[len(self._base) :])
        asked = RequestedOperation(self._apps, uri, exchange.request.offload)
        exchange.request.parser = asked.read_content
        if not uri:
            raise NotFound("GraphQL app not found")
        return AppRequest(
            uri=uri, asked=asked, is_authorized_later=is_live_handshake(exchange.request)
        )

    def allowed_methods(self, exchange: Exchange) -> Sequence[str]:
        """Return the methods: `GET` opens a WebSocket for live queries."""
        return ("GET", *self.methods) if is_live_handshake(exchange.request) else self.methods

    def find_path(self, uri: str) -> str | None:
        """Return the encoded path of the app with this URI; None if no request could reach it."""
        return encode_segments((*self._base, *normalise_uri(uri).split("/")))

    def time_limit_ms(self, exchange: Exchange) -> int:
        return int(self.config.query_time_limit)

    async def handle(self, exchange: Exchange) -> Answer:
        """Run one operation, or open a connection for several."""
        if AppRequest.of(exchange).is_authorized_later:
            return await self._live.answer_socket(exchange)
        try:
            return await self._in_time(exchange, self._handle(exchange))
        except StoreError as error:
            report_failure(error, exchange)
            raise

    async def run(
        self,
        app: App,
        request: GraphqlRequest,
        exchange: Exchange,
        limits: GraphqlLimits | None = None,
        *,
        is_explained: bool = False,
        is_free: bool = False,
    ) -> Ran:
        """Plan and execute an operation of an app for the caller of the exchange.

        `limits` replace those of the app. Nothing is cached for a draft. `is_explained`: with the
        `freshness` of the answer. `is_free`: from the command line, where `operations-only` does
        not apply.
        """
        if not is_free:
            self._check_freedom(app, request, exchange)
        options = RunOptions(limits, None if app.is_draft else self._answers)
        run = self._explain if is_explained else self._run
        return await self._in_time(exchange, run(app, request, exchange, options))

    async def run_recorded(
        self,
        app: App,
        request: GraphqlRequest,
        exchange: Exchange,
        recorder: DependencyRecorder | None,
    ) -> Result:
        """Run an operation of an authorized request; record what it depends on."""
        work = self._run(app, request, exchange, RunOptions(None, self._answers, recorder))
        return (await self._in_time(exchange, work)).result

    async def view(self, app: App, exchange: Exchange) -> VisibleApp:
        return await self._operations.view(app, exchange.roles)

    async def plan(self, app: App, request: GraphqlRequest, exchange: Exchange) -> Plan:
        """Return the plan of an operation for the caller; raise `OperationRefused`."""
        self._check_freedom(app, request, exchange)
        return (await self._find(app, request, exchange))[0]

    async def estimate_cost(
        self,
        app: App,
        request: GraphqlRequest,
        exchange: Exchange,
        budget: int | None = None,
        *,
        is_free: bool = False,
    ) -> CostEstimate:
        """Return the commands an operation would send, and their cost; nothing is run.

        `budget` is the number of documents that the caller may fetch. `is_free` as for `run`.
        """
        if not is_free:
            self._check_freedom(app, request, exchange)
        return await self._in_time(exchange, self._estimate_cost(app, request, exchange, budget))

    async def work_aside(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run work on a schema that would block the event loop, and return its result."""
        return await run_blocking(self._lane, function, *arguments)

    def may_introspect(self, account: Account | None) -> bool:
        """Return whether a caller may read the schema."""
        return not self.is_bound(account) and may_introspect(self.config.introspection, account)

    def is_bound(self, account: Account | None) -> bool:
        """Return whether a caller may run only persisted queries."""
        return is_bound(self.config.operations_only, account, self._root_role)

    def may_explain(self, account: Account | None) -> bool:
        """Return whether a caller may see the collections, indexes and counts behind a query."""
        if account is None:
            return False
        roles = (self._root_role,) if self.config.explain is None else self.config.explain
        return not set(roles).isdisjoint(account.roles)

    def render_error(self, error: DocgraphError) -> Body | None:
        """Render the error in the shape of GraphQL, whatever went wrong."""
        return render_error(error)

    async def _handle(self, exchange: Exchange) -> Answer:
        parsed = AppRequest.of(exchange)
        app = await self._apps.find(parsed.uri)
        exchange.app = str(app.definition.id)
        body = await exchange.request.read_body()
        request = await parsed.asked.find(body, exchange.request.content_type)
        exchange.operation = request.operation or ""
        self._check_freedom(app, request, exchange)
        live = app.definition.live and app.definition.has_live(exchange.roles)
        if live and wants_events(exchange):
            return await self._live.answer_events(exchange, request)
        started, ok = time.perf_counter(), False
        is_verbose = self.config.verbose and self._is_verbose(exchange)
        try:
            table = await self._find_table(app, request, exchange) if app.definition.csv else None
            if app.definition.cache is not None and table is None:
                answer = await self._answer_cached(app, request, exchange)
            else:
                run = self._explain if is_verbose else self._run
                options = RunOptions(None, self._answers, is_raw=table is None)
                ran = await run(app, request, exchange, options)
                if table is not None and not ran.result.errors:
                    answer = await answer_table(*table, ran.plan, ran.result)
                else:
                    answer, _ = self._render(app, ran, is_verbose=is_verbose)
            ok = True
        except OperationRefused:
            started = 0.0
            raise
        finally:
            if started:  # it was valid
                name = request.operation or request.operation_name or ""
                duration = time.perf_counter() - started
                emit(OperationFinished(exchange.app, name, request.query, duration, ok))
        return answer

    async def _answer_cached(self, app: App, request: GraphqlRequest, exchange: Exchange) -> Body:
        planned = plan, _ = await self._find(app, request, exchange)
        record_operation(plan)
        cache, is_verbose = self._cache, self._is_verbose(exchange)
        is_shown = is_verbose or self.may_explain(exchange.account)
        miss: CachedBody | Miss | None
        if is_verbose or request.limits:
            miss = bypass("extensions")
        else:
            miss = cache.find_now(plan, request.variables, exchange)
        if miss is None:
            miss = await cache.find(plan, request.variables, exchange, self._lane)
        if isinstance(miss, CachedBody):
            return add_headers(*miss, is_shown=is_shown)
        recorder, run = miss.recorder, self._explain if is_verbose else self._run
        options = RunOptions(None, self._answers, recorder, is_raw=True, planned=planned)
        try:
            ran = await run(app, request, exchange, options)
            body, is_complete = self._render(app, ran, is_verbose=is_verbose)
            if is_complete and recorder is not None:
                await cache.keep(miss, recorder, body.content)
            miss.content = body.content if is_complete else None
        finally:
            cache.end(miss)
        return add_headers(body, miss.status, None, is_shown=is_shown)

    def _render(self, app: App, ran: Ran, *, is_verbose: bool) -> tuple[Body, bool]:
        """Return the answer, and whether it is complete: without errors and extensions."""
        extensions: dict[str, Any] = ran.explain() if is_verbose else {}
        if ran.result.limits:
            extensions["limits"] = ran.result.limits
        body = render_result(
            ran.result, limit=app.limits.response_bytes, extensions=extensions or None
        )
        is_complete = body.status == HTTPStatus.OK and not (ran.result.errors or extensions)
        return body, is_complete

    async def _find_table(
        self, app: App, request: GraphqlRequest, exchange: Exchange
    ) -> tuple[CsvShape, CsvCells] | None:
        """Return the table that the caller wants; None: JSON."""
        accepted = exchange.request.headers.get_list("accept")
        if not accepted:
            return None
        preference = find_acceptance(accepted, CSV, JSON_TYPES)
        if not preference.is_preferred:
            return None
        formulas = exchange.request.query.get("csv-formulas")
        cells = CsvCells(raw=formulas is not None and parse_formulas(formulas))
        plan, _ = await self._find(app, request, exchange)
        coerced = plan.variables.read(request.variables).coerced
        tree = await plan.grow(coerced, self._lane)
        try:
            return find_shape(tree.block), cells
        except NotAcceptable:
            if preference.is_required:
                raise
            return None

    async def _run(
        self, app: App, request: GraphqlRequest, exchange: Exchange, options: RunOptions
    ) -> Ran:
        planned = options.planned
        if planned is None:
            planned = await self._find(app, request, exchange)
            record_operation(planned[0])
        plan, kept = planned
        result = await execute(self._prepare_run(plan, request, exchange, options))
        return Ran(plan, result, kept)

    def _prepare_run(
        self, plan: Plan, request: GraphqlRequest, exchange: Exchange, options: RunOptions
    ) -> Run:
        return Run(
            plan,
            exchange,
            request.variables,
            store=self._store,
            resolvers=self.resolvers,
            bounds=self.config,
            limits=options.limits or plan.app.app.limits,
            lane=self._lane,
            answers=options.answers,
            key_ring=self._key_ring,
            slow_after=self._slow_after,
            report_limits=request.limits,
            dependencies=options.recorder,
            is_raw=options.is_raw,
        )

    async def _explain(
        self, app: App, request: GraphqlRequest, exchange: Exchange, options: RunOptions
    ) -> Ran:
        """Run an operation, and find out what its answer depends on."""
        recorder = DependencyRecorder(self.watch.sources, has_ids=False)
        ran = await self._run(app, request, exchange, options._replace(recorder=recorder))
        coerced = ran.plan.variables.read(request.variables).coerced
        tree = await ran.plan.grow(coerced, self._lane)
        interceptors = self._registry.of_kind(Kind.INTERCEPTOR)
        freshness = await explain_freshness(tree, recorder, exchange, self.resolvers, interceptors)
        return ran._replace(freshness=freshness)

    async def _estimate_cost(
        self, app: App, request: GraphqlRequest, exchange: Exchange, budget: int | None
    ) -> CostEstimate:
        plan, _ = await self._find(app, request, exchange)
        run = self._prepare_run(plan, request, exchange, RunOptions())
        return await estimate_cost(run, budget)

    async def _find(
        self, app: App, request: GraphqlRequest, exchange: Exchange
    ) -> tuple[Plan, bool]:
        roles, allowed = exchange.roles, self.config.introspection
        view = app.kept_view(roles) or await self._operations.view(app, roles)
        introspection = allowed == "all" or may_introspect(allowed, exchange.account)
        try:
            return await self._operations.find(view, request, introspection=introspection)
        except OperationRefused as refusal:
            if request.operation and any(error.code == _WRONG for error in refusal.errors):
                raise reject_unknown(request) from None
            raise

    def _check_freedom(self, app: App, request: GraphqlRequest, exchange: Exchange) -> None:
        is_bound = self.config.operations_only and self.is_bound(exchange.account)
        if is_bound and not is_stored(app, request):
            raise OperationsOnly

    async def _in_time(self, exchange: Exchange, work: Awaitable[T]) -> T:
        """Apply the time limit to the whole request; every command gets what is left.

        The limit is that of the requested service. It counts from the arrival of the request, if
        there was one.
        """
        given = exchange.deadline
        limit = self.config.query_time_limit if given.at is None else given.limit_ms
        if limit <= 0:
            return await work
        at = time.monotonic() + limit / 1000 if given.at is None else given.at
        exchange.deadline = Deadline(at, limit, patience=given.patience)
        bound = self._wheel.until(at + _GRACE)
        try:
            with bound:
                return await work
        except (TimeoutError, TimeLimitExceeded) as error:
            if isinstance(error, TimeoutError) and not bound.expired:
                raise
            raise exchange.deadline.exceeded() from None

    def _is_verbose(self, exchange: Exchange) -> bool:
        """Return whether the caller is an administrator who sees how answers are made."""
        account = exchange.account
        return self.config.verbose and account is not None and self._root_role in account.roles
