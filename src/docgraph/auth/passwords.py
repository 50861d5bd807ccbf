"""Password hashing and verification, safe against timing attacks and user enumeration.

Two kinds of storage have the same interface: `BcryptPasswords` and `PlainPasswords`. Every failed
check does the work of the most expensive stored hash: a cheaper hash is followed by checks of
decoys, and for an unknown user a decoy is checked (decision 53). Nothing here stores a password:
the cache of successful checks contains a keyed digest, bound to the stored hash, so that it is
useless after a change of the password.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final, NamedTuple

import bcrypt

from docgraph.auth.authenticators.sections import BCRYPT_HASH, MAX_COST
from docgraph.auth.brute_force import keep_guess
from docgraph.auth.password_queue import PasswordQueue, find_login, reject_login
from docgraph.exchange import Exchange
from docgraph.exchange.errors import RequestError
from docgraph.exchange.hosts import group_address
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
from docgraph.runtime.shared_results import ResultState, SharedResults

MAX_BYTES: Final = 72  # bcrypt ignores further bytes
_QUEUE: Final = 32
_LONGEST_WAIT: Final = 5.0  # seconds; longer would look as if the database were unavailable
_RESERVE: Final = 5.0  # seconds of the patience for users and rules, which are read after the wait
_SECONDS: Final = 0.25  # of a check of cost 12, before one was measured
# Seconds until another worker repeats a check whose worker was killed, for which a right password
# is known to the other workers, and for which a wrong one is reported to those that wait for it.
_CLAIMED, _SHARED, _REPORTED = 30.0, 300.0, 2.0
_POLL: Final = 0.02
_ALPHABET: Final = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_DIGEST_CHARACTERS: Final = 31
_LOWEST_COST: Final = 4
_PREFIX: Final = b"2a"  # the prefix that every implementation of bcrypt reads (decision 47)
_HIGHEST: Final = "password-cost"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_COMPARE_KEY: Final = secrets.token_bytes(32)


class Hashed(str):
    """A password that is already a hash.

    Values from outside are plain texts, whatever they look like; only docgraph itself creates one
    of these, for the first user of the configuration.
    """

    __slots__ = ()


class BcryptPasswords:
    """Passwords hashed with bcrypt, in a bounded lane off the event loop.

    Identical concurrent checks are one check, in all workers that share `results`. A pair of user
    and password that was right is cached while it is used at least every `ttl` seconds, `size`
    pairs at most.
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
        results: SharedResults | None = None,
        clock: Callable[[], float] = elapsed,
    ) -> None:
        self._lane = lane
        self._queue = PasswordQueue(lane.concurrency, _SECONDS * 2.0 ** (cost - 12))
        self._results = results
        self._secret = secret
        self._cost = cost
        self._generations = generations
        generations.raise_to(_HIGHEST, cost)  # new passwords and logins produce such hashes
        self._verified: LoadingCache[bytes, bool] = LoadingCache(size, ttl, AFTER_READ, clock=clock)

    async def prepare(self, password: str) -> str:
        """Return the hash of a new password, with its own salt."""
        return await run_blocking(self._lane, hash_password, password, self._cost)

    def record(self, stored: str | None) -> None:
        """Raise the cost of failed checks, on all workers, to that of this hash."""
        cost = find_cost(stored)
        if cost is not None:
            self._generations.raise_to(_HIGHEST, cost)

    def is_outdated(self, stored: str) -> bool:
        """Return whether the hash is cheaper than new ones; its prefix does not matter."""
        cost = find_cost(stored)
        return cost is not None and cost < self._cost

    async def rehash(self, user: str, password: str) -> str:
        """Return the hash that replaces a cheaper one."""
        given = password.encode()  # it was verified, so it can be hashed
        fresh = await run_blocking(self._lane, _hash, given, self._cost)
        key = _bind(self._secret, fresh, user, given)
        self._verified.put(key, True)
        if self._results is not None:
            self._results.finish(key, ResultState.SUCCEEDED, _SHARED)
        return fresh

    async def verify(self, user: str, password: str, stored: str | None) -> bool:
        """Return whether the password matches the hash; one that is too long never does."""
        given = encode_text(password)
        if given is None or len(given) > MAX_BYTES:
            return False
        self.record(stored)
        cost = self._generations.read(_HIGHEST)
        is_known = find_cost(stored) is not None
        expected = stored if stored is not None and is_known else _build_decoy(cost)
        key = _bind(self._secret, expected if is_known else "", user, given)
        if self._is_verified(key):
            return True
        shares = (f"user {user}", *_find_address())
        try:
            await self._wait(key, _Check(given, expected, cost, shares))
        except _WrongPasswordError:
            return False
        return is_known

    async def close(self) -> None:
        await self._verified.close()
        if self._results is not None:
            self._results.close()

    def _is_verified(self, key: bytes) -> bool:
        """Return whether this worker or another one has found the password to be right."""
        if self._verified.find(key) is not None:
            return True
        if self._results is None or self._results.read(key) is not ResultState.SUCCEEDED:
            return False
        self._verified.put(key, True)
        return True

    async def _wait(self, key: bytes, check: _Check) -> None:
        """Wait for the result while the request may; the check continues, and has it later.

        No login is rejected before: a forecast can be wrong, and a wait ends with the result.
        """
        login = find_login()
        load = partial(self._check, check, login)
        if login is None:
            await self._verified.get(key, load)
            return
        patience = login.deadline.find_patience(None)
        longest = None if patience is None else patience - min(_RESERVE, patience / 2)
        try:
            async with login.outside_queue():
                with login.deadline.waiting():
                    async with asyncio.timeout(longest):
                        await self._verified.get(key, load)
        except TimeoutError:
            if not self._is_verified(key):  # another worker may be ahead of our queue
                raise reject_login(self._queue.foresee(key, self._is_verified)) from None

    async def _check(self, check: _Check, login: Exchange | None, key: bytes) -> bool:
        """Return True, or raise the error for a wrong password: only right ones are cached.

        A wrong one counts as a guess even if its caller has left.
        """
        outcome = None
        while outcome is None:
            run = partial(run_blocking, self._lane, self._match_once, check, key)
            outcome = await self._queue.run(key, check.shares, run)
            if outcome is None:
                assert self._results is not None  # noqa: S101 - only then there are other workers
                while (state := self._results.read(key)) is ResultState.RUNNING:  # noqa: ASYNC110
                    await asyncio.sleep(_POLL)  # another process has no event of ours
                outcome = None if state is ResultState.UNKNOWN else state is ResultState.SUCCEEDED
        if not outcome:
            keep_guess(login)
            raise _WrongPasswordError
        return True

    def _match_once(self, check: _Check, key: bytes) -> bool | None:
        """Return whether the password is right; None while another worker checks it."""
        state = ResultState.UNKNOWN
        if self._results is not None:
            state = self._results.claim(key, _CLAIMED)
        if state is ResultState.SUCCEEDED or state is ResultState.RUNNING:
            return True if state is ResultState.SUCCEEDED else None
        is_right, began = False, time.monotonic()
        try:
            is_right = _matches(check.given, check.expected, check.cost)
        finally:
            if self._results is not None:
                result = ResultState.SUCCEEDED if is_right else ResultState.FAILED
                self._results.finish(key, result, _SHARED if is_right else _REPORTED)
        self._queue.record(time.monotonic() - began)
        return is_right


