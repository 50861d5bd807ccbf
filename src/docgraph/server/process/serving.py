"""One serving process: its connections, its clock, and how it stops.

    start: sockets → protocols → ready  every quarter of a second: sweep
                                        when it is quiet: give memory back
    stop:  say so, serve for the delay → accept nothing new → finish the rest, within a bound → cut

The connections themselves are in `server/http`.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from docgraph.runtime import Blocking, cancel_until_over, run_blocking
from docgraph.runtime.memory import MemoryKeeper
from docgraph.server.http.connection_limits import Cells
from docgraph.server.http.exchanges import Application
from docgraph.server.http.protocol import HttpProtocol
from docgraph.server.http.state import OpenConnection, build_state
from docgraph.server.process.sockets import BACKLOG, Listener, raise_descriptor_limit
from docgraph.server.process.tls import build_context
from docgraph.server.settings import ServerSettings

__all__ = ["HttpServer", "Stop", "serve_process"]

_SWEEP = 0.25
_LOOK = 0.02
_TLS_SHUTDOWN_SECONDS = 5.0
_COMPRESSION_THREADS = 2
_CLOSE_SECONDS = 0.6  # beyond the grace, for giving everything back
_CUT_SECONDS = 0.3  # for what does not end then
# Objects. The documents of a few requests at a time are alive for milliseconds, and no garbage:
# with Python's own threshold (700) the collector would look at them many times.
_COLLECT_AFTER = 20_000


class Stop:
    """Requests to stop the process: the first stops it gently, the second at once."""

    def __init__(self, on_stop: Callable[[str], None] | None = None) -> None:
        self.gentle = asyncio.Event()
        self.at_once = asyncio.Event()
        self._on_stop = on_stop
        self._requested: float | None = None

    def left(self, grace: float) -> float | None:
        """Seconds until what is left has to be over; None where nobody has asked for the stop."""
        if self._requested is None:
            return None
        if self.at_once.is_set():
            return _CLOSE_SECONDS
        spent = asyncio.get_running_loop().time() - self._requested
        return max(_CLOSE_SECONDS, grace + _CLOSE_SECONDS - spent)

    def request(self, reason: str) -> None:
        """Stop gently; the second time at once."""
        if self.gentle.is_set():
            self.at_once.set()
            return
        self.gentle.set()
        self._requested = asyncio.get_running_loop().time()
        if self._on_stop is not None:
            self._on_stop(reason)

    def on_signals(self, *signals: signal.Signals) -> None:
        """Let these signals request the stop."""
        loop = asyncio.get_running_loop()
        for one in signals:
            loop.add_signal_handler(one, self.request, one.name)


class HttpServer:
    """Serves one application on listening sockets.

    `on_sweep` is called a few times in a second, as long as the event loop goes round.
    """

    def __init__(
        self,
        application: Application,
        settings: ServerSettings,
        cells: Cells | None = None,
        worker: int = 0,
        on_sweep: Callable[[], None] = lambda: None,
    ) -> None:
        limits = settings.limits
        reachable = raise_descriptor_limit(limits.connections)
        self._settings = settings
        self._limits = replace(limits, connections=min(limits.connections, reachable))
        self._blocking = Blocking(_COMPRESSION_THREADS, _COMPRESSION_THREADS)
        offload = partial(run_blocking, self._blocking.lane("compression"))
        self._state = build_state(
            application, settings, self._limits, offload=offload, cells=cells, worker=worker
        )
        self._memory = MemoryKeeper(
            lambda: self._state.exchanges.started, self._blocking.lane("memory", 1)
        )
        self._on_sweep = on_sweep
        self._servers: list[tuple[Listener, asyncio.Server]] = []
        self._late: list[asyncio.Task[Any]] = []  # connections that nobody had accepted yet
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def grace(self) -> float:
        """Seconds that requests have to finish, from the request to stop on."""
        return self._limits.longest_stop

    async def start(self, listeners: Sequence[Listener]) -> None:
        """Listen; raises `StartupError` for TLS files that cannot be used."""
        loop = asyncio.get_running_loop()
        for listener in listeners:
            server = await loop.create_server(
                partial(HttpProtocol, self._state, loop),
                sock=listener.socket,
                backlog=BACKLOG,  # it listens anew, and 100 is its own choice
                **self._tls_options(listener),
            )
            self._servers.append((listener, server))
        self._tasks = [loop.create_task(self._tick()), loop.create_task(self._memory.run())]

    def _tls_options(self, listener: Listener) -> dict[str, Any]:
        if listener.scheme != "https":
            return {}
        context: ssl.SSLContext = build_context(self._settings.https_listener)
        return {
            "ssl": context,
            "ssl_handshake_timeout": min(self._limits.header_time, 60.0),
            "ssl_shutdown_timeout": _TLS_SHUTDOWN_SECONDS,
        }

    async def await_departure(self, at_once: asyncio.Event) -> None:
        """Serve for the delay of the stop: whoever sends requests here has time to notice it.

        Every answer closes its connection, so that none of them is idle at the end of the delay
        with a request already on its way.
        """
        self._state.is_leaving = True
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.stop_delay):
                await at_once.wait()

    async def stop(self, at_once: asyncio.Event) -> None:
        """Finish what was accepted, unless it takes too long or `at_once` is set."""
        self._state.is_leaving = True
        for listener, server in self._servers:
            self._close(listener, server)
        waiting = asyncio.ensure_future(at_once.wait())
        try:
            async with asyncio.timeout(self._limits.stop_time):
                await self._finish(waiting)
        except TimeoutError:
            pass  # the bound is reached
        finally:
            await cancel_until_over([waiting])
            await self._cut()

    def _close(self, listener: Listener, server: asyncio.Server) -> None:
        """Listen no longer; who was let in by the system, and may have sent, is accepted first."""
        loop = asyncio.get_running_loop()
        with socket.socket(fileno=os.dup(listener.socket.fileno())) as queue:
            queue.setblocking(False)
            server.close()
            while True:
                try:
                    connection, _ = queue.accept()
                except OSError:  # there are no more, or no descriptors for them
                    return
                connection.setblocking(False)
                accepting = loop.connect_accepted_socket(
                    partial(HttpProtocol, self._state, loop),
                    connection,
                    **self._tls_options(listener),
                )
                self._late.append(loop.create_task(accepting))

    async def _finish(self, stopping: asyncio.Future[Any]) -> None:
        """Wait until every connection has ended; each is told once."""
        loop = asyncio.get_running_loop()
        told: set[OpenConnection] = set()
        while True:
            for connection in self._state.connections.keys() - told:
                connection.shutdown()
                told.add(connection)
            self._state.sweep(loop.time())
            is_late = not all(one.done() for one in self._late)
            is_busy = self._state.connections or self._state.exchanges.tasks or is_late
            if stopping.done() or not is_busy:
                return
            await asyncio.wait((stopping,), timeout=_LOOK)

    async def _cut(self) -> None:
        """Do not wait any longer: aborting a connection ends its request."""
        for connection in tuple(self._state.connections):
            connection.transport.abort()
        await cancel_until_over(self._late, grace=_CUT_SECONDS)
        await cancel_until_over(tuple(self._state.exchanges.tasks), grace=_CUT_SECONDS)
        await cancel_until_over(self._tasks)
        await self._blocking.close(grace=_CUT_SECONDS)

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP)
            self._state.sweep(loop.time())
            self._on_sweep()


async def serve_process(
    application: Application,
    server: HttpServer,
    listeners: Sequence[Listener],
    stop: Stop,
    on_ready: Callable[[str], None],
) -> None:
    """Start, serve until asked to stop, and give everything back.

    Requests are answered from the moment that there are sockets; ready we are, and `on_ready` is
    called with what is missing, when the first contact with the database is over.
    """
    try:
        if await _unless_stopped(application.startup(), stop):
            try:
                gc.collect()
                gc.freeze()  # what the start made stays: the collector need not look at it again
                gc.set_threshold(_COLLECT_AFTER)
                await server.start(listeners)
                if await _unless_stopped(_announce(application, on_ready), stop):
                    await stop.gentle.wait()
                    await server.await_departure(stop.at_once)
            finally:
                await server.stop(stop.at_once)
    finally:
        await _close_in_time(application, server, stop)


async def _announce(application: Application, on_ready: Callable[[str], None]) -> None:
    on_ready(await application.contact_database())


async def _close_in_time(application: Application, server: HttpServer, stop: Stop) -> None:
    """Give everything back within the rest of the grace and a moment; then it is cut off."""
    closing = asyncio.ensure_future(application.shutdown())
    await asyncio.wait((closing,), timeout=stop.left(server.grace))
    if not closing.done():
        await cancel_until_over([closing], grace=_CUT_SECONDS)
    if closing.done() and not closing.cancelled():
        closing.result()


async def _unless_stopped(startup: Any, stop: Stop) -> bool:
    """Await the start; whether it ended before the process was asked to stop."""
    starting = asyncio.ensure_future(startup)
    stopping = asyncio.ensure_future(stop.gentle.wait())
    try:
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await starting
            return True
        return False
    finally:
        stopping.cancel()
        starting.cancel()  # once: cancelled again it would not give back what it has opened
        await asyncio.wait((starting, stopping))
        if not starting.cancelled():
            starting.exception()  # what a start that is not wanted any more raises is of no use
