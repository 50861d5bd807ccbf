"""The guard of a WebSocket connection: uvicorn's wsproto protocol, with an end to waiting."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.websockets.wsproto_impl import WSProtocol

from docgraph.server.http.before.state import ProcessState
from docgraph.server.http.stall import StallWatch

if TYPE_CHECKING:
    from uvicorn import Config

__all__ = ["MAX_MESSAGE", "PING_INTERVAL", "PING_TIMEOUT", "GuardedWebSocket"]

MAX_MESSAGE = 64 * 1024  # bytes a client may send at once; more is closed with 1009
PING_INTERVAL = 20.0
PING_TIMEOUT = 20.0
_FAREWELL = 5.0  # seconds that a handler has to end after its client


class GuardedWebSocket(WSProtocol):
    """One WebSocket."""

    def __init__(
        self,
        config: Config,
        server_state: ProcessState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._state = server_state
        self._task: asyncio.Task[Any] | None = None
        self._closing_since = inf

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._stall = StallWatch(transport, self._state.limits.write_time)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._state.count_connections()
        if self._task is not None and not self._task.done():
            farewell = self.loop.call_later(_FAREWELL, self._task.cancel)
            self._task.add_done_callback(lambda _: farewell.cancel())

    def resume_writing(self) -> None:
        self._stall.reset()
        super().resume_writing()

    async def run_asgi(self) -> None:
        self._task = asyncio.current_task()
        await super().run_asgi()

    def sweep(self, now: float) -> None:
        """Drop a peer that does not read, or does not let itself be closed."""
        if self._stall.is_stalled(now) or now - self._closing_since > self._state.limits.write_time:
            self.transport.abort()
        elif self._closing_since == inf and self.transport.is_closing():
            self._closing_since = now
