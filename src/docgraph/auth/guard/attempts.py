"""Counters of the brute force guard: guesses by address and user, failures by address.

Guesses are counted in two windows: a short one stops a flood, a long one stops slow attempts.

A guess is counted before the password is checked, so that concurrent guesses do not pass while the
first ones are still being checked. It is withdrawn if it was no guess: the password was right, or
could not be checked (the database is unavailable, the client disconnected).
"""

from __future__ import annotations

import ipaddress
from typing import Final, NamedTuple
from weakref import finalize

from docgraph.runtime import WindowCounters

_IPV6_CUSTOMER: Final = 64  # the bits of an address that one customer cannot choose


class GuessCounts(NamedTuple):
    """The number of guesses in each window."""

    short: int
    long: int


class Attempts:
    """Counters shared by all workers of the instance."""

    def __init__(self, short: WindowCounters, long: WindowCounters) -> None:
        self._counters = short
        self._windows = (short, long)
        self._is_open = True

    def count_guesses(self, pair: str) -> GuessCounts:
        """Return the guesses of one address at one user."""
        return GuessCounts(
            *(one.read(f"guess {pair}") - one.read(f"no guess {pair}") for one in self._windows)
        )

    def count_failures(self, address: str) -> int:
        """Return the failures of one address, for all users together."""
        return self._counters.read(f"address {address}")

    def add_guess(self, pair: str) -> GuessCounts:
        """Count a guess; returns the number of guesses now."""
        return GuessCounts(
            *(one.hit(f"guess {pair}") - one.read(f"no guess {pair}") for one in self._windows)
        )

    def withdraw(self, pair: str) -> None:
        """Withdraw a guess that was none."""
        # Counted separately: the table cannot decrement. Both counts leave the window alike.
        for one in self._windows if self._is_open else ():
            one.hit(f"no guess {pair}")

    def add_failure(self, address: str) -> None:
        """Count a failure of an address."""
        self._counters.hit(f"address {address}")

    def forget(self, pair: str) -> None:
        """Reset the guesses: the user has logged in."""
        for one in self._windows:
            one.reset(f"guess {pair}")
            one.reset(f"no guess {pair}")

    def close(self) -> None:
        """Release the memory."""
        if self._is_open:
            self._is_open = False
            for one in self._windows:
                one.close()


class Attempt:
    """One login attempt; when it ends without a result, its guess is withdrawn.

    `digest` identifies the credentials; it is empty where they differ in each request.
    """

    __slots__ = ("__weakref__", "_release", "address", "digest", "is_counted", "pair", "user")

    def __init__(self, user: str, address: str, digest: bytes) -> None:
        self.user = user
        self.address = address
        self.digest = digest
        self.pair = f"{address} {user}"
        self.is_counted = False
        self._release: finalize[..., Attempt] | None = None

    def count(self, attempts: Attempts) -> GuessCounts:
        """Count it as a guess; returns the number of guesses now."""
        guesses = attempts.add_guess(self.pair)
        self.is_counted = True
        self._release = finalize(self, attempts.withdraw, self.pair)
        self._release.atexit = False
        return guesses

    def complete(self) -> None:
        """Record that its result is known: nothing is left to withdraw."""
        if self._release is not None:
            self._release.detach()

    def cancel(self) -> None:
        """Withdraw the guess now: the attempt is not made."""
        if self._release is not None:
            self._release()


def group_address(address: str) -> str:
    """Return the address, or for IPv6 its network: a customer has more addresses than attempts."""
    try:
        parsed = ipaddress.ip_address(address.split("%", 1)[0])
    except ValueError:
        return address  # a Unix socket has none
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _IPV6_CUSTOMER), strict=False))
