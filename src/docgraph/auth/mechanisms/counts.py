"""Each count of a nonce once: what makes a recorded digest worthless.

A count must be higher than the highest one seen with its nonce. Where only the workers of one
instance can check a nonce, they keep the highest counts in shared memory; where instances share the
key, in the database, whose unique `_id` decides between two who come at the same moment. Only
right digests get here, so that callers without a password cannot fill either of them.
"""

from __future__ import annotations

import asyncio
import hashlib
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from docgraph.auth.mechanisms.nonces import LIFETIME, Nonce
from docgraph.exchange import Deadline, Resource, ResourceType, Write, WriteKind
from docgraph.exchange.errors import Conflict
from docgraph.runtime.clock import elapsed
from docgraph.runtime.shared import SharedFile, create_shared, make_once
from docgraph.store import Store
from docgraph.store.mounts import NONCE_STORE

__all__ = ["COLLECTION", "NonceCounts", "SharedCounts", "StoredCounts", "create_shared_counts"]

COLLECTION: Final = NONCE_STORE
# A record outlives its nonce by far, so that no clock that is behind brings it to life again.
KEPT: Final = 10 * LIFETIME
_SWEEP_SECONDS: Final = 300.0
_SWEEP_DEADLINE_MS: Final = 30_000

ROWS: Final = 8192
ROW_SLOTS: Final = 16
_SLOT: Final = struct.Struct("<QQQ")  # tag (0: free), end in seconds, highest count
_ROW_BYTES: Final = ROW_SLOTS * _SLOT.size


class NonceCounts(Protocol):
    """Who has seen which counts."""

    async def accept(self, nonce: Nonce, count: int, deadline: Deadline) -> bool:
        """Whether this is the first and highest use of the count; from now on it is not."""
        ...

    async def close(self) -> None:
        """Give back what is open."""
        ...


def create_shared_counts(path: Path) -> None:
    """Make the file unless another worker has done so."""
    make_once(path, lambda fresh: create_shared(fresh, ROWS * _ROW_BYTES))


class SharedCounts:
    """A table in the memory that all workers of an instance share.

    A row that is full of live nonces takes no more: the client gets a new nonce, which belongs to
    another row, rather than an old digest a second chance.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = elapsed) -> None:
        self._file = SharedFile(path)
        self._clock = clock

    async def accept(self, nonce: Nonce, count: int, deadline: Deadline) -> bool:
        """In memory: nothing here waits for longer than another worker's look at one row."""
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
        """Give back the memory; the counts stay for the others."""
        self._file.close()

    def _choose(self, first: int, tag: int, count: int) -> int | None:
        """Where to note the count; None for one that is used up, and when there is no room."""
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
        self._clock = store.clock  # the one that all of them share

    async def accept(self, nonce: Nonce, count: int, deadline: Deadline) -> bool:
        """A lost database raises: it is neither a right nor a wrong digest."""
        # Two first uses of one nonce may collide; the one that lost is compared with the winner.
        return await self._raise_count(nonce, count, deadline) or await self._raise_count(
            nonce, count, deadline
        )

    async def close(self) -> None:
        """The store is not ours."""

    async def sweep(self) -> None:
        """Remove what is over, again and again."""
        await self._store.available()
        while True:
            over = datetime.fromtimestamp(self._clock(), UTC)
            write = Write(WriteKind.DELETE, filter={"end": {"$lt": over}}, many=True)
            await self._store.write(
                self._resource, write, deadline=Deadline.after_ms(_SWEEP_DEADLINE_MS)
            )
            await asyncio.sleep(_SWEEP_SECONDS)

    async def _raise_count(self, nonce: Nonce, count: int, deadline: Deadline) -> bool:
        """Raise the count of the nonce, or insert it: a count that is no higher does neither."""
        end = datetime.fromtimestamp(nonce.made + KEPT, UTC)
        write = Write(
            WriteKind.UPDATE,
            filter={"_id": nonce.id.hex(), "count": {"$lt": count}},
            update={"$set": {"count": count, "end": end}},
            upsert=True,
        )
        try:
            await self._store.write(self._resource, write, deadline=deadline)
        except Conflict:
            return False
        return True