class _Check(NamedTuple):
    """A password check: the password, the hash, its cost, and whose turn it takes."""

    given: bytes
    expected: str
    cost: int
    shares: tuple[str, ...]


def _find_address() -> tuple[str, ...]:
    login = find_login()
    client = None if login is None else login.request.connection.client
    return () if client is None else (f"address {group_address(client[0])}",)


class PlainPasswords:
    """Passwords stored as plain text."""

    async def prepare(self, password: str) -> str:
        _check_new(password)
        return password

    async def verify(self, user: str, password: str, stored: str | None) -> bool:
        """Return whether both are equal, in constant time."""
        return are_equal(password, stored)

    def record(self, stored: str | None) -> None:
        """Do nothing: all checks cost the same."""

    def is_outdated(self, stored: str) -> bool:
        return False

    async def rehash(self, user: str, password: str) -> str:
        return password

    async def close(self) -> None:
        """Do nothing: there is no background work."""


Passwords = BcryptPasswords | PlainPasswords


class _WrongPasswordError(Exception):
    """Signals a wrong password, so that the cache stores nothing; not a fault."""


def open_lane(blocking: Blocking) -> Lane:
    """Open the lane for all bcrypt work: as many threads as cores, and 32 new passwords waiting.

    Checks of passwords wait in the `PasswordQueue`.
    Fewer threads where `core.workers-scheduler-parallelism` is lower: all of it is CPU work.
    """
    width = min(count_cores(), blocking.parallelism)
    return blocking.lane("bcrypt", width, _QUEUE, _LONGEST_WAIT)


def hash_password(password: str, cost: int) -> str:
    """Return the bcrypt hash; slow, for use in a thread or a command."""
    return _hash(check_password(password), cost)


def find_cost(stored: str | None) -> int | None:
    """Return the cost of a hash that allows a login; None for other values."""
    shape = BCRYPT_HASH.fullmatch(stored) if stored is not None else None
    cost = int(shape[1]) if shape is not None else 0
    return cost if _LOWEST_COST <= cost <= MAX_COST else None


