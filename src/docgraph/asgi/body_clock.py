"""Timeouts of a request body that an ASGI server receives, as for a connection of our own."""

from __future__ import annotations

from math import inf

from docgraph.exchange import DocgraphError
from docgraph.exchange.errors import Overloaded, RequestTimeout
from docgraph.server.http.message_bodies import IncomingBody
from docgraph.server.settings import Limits


class BodyClock:
    """Measures a body from the moment when the application waits for it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._since = self._expires = inf
        self._held_at: float | None = None  # since when too many others are read
        self._left = inf  # seconds that it had then

    @property
    def is_held(self) -> bool:
        return self._held_at is not None

    def start(self, now: float) -> None:
        """Start, at the first call."""
        if self._since == inf:
            self._since, self._expires = now, now + self._limits.body_time

    def hold(self, now: float) -> None:
        """Pause, for a limited time."""
        self._held_at, self._left = now, self._expires - now
        self._expires = now + self._limits.body_time

    def resume(self, now: float) -> None:
        """Resume after a pause."""
        if self._held_at is not None:
            self._since += now - self._held_at
            self._expires, self._held_at = now + self._left, None

    def find_failure(self, now: float, body: IncomingBody) -> DocgraphError | None:
        """Return why the body is rejected now, if it is."""
        limits = self._limits
        if now >= self._expires:
            if self.is_held:
                return Overloaded("too many bodies are on their way", bound="uploads")
            return RequestTimeout("the body did not arrive in time")
        elapsed = now - self._since
        is_slow = elapsed > limits.body_grace and body.received < limits.body_rate * elapsed
        if is_slow and not self.is_held:
            rate = limits.body_rate
            return RequestTimeout(f"the body is slower than {rate} bytes per second")
        return None
