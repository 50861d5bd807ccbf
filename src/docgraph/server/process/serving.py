"""One serving process: its connections, its timeouts, and its shutdown.

    start: sockets → protocols → ready  every quarter of a second: sweep
                                        when it is quiet: release memory
    stop:  announce it, serve for the delay → accept nothing new → finish within a limit → abort

The connections themselves are in `server/http`.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from docgraph.runtime import Blocking, Tasks, cancel_until_over, run_blocking
from docgraph.runtime.allocations import explain_shortage, hold_reserve
from docgraph.runtime.memory import MemoryKeeper, read_room, tune_allocator
from docgraph.server.http.connection_limits import Cells
from docgraph.server.http.connection_share import ConnectionShare
from docgraph.server.http.exchanges import Application
from docgraph.server.http.protocol import HttpProtocol
from docgraph.server.http.state import OpenConnection, build_state
from docgraph.server.process.lifecycle import reopen_logs
from docgraph.server.process.sockets import ListeningSocket, fit_to_descriptors
from docgraph.server.process.tls import Certificate, SharedPair
from docgraph.server.settings import ServerSettings

_SWEEP = 0.25
_AGE_INTERVAL = 60.0  # seconds between two reports of the time that a certificate has left
_LOOK = 0.02
_TLS_SHUTDOWN_SECONDS = 5.0
_COMPRESSION_THREADS = 2
_CLOSE_SECONDS = 0.6  # beyond the grace period, for closing everything
_CUT_SECONDS = 0.3  # for what has not ended by then
# Objects. The documents of a few concurrent requests live for milliseconds, and are no garbage:
# with Python's own threshold (700) the collector would scan them many times. The second generation
# is small, so that a collection blocks the event loop for 20 ms at most. The third one is never
# collected by itself: with 10 000 listeners, that took a second. `MemoryKeeper` collects it.
_COLLECT_AFTER = (10_000, 1, 1 << 30)


class Stop:
    """Requests to stop the process: the first stops it gracefully, the second immediately."""

    def __init__(self, on_stop: Callable[[str], None] | None = None) -> None:
        self.gentle = asyncio.Event()
        self.at_once = asyncio.Event()
        self._on_stop = on_stop
        self._requested: float | None = None

    def left(self, grace: float) -> float | None:
        """Return the seconds until everything must have ended; None without a request to stop."""
        if self._requested is None:
            return None
        if self.at_once.is_set():
            return _CLOSE_SECONDS
        spent = asyncio.get_running_loop().time() - self._requested
        return max(_CLOSE_SECONDS, grace + _CLOSE_SECONDS - spent)

    def request(self, reason: str) -> None:
        """Stop gracefully; the second time immediately."""
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
        for stop_signal in signals:
            loop.add_signal_handler(stop_signal, self.request, stop_signal.name)


class HttpServer:
    """Serves one application on listening sockets.

    `on_sweep` is called a few times per second, as long as the event loop runs.
    """

    def __init__(
        self,
        application: Application,
        settings: ServerSettings,
        cells: Cells | None = None,
        worker: int = 0,
        on_sweep: Callable[[], None] = lambda: None,
        shared_pair: SharedPair | None = None,
    ) -> None:
        self._settings = settings
        self._limits = fit_to_descriptors(settings.limits, settings.database_connections)
        self._blocking = Blocking(_COMPRESSION_THREADS, _COMPRESSION_THREADS)
        offload = partial(run_blocking, self._blocking.lane("compression"))
        self.state = build_state(
            application, settings, self._limits, offload=offload, cells=cells, worker=worker
        )
        self._memory = MemoryKeeper(
            lambda: self.state.exchanges.started,
            self._blocking.lane("memory", 1),
            count_connections=self._count_connections,
        )
        self._on_sweep = on_sweep
        self._is_worker = cells is not None
        self._certificate: Certificate | None = None
        self._shared_pair = shared_pair
        self._files = self._blocking.lane("files", 1)
        self._must_reload = asyncio.Event()
        self._must_load = False  # the certificate, too
        self._reloading = Tasks()
        self._acceptors: list[Acceptor] = []
        self._tasks: list[asyncio.Task[None]] = []

    def _count_connections(self) -> int:
        """Count also those that have ended while their requests are still being cleaned up."""
        return max(len(self.state.connections), len(self.state.exchanges.tasks))

    @property
    def grace(self) -> float:
        """Seconds that requests have to finish, counted from the request to stop."""
        return self._limits.longest_stop

    async def start(self, listeners: Sequence[ListeningSocket]) -> None:
        """Listen; raises `StartupError` for invalid TLS files."""
        loop = asyncio.get_running_loop()
        if any(listener.scheme == "https" for listener in listeners):
            self._certificate = Certificate(self._settings.https_listener, self._shared_pair)
            self._reloading.start("certificate", self._watch_certificate)
            self._reloading.start("certificate-age", self._watch_age)
        self._reloading.start("reload", self._reload)
        for listener in listeners:
            options: dict[str, Any] = {}
            if listener.scheme == "https" and self._certificate is not None:
                options = {
                    "ssl": self._certificate.context,
                    "ssl_handshake_timeout": min(self._limits.header_time, 60.0),
                    "ssl_shutdown_timeout": _TLS_SHUTDOWN_SECONDS,
                }
            make_protocol = partial(HttpProtocol, self.state, loop)
            self._acceptors.append(
                Acceptor(listener.socket, make_protocol, options, self.state.share)
            )
        self.state.share.record_turn()
        self._tasks = [loop.create_task(self._tick()), loop.create_task(self._memory.run())]

    def reload(self, *, logs_only: bool = False) -> None:
        """Open log files again that were renamed, and load certificate and key."""
        self._must_load = self._must_load or not logs_only
        self._must_reload.set()

    async def _reload(self) -> None:
        while await self._must_reload.wait():
            self._must_reload.clear()
            if self._is_worker:  # a process that serves alone opens them with `Reload`
                await run_blocking(self._files, reopen_logs)
            if self._certificate is not None and self._must_load:
                self._must_load = False
                await run_blocking(self._files, self._certificate.check, is_forced=True)

    async def _watch_certificate(self) -> None:
        """Notice a new certificate without a signal."""
        interval = self._settings.https_listener.check_interval_ms / 1000
        while interval and self._certificate is not None:
            await asyncio.sleep(interval)
            await run_blocking(self._files, self._certificate.check)

    async def _watch_age(self) -> None:
        while self._certificate is not None:
            self._certificate.report_age()
            await asyncio.sleep(_AGE_INTERVAL)

    async def await_departure(self, at_once: asyncio.Event) -> None:
        """Serve during the delay of the stop, so that load balancers can notice it.

        Every response closes its connection, so that none of them is idle at the end of the delay
        with a request already on its way.
        """
        self.state.is_leaving = True
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.stop_delay):
                await at_once.wait()

    async def stop(self, at_once: asyncio.Event) -> None:
        """Finish accepted requests, unless it takes too long or `at_once` is set."""
        self.state.is_leaving = True
        self.state.share.leave()
        for acceptor in self._acceptors:
            acceptor.close()
        waiting = asyncio.ensure_future(at_once.wait())
        try:
            async with asyncio.timeout(self._limits.stop_time):
                await self._finish(waiting)
        except TimeoutError:
            pass  # the limit is reached
        finally:
            await cancel_until_over([waiting])
            await self._cut()

    async def _finish(self, stopping: asyncio.Future[Any]) -> None:
        """Wait until every connection has ended; each is notified once."""
        loop = asyncio.get_running_loop()
        told: set[OpenConnection] = set()
        while True:
            for connection in self.state.connections.keys() - told:
                connection.shutdown()
                told.add(connection)
            self.state.sweep(loop.time())
            is_late = any(acceptor.connecting for acceptor in self._acceptors)
            is_busy = self.state.connections or self.state.exchanges.tasks or is_late
            if stopping.done() or not is_busy:
                return
            await asyncio.wait((stopping,), timeout=_LOOK)

    async def _cut(self) -> None:
        """Abort the remaining connections, which cancels their requests."""
        for connection in tuple(self.state.connections):
            connection.transport.abort()
        for acceptor in self._acceptors:
            await cancel_until_over(tuple(acceptor.connecting), grace=_CUT_SECONDS)
        await cancel_until_over(tuple(self.state.exchanges.tasks), grace=_CUT_SECONDS)
        await cancel_until_over(self._tasks)
        await self._reloading.close(grace=_CUT_SECONDS)
        await self._blocking.close(grace=_CUT_SECONDS)

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP)
            # The memory limit may change.
            hold_reserve()
            with suppress(OSError, MemoryError):  # no descriptor is free: the last limit stays
                room = read_room(self._settings.core.workers)
                self.state.bodies.fit(room)
                if self._limits.fits_unread_to_memory:
                    self.state.unread.fit(room)
            self.state.sweep(loop.time())
            if not any(acceptor.is_exhausted for acceptor in self._acceptors):
                self.state.share.record_turn()
            self._on_sweep()


async def serve_process(
    application: Application,
    server: HttpServer,
    listeners: Sequence[ListeningSocket],
    stop: Stop,
    on_ready: Callable[[str], None],
) -> None:
    """Start, serve until asked to stop, and close everything.

    Requests are answered as soon as there are sockets. The process is ready, and `on_ready` is
    called with what is missing, after the first contact with the database.
    """
    tune_allocator()
    hold_reserve()
    asyncio.get_running_loop().set_exception_handler(_handle_loop_error)
    try:
        if await _unless_stopped(application.startup(), stop):
            try:
                gc.collect()
                gc.freeze()  # objects of the start stay: exclude them from garbage collection
                gc.set_threshold(*_COLLECT_AFTER)
                await server.start(listeners)
                if await _unless_stopped(_announce(application, on_ready), stop):
                    await stop.gentle.wait()
                    await server.await_departure(stop.at_once)
            finally:
                await server.stop(stop.at_once)
    finally:
        # Close everything within the rest of the grace period and a moment; then abort.
        closing = asyncio.ensure_future(application.shutdown())
        await asyncio.wait((closing,), timeout=stop.left(server.grace))
        if not closing.done():
            await cancel_until_over([closing], grace=_CUT_SECONDS)
        if closing.done() and not closing.cancelled():
            closing.result()


def _handle_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Release the reserve if a connection had no memory to read or write: the next ones have."""
    if isinstance(context.get("exception"), MemoryError):
        explain_shortage()
    loop.default_exception_handler(context)


