"""Stateless nonces: a time, a random part and a seal made with a shared key.

Any process with the key can distinguish our nonces from forged ones, and knows their age by the
shared clock. `counts.py` checks that each count of a nonce is used once.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from docgraph.runtime.clock import elapsed

LIFETIME: Final = 60.0  # seconds
_SKEW: Final = 60.0  # how far ahead the clock of another instance may be
_TIME: Final = struct.Struct(">Q")  # milliseconds
_RANDOM_BYTES: Final = 13
_SEAL_BYTES: Final = 18
_BODY_BYTES: Final = _TIME.size + _RANDOM_BYTES
_TEXT_LENGTH: Final = (_BODY_BYTES + _SEAL_BYTES) * 4 // 3  # a multiple of three: no padding


@dataclass(frozen=True, slots=True)
class Nonce:
    """A nonce with our seal; `id` is unique, `made` in seconds of the clock of `Nonces`."""

    id: bytes
    made: float


class Nonces:
    """Creates and parses nonces; `key` may have any length."""

    def __init__(
        self,
        key: bytes,
        *,
        lifetime: float = LIFETIME,
        clock: Callable[[], float] = elapsed,
    ) -> None:
        self._key = hmac.digest(key, b"docgraph digest nonces", hashlib.sha256)
        self._lifetime = lifetime
        self._clock = clock

    def make(self) -> str:
        """Return a fresh nonce."""
        body = _TIME.pack(int(self._clock() * 1000)) + secrets.token_bytes(_RANDOM_BYTES)
        return base64.urlsafe_b64encode(body + self._seal(body)).decode()

    def read(self, text: str) -> Nonce | None:
        """Return the nonce, however old; None for one that we did not create."""
        if len(text) != _TEXT_LENGTH or not text.isascii():
            return None
        try:
            data = base64.b64decode(text, altchars=b"-_", validate=True)
        except ValueError:
            return None
        body, seal = data[:_BODY_BYTES], data[_BODY_BYTES:]
        if not hmac.compare_digest(seal, self._seal(body)):
            return None
        return Nonce(body, _TIME.unpack_from(body)[0] / 1000)

    def is_fresh(self, nonce: Nonce) -> bool:
        """Return whether it is within its lifetime."""
        return -_SKEW <= self._clock() - nonce.made <= self._lifetime

    def is_ageing(self, nonce: Nonce) -> bool:
        """Return whether half of its lifetime is over: time to issue the next one."""
        return self._clock() - nonce.made > self._lifetime / 2

    def _seal(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, hashlib.sha256)[:_SEAL_BYTES]
