"""`bruteForceAttackGuard`: reject password guessing with 429, before a password is checked.

It counts guesses by address and user together, in a short and in a long window, and failures by
address alone, over all workers: the short window stops a flood, the long one slow attempts. It does
not count by user alone: guesses from other addresses cannot lock a user out. Credentials that were
right before from this address are no guesses and pass, even when a neighbor behind the same address
has used up all attempts. From other addresses they count: otherwise the difference between 429 and
success would answer unlimited guesses. Requests without a password, such as OPTIONS, are neither
counted nor rejected. Logging out is never rejected: when other requests are, a token is still
accepted, and a password is not checked.

No one guesses an API key (256 random bits). A wrong one counts for its address alone, and a right
one always passes: guesses of a neighbor, who may know its id, do not stop a job.

A guess is counted before the password is checked, so that concurrent guesses do not pass while the
first ones are still being checked. It is withdrawn if it was no guess: the password was right, or
could not be checked (the database is unavailable). A check continues without its caller, who may
ask again and learn from the time of the answer: so a wrong password counts then, too.
"""

from __future__ import annotations

import hmac
import math
from typing import ClassVar, Final, NamedTuple, cast
from weakref import WeakValueDictionary, finalize

from docgraph.auth.cookies.cookie import REMOVER
from docgraph.auth.credentials import (
    BasicCredentials,
    Credentials,
    MalformedCredentials,
    read_claimed_user,
    read_credentials,
)
from docgraph.auth.sections import BruteForceAttackGuard
from docgraph.auth.tokens.token import find_manager
from docgraph.config.section import PluginConfig
from docgraph.exchange import Answer, Exchange
from docgraph.exchange.errors import TooManyRequests
from docgraph.exchange.hosts import group_address
from docgraph.observe import emit
from docgraph.observe.events import LoginsBlocked
from docgraph.plugins.kinds import Interceptor, Point
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Instance, LoadingCache, WindowCounters
from docgraph.runtime.instance import SLOW_LOGINS


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
            *(
                window.read(f"guess {pair}") - window.read(f"no guess {pair}")
                for window in self._windows
            )
        )

    def count_failures(self, address: str) -> int:
        """Return the failures of one address, for all users together."""
        return self._counters.read(f"address {address}")

    def add_guess(self, pair: str) -> GuessCounts:
        """Count a guess; return the number of guesses now."""
        return GuessCounts(
            *(
                window.hit(f"guess {pair}") - window.read(f"no guess {pair}")
                for window in self._windows
            )
        )

    def withdraw(self, pair: str) -> None:
        """Subtract a counted guess: the password was right, or was not checked."""
        # Counted separately: the table cannot decrement. Both counts leave the window alike.
        for window in self._windows if self._is_open else ():
            window.hit(f"no guess {pair}")

    def add_failure(self, address: str) -> None:
        if self._is_open:
            self._counters.hit(f"address {address}")

    def forget(self, pair: str) -> None:
        """Reset the guesses: the user has logged in."""
        for window in self._windows:
            window.reset(f"guess {pair}")
            window.reset(f"no guess {pair}")

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            for window in self._windows:
                window.close()


class Attempt:
    """One login attempt; when it ends without a result, its guess is withdrawn, unless wrong.

    `digest` identifies the credentials; it is empty where they differ in each request.
    """

    __slots__ = (
        "__weakref__",
        "_attempts",
        "_release",
        "address",
        "digest",
        "is_counted",
        "is_key",
        "pair",
        "user",
    )

    def __init__(self, user: str, address: str, digest: bytes, *, is_key: bool = False) -> None:
        self.user = user
        self.is_key = is_key
        self.address = address
        self.digest = digest
        self.pair = f"{address} {user}"
        self.is_counted = False
        self._release: finalize[..., Attempt] | None = None

    def count(self, attempts: Attempts) -> GuessCounts:
        """Count the attempt as a guess; return the number of guesses now."""
        guesses = attempts.add_guess(self.pair)
        self.is_counted = True
        self._attempts = attempts
        self._release = finalize(self, attempts.withdraw, self.pair)
        self._release.atexit = False
        return guesses

    def keep(self) -> None:
        """Record that the password is wrong: the guess counts even if its callers have left."""
        if self._release is not None and self._release.detach() is not None:
            self._release = finalize(self, self._attempts.add_failure, self.address)
            self._release.atexit = False

    def complete(self) -> None:
        """Record that the result of the attempt is known: its guess is not withdrawn."""
        if self._release is not None:
            self._release.detach()

    def cancel(self) -> None:
        """Withdraw the guess now: the attempt is not made."""
        if self._release is not None:
            self._release()