async def _announce(application: Application, on_ready: Callable[[str], None]) -> None:
    on_ready(await application.contact_database())


async def _unless_stopped(startup: Any, stop: Stop) -> bool:
    """Await the start; returns whether it ended before a request to stop."""
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
        starting.cancel()  # once: a second cancellation would prevent the cleanup
        await asyncio.wait((starting, stopping))
        if not starting.cancelled():
            starting.exception()  # its error no longer matters


AT_ONCE: Final = 128  # connections per turn; open connections are served between two turns
_PAUSE: Final = 0.1  # seconds, when the system has no resources for another connection
_YIELD: Final = 0.002  # seconds until it is checked whether another worker has accepted
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """Gives each connection of a listening socket a protocol.

    It accepts many waiting connections per turn of the event loop. The event loop's own server
    accepts one connection per turn. Turns are long under load, so that a health check would wait
    for as many turns as connections came before it.
    """

    def __init__(
        self,
        listener: socket.socket,
        make_protocol: Callable[[], asyncio.Protocol],
        options: dict[str, Any],
        share: ConnectionShare,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._make_protocol = make_protocol
        self._options = options
        self._share = share
        self.is_exhausted = False  # the system has no resources for another connection
        self._resuming: asyncio.TimerHandle | None = None
        self.connecting: set[asyncio.Task[None]] = set()
        self._loop.add_reader(listener, self._accept)

    def close(self) -> None:
        """Stop listening; connections that the system has accepted already are served first."""
        self._loop.remove_reader(self._listener)
        if self._resuming is not None:
            self._resuming.cancel()
        while self._accept_one():
            pass
        self._listener.close()

    def _accept(self) -> None:
        self._share.record_turn()
        for _ in range(AT_ONCE):
            if not self._share.may_accept():
                self._pause(_YIELD)
                return
            if not self._accept_one():
                return

    def _accept_one(self) -> bool:
        """Accept a connection; returns whether there may be another one."""
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            self.is_exhausted = False
            return False
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                return True  # this connection has failed already
            self.is_exhausted = True
            self._share.leave()
            self._pause(_PAUSE)
            return False
        self.is_exhausted = False
        self._share.add()
        task = self._loop.create_task(self._connect(connection))
        self.connecting.add(task)
        task.add_done_callback(self.connecting.discard)
        return True

    async def _connect(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(
                self._make_protocol, connection, **self._options
            )
        except (OSError, MemoryError) as error:
            # The client is gone, the TLS handshake has failed, or there is no memory for it.
            connection.close()
            self._share.add(-1)
            if isinstance(error, MemoryError):
                explain_shortage()

    def _pause(self, seconds: float) -> None:
        """Accept again after a moment: the socket stays readable, and the loop would not rest."""
        self._loop.remove_reader(self._listener)
        self._resuming = self._loop.call_later(
            seconds, self._loop.add_reader, self._listener, self._accept
        )
