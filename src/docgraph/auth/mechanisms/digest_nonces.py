"""Digest nonces, stateless and sealed; each count of a nonce is accepted once (no replay).

A count must be higher than the highest one seen with its nonce. Where only the workers of one
instance can check a nonce, the highest counts are in shared memory. Where instances share the key,
they are in the database, whose unique `_id` decides between concurrent requests. Only valid digests
are counted, so that callers without a password can fill neither of them.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from docgraph.exchange import Deadline, Resource, ResourceType, Write, WriteKind
from docgraph.exchange.errors import Conflict
from docgraph.runtime.clock import elapsed
from docgraph.runtime.shared_memory import SharedFile, create_shared, make_once
from docgraph.store import Store
from docgraph.store.names import NONCE_STORE

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
    """Creates and parses nonces; `key` may have any length.

    A nonce is stateless: a time, a random part and a seal made with a shared key. Any process with
    the key can distinguish our nonces from forged ones, and knows their age by the shared clock.
    """

    def __init__(
        self, key: bytes, *, lifetime: float = LIFETIME, clock: Callable[[], float] = elapsed
    ) -> None:
        self._key = hmac.digest(key, b"docgraph digest nonces", hashlib.sha256)
        self._lifetime = lifetime
        self._clock = clock

    def make(self) -> str:
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
        return -_SKEW <= self._clock() - nonce.made <= self._lifetime

    def is_ageing(self, nonce: Nonce) -> bool:
        """Return whether half of its lifetime is over: time to issue the next one."""
        return self._clock() - nonce.made > self._lifetime / 2

    def _seal(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, hashlib.sha256)[:_SEAL_BYTES]


COLLECTION: Final = NONCE_STORE
# A record is stored far longer than its nonce is valid, so that a slow clock cannot revive it.
KEPT: Final = 10 * LIFETIME
_SWEEP_SECONDS: Final = 300.0
_SWEEP_DEADLINE_MS: Final = 30_000

ROWS: Final = 8192
ROW_SLOTS: Final = 16
_SLOT: Final = struct.Struct("<QQQ")  # tag (0: free), end in seconds, highest count
_ROW_BYTES: Final = ROW_SLOTS * _SLOT.size


def create_shared_counts(path: Path) -> None:
    """Create the file unless another worker has done so."""
    make_once(path, lambda fresh: create_shared(fresh, ROWS * _ROW_BYTES))


class SharedCounts:
    """A table in memory that all workers of an instance share.

    A row that is full of live nonces accepts no more: the client gets a new nonce, which belongs to
    another row. Otherwise an old digest could be replayed.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = elapsed) -> None:
        self._file = SharedFile(path)
        self._clock = clock

    async def accept(self, nonce: Nonce, count: int, deadline: Deadline) -> bool:
        """Check in memory: waits only while another worker holds one row."""
        digest = hashlib.blake2b(nonce.id, digest_size=16).digest()
        first = int.from_bytes(digest[:8], "little") % ROWS * _ROW_BYTES
        tag = int.from_bytes(digest[8:], "little") or 1
        with self._file.locked():
            offset = self._choose(first, tag, count)
            if offset is None:
                return False
            _SLOT.pack_into(self._file.memory, offset, tag, int(nonce.made + KEPT), count)
            return True

    async def close(self) -> None:
        """Release the memory; the counts stay for the other workers."""
        self._file.close()

    def _choose(self, first: int, tag: int, count: int) -> int | None:
        """Return where to record the count; None for a used one, and when the row is full."""
        now, free = self._clock(), None
        for offset in range(first, first + _ROW_BYTES, _SLOT.size):
            held, end, highest = _SLOT.unpack_from(self._file.memory, offset)
            if held == tag:
                return offset if count > highest else None
            if free is None and (held == 0 or end < now):
                free = offset
        return free


class StoredCounts:
    """A document per nonce, for all instances that share the key and the database."""

    def __init__(self, store: Store, db: str) -> None:
        self._store = store
        self._resource = Resource(ResourceType.COLLECTION, db, COLLECTION)
        self._clock = store.clock  # shared by all instances

    async def accept(self, nonce: Nonce, count: int, deadline: Deadline) -> bool:
        """Record the count; a database failure raises: the digest is neither valid nor invalid."""
        # Two first uses of one nonce may collide; the loser is compared with the winner.
        return await self._raise_count(nonce, count, deadline) or await self._raise_count(
            nonce, count, deadline
        )

    async def close(self) -> None:
        """Do nothing: the store is closed elsewhere."""

    async def sweep(self) -> None:
        """Remove expired records periodically."""
        await self._store.available()
        while True:
            over = datetime.fromtimestamp(self._clock(), UTC)
            write = Write(WriteKind.DELETE, filter={"end": {"$lt": over}}, many=True)
            await self._store.writes.write(
                self._resource, write, deadline=Deadline.after_ms(_SWEEP_DEADLINE_MS)
            )
            await asyncio.sleep(_SWEEP_SECONDS)

    async def _raise_count(self, nonce: Nonce, count: int, deadline: Deadline) -> bool:
        """Raise the count of the nonce, or insert it; a count that is not higher does neither."""
        end = datetime.fromtimestamp(nonce.made + KEPT, UTC)
        write = Write(
            WriteKind.UPDATE,
            filter={"_id": nonce.id.hex(), "count": {"$lt": count}},
            update={"$set": {"count": count, "end": end}},
            upsert=True,
        )
        try:
            await self._store.writes.write(self._resource, write, deadline=deadline)
        except Conflict:
            return False
        return True