NAME: Final = "bruteForceAttackGuard"
_COMPANIONS: Final = ("failedLoginCounter", "successfulLoginCounter")
_ATTEMPT: Final = "docgraph.login-attempt"
_WITH_PASSWORD: Final = frozenset({"basic", "digest"})
_KNOWN: Final = 10_000
_KNOWN_SECONDS: Final = 3600.0


def keep_guess(exchange: Exchange | None) -> None:
    """Record that the password of a login is wrong, whether or not its caller still waits."""
    attempt = None if exchange is None else exchange.attributes.get(_ATTEMPT)
    if attempt is not None:
        attempt.keep()


class LoginGuard(Interceptor):
    """Rejects password guessing before authentication; two interceptors report results to it."""

    name: ClassVar[str] = NAME
    description: ClassVar[str] = "answers 429 to those who try passwords"
    security: ClassVar[bool] = True
    point: ClassVar[Point] = Point.BEFORE_AUTH
    priority: ClassVar[int] = 1000  # after interceptors that may change the credentials
    Config = BruteForceAttackGuard

    def __init__(
        self, config: BruteForceAttackGuard, instance: Instance, registry: PluginRegistry
    ) -> None:
        self.config: BruteForceAttackGuard = config
        self._instance = instance
        self._registry = registry
        self._secret = instance.secret("logins")
        self._seconds = config.window_ms / 1000
        self._long_seconds = config.long_window_ms / 1000
        self._attempts: Attempts
        self._pending: WeakValueDictionary[bytes, Attempt] = WeakValueDictionary()
        self._known: LoadingCache[bytes, bool] = LoadingCache(_KNOWN, _KNOWN_SECONDS)
        self._reported: LoadingCache[str, bool] = LoadingCache(_KNOWN, self._seconds)
        self._is_open = False

    async def provision(self) -> None:
        self._attempts = Attempts(
            self._instance.open_counters(self._seconds),
            self._instance.open_counters(self._long_seconds, SLOW_LOGINS),
        )
        self._is_open = True

    def validate(self) -> None:
        """Check that the plugins which report the result of a login are enabled."""
        self._registry.require(_COMPANIONS, NAME)

    async def close(self) -> None:
        if self._is_open:
            self._attempts.close()

    def resolve(self, exchange: Exchange) -> bool:
        """Return whether the request has a password or an API key; a token is no guess.

        The credentials of OPTIONS are not verified.
        """
        request = exchange.request
        if request.method == "OPTIONS" or b"authorization" not in request.headers.first:
            return False
        credentials = read_credentials(request.headers)
        scheme = "" if credentials is None else credentials.scheme
        return scheme in _WITH_PASSWORD or (credentials is not None and credentials.is_api_key)

    async def handle(self, exchange: Exchange) -> Answer | None:
        """Raise `TooManyRequests`, or record the attempt and let it pass."""
        attempt = self._read_attempt(exchange)
        if attempt is None:
            return None
        try:
            if not attempt.is_key and not self._is_known(attempt):
                attempt = self._admit(attempt)
            exchange.attributes[_ATTEMPT] = attempt
        except TooManyRequests:
            if exchange.service != REMOVER:
                raise
            if not await self._has_token(exchange):
                request = exchange.request
                request.headers = request.headers.without("authorization")
        return None

    def record_result(self, exchange: Exchange) -> None:
        """Record the result of the attempt, if there was one: an account, or none."""
        attempt: Attempt | None = exchange.attributes.pop(_ATTEMPT, None)
        if attempt is None:
            return
        attempt.complete()
        if attempt.is_key:
            if exchange.account is None:
                self._check_failures(attempt)
                self._attempts.add_failure(attempt.address)
        elif exchange.account is None:
            self._known.invalidate(attempt.digest)
            self._attempts.add_failure(attempt.address)
            if attempt.is_counted:
                attempt.is_counted = False  # of those that share it, each further one is a guess
            else:
                self._attempts.add_guess(attempt.pair)
        elif not self._is_known(attempt):
            self._attempts.forget(attempt.pair)
            if attempt.digest:
                self._known.put(attempt.digest, True)

    def _read_attempt(self, exchange: Exchange) -> Attempt | None:
        """Return the login attempt; None for credentials that name no user."""
        headers = exchange.request.headers
        credentials, user = read_credentials(headers), read_claimed_user(headers)
        if credentials is None or user is None:
            return None
        client = exchange.request.connection.client
        address = group_address(client[0] if client else "")
        if credentials.is_api_key:
            return Attempt(user, address, b"", is_key=True)
        # Digest responses differ from request to request, so no digest identifies them.
        digest = self._digest(credentials, address) if credentials.scheme != "digest" else b""
        return Attempt(user, address, digest)

    async def _has_token(self, exchange: Exchange) -> bool:
        """Return whether the credentials are a token, which cannot be guessed."""
        manager = find_manager(self._registry)
        credentials = read_credentials(exchange.request.headers)
        if manager is None or credentials is None or credentials.scheme != "basic":
            return False
        try:
            given = BasicCredentials.parse(credentials.text)
        except MalformedCredentials:
            return False
        return await manager.verify(given.user, given.password) is not None

    def _is_known(self, attempt: Attempt) -> bool:
        return bool(attempt.digest) and self._known.peek(attempt.digest) is not None

    def _admit(self, attempt: Attempt) -> Attempt:
        """Return the attempt that counts: identical concurrent credentials are one attempt."""
        self._check_failures(attempt)
        if not attempt.digest:  # counted when it fails; checking it costs almost nothing
            self._check_guesses(attempt, self._attempts.count_guesses(attempt.pair), following=1)
            return attempt
        pending = self._pending.get(attempt.digest)
        if pending is not None and pending.pair == attempt.pair:
            return pending
        guesses = attempt.count(self._attempts)
        try:
            self._check_guesses(attempt, guesses)
        except TooManyRequests:
            attempt.cancel()  # otherwise a client that keeps trying would never be admitted again
            raise
        self._pending[attempt.digest] = attempt
        return attempt

    def _check_failures(self, attempt: Attempt) -> None:
        failures = self._attempts.count_failures(attempt.address)
        if failures >= self.config.max_failed_attempts_per_address:
            raise self._reject(attempt, "address", self._seconds)

    def _check_guesses(self, attempt: Attempt, guesses: GuessCounts, following: int = 0) -> None:
        """Raise `TooManyRequests` when there are too many, including those still to follow."""
        scope = "address-and-user"
        if guesses.long + following > self.config.max_failed_attempts_long_window:
            raise self._reject(attempt, scope, self._long_seconds)
        if guesses.short + following > self.config.max_failed_attempts:
            raise self._reject(attempt, scope, self._seconds)

    def _digest(self, credentials: Credentials, address: str) -> bytes:
        """Return a digest of the credentials from this address; they are not stored."""
        return hmac.digest(self._secret, f"{address} {credentials.text}".encode(), "sha256")

    def _reject(self, attempt: Attempt, scope: str, window: float) -> TooManyRequests:
        user = attempt.user if scope == "address-and-user" else ""
        subject = f"{window} {attempt.address} {user}"
        if self._reported.peek(subject) is None:  # once per window, not once per attempt
            self._reported.put(subject, True)
            emit(LoginsBlocked(scope, attempt.address, user, window))
        seconds = math.ceil(window)
        return TooManyRequests(
            "too many failed logins",
            hint=f"try again in {seconds} s",
            headers=[("Retry-After", str(seconds))],
        )