def check_password(password: str) -> bytes:
    """Return the password as it is hashed; raises `RequestError` for an invalid one."""
    encoded = _check_new(password)
    if len(encoded) > MAX_BYTES:
        raise RequestError(
            f"the password is longer than {MAX_BYTES} bytes",
            hint="bcrypt ignores the rest: choose a shorter one",
        )
    return encoded


def are_equal(given: str, stored: str | None) -> bool:
    """Return whether two texts are equal, in a time that depends on neither of them."""
    expected = None if stored is None else encode_text(stored)
    left = hmac.digest(_COMPARE_KEY, encode_text(given) or b"", "sha256")
    right = hmac.digest(_COMPARE_KEY, expected or b"", "sha256")
    # An empty password is never right: it means "none" above.
    return hmac.compare_digest(left, right) and bool(expected) and bool(given)


DIGEST_HASHES: Final[Mapping[str, Callable[[bytes], Any]]] = {
    # Old clients support nothing but MD5; its use is limited to them.
    "MD5": partial(hashlib.md5, usedforsecurity=False),
    "SHA-256": hashlib.sha256,
}


def build_ha1(algorithm: str, user: str, realm: str, password: str) -> str:
    """Return the HA1 of a password for digest authentication (RFC 7616 3.4.2), in hex."""
    if algorithm not in DIGEST_HASHES:
        raise ValueError(f"not an algorithm of digest authentication: {algorithm}")
    ha1: str = DIGEST_HASHES[algorithm](f"{user}:{realm}:{password}".encode()).hexdigest()
    return ha1


def encode_text(text: str) -> bytes | None:
    """Encode as UTF-8; None for a lone surrogate, from a broken client."""
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
        # RFC 7617 2: no client may send one, so no login with it would be possible.
        raise RequestError("the password holds a control character")
    return encoded


def _hash(given: bytes, cost: int) -> str:
    return bcrypt.hashpw(given, bcrypt.gensalt(cost, prefix=_PREFIX)).decode("ascii")


def _matches(given: bytes, expected: str, cost: int) -> bool:
    """Return whether the password matches; a mismatch does the work of a check of that cost.

    A hash of cost n takes 2^n rounds. The difference between a cheaper hash and 2^cost are checks
    of the costs n, n + 1, … cost - 1, which add up to exactly that.
    """
    try:
        if bcrypt.checkpw(given, expected.encode()):
            return True
        missing = range(int(expected[4:6]), cost)
    except ValueError:  # a damaged hash, for which bcrypt does no work at all
        missing = range(cost, cost + 1)
    for algorithm in missing:
        bcrypt.checkpw(given, _build_decoy(algorithm).encode())
    return False


@cache
def _build_decoy(cost: int) -> str:
    """Build a hash of that cost that matches no password; a real one would only take time."""
    digest = "".join(secrets.choice(_ALPHABET) for _ in range(_DIGEST_CHARACTERS))
    return bcrypt.gensalt(cost).decode("ascii") + digest


def _bind(secret: bytes, stored: str, user: str, given: bytes) -> bytes:
    """Return a digest that binds the hash, the user and the password unambiguously."""
    name = (encode_text(user) or b"").hex()
    return hmac.digest(secret, f"{stored}:{name}:".encode() + given, "sha256")


_LONGEST: Final = 72  # characters; the time grows faster than the text


@dataclass(frozen=True, slots=True)
class Rating:
    """The score of a password and how to improve it."""

    score: int
    warning: str = ""
    suggestions: tuple[str, ...] = ()


class Strength:
    """Rejects passwords below a score."""

    def __init__(self, blocking: Blocking, minimum: int) -> None:
        # One at a time: the library stores the words of the current call in a global variable.
        self._lane = blocking.lane("password-strength", 1, _QUEUE)
        self._minimum = minimum

    async def check(self, password: str, *, words: Sequence[str] = (), place: str = "") -> None:
        """Raise `RequestError` for a weak password; `words` are likely guesses."""
        rating = await run_blocking(self._lane, rate, password, words)
        if rating.score >= self._minimum:
            return
        advice: dict[str, Any] = {}
        if rating.warning:
            advice["warning"] = rating.warning
        if rating.suggestions:
            advice["suggestions"] = list(rating.suggestions)
        raise RequestError(
            f"Password is too weak{place}",  # the specification's own text
            hint=f"its strength is {rating.score} of 4 and has to be {self._minimum} at least",
            fields=advice,
        )


def rate(password: str, words: Sequence[str] = ()) -> Rating:
    """Rate a password; slow, for use in a thread."""
    from zxcvbn import zxcvbn  # its word lists are large, and most instances never need them

    result = zxcvbn(password[:_LONGEST], user_inputs=[word for word in words if word])
    feedback = result["feedback"]
    return Rating(result["score"], feedback["warning"] or "", tuple(feedback["suggestions"]))
