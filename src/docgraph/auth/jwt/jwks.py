"""JSON Web Key Sets (JWKS, RFC 7517): keys from a file or URL that are refreshed and rotated.

Keys are found by the `kid` of a token. An unknown `kid` may belong to a new key, so the set is
fetched again, but never twice within `PAUSE`, however many tokens name keys that do not exist. When
a fetch fails, the previous set stays in use.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import IO, Any, Final, Protocol
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec

from docgraph.auth.jwt.algorithms import Algorithm, Key, KeyRefused
from docgraph.exchange.errors import Overloaded
from docgraph.observe import emit
from docgraph.observe.events import BackgroundFailed
from docgraph.runtime import cancel_until_over
from docgraph.runtime.clock import elapsed

PAUSE: Final = 10.0  # minimum seconds between two attempts
MAX_KEYS: Final = 64


class KeySource(Protocol):
    """The source of a token's key; `version` changes whenever the keys do."""

    @property
    def version(self) -> int:
        """A number that identifies the current keys."""
        ...

    def keep_fresh(self) -> None:
        """Refresh the keys in time; called at each use."""

    async def find(self, kid: str | None) -> Sequence[Key]:
        """Return the keys for a token that names `kid`."""
        ...

    async def close(self) -> None:
        """Stop the background work."""


@dataclass(frozen=True, slots=True)
class FixedKey:
    """The one key of the configuration; the `kid` of a token does not matter."""

    key: Key = field(repr=False)
    version: int = 0

    def keep_fresh(self) -> None:
        """Do nothing: the key never changes."""

    async def find(self, kid: str | None) -> Sequence[Key]:
        """Return that key."""
        return (self.key,)

    async def close(self) -> None:
        """Do nothing: there is no background work."""


@dataclass(frozen=True, slots=True)
class Keys:
    """A fetched set: by name, and all together for tokens that name none."""

    by_kid: Mapping[str, tuple[Key, ...]] = field(default_factory=dict)
    all: tuple[Key, ...] = ()
    has_names: bool = True  # otherwise the `kid` of a token does not matter

    def select(self, kid: str | None) -> tuple[Key, ...]:
        """Return the keys of that name; a mere lookup, so any name is safe."""
        return self.all if kid is None or not self.has_names else self.by_kid.get(kid, ())


def parse_pem(data: bytes, algorithm: Algorithm) -> Keys:
    """Parse the one key or certificate of a PEM file."""
    return Keys(all=(algorithm.load_pem(data),), has_names=False)


def parse_keys(data: bytes, algorithm: Algorithm) -> Keys:
    """Parse the keys of a set that fit the algorithm; others are omitted."""
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
            continue  # a set serves many purposes; only some of its keys are needed
        usable.append(key)
        kid = entry.get("kid")
        if isinstance(kid, str):
            by_kid[kid] = (*by_kid.get(kid, ()), key)
    return Keys(by_kid, tuple(usable))


class KeySet:
    """The keys of `jwks` or of a file; `fetch` returns their bytes, `max_age` is in seconds."""

    def __init__(
        self,
        fetch: Callable[[], Awaitable[bytes]],
        algorithm: Algorithm,
        *,
        max_age: float,
        clock: Callable[[], float] = elapsed,
        parse: Callable[[bytes, Algorithm], Keys] = parse_keys,
    ) -> None:
        self._fetch = fetch
        self._parse = parse
        self._algorithm = algorithm
        self._max_age = max_age
        self._clock = clock
        self._keys: Keys | None = None  # None: never fetched
        self._data = b""
        self._fetched = self._attempted = float("-inf")
        self._refresh: asyncio.Task[None] | None = None
        self.version = 0

    async def load(self) -> Keys:
        """Fetch the set; raises the error of the source."""
        self._attempted = self._clock()
        data = await self._fetch()
        keys = self._parse(data, self._algorithm)
        if data != self._data:
            self._keys, self._data = keys, data
            self.version += 1
        self._fetched = self._clock()
        return keys

    def keep_fresh(self) -> None:
        """Start fetching a set that is too old; no request waits for it."""
        if self._clock() - self._fetched > self._max_age and self._may_attempt():
            self._start()

    async def find(self, kid: str | None) -> Sequence[Key]:
        """Return the keys of that name, from a new set if the current one does not have it."""
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
        """Cancel a fetch that is in progress."""
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
        except Exception as error:  # any error of a source: logged, and retried later
            emit(BackgroundFailed("jwks", error, retry_seconds=PAUSE))
        finally:
            self._refresh = None


MAX_BYTES: Final = 256 << 10
SECONDS: Final = 5.0
_CHUNK: Final = 16 << 10


class _NoRedirects(HTTPRedirectHandler):
    """Rejects redirects: only the configuration decides where keys come from."""

    def redirect_request(
        self,
        req: Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Message,
        newurl: str,
    ) -> Request | None:
        raise URLError(f"the address answers {code}, a redirect, which is not followed")


_OPENER: Final = build_opener(_NoRedirects)


def is_address(source: str) -> bool:
    """Return whether this is a URL and not a path."""
    return urlsplit(source).scheme in {"http", "https"}


def is_plain_address(source: str) -> bool:
    """Return whether keys would be transferred unprotected over a network."""
    parts = urlsplit(source)
    return parts.scheme == "http" and parts.hostname not in {"localhost", "127.0.0.1", "::1"}


def read(path: Path) -> bytes:
    """Return the bytes of a file of limited size."""
    with path.open("rb") as file:
        return _check_size(file.read(MAX_BYTES + 1))


def fetch(address: str) -> bytes:
    """Return the body of a 200 response, within `SECONDS` and `MAX_BYTES` in total."""
    end = time.monotonic() + SECONDS
    request = Request(address, headers={"Accept": "application/json"})  # noqa: S310 - see is_address
    with _OPENER.open(request, timeout=SECONDS) as answer:
        return _drain(answer, end)


def _drain(answer: Any, end: float) -> bytes:
    body = b""
    while chunk := answer.read1(_CHUNK):
        body = _check_size(body + chunk)
        if time.monotonic() > end:
            raise TimeoutError(f"the key set did not come within {SECONDS:g} s")
    return body


def _check_size(data: bytes) -> bytes:
    if len(data) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES} bytes")
    return data
