"""Application: build everything from a configuration; startup and shutdown order.

    store → plugins constructed → provisioned and validated → routes → pipeline → initializers

The server is ready when the initializers are done, or when the database prevents them. Everything
is closed in the opposite order, also when the start fails half-way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

from docgraph import __version__
from docgraph.access.authorize import Authorization
from docgraph.access.sections import DbAclAuthorizer
from docgraph.auth.authenticate import AuthenticateStage
from docgraph.auth.sections import AuthenticationOptions
from docgraph.codec import decode
from docgraph.codec.bson_types import use_uuid_representation
from docgraph.events.sections import Events
from docgraph.exchange import Answer, Body, DocgraphError, Exchange
from docgraph.exchange.errors import BodyError
from docgraph.exchange.origin import OriginPolicy
from docgraph.mcp.service import build_access
from docgraph.observe import emit, otel
from docgraph.observe.events import ConfigWarning, PluginLoaded
from docgraph.observe.sections import Otel
from docgraph.plugins import PluginSet, assemble, is_enabled
from docgraph.plugins.kinds import Initializer, Interceptor, Kind, Point
from docgraph.rest.sections import Mongo
from docgraph.runtime import Blocking, Instance, Tasks, run_blocking, watch_loop
from docgraph.runtime.memory import AnswerBudget, read_room
from docgraph.runtime.sections import Core, Cors
from docgraph.server.deadlines import RequestDeadlines
from docgraph.server.html_pages import FrontPage
from docgraph.server.interception import Interception, run_plain_methods_in_threads
from docgraph.server.pipeline import Pipeline
from docgraph.server.prepare import LoadedConfiguration, find_needed_rights
from docgraph.server.rate_limits import Limiter
from docgraph.server.rate_limits.sections import CallerLimits
from docgraph.server.routes import Route, Routes, bind_all
from docgraph.server.sections import ConnectionOptions
from docgraph.server.serve import render
from docgraph.store import Store, open_store
from docgraph.store.sections import AggregationSecurity, MClient

_LONGEST_START: Final = 60.0  # seconds that readiness waits for initializers
_FIRST_WORKER: Final = 1


class Docgraph:
    """One process of an instance: `startup`, `answer` many times, `shutdown`."""

    def __init__(self, prepared: LoadedConfiguration, instance: Instance, address: str) -> None:
        self._prepared = prepared
        self._instance = instance
        self._address = address
        self._uuids = prepared.config.get(MClient).uuid_representation
        self._stack = AsyncExitStack()
        self._tried: list[asyncio.Event] = []  # initializers that were called
        self._pipeline: Pipeline
        self._routes: Routes
        self._authenticator: AuthenticateStage
        self.store: Store
        self.plugins: PluginSet

    async def startup(self) -> None:
        """Prepare to answer requests; an unavailable database does not prevent it."""
        try:
            await self._open_traces()
            await self.open()
            self._pipeline = self._build_pipeline(await self._open_limiter())
            self._emit_loaded()
        except BaseException:
            await self.shutdown()
            raise
        for initializer in self.plugins.of_kind(Kind.INITIALIZER):
            name, tried = f"initialize {initializer.name}", asyncio.Event()
            self._tried.append(tried)
            self._tasks.start(name, partial(self._initialize, initializer, tried))
        self._tasks.start("event-loop", watch_loop)
        if self._instance.worker <= _FIRST_WORKER:
            self._tasks.start("database-connections", self._check_connections)

    async def _open_traces(self) -> None:
        """Open tracing first, so that it is closed last and sends all spans."""
        options, instance = self._prepared.config.get(Otel), self._instance.secret("otel")
        if otel.is_wanted(options) and options.traces:
            # Its libraries are many files, and start their own threads.
            traces = await asyncio.to_thread(
                lambda: otel.load("traces").Traces(options, instance, __version__)
            )
            self._stack.push_async_callback(traces.close)

    async def contact_database(self) -> str:
        """Wait until the first request can succeed, or the reason why not is known.

        Returns what is missing, without names; empty if nothing is.
        """
        try:
            async with asyncio.timeout(_LONGEST_START):
                if await self.store.contacted():
                    for tried in self._tried:
                        await tried.wait()
        except TimeoutError:
            return "not everything is prepared yet"
        fault = self.store.fault
        return "" if fault is None else fault.summary

    async def shutdown(self) -> None:
        """Close everything, in reverse order."""
        await self._stack.aclose()

    def is_probe(self, exchange: Exchange) -> bool:
        route = self._routes.find(exchange.request)
        return route is not None and route.is_probe

    def render_error(self, error: DocgraphError, exchange: Exchange) -> Body:
        route = self._routes.find(exchange.request)
        try:
            return render(error, exchange, route, self._authenticator)
        except Exception as fault:  # of a plugin that renders its own errors
            return render(fault, exchange, None, self._authenticator)

    async def answer(self, exchange: Exchange) -> Answer:
        use_uuid_representation(self._uuids)
        return await self._pipeline.answer(exchange)

    async def open(self) -> None:
        """Open the store and the plugins, without the part that answers requests."""
        config = self._prepared.config
        core = config.get(Core)
        blocking = self._blocking = Blocking(
            core.workers_scheduler_parallelism,
            core.workers_scheduler_max_pool_size,
            core.wait_timeout_ms / 1000 or None,
        )
        self._stack.push_async_callback(blocking.close)
        generations = self._instance.open_generations()
        self._stack.callback(generations.close)
        use_uuid_representation(self._uuids)  # of the tasks that start now
        self.store = open_store(
            config.get(MClient),
            config.get(AggregationSecurity),
            connection_string=self._address,
            wait_timeout_ms=core.wait_timeout_ms,
            origin=self._find_origin(),
            rights=find_needed_rights(config),
            max_cursors=config.get(Events).count_cursors(),
        )
        self._stack.push_async_callback(self.store.close)
        self.store.connect()
        self._tasks = Tasks(outage=self.store.outage)
        self.plugins = assemble(
            self._prepared.found,
            config.sections,
            {
                "store": self.store,
                "instance": self._instance,
                "generations": generations,
                "blocking": blocking,
                "tasks": self._tasks,
                "configuration": config.sections,
                "configuration-directory": config.directory,
                "root-role": config.get(DbAclAuthorizer).root_role,
            },
        )
        self._stack.push_async_callback(self.plugins.close)
        run_plain_methods_in_threads(self.plugins.plugins, blocking)
        # Writes that outlive their requests need the plugins afterwards.
        self._stack.push_async_callback(self.store.drain)
        self._stack.push_async_callback(self._tasks.close)
        self.store.interceptors.install(self.plugins.of_kind(Kind.DATA_INTERCEPTOR))
        await self.plugins.start()

    def _build_pipeline(self, limiter: Limiter | None) -> Pipeline:
        services = self.plugins.of_kind(Kind.SERVICE)
        interceptors: dict[Point, list[Interceptor]] = {point: [] for point in Point}
        for interceptor in self.plugins.of_kind(Kind.INTERCEPTOR):
            interceptors[interceptor.point].append(interceptor)
        config = self._prepared.config
        core, options = config.get(Core), config.get(ConnectionOptions)
        measure, most = partial(read_room, core.workers), options.max_answer_bytes
        memory = AnswerBudget(measure=measure)
        if most is not None:
            memory = AnswerBudget(most, measure, is_fixed=True)
        bounds = RequestDeadlines(core.wait_timeout_ms, self.store.was_pool_busy, memory)
        self._stack.callback(bounds.close)
        routes = bind_all(services, self._prepared.config.sections)
        self._authenticator = AuthenticateStage(
            self.plugins.of_kind(Kind.AUTH_MECHANISM),
            anonymous_fallback=config.get(AuthenticationOptions).anonymous_fallback,
        )
        self._routes = Routes(routes, self._build_front(routes, self._authenticator))
        return Pipeline(
            self._routes,
            self._authenticator,
            Authorization(self.plugins.of_kind(Kind.AUTHORIZER)),
            Interception(interceptors),
            parse_content,
            partial(run_blocking, self._blocking.lane("bodies")),
            OriginPolicy(self._prepared.config.get(Cors).allow_origins),
            bounds,
            limiter,
        )

    async def _open_limiter(self) -> Limiter | None:
        """Return the rate limits for callers, if there are any."""
        config = self._prepared.config
        options = config.get(CallerLimits)
        if not options.enabled:
            return None
        workers = config.get(Core).workers
        limiter = await asyncio.to_thread(Limiter.open, options, self._instance, workers)
        self._stack.callback(limiter.close)
        return limiter

    def _build_front(
        self, routes: Sequence[Route], authenticator: AuthenticateStage
    ) -> Route | None:
        """Return the front page, unless a plugin provides one."""
        if any(not route.prefix and route.service.name != Mongo.section_name for route in routes):
            return None
        paths = {route.service.name: route.prefix for route in routes}
        access = None
        if "graphql" in paths:
            values = self.plugins.values
            apps, dry_runs = values["gql-app-definition-cache"], values["imagined-requests"]
            access = build_access(values["registry"], apps, dry_runs)
        title = self._prepared.config.get(Core).name
        page = FrontPage(title, paths, access, authenticator)
        return Route(page, (), secured=False)

    async def _initialize(self, initializer: Initializer, tried: asyncio.Event) -> None:
        """Run an initializer once, when the database first responds; `Tasks` retries failures."""
        await self.store.available()
        try:
            await initializer.initialize()
        finally:
            tried.set()

    async def _check_connections(self) -> None:
        """Warn if the database accepts fewer connections than all workers may open."""
        await self.store.available()
        needed = self.store.count_connections(self._prepared.config.get(Core).workers)
        free = await self.store.count_free_connections()
        if free is not None and free < needed:
            path = "/events/max-cursors"
            emit(
                ConfigWarning(
                    str(self._prepared.tree.find_origin(path)),
                    path,
                    f"the workers may open {needed} connections to the database, it allows {free}",
                    "lower it, mclient.max-pool-size or core.workers, or raise "
                    "net.maxIncomingConnections of the database",
                )
            )

    def _find_origin(self) -> str:
        """Return the option that sets the address of the database."""
        config = self._prepared.config
        if config.get(MClient).connection_string is None:
            return f"{config.get(Core).data_directory} (embedded)"
        return self._prepared.tree.origin("/mclient/connection-string")

    def _emit_loaded(self) -> None:
        for warning in self._prepared.config.warnings:
            hint = warning.hint or ""
            emit(ConfigWarning(warning.origin, warning.path, warning.message, hint))
        for plugin in self._prepared.found:
            if is_enabled(plugin, self._prepared.config.sections):
                emit(PluginLoaded(plugin.name, plugin.plugin.kind, plugin.origin))


def parse_content(body: bytes, content_type: str) -> Any:
    """Parse a body: JSON to values, text to `str`, others stay bytes; no body is None."""
    if not body:
        return None
    if content_type in ("", "application/json") or content_type.endswith("+json"):
        return decode(body)
    if content_type.startswith("text/"):
        try:
            return body.decode("utf-8")
        except UnicodeDecodeError:
            raise BodyError("the body is not valid UTF-8") from None
    return body
