"""Passwords: what is stored for one, and whether another one is the same.

Two ways of keeping them behave alike: `BcryptPasswords` and `PlainPasswords`. Every failed check
does the work of the most expensive hash that is stored: a cheaper hash is followed by checks of
decoys, and for an unknown user a decoy is checked (decision 53). Nothing here keeps a password:
what is remembered of a successful check is a keyed digest, bound to the hash that is stored, so
that it is worth nothing once the user has another one.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from functools import cache, partial
from typing import Final, Protocol

import bcrypt

from docgraph.auth.authenticators.sections import BCRYPT_HASH, MAX_COST
from docgraph.exchange.errors import RequestError
from docgraph.runtime import (
    AFTER_READ,
    Blocking,
    Generations,
    Lane,
    LoadingCache,
    count_cores,
    run_blocking,
)
from docgraph.runtime.clock import elapsed

__all__ = [
    "MAX_BYTES",
    "BcryptPasswords",
    "Hashed",
    "Passwords",
    "PlainPasswords",
    "are_equal",
    "build_ha1",
    "check_password",
    "encode_text",
    "find_cost",
    "hash_password",
    "open_lane",
]

MAX_BYTES: Final = 72  # bcrypt does not look at what comes after
_QUEUE: Final = 32
_LONGEST_WAIT: Final = 5.0  # seconds; later it would look as if the database were away
_ALPHABET: Final = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_DIGEST_CHARACTERS: Final = 31
_LOWEST_COST: Final = 4
_PREFIX: Final = b"2a"  # the one that every implementation of bcrypt reads (decision 47)
_HIGHEST: Final = "password-cost"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_COMPARE_KEY: Final = secrets.token_bytes(32)


class Hashed(str):
    """A password that is a hash already.

    Values that come from outside are plain texts, whatever they look like; only docgraph itself
    makes one of these, for the first user of the configuration.
    """

    __slots__ = ()


class Passwords(Protocol):
    """One way of keeping passwords."""

    async def prepare(self, password: str) -> str:
        """What is stored for a new password; raises `RequestError` for an impossible one."""
        ...

    async def verify(self, user: str, password: str, stored: str | None) -> bool:
        """Whether it is the password; `stored` is None for a user who is not there."""
        ...

    def record(self, stored: str | None) -> None:
        """Learn from what is stored for a user how expensive passwords are."""
        ...

    def is_outdated(self, stored: str) -> bool:
        """Whether a new hash of the same password would be harder to break."""
        ...

    async def rehash(self, user: str, password: str) -> str:
        """A new hash of a password that was verified; the pair is remembered with it."""
        ...

    async def close(self) -> None:
        """Give up what is being checked."""


class BcryptPasswords:
    """Passwords hashed with bcrypt, in a bounded lane off the event loop.

    Identical checks at the same time are one check. A pair of user and password that was right is
    remembered while it is used at least every `ttl` seconds, `size` pairs at most.
    """

    def __init__(  # noqa: PLR0913 - where it runs, what it shares, and its options
        self,
        lane: Lane,
        secret: bytes,
        generations: Generations,
        *,
        cost: int,
        size: int,
        ttl: float,
        clock: Callable[[], float] = elapsed,
    ) -> None:
        self._lane = lane
        self._secret = secret
        self._cost = cost
        self._generations = generations
        generations.raise_to(_HIGHEST, cost)  # new passwords and logins bring such hashes
        self._verified: LoadingCache[bytes, bool] = LoadingCache(size, ttl, AFTER_READ, clock=clock)

    async def prepare(self, password: str) -> str:
        """The hash of a new password, with a salt of its own."""
        return await run_blocking(self._lane, hash_password, password, self._cost)

    def record(self, stored: str | None) -> None:
        """Failed checks cost as much as this hash, on all workers, from now on."""
        cost = find_cost(stored)
        if cost is not None:
            self._generations.raise_to(_HIGHEST, cost)

    def is_outdated(self, stored: str) -> bool:
        """Whether the hash is cheaper than new ones; its prefix says nothing about that."""
        cost = find_cost(stored)
        return cost is not None and cost < self._cost

    async def rehash(self, user: str, password: str) -> str:
        """The hash that takes the place of a cheaper one."""
        given = password.encode()  # it was verified: whatever it holds, it can be hashed
        fresh = await run_blocking(self._lane, _hash, given, self._cost)
        self._verified.put(_bind(self._secret, fresh, user, given), True)
        return fresh

    async def verify(self, user: str, password: str, stored: str | None) -> bool:
        """Whether the password fits the hash; one that is too long fits none."""
        given = encode_text(password)
        if given is None or len(given) > MAX_BYTES:
            return False
        self.record(stored)
        cost = self._generations.read(_HIGHEST)
        is_known = find_cost(stored) is not None
        expected = stored if stored is not None and is_known else _build_decoy(cost)
        key = _bind(self._secret, expected, user, given)
        try:
            await self._verified.get(key, partial(self._check, given, expected, cost))
        except _WrongPasswordError:
            return False
        return is_known

    async def close(self) -> None:
        """Give up what is being checked."""
        await self._verified.close()

    async def _check(self, given: bytes, expected: str, cost: int, key: bytes) -> bool:
        # Raised and not returned: the cache keeps results, and must not keep wrong passwords.
        if not await run_blocking(self._lane, _matches, given, expected, cost):
            raise _WrongPasswordError
        return True


class PlainPasswords:
    """Passwords kept as they are."""

    async def prepare(self, password: str) -> str:
        """The password itself."""
        _check_new(password)
        return password

    async def verify(self, user: str, password: str, stored: str | None) -> bool:
        """Whether both are the same, in constant time."""
        return are_equal(password, stored)

    def record(self, stored: str | None) -> None:
        """All of them cost the same."""

    def is_outdated(self, stored: str) -> bool:
        """A text is what it is."""
        return False

    async def rehash(self, user: str, password: str) -> str:
        """The password itself."""
        return password

    async def close(self) -> None:
        """Nothing runs."""


class _WrongPasswordError(Exception):
    """Not an error of the program: the way a wrong password stays out of the cache."""


def open_lane(blocking: Blocking) -> Lane:
    """The lane of everything that computes bcrypt: as many as there are cores, and 32 waiting.

    Fewer where `core.workers-scheduler-parallelism` is lower: this is all computing.
    """
    width = min(count_cores(), blocking.parallelism)
    return blocking.lane("bcrypt", width, _QUEUE, _LONGEST_WAIT)


def hash_password(password: str, cost: int) -> str:
    """The bcrypt hash; takes long, for use in a thread or a command."""
    return _hash(check_password(password), cost)


def find_cost(stored: str | None) -> int | None:
    """The cost of a hash that somebody can log in with; None for anything else."""
    shape = BCRYPT_HASH.fullmatch(stored) if stored is not None else None
    cost = int(shape[1]) if shape is not None else 0
    return cost if _LOWEST_COST <= cost <= MAX_COST else None


def check_password(password: str) -> bytes:
    """The password as it is hashed; raises `RequestError` for one that cannot be."""
    encoded = _check_new(password)
    if len(encoded) > MAX_BYTES:
        raise RequestError(
            f"the password is longer than {MAX_BYTES} bytes",
            hint="bcrypt does not look at the rest: choose a shorter one",
        )
    return encoded


def are_equal(given: str, stored: str | None) -> bool:
    """Whether two texts are the same, in a time that depends on neither of them."""
    expected = None if stored is None else encode_text(stored)
    left = hmac.digest(_COMPARE_KEY, encode_text(given) or b"", "sha256")
    right = hmac.digest(_COMPARE_KEY, expected or b"", "sha256")
    # An empty password is never right: it stands for "none" above.
    return hmac.compare_digest(left, right) and bool(expected) and bool(given)


def build_ha1(algorithm: str, user: str, realm: str, password: str) -> str:
    """What digest authentication wants to know of a password (RFC 7616 3.4.2), in hex."""
    text = f"{user}:{realm}:{password}".encode()
    if algorithm == "MD5":
        return hashlib.md5(text, usedforsecurity=False).hexdigest()  # the protocol's own choice
    if algorithm == "SHA-256":
        return hashlib.sha256(text).hexdigest()
    raise ValueError(f"not an algorithm of digest authentication: {algorithm}")


def encode_text(text: str) -> bytes | None:
    """UTF-8, or None for a text that has none: half of a surrogate pair, from a broken client."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return None


