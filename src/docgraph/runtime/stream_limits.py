"""Limits on open streams per user and per address, for this worker's share of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from docgraph.exchange import Account
from docgraph.exchange.errors import TooManyRequests


class StreamLimits:
    """A slot is acquired when a stream opens and released when it ends.

    `what` names the streams in messages.
    """

    def __init__(self, what: str, *, per_user: int, per_address: int) -> None:
        self._what = what
        self._per_user = per_user
        self._per_address = per_address
        self._taken: Counter[tuple[str, str]] = Counter()

    def acquire(
        self, account: Account | None, client: tuple[str, int] | None
    ) -> Callable[[], None]:
        """Acquire a slot; call the result to release it. Raise `TooManyRequests` if none."""
        keys = []
        if account is not None:
            keys.append((("user", account.name), self._per_user))
        if client is not None:
            keys.append((("address", client[0]), self._per_address))
        for (kind, name), most in keys:
            if self._taken[kind, name] >= most:
                raise TooManyRequests(
                    f"this {kind} has too many {self._what} open, {most} of them",
                    hint="close one of them first",
                )
        self._taken.update(key for key, _ in keys)
        return lambda: self._give_back([key for key, _ in keys])

    def _give_back(self, keys: list[tuple[str, str]]) -> None:
        for key in keys:
            self._taken[key] -= 1
            if not self._taken[key]:
                del self._taken[key]
