"""Rate limit of agents: requests per second of a caller, over all workers of the instance."""

from __future__ import annotations

from docgraph.auth.guard.attempts import group_address
from docgraph.exchange import Exchange
from docgraph.exchange.errors import TooManyRequests
from docgraph.runtime import WindowCounters


class Rates:
    """Counts only permitted requests, so that a caller who sends too many still gets a share."""

    def __init__(self, counters: WindowCounters, most: int) -> None:
        self._counters = counters
        self._most = most

    def count(self, exchange: Exchange) -> None:
        """Count a request; raise `TooManyRequests` if the caller has used the share."""
        key = _name_caller(exchange)
        if self._counters.read(key) >= self._most:
            raise TooManyRequests(
                f"more than {self._most} requests in a second",
                hint="try again in 1 s",
                headers=[("Retry-After", "1")],
            )
        self._counters.hit(key)

    def close(self) -> None:
        """Release the shared memory."""
        self._counters.close()


def _name_caller(exchange: Exchange) -> str:
    account = exchange.account
    if account is not None:
        return f"account {account.kind} {account.name}"
    client = exchange.request.connection.client
    return f"address {group_address(client[0]) if client else ''}"
