"""The ASGI application: its lifespan, and the requests between its beginning and its end.

    lifespan: configuration → instance → log, metrics → database → application → sweeps

A configuration that cannot work ends the lifespan with our message. A database that does not answer
does not: requests report it, as with our own server (decision 45).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from docgraph import __version__
from docgraph.asgi.connection import AsgiConnection
from docgraph.asgi.scope import AsgiReceive, AsgiScope, AsgiSend
from docgraph.config import ConfigSources, ConfigTree
from docgraph.config.sources import locating
from docgraph.embedded import EmbeddedMongo
from docgraph.exchange import StartupError
from docgraph.exchange.errors import DocgraphError
from docgraph.observe import emit, prometheus
from docgraph.observe.events import ConfigWarning, ServerStarted, ServerStopped
from docgraph.runtime import Instance, create_instance, join_instance
from docgraph.runtime.sections import Core
from docgraph.server.app import Docgraph
from docgraph.server.prepare import LoadedConfiguration, load_tree, prepare, require_allower
from docgraph.server.process.host import observing, open_database, sending_metrics
from docgraph.server.process.serving import HttpServer
from docgraph.server.serve import build_error_body
from docgraph.server.settings import ServerSettings
from docgraph.store.sections import MClient

_OF_THE_SERVER: Final = (
    "/http-listener",
    "/https-listener",
    "/core/probe-listener",
    "/connection-options/max-connections",
    "/connection-options/max-connections-per-address",
    "/connection-options/header-timeout-ms",
    "/connection-options/keep-alive-timeout-ms",
    "/connection-options/shutdown-delay-ms",
    "/connection-options/websocket-compression",
)
_FIRST: Final = 1  # the number of the process that works for all processes of an instance


class NotStarted(DocgraphError):
    """A request before the lifespan has begun, or after its end."""

    status, code = 503, "not-started"


class _Opened(NamedTuple):
    prepared: LoadedConfiguration
    instance: Instance
    address: str  # of the database


class AsgiApplication:
    """An ASGI 3 application; one per process runs at a time in the usual case."""

    def __init__(
        self, config: Path | None, overrides: Mapping[str, Any], instance: Path | None
    ) -> None:
        self._config = config
        self._overrides = overrides
        self._directory = instance
        self._server: HttpServer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.docgraph: Docgraph | None = None

    async def __call__(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        """Serve a connection of the ASGI server."""
        kind = scope["type"]
        if kind in ("http", "websocket"):
            server = self._server
            if server is None or asyncio.get_running_loop() is not self._loop:
                await _reject_early(kind, receive, send)
            else:
                await AsgiConnection(server.state, scope, receive, send).answer()
        elif kind == "lifespan":
            await self._live(receive, send)
        else:
            raise RuntimeError(
                f"docgraph serves the ASGI scopes http, websocket and lifespan, not {kind!r}"
            )

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[Docgraph]:
        """Start the application, and stop it at the end; raises `StartupError`.

        A mounted application gets no lifespan of the server: its host enters this one in its own.
        """
        if self._loop is not None:
            raise StartupError("this application has started already")
        self._loop = asyncio.get_running_loop()
        try:
            async with AsyncExitStack() as stack:
                opening = self._open()
                opened = await asyncio.to_thread(opening.__enter__)
                stack.push_async_callback(asyncio.to_thread, opening.__exit__, None, None, None)
                yield await self._start(stack, opened)
        finally:
            self._loop = self._server = self.docgraph = None

    def read_options(self) -> ConfigTree:
        """Return the options of the file, the environment and the overrides."""
        settings = _flatten(self._overrides)
        return load_tree(ConfigSources(self._config, None, settings, settings_origin="overrides"))

    async def _start(self, stack: AsyncExitStack, opened: _Opened) -> Docgraph:
        prepared, started = opened.prepared, time.monotonic()
        settings = ServerSettings.from_sections(prepared.config.sections)
        application = Docgraph(*opened)
        stack.push_async_callback(application.shutdown)
        await application.startup()
        server = await asyncio.to_thread(HttpServer, application, settings)  # it reads files
        stack.push_async_callback(server.stop, asyncio.Event())
        await server.start(())
        await application.contact_database()
        with closing(opened.instance.open_generations()) as generations:
            generations.bump("ready")
        emit(ServerStarted("asgi", settings.core.workers, __version__))
        stack.callback(lambda: emit(ServerStopped(time.monotonic() - started)))
        stack.callback(setattr, self, "_server", None)
        self._server, self.docgraph = server, application
        return application

    @contextmanager
    def _open(self) -> Iterator[_Opened]:
        """Open what reads files and starts processes: it may block."""
        tree = self.read_options()
        with locating(tree), ExitStack() as stack:
            prepared = prepare(tree)
            require_allower(prepared)
            core = prepared.config.get(Core)
            if self._directory is None:
                instance = stack.enter_context(create_instance())
            else:
                instance = stack.enter_context(join_instance(self._directory, core.workers))
                prometheus.share_metrics(instance.metrics_directory)
            stack.enter_context(observing(prepared))
            if instance.worker <= _FIRST:
                stack.enter_context(sending_metrics(prepared, instance))
                _report_ineffective(tree)
            yield _Opened(prepared, instance, _open_database(stack, prepared, instance))

    async def _live(self, receive: AsgiReceive, send: AsgiSend) -> None:
        """Run the lifespan protocol."""
        message = await receive()
        if message["type"] != "lifespan.startup":
            raise RuntimeError(f"{message['type']} before lifespan.startup")
        lifespan = self.lifespan()
        try:
            await lifespan.__aenter__()
        except StartupError as error:
            hint = f" ({error.hint})" if error.hint else ""
            await send({"type": "lifespan.startup.failed", "message": f"{error.message}{hint}"})
            return
        try:
            await send({"type": "lifespan.startup.complete"})
            await receive()  # the shutdown
        finally:
            await lifespan.__aexit__(None, None, None)
        await send({"type": "lifespan.shutdown.complete"})


def _open_database(stack: ExitStack, prepared: LoadedConfiguration, instance: Instance) -> str:
    """Return the connection string; the first process of an instance owns the embedded MongoDB."""
    if instance.worker <= _FIRST or prepared.config.get(MClient).connection_string is not None:
        return stack.enter_context(open_database(prepared, on_disk_full=_mark_disk(instance)))
    directory = prepared.config.get(Core).data_directory
    address = EmbeddedMongo.find_running(directory)
    if address is None:
        raise StartupError(
            f"the first process of this instance does not serve the database in {directory}",
            hint="start this process again, or set /mclient/connection-string",
        )
    return address


def _mark_disk(instance: Instance) -> Any:
    def mark(is_full: bool) -> None:
        with closing(instance.open_generations()) as generations:
            generations.bump("disk")  # from even to odd, or back

    return mark


def _report_ineffective(tree: ConfigTree) -> None:
    for path in _OF_THE_SERVER:
        if tree.find(path) is not None:
            hint = "configure the ASGI server instead"
            emit(ConfigWarning(tree.origin(path), path, "no effect in an ASGI application", hint))


def _flatten(overrides: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the options as `--set` has them."""
    return tuple(
        f"{path}={orjson.dumps(value).decode()}"
        for name, values in overrides.items()
        for path, value in (
            [(name, values)]
            if name.startswith("/")
            else [(f"/{name}/{option}", value) for option, value in values.items()]
        )
    )


async def _reject_early(kind: str, receive: AsgiReceive, send: AsgiSend) -> None:
    """Answer a request that no started application can answer."""
    if kind == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1013, "reason": NotStarted.code})
        return
    error = NotStarted(
        "docgraph is not started in this event loop",
        hint="a host that mounts it enters app.lifespan() in its own lifespan",
        headers=[("Retry-After", "1")],
    )
    body = build_error_body(error)
    headers = [(b"content-type", b"application/json"), (b"retry-after", b"1")]
    await send({"type": "http.response.start", "status": body.status, "headers": headers})
    await send({"type": "http.response.body", "body": body.content})
