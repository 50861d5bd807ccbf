"""One serving process: its connections, its clock, and how it stops.

    start: sockets → protocols          every quarter of a second: sweep
    stop:  accept nothing new → finish what was accepted, within a bound → cut the rest

uvicorn gives the protocols; its own server is not used, because it takes the signals for itself,
speaks on its own log and knows one kind of socket only.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import MutableSequence, Sequence
from dataclasses import replace
from email.utils import formatdate
from functools import partial
from time import time
from typing import Any

from uvicorn import Config

from docgraph.runtime import Blocking, cancel_until_over, run_blocking
from docgraph.server.http.before.asgi import Application, AsgiAdapter
from docgraph.server.http.before.cors import CorsPolicy
from docgraph.server.http.before.protocol import GuardedProtocol
from docgraph.server.http.before.refuse import Refusals
from docgraph.server.http.before.state import ProcessState
from docgraph.server.http.before.trace import RequestIds
from docgraph.server.http.before.websocket import (
    MAX_MESSAGE,
    PING_INTERVAL,
    PING_TIMEOUT,
    GuardedWebSocket,
)
from docgraph.server.process.sockets import Listener, raise_descriptor_limit
from docgraph.server.process.tls import build_context
from docgraph.server.settings import ServerSettings

__all__ = ["HttpServer"]

_SWEEP = 0.25
_MUTE = 100  # above every level of `logging`: what is worth saying goes through `observe`
_TLS_SHUTDOWN_SECONDS = 5.0
_COMPRESSION_THREADS = 2
# Objects. The documents of a few requests at a time are alive for milliseconds, and no garbage:
# with Python's own threshold (700) the collector would look at them many times.
_COLLECT_AFTER = 20_000


class HttpServer:
    """Serves one application on listening sockets."""

    def __init__(
        self,
        application: Application,
        settings: ServerSettings,
        counts: MutableSequence[int],
        worker: int = 0,
    ) -> None:
        ids = RequestIds(settings.core.tracing_headers)
        limits = settings.limits
        reachable = raise_descriptor_limit(limits.connections)
        self._settings = settings
        self._limits = replace(limits, connections=min(limits.connections, reachable))
        self._blocking = Blocking(_COMPRESSION_THREADS, _COMPRESSION_THREADS)
        lane = self._blocking.lane("compression")
        self._config = _build_config(
            AsgiAdapter(application, settings, ids=ids, offload=partial(run_blocking, lane))
        )
        self._state = ProcessState(
            self._limits, Refusals(CorsPolicy(settings.cors.allow_origins), ids), counts, worker
        )
        self._servers: list[asyncio.Server] = []
        self._clock: asyncio.Task[None] | None = None

    async def start(self, listeners: Sequence[Listener]) -> None:
        """Listen; raises `StartupError` for TLS files that cannot be used."""
        loop = asyncio.get_running_loop()
        self._set_date()
        for listener in listeners:
            self._servers.append(
                await loop.create_server(
                    partial(GuardedProtocol, self._config, self._state, {}, loop),
                    sock=listener.socket,
                    **self._tls_options(listener),
                )
            )
        self._clock = loop.create_task(self._tick())

    def _tls_options(self, listener: Listener) -> dict[str, Any]:
        if listener.scheme != "https":
            return {}
        context: ssl.SSLContext = build_context(self._settings.https_listener)
        return {
            "ssl": context,
            "ssl_handshake_timeout": min(self._limits.header_time, 60.0),
            "ssl_shutdown_timeout": _TLS_SHUTDOWN_SECONDS,
        }

    async def stop(self, at_once: asyncio.Event) -> None:
        """Finish what was accepted, unless it takes too long or `at_once` is set."""
        for server in self._servers:
            server.close()
        for connection in tuple(self._state.connections):
            connection.shutdown()
        waiting = asyncio.ensure_future(at_once.wait())
        try:
            async with asyncio.timeout(self._limits.stop_time):
                while (self._state.connections or self._state.tasks) and not waiting.done():
                    await asyncio.wait((waiting,), timeout=0.02)
        except TimeoutError:
            pass  # the bound is reached
        finally:
            await cancel_until_over([waiting])
            await self._cut()

    async def _cut(self) -> None:
        """Do not wait any longer: aborting a connection ends its request."""
        for connection in tuple(self._state.connections):
            connection.transport.abort()
        await cancel_until_over(tuple(self._state.tasks), grace=1.0)
        if self._clock is not None:
            await cancel_until_over([self._clock])
        await self._blocking.close(grace=1.0)

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP)
            self._set_date()
            now = loop.time()
            for connection in tuple(self._state.connections):
                connection.sweep(now)  # type: ignore[union-attr]

    def _set_date(self) -> None:
        self._state.default_headers = [(b"date", formatdate(time(), usegmt=True).encode())]


def _build_config(adapter: AsgiAdapter) -> Config:
    config = Config(
        adapter,
        http=GuardedProtocol,
        ws=GuardedWebSocket,
        ws_max_size=MAX_MESSAGE,
        ws_ping_interval=PING_INTERVAL,
        ws_ping_timeout=PING_TIMEOUT,
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
        log_level=_MUTE,
        access_log=False,
        interface="asgi3",
        proxy_headers=False,
        server_header=False,
    )
    config.load()
    return config
