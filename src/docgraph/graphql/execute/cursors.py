"""Cursors of connections: sort keys, encrypted and bound to the list that they belong to.

A sort key may be hidden from the caller, so a cursor is encrypted and authenticated (AES-SIV). It
is bound to the app, the collection, the field, its arguments, its order and the visible schema:
with anything else it is rejected. Equal positions have equal cursors, so that equal responses are
equal; the length of a cursor shows no more than the order of magnitude of its key.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from docgraph.codec.keyset import SortKey, decode_key, encode_key

KEY_BYTES: Final = 64
_PERSON: Final = b"docgraph cursors"  # 16 bytes at most
_SIZES: Final = (64, 128, 256, 512, 1024)  # bytes of positions, which are padded to the next one
_TAG_BYTES: Final = 16
# Characters of the texts of all cursors, in base64 without padding.
CURSOR_LENGTHS: Final = tuple((4 * (size + _TAG_BYTES) + 2) // 3 for size in _SIZES)
_MAX_TEXT: Final = 32_768  # an `_id` may be long
_PAD: Final = b"\0"


class BadCursor(ValueError):
    """A text that is no cursor of this list."""


class CursorPosition(NamedTuple):
    """The position of a document: its sort key, or its `_id` alone if the key is too long."""

    key: SortKey | None
    id: Any = None


class CursorKeys:
    """The keys that cursors are made with: the first one; all of them are accepted."""

    def __init__(self, secrets: Sequence[bytes]) -> None:
        self._ciphers = [AESSIV(secret) for secret in secrets]

    @classmethod
    def derive(cls, texts: Sequence[str]) -> CursorKeys:
        """Build the keys of configured texts."""
        hashes = [
            hashlib.blake2b(text.encode(), digest_size=KEY_BYTES, person=_PERSON) for text in texts
        ]
        return cls([digest.digest() for digest in hashes])

    @staticmethod
    def generate() -> bytes:
        """Return a new key."""
        return AESSIV.generate_key(KEY_BYTES * 8)

    def encrypt(self, content: bytes, binding: bytes) -> bytes:
        """Encrypt with the first key."""
        return self._ciphers[0].encrypt(content, [binding])

    def decrypt(self, content: bytes, binding: bytes) -> bytes:
        """Decrypt with the key that fits; raise `BadCursor`."""
        for cipher in self._ciphers:
            try:
                return cipher.decrypt(content, [binding])
            except (InvalidTag, ValueError):
                continue
        raise BadCursor


@dataclass(frozen=True, slots=True)
class Cursors:
    """The cursors of one list; `binding` is a digest of what they are bound to."""

    keys: CursorKeys
    binding: bytes

    @classmethod
    def bind(cls, keys: CursorKeys, *parts: Any) -> Cursors:
        """Build the cursors of the list that these values identify."""
        text = repr(parts).encode("utf-8", "surrogatepass")
        return cls(keys, hashlib.blake2b(text, digest_size=32).digest())

    def render(self, key: SortKey, id: Any) -> str:
        """Return the cursor of a document."""
        content = encode_key(key)
        if len(content) > _SIZES[-1]:
            content = encode_key([id])
        size = _SIZES[min(bisect_left(_SIZES, len(content)), len(_SIZES) - 1)]
        sealed = self.keys.encrypt(content.ljust(size, _PAD), self.binding)
        return _encode(sealed)

    def parse(self, text: str, length: int) -> CursorPosition:
        """Return the position of a cursor with a key of this length; raise `BadCursor`."""
        if len(text) > _MAX_TEXT:
            raise BadCursor
        try:
            sealed = urlsafe_b64decode(text + "=" * (-len(text) % 4))
            if _encode(sealed) != text:  # it has characters that mean nothing
                raise BadCursor
            key = decode_key(self.keys.decrypt(sealed, self.binding))
        except (Base64Error, ValueError):
            raise BadCursor from None
        return CursorPosition(key) if len(key) == length else CursorPosition(None, key[0])


def _encode(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()
