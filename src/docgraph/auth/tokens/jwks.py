"""JWT keys: signature algorithms, and key sets that are refreshed for key rotation (RFC 7517).

The configuration chooses the one algorithm, never the token (RFC 8725 3.1): a key is prepared for
it once, and cannot be used for another. Keys are found by the `kid` of a token. An unknown `kid`
may belong to a new key, so the set is fetched again, but never twice within `PAUSE`, however many
tokens name keys that do not exist. When a fetch fails, the previous set stays in use.
"""

from __future__ import annotations

import asyncio
import base64
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import IO, Any, Final
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt.algorithms import Algorithm as Primitive
from jwt.algorithms import get_default_algorithms
from jwt.exceptions import InvalidKeyError

from docgraph.auth.tokens.sections import hash_bytes
from docgraph.exchange.errors import Overloaded
from docgraph.observe import emit
from docgraph.observe.events import BackgroundFailed
from docgraph.runtime import cancel_until_over
from docgraph.runtime.clock import elapsed

RSA_BITS: Final = range(2048, 8193)
MAX_EXPONENT: Final = (1 << 32) - 1  # a greater one only costs time
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]+")

VerificationKey = bytes | RSAPublicKey


class KeyRefused(ValueError):
    """A key that cannot or must not be used."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """`name` as tokens contain it, for example `HS256`."""

    name: str
    primitive: Primitive
    allow_weak_key: bool = False

    @classmethod
    def named(cls, option: str, *, allow_weak_key: bool = False) -> Algorithm:
        """Return the algorithm of an option: `HMAC256` means `HS256`, `RSA256` means `RS256`."""
        name = option.replace("HMAC", "HS").replace("RSA", "RS")
        return cls(name, get_default_algorithms()[name], allow_weak_key)

    @property
    def is_symmetric(self) -> bool:
        """Whether a verifier could sign as well."""
        return self.name.startswith("HS")

    @property
    def hash_bytes(self) -> int:
        """The length of the hash, which is the minimum length of a secret (RFC 7518 3.2)."""
        return hash_bytes(self.name)

    def verify(self, message: bytes, key: VerificationKey, signature: bytes) -> bool:
        """Return whether the signature is valid, in constant time where it matters."""
        return self.primitive.verify(message, key, signature)

    def load_secret(self, secret: bytes) -> bytes:
        """Check a secret for HMAC; a text that looks like a public key is rejected."""
        if len(secret) < self.hash_bytes and not self.allow_weak_key:
            raise KeyRefused(
                f"the secret has {len(secret)} bytes, {self.name} needs {self.hash_bytes}"
            )
        try:
            prepared: bytes = self.primitive.prepare_key(secret)
        except InvalidKeyError:
            raise KeyRefused(f"{self.name} needs a secret, not a key of another kind") from None
        return prepared

    def load_pem(self, pem: bytes) -> RSAPublicKey:
        """Load the public key of PEM text, alone or in a certificate."""
        if b"PRIVATE KEY-----" in pem:
            raise KeyRefused("this is a private key, which belongs to the issuer alone")
        try:
            if b"-----BEGIN CERTIFICATE-----" in pem:
                key: Any = x509.load_pem_x509_certificate(pem).public_key()
            else:
                key = load_pem_public_key(pem)
        except (ValueError, UnsupportedAlgorithm):
            raise KeyRefused("not the PEM text of a public key or certificate") from None
        return self._check_rsa(key)

    def load_jwk(self, jwk: Any) -> VerificationKey:
        """Load a key of a set; only its public part is read."""
        if not isinstance(jwk, dict):
            raise KeyRefused("not an object")
        if jwk.get("kty") != ("oct" if self.is_symmetric else "RSA"):
            raise KeyRefused(f"a key of another kind than {self.name} needs")
        if jwk.get("use", "sig") != "sig" or jwk.get("alg", self.name) != self.name:
            raise KeyRefused(f"not meant for signatures of {self.name}")
        operations = jwk.get("key_ops", ["verify"])
        if not isinstance(operations, list) or "verify" not in operations:
            raise KeyRefused("not meant for verifying")
        if self.is_symmetric:
            return self.load_secret(_decode(jwk.get("k")))
        modulus, exponent = (int.from_bytes(_decode(jwk.get(name))) for name in ("n", "e"))
        if exponent > MAX_EXPONENT or modulus.bit_length() >= RSA_BITS.stop:
            raise KeyRefused("a key of unreasonable size")
        try:
            return self._check_rsa(RSAPublicNumbers(exponent, modulus).public_key())
        except ValueError:
            raise KeyRefused("not the numbers of an RSA key") from None

    def _check_rsa(self, key: Any) -> RSAPublicKey:
        if not isinstance(key, RSAPublicKey):
            raise KeyRefused(f"{self.name} needs an RSA key")
        if key.key_size not in RSA_BITS:
            raise KeyRefused(
                f"the key has {key.key_size} bits, {self.name} needs at least {RSA_BITS.start}"
            )
        return key


def _decode(value: Any) -> bytes:
    if not isinstance(value, str) or not _BASE64URL.fullmatch(value.rstrip("=")):
        raise KeyRefused("a part of the key is missing, or not base64url")
    bare = value.rstrip("=")
    try:
        return base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
    except ValueError:
        raise KeyRefused("a part of the key is not base64url") from None


PAUSE: Final = 10.0  # minimum seconds between two attempts
MAX_KEYS: Final = 64


@dataclass(frozen=True, slots=True)
class FixedKey:
    """The one key of the configuration; the `kid` of a token does not matter.

    It has the methods of a `KeySet`, whose `version` changes whenever the keys do.
    """

    key: VerificationKey = field(repr=False)
    version: int = 0

    def keep_fresh(self) -> None:
        """Do nothing: the key never changes."""

    async def find(self, kid: str | None) -> Sequence[VerificationKey]:
        """Return the fixed key, whatever the `kid` of the token is."""
        return (self.key,)

    async def close(self) -> None:
        """Do nothing: there is no background work."""


@dataclass(frozen=True, slots=True)
class VerificationKeys:
    """A fetched set: by name, and all together for tokens that name none."""

    by_kid: Mapping[str, tuple[VerificationKey, ...]] = field(default_factory=dict)
    all: tuple[VerificationKey, ...] = ()
    has_names: bool = True  # otherwise the `kid` of a token does not matter

    def select(self, kid: str | None) -> tuple[VerificationKey, ...]:
        """Return the keys of that name; a mere lookup, so any name is safe."""
        return self.all if kid is None or not self.has_names else self.by_kid.get(kid, ())


def parse_pem(data: bytes, algorithm: Algorithm) -> VerificationKeys:
    return VerificationKeys(all=(algorithm.load_pem(data),), has_names=False)


def parse_keys(data: bytes, algorithm: Algorithm) -> VerificationKeys:
    """Parse the keys of a set that fit the algorithm; others are omitted."""
    try:
        decoded: Any = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        raise KeyRefused("not JSON") from None
    entries = decoded.get("keys") if isinstance(decoded, dict) else None
    if not isinstance(entries, list) or len(entries) > MAX_KEYS:
        raise KeyRefused(f"not a key set: no list 'keys', or more than {MAX_KEYS} of them")
    by_kid: dict[str, tuple[VerificationKey, ...]] = {}
    usable: list[VerificationKey] = []
    for entry in entries:
        try:
            key = algorithm.load_jwk(entry)
        except KeyRefused:
            continue  # a set serves many purposes; only some of its keys are needed
        usable.append(key)
        kid = entry.get("kid")
        if isinstance(kid, str):
            by_kid[kid] = (*by_kid.get(kid, ()), key)
    return VerificationKeys(by_kid, tuple(usable))


class KeySet:
    """The keys of `jwks` or of a file; `fetch` returns their bytes, `max_age` is in seconds."""

    def __init__(
        self,
        fetch: Callable[[], Awaitable[bytes]],
        algorithm: Algorithm,
        *,
        max_age: float,
        clock: Callable[[], float] = elapsed,
        parse: Callable[[bytes, Algorithm], VerificationKeys] = parse_keys,
    ) -> None:
        self._fetch = fetch
        self._parse = parse
        self._algorithm = algorithm
        self._max_age = max_age
        self._clock = clock
        self._keys: VerificationKeys | None = None  # None: never fetched
        self._data = b""
        self._fetched = self._attempted = float("-inf")
        self._refresh: asyncio.Task[None] | None = None
        self.version = 0

    async def load(self) -> VerificationKeys:
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

    async def find(self, kid: str | None) -> Sequence[VerificationKey]:
        """Return the keys of that name, from a new set if the current one does not have it."""
        self.keep_fresh()
        keys = self._keys.select(kid) if self._keys else ()
        if keys:
            return keys
        if self._refresh is None and self._may_attempt():
            self._start()
        if self._refresh is not None:
            await asyncio.shield(self._refresh)
        if self._keys is None:
            raise Overloaded("the keys for tokens cannot be fetched", retry_after=int(PAUSE))
        return self._keys.select(kid)

    async def close(self) -> None:
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
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> Request | None:
        raise URLError(f"the address answers {code}, a redirect, which is not followed")


_OPENER: Final = build_opener(_NoRedirects)


def is_address(source: str) -> bool:
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
