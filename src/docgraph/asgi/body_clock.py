"""Timeouts of a request body that an ASGI server receives, as for a connection of our own."""

from __future__ import annotations

import asyncio

from docgraph.exchange.errors import Overloaded, RequestTimeout
from docgraph.server.http.message_bodies import IncomingBody
from docgraph.server.settings import Limits


class BodyClock:
    """Measures a body from the moment when the application waits for it: now."""

    def __init__(self, limits: Limits, loop: asyncio.AbstractEventLoop) -> None:
        self._limits = limits
        self._loop = loop
        self._since = loop.time()
        self._expires = self._since + limits.body_time
        self._held_at: float | None = None  # since when too many others are read
        self._left = 0.0  # seconds that it had then

    @property
    def is_held(self) -> bool:
        return self._held_at is not None

    def hold(self) -> None:
        """Pause, for a limited time."""
        now = self._held_at = self._loop.time()
        self._left, self._expires = self._expires - now, now + self._limits.body_time

    def resume(self) -> None:
        """Resume after a pause."""
        if self._held_at is not None:
            now = self._loop.time()
            self._since += now - self._held_at
            self._expires, self._held_at = now + self._left, None

    def check(self, now: float, body: IncomingBody) -> None:
        """Reject a body that is late or slow."""
        limits, elapsed = self._limits, now - self._since
        if now >= self._expires and self.is_held:
            body.fail(Overloaded("too many bodies are on their way", bound="uploads"))
        elif now >= self._expires:
            body.fail(RequestTimeout("the body did not arrive in time"))
        elif self.is_held or elapsed <= limits.body_grace:
            return
        elif body.received < limits.body_rate * elapsed:
            rate = limits.body_rate
            body.fail(RequestTimeout(f"the body is slower than {rate} bytes per second"))
