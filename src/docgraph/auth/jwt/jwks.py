"""Keys that change: a set in a file or at an address (RFC 7517), read again when it is time.

Keys are found by the `kid` of a token. A name that is not there may be that of a new key, so that
the set is fetched again, but never twice within `PAUSE`, however many tokens name keys that do not
exist. A set that cannot be fetched leaves the one before in force.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from docgraph.auth.jwt.algorithms import Algorithm, Key, KeyRefused
from docgraph.exchange.errors import Overloaded
from docgraph.observe import emit
from docgraph.observe.events import BackgroundFailed
from docgraph.runtime import cancel_until_over
from docgraph.runtime.clock import elapsed

__all__ = ["FixedKey", "KeySet", "KeySource", "Keys", "parse_keys"]

PAUSE: Final = 10.0  # seconds between two attempts, at least
MAX_KEYS: Final = 64


class KeySource(Protocol):
    """Where a token's key comes from; `version` changes whenever the keys do."""

    @property
    def version(self) -> int:
        """A number for the present keys."""
        ...

    def keep_fresh(self) -> None:
        """Called at each use: see to it that the keys are read again in time."""

    async def find(self, kid: str | None) -> Sequence[Key]:
        """The keys that a token which names `kid` may be signed with."""
        ...

    async def close(self) -> None:
        """Stop what runs in the background."""


@dataclass(frozen=True, slots=True)
class FixedKey:
    """The one key of the configuration; what a token calls it does not matter."""

    key: Key = field(repr=False)
    version: int = 0

    def keep_fresh(self) -> None:
        """It never changes."""

    async def find(self, kid: str | None) -> Sequence[Key]:
        """Always that key."""
        return (self.key,)

    async def close(self) -> None:
        """Nothing runs."""


@dataclass(frozen=True, slots=True)
class Keys:
    """A set as it was fetched: by name, and all together for tokens that name none."""

    by_kid: Mapping[str, tuple[Key, ...]] = field(default_factory=dict)
    all: tuple[Key, ...] = ()

    def select(self, kid: str | None) -> tuple[Key, ...]:
        """The keys of that name; a lookup, so that a strange name is only an unknown one."""
        return self.all if kid is None else self.by_kid.get(kid, ())


def parse_keys(data: bytes, algorithm: Algorithm) -> Keys:
    """The keys of a set that fit the algorithm; the others are left out."""
    try:
        decoded: Any = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        raise KeyRefused("not JSON") from None
    entries = decoded.get("keys") if isinstance(decoded, dict) else None
    if not isinstance(entries, list) or len(entries) > MAX_KEYS:
        raise KeyRefused(f"not a key set: no list 'keys', or more than {MAX_KEYS} of them")
    by_kid: dict[str, tuple[Key, ...]] = {}
    usable: list[Key] = []
    for entry in entries:
        try:
            key = algorithm.load_jwk(entry)
        except KeyRefused:
            continue  # a set serves many purposes; ours needs only some of its keys
        usable.append(key)
        kid = entry.get("kid")
        if isinstance(kid, str):
            by_kid[kid] = (*by_kid.get(kid, ()), key)
    return Keys(by_kid, tuple(usable))


class KeySet:
    """The keys behind `jwks`; `fetch` gives the bytes of the set, `max_age` is in seconds."""

    def __init__(
        self,
        fetch: Callable[[], Awaitable[bytes]],
        algorithm: Algorithm,
        *,
        max_age: float,
        clock: Callable[[], float] = elapsed,
    ) -> None:
        self._fetch = fetch
        self._algorithm = algorithm
        self._max_age = max_age
        self._clock = clock
        self._keys: Keys | None = None  # None: never fetched
        self._data = b""
        self._fetched = self._attempted = float("-inf")
        self._refresh: asyncio.Task[None] | None = None
        self.version = 0

    async def load(self) -> Keys:
        """Fetch the set; raises what keeps us from it."""
        self._attempted = self._clock()
        data = await self._fetch()
        keys = parse_keys(data, self._algorithm)
        if data != self._data:
            self._keys, self._data = keys, data
            self.version += 1
        self._fetched = self._clock()
        return keys

    def keep_fresh(self) -> None:
        """Begin to fetch a set that has grown old; nobody waits for it."""
        if self._clock() - self._fetched > self._max_age and self._may_attempt():
            self._start()

    async def find(self, kid: str | None) -> Sequence[Key]:
        """The keys of that name, from a new set if the present one does not have it."""
        self.keep_fresh()
        found = self._keys.select(kid) if self._keys else ()
        if found:
            return found
        if self._refresh is None and self._may_attempt():
            self._start()
        if self._refresh is not None:
            await asyncio.shield(self._refresh)
        if self._keys is None:
            raise Overloaded("the keys for tokens cannot be fetched", retry_after=int(PAUSE))
        return self._keys.select(kid)

    async def close(self) -> None:
        """Give up a fetch that is under way."""
        if self._refresh is not None:
            await cancel_until_over([self._refresh])

    def _may_attempt(self) -> bool:
        return self._clock() - self._attempted >= PAUSE

    def _start(self) -> None:
        if self._refresh is None:
            self._refresh = asyncio.create_task(self._reload(), name="jwks")

    async def _reload(self) -> None:
        try:
            await self.load()
        except Exception as error:  # whatever a source may raise: told, and tried again later
            emit(BackgroundFailed("jwks", error, retry_seconds=PAUSE))
        finally:
            self._refresh = None
