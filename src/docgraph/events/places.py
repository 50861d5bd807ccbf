"""How many streams one user, and one address, have open: in this worker, which has its share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import ceil

from docgraph.events.sections import Events
from docgraph.exchange import Exchange
from docgraph.exchange.errors import TooManyRequests

__all__ = ["Places"]


class Places:
    """Taken when a stream is opened, given back when it is over."""

    def __init__(self, options: Events, workers: int) -> None:
        self._per_user = ceil(options.max_connections_per_user / workers)
        self._per_address = ceil(options.max_connections_per_address / workers)
        self._taken: Counter[tuple[str, str]] = Counter()

    def take(self, exchange: Exchange) -> Callable[[], None]:
        """A place, given back by calling the result; raises `TooManyRequests` without one."""
        keys = []
        if exchange.account is not None:
            keys.append((("user", exchange.account.name), self._per_user))
        client = exchange.request.connection.client
        if client is not None:
            keys.append((("address", client[0]), self._per_address))
        for (kind, name), most in keys:
            if self._taken[kind, name] >= most:
                raise TooManyRequests(
                    f"this {kind} has too many change streams open, {most} of them",
                    hint="close one of them first",
                )
        self._taken.update(key for key, _ in keys)
        return lambda: self._give_back([key for key, _ in keys])

    def _give_back(self, keys: list[tuple[str, str]]) -> None:
        for key in keys:
            self._taken[key] -= 1
            if not self._taken[key]:
                del self._taken[key]
