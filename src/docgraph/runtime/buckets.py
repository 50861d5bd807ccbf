"""Token buckets and places of callers, over all workers of an instance.

A bucket holds at most `burst` requests and gets `rate` more a second; a place is held by a request
while it is worked on. Each quota has a table of its own in one shared file, of fixed size.

What a full row forgets is chosen so that nobody gains by it. A key takes the slot of the fullest
bucket that holds no place: a full one is worth as much as none at all. An attacker with many
addresses thus pushes out buckets that are nearly full. To have an empty one forgotten, he would
have to empty seven others of the same row first, which costs more than it gives back; and he cannot
choose the row, because a key is kept as a keyed hash. Nor does one quota reach another's table: no
number of addresses makes the bucket of a user be forgotten. Nobody is refused because a row is
full.

A place is counted by worker. Those of a worker that was killed are given back when it comes again,
and before that when somebody would be refused because of them.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from docgraph.runtime.clock import elapsed
from docgraph.runtime.presence import Presence
from docgraph.runtime.shared import SharedFile, create_shared, make_once

__all__ = ["Buckets", "Claim", "Quota", "Share"]

ROWS: Final = 4096
ROW_SLOTS: Final = 8
_PURPOSE: Final = "limits"
_ROW: Final = struct.Struct(f"<{ROW_SLOTS}Q{2 * ROW_SLOTS}d")  # tags (0: free), level and time each
_TAG: Final = struct.Struct("<Q")
_STATE: Final = struct.Struct("<dd")
_PLACE: Final = struct.Struct("<H")
_TRIFLE: Final = 1e-9  # of a request: what floating point numbers may have lost


@dataclass(frozen=True, slots=True)
class Quota:
    """What one caller may have; None is no limit."""

    rate: float | None  # requests a second
    burst: int
    places: int | None  # requests at a time


@dataclass(frozen=True, slots=True)
class Claim:
    """One more request of a caller (`key`) under the quota of this number."""

    quota: int
    key: str


@dataclass(slots=True)
class Share:
    """What a caller has of a quota, and what keeps the request out, if something does."""

    left: int  # requests that could follow at once
    places_left: int
    seconds: float  # until the bucket is full; for `refused_by` "rate" until the next request
    refused_by: Literal["", "rate", "concurrent"] = ""


@dataclass(slots=True)
class _Found:
    """A slot of a table, which may still be another caller's."""

    slot: int
    tag: int
    level: float
    held: int


class _Table:
    """The slots of one quota: rows of buckets, then the places of each slot by worker."""

    def __init__(
        self, memory: memoryview, start: int, quota: Quota, workers: int, rows: int
    ) -> None:
        self.quota = quota
        self._memory = memory
        self._start = start
        self._rows = rows
        self._places = start + rows * _ROW.size
        self._counts = struct.Struct(f"<{workers}H")

    @staticmethod
    def measure(quota: Quota, workers: int, rows: int) -> int:
        """How many bytes it takes."""
        places = 0 if quota.places is None else rows * ROW_SLOTS * workers * _PLACE.size
        return rows * _ROW.size + places

    def find(self, digest: bytes, now: float) -> _Found:
        """The slot of a key, else the one that it takes over when it is written."""
        row = int.from_bytes(digest[:8], "little") % self._rows
        tag = int.from_bytes(digest[8:], "little") or 1
        values = _ROW.unpack_from(self._memory, self._start + row * _ROW.size)
        tags, first = values[:ROW_SLOTS], row * ROW_SLOTS
        if tag in tags:
            number = tags.index(tag)
            slot = first + number
            return _Found(slot, tag, self._fill(values, number, now), self.count_places(slot))
        if 0 in tags:
            number = tags.index(0)
        else:
            number = max(
                range(ROW_SLOTS),
                key=lambda one: (not self.count_places(first + one), self._fill(values, one, now)),
            )
        return _Found(first + number, tag, self.quota.burst, 0)

    def is_of(self, found: _Found) -> bool:
        """Whether the slot is the key's own already."""
        offset = self._offset_of_row(found.slot) + found.slot % ROW_SLOTS * _TAG.size
        return bool(_TAG.unpack_from(self._memory, offset)[0] == found.tag)

    def write(self, found: _Found, now: float) -> None:
        """Make the slot the key's, with this level."""
        row, number = self._offset_of_row(found.slot), found.slot % ROW_SLOTS
        if self.quota.places is not None and not self.is_of(found):
            self._counts.pack_into(
                self._memory, self._offset_of_places(found.slot), *(0,) * self._workers
            )
        state = row + ROW_SLOTS * _TAG.size + number * _STATE.size
        _STATE.pack_into(self._memory, state, found.level, now)
        _TAG.pack_into(self._memory, row + number * _TAG.size, found.tag)

    def count_places(self, slot: int) -> int:
        """How many requests hold a place, in all workers."""
        return sum(self.places_by_worker(slot))

    def places_by_worker(self, slot: int) -> tuple[int, ...]:
        """The same for each worker."""
        if self.quota.places is None:
            return ()
        return self._counts.unpack_from(self._memory, self._offset_of_places(slot))

    def change_places(self, slot: int, worker: int, by: int) -> None:
        """A request of a worker has come, or gone."""
        offset = self._offset_of_places(slot) + worker * _PLACE.size
        held = _PLACE.unpack_from(self._memory, offset)[0] + by
        _PLACE.pack_into(self._memory, offset, max(0, held))

    def empty_places(self, worker: int) -> None:
        """The requests of a worker are gone with it."""
        if self.quota.places is None:
            return
        slots, step = self._rows * ROW_SLOTS, self._counts.size
        for byte in range(_PLACE.size):
            first = self._places + worker * _PLACE.size + byte
            self._memory[first : first + (slots - 1) * step + 1 : step] = bytes(slots)

    @property
    def _workers(self) -> int:
        return self._counts.size // _PLACE.size

    def _offset_of_row(self, slot: int) -> int:
        return self._start + slot // ROW_SLOTS * _ROW.size

    def _offset_of_places(self, slot: int) -> int:
        return self._places + slot * self._counts.size

    def _fill(self, values: tuple[float, ...], number: int, now: float) -> float:
        """What is in the bucket of a slot by now."""
        rate, burst = self.quota.rate, float(self.quota.burst)
        if rate is None:
            return burst
        level, written = values[ROW_SLOTS + 2 * number : ROW_SLOTS + 2 * number + 2]
        # A clock that was set back gives nothing, and takes nothing.
        return min(burst, level + max(0.0, now - written) * rate)