class _AttemptReporter(Interceptor):
    """Reports the result of authentication to the guard; inactive when the guard is disabled."""

    security: ClassVar[bool] = True
    priority: ClassVar[int] = 0
    only_with_attribute: ClassVar[str] = _ATTEMPT

    def __init__(self, config: PluginConfig, registry: PluginRegistry) -> None:
        self.config = config
        self._registry = registry
        self._guard: LoginGuard | None = None

    async def provision(self) -> None:
        self._guard = cast("LoginGuard | None", self._registry.find(NAME))

    async def handle(self, exchange: Exchange) -> Answer | None:
        if self._guard is not None:
            self._guard.record_result(exchange)
        return None


class FailedLogins(_AttemptReporter):
    """Reports a failed login, after the credentials (401) or the request (403) were rejected."""

    name: ClassVar[str] = _COMPANIONS[0]
    description: ClassVar[str] = "counts failed logins for bruteForceAttackGuard"
    point: ClassVar[Point] = Point.AFTER_FAILED_AUTH


class SuccessfulLogins(_AttemptReporter):
    """Reports a successful login."""

    name: ClassVar[str] = _COMPANIONS[1]
    description: ClassVar[str] = "forgets the failures of those who log in"
    point: ClassVar[Point] = Point.AFTER_AUTH