def _check_new(password: str) -> bytes:
    encoded = encode_text(password)
    if encoded is None:
        raise RequestError("the password is not valid Unicode")
    if not encoded:
        raise RequestError("the password is empty", hint="null makes a user who cannot log in")
    if _CONTROL.search(password):
        # RFC 7617 2: no client may send one, so that nobody could ever log in with it.
        raise RequestError("the password holds a control character")
    return encoded


def _hash(given: bytes, cost: int) -> str:
    return bcrypt.hashpw(given, bcrypt.gensalt(cost, prefix=_PREFIX)).decode("ascii")


def _matches(given: bytes, expected: str, cost: int) -> bool:
    """Whether the password fits the hash; if not, the work of a check of that cost was done.

    A hash of cost n takes 2^n rounds. What is missing to 2^cost after a cheaper one are checks of
    the costs n, n + 1, … cost - 1, which add up to exactly that.
    """
    try:
        if bcrypt.checkpw(given, expected.encode()):
            return True
        missing = range(int(expected[4:6]), cost)
    except ValueError:  # a damaged hash, for which bcrypt does no work at all
        missing = range(cost, cost + 1)
    for one in missing:
        bcrypt.checkpw(given, _build_decoy(one).encode())
    return False


@cache
def _build_decoy(cost: int) -> str:
    """A hash of that cost of no password at all; making a real one would only take time."""
    digest = "".join(secrets.choice(_ALPHABET) for _ in range(_DIGEST_CHARACTERS))
    return bcrypt.gensalt(cost).decode("ascii") + digest


def _bind(secret: bytes, stored: str, user: str, given: bytes) -> bytes:
    """A digest of the hash, the user and the password, of which none can be told from another."""
    name = (encode_text(user) or b"").hex()
    return hmac.digest(secret, f"{stored}:{name}:".encode() + given, "sha256")