class Buckets:
    """The tables of an instance, as one process sees them; `close` when done."""

    def __init__(  # noqa: PLR0913 - where it is, what it holds, who asks, and when
        self,
        directory: Path,
        secret: bytes,
        quotas: Sequence[Quota],
        workers: int,
        worker: int,
        clock: Callable[[], float] = elapsed,
        *,
        rows: int = ROWS,
    ) -> None:
        columns = workers + 1  # the parent, where it serves alone, is number 0
        sizes = [_Table.measure(quota, columns, rows) for quota in quotas]
        path = directory / _PURPOSE
        make_once(path, lambda fresh: create_shared(fresh, sum(sizes)))
        self._file = SharedFile(path)
        self._memory = memoryview(self._file.memory)
        self._secret = secret
        self._worker = worker
        self._clock = clock
        self._is_open = True
        self._tables = [
            _Table(self._memory, sum(sizes[:number]), quota, columns, rows)
            for number, quota in enumerate(quotas)
        ]
        try:
            with self._file.locked():
                self._presence = Presence(directory, _PURPOSE, worker)
                self._forget_worker(worker)
        except BaseException:
            self._release()
            raise

    def take(self, claims: Sequence[Claim]) -> list[Share]:
        """Count a request under all of these, or under none when one of them refuses it."""
        digests = [self._hash(claim.key) for claim in claims]
        with self._file.locked():
            now = self._clock()
            found = [
                self._tables[claim.quota].find(digest, now)
                for claim, digest in zip(claims, digests, strict=True)
            ]
            shares = [self._judge(*one) for one in zip(claims, found, strict=True)]
            if not any(share.refused_by for share in shares):
                for claim, one in zip(claims, found, strict=True):
                    self._enter(self._tables[claim.quota], one, now)
        return shares

    def give_back(self, claims: Sequence[Claim]) -> None:
        """The request is over: give back the places that it holds by these."""
        if not self._is_open:
            return
        digests = [self._hash(claim.key) for claim in claims]
        with self._file.locked():
            for claim, digest in zip(claims, digests, strict=True):
                table = self._tables[claim.quota]
                found = table.find(digest, 0.0)  # for its slot: the time does not matter
                if table.is_of(found):
                    table.change_places(found.slot, self._worker, -1)

    def close(self) -> None:
        """Give back the memory, and what this worker holds; the rest stays for the others."""
        if self._is_open:
            self._is_open = False
            with self._file.locked():
                self._forget_worker(self._worker)
            self._presence.close()
            self._release()

    def _judge(self, claim: Claim, found: _Found) -> Share:
        """What the caller would have after this request."""
        table = self._tables[claim.quota]
        rate, places = table.quota.rate, table.quota.places
        if rate is not None and found.level < 1 - _TRIFLE:
            return Share(0, 0, (1 - found.level) / rate, "rate")
        if places is not None and found.held >= places:
            self._forget_dead(table, found.slot)
            found.held = table.count_places(found.slot)
            if found.held >= places:
                return Share(0, 0, 0.0, "concurrent")
        level = found.level - 1 + _TRIFLE
        seconds = 0.0 if rate is None else max(0.0, table.quota.burst - level) / rate
        return Share(int(level), 0 if places is None else places - found.held - 1, seconds)

    def _enter(self, table: _Table, found: _Found, now: float) -> None:
        if table.quota.rate is not None:
            found.level = max(0.0, found.level - 1)
        table.write(found, now)
        if table.quota.places is not None:
            table.change_places(found.slot, self._worker, 1)

    def _forget_dead(self, table: _Table, slot: int) -> None:
        """Give back the places of workers that are gone."""
        for worker, held in enumerate(table.places_by_worker(slot)):
            if held and worker != self._worker and not self._presence.is_alive(worker):
                self._forget_worker(worker)

    def _forget_worker(self, worker: int) -> None:
        for table in self._tables:
            table.empty_places(worker)

    def _release(self) -> None:
        self._memory.release()
        self._file.close()

    def _hash(self, key: str) -> bytes:
        return hashlib.blake2b(key.encode(), key=self._secret, digest_size=16).digest()
