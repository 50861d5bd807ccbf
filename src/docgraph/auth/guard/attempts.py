"""What the brute force guard counts: guesses by address and user, failures by address.

Guesses are counted in two windows: a short one stops a flood, a long one those who try slowly.

A guess is counted before the password is checked, so that many at once do not slip through while
the first ones are still being checked, and is taken back if it turns out to have been none: the
password was right, or nobody could check it (the database is away, the client left).
"""

from __future__ import annotations

import ipaddress
from typing import Final, NamedTuple
from weakref import finalize

from docgraph.runtime import WindowCounters

__all__ = ["Attempt", "Attempts", "Guesses", "group_address"]

_IPV6_CUSTOMER: Final = 64  # the bits of an address that one customer cannot choose


class Guesses(NamedTuple):
    """How many there are in each window."""

    short: int
    long: int


class Attempts:
    """Counts over all workers of the instance."""

    def __init__(self, short: WindowCounters, long: WindowCounters) -> None:
        self._counters = short
        self._windows = (short, long)
        self._is_open = True

    def count_guesses(self, pair: str) -> Guesses:
        """Guesses of one address at one user."""
        return Guesses(
            *(one.read(f"guess {pair}") - one.read(f"no guess {pair}") for one in self._windows)
        )

    def count_failures(self, address: str) -> int:
        """Failures of one address, whoever they were about."""
        return self._counters.read(f"address {address}")

    def add_guess(self, pair: str) -> Guesses:
        """Count a guess; the result is how many there are now."""
        return Guesses(
            *(one.hit(f"guess {pair}") - one.read(f"no guess {pair}") for one in self._windows)
        )

    def take_back(self, pair: str) -> None:
        """What was counted was no guess."""
        # Counted apart: the table knows no less, and two counts slide out of the window alike.
        for one in self._windows if self._is_open else ():
            one.hit(f"no guess {pair}")

    def add_failure(self, address: str) -> None:
        """Count a failure of an address."""
        self._counters.hit(f"address {address}")

    def forget(self, pair: str) -> None:
        """Forget the guesses: the user has come."""
        for one in self._windows:
            one.reset(f"guess {pair}")
            one.reset(f"no guess {pair}")

    def close(self) -> None:
        """Give back the memory."""
        if self._is_open:
            self._is_open = False
            for one in self._windows:
                one.close()


class Attempt:
    """One try to log in; when it ends without a result, its guess is taken back.

    `digest` stands for the credentials; it is empty where each request has others.
    """

    __slots__ = ("__weakref__", "_release", "address", "digest", "is_counted", "pair", "user")

    def __init__(self, user: str, address: str, digest: bytes) -> None:
        self.user = user
        self.address = address
        self.digest = digest
        self.pair = f"{address} {user}"
        self.is_counted = False
        self._release: finalize[..., Attempt] | None = None

    def count(self, attempts: Attempts) -> Guesses:
        """Count it as a guess; the result is how many there are now."""
        guesses = attempts.add_guess(self.pair)
        self.is_counted = True
        self._release = finalize(self, attempts.take_back, self.pair)
        self._release.atexit = False
        return guesses

    def settle(self) -> None:
        """Its result is known: nothing is left to take back."""
        if self._release is not None:
            self._release.detach()

    def cancel(self) -> None:
        """It does not take place: take back what was counted, now."""
        if self._release is not None:
            self._release()


def group_address(address: str) -> str:
    """The address, or for IPv6 its network: a customer has more addresses than there are tries."""
    try:
        parsed = ipaddress.ip_address(address.split("%", 1)[0])
    except ValueError:
        return address  # a socket of this machine has none
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _IPV6_CUSTOMER), strict=False))
