"""Rate limit buckets (token buckets) and places of callers, shared by worker processes.

A bucket has at most `burst` requests and gains `rate` more per second. A request occupies a place
while it is in progress. Each quota has its own table of fixed size in one shared file.

The entry that a full row drops is chosen so that no caller gains by it. A key replaces the fullest
bucket without an occupied place: a full bucket is worth as much as none at all. An attacker with
many addresses therefore pushes out buckets that are nearly full. To drop an empty one, the attacker
would have to empty seven others of the same row first, which costs more than it gains. The row
cannot be chosen either, because keys are stored as keyed hashes. A quota does not reach another
quota's table: no number of addresses pushes out the bucket of a user. No request is rejected
because a row is full.

Places are counted by worker. The places of a killed worker are released when it is restarted, and
earlier if a request would be rejected because of them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, Literal, NamedTuple

from docgraph.runtime.clock import elapsed
from docgraph.runtime.shared_memory import SharedFile, create_shared, make_once

ROWS: Final = 4096
ROW_SLOTS: Final = 8
_PURPOSE: Final = "limits"
_ROW: Final = struct.Struct(f"<{ROW_SLOTS}Q{2 * ROW_SLOTS}d")  # tags (0: free), level and time each
_TAG: Final = struct.Struct("<Q")
_STATE: Final = struct.Struct("<dd")
_PLACE: Final = struct.Struct("<H")
_KNOWN: Final = 4096  # keys whose hash a process caches
_TRIFLE: Final = 1e-9  # of a request: possible floating point error


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of one caller; None is no limit."""

    rate: float | None  # requests per second
    burst: int
    places: int | None  # requests at the same time


class RateRequest(NamedTuple):
    """One more request of a caller under a quota; `further` ones occupy no place."""

    quota: int
    key: str
    further: int = 0


@dataclass(slots=True)
class RateResult:
    """The rest of a caller's quota after this request, and the limit that rejects it, if any.

    `left` requests could follow immediately, `places_left` of them at the same time. In `seconds`
    the bucket is full. If it is `refused_by` the "rate", the bucket has the requested number by
    then. More than a whole bucket is always rejected; then `seconds` is the time until it is full.
    """

    slot: _BucketSlot
    left: int = 0
    places_left: int = 0
    seconds: float = 0.0
    refused_by: Literal["", "rate", "concurrent"] = ""


@dataclass(slots=True)
class _BucketSlot:
    """A slot of a table: the key's own, or the one that it replaces."""

    table: _BucketTable
    number: int
    tag: int
    level: float
    held: int
    is_own: bool


class _BucketTable:
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
        places = 0 if quota.places is None else rows * ROW_SLOTS * workers * _PLACE.size
        return rows * _ROW.size + places

    def find(self, hashed: tuple[int, int], now: float) -> _BucketSlot:
        """Return the slot of a key, else the one that it replaces when it is written."""
        tag, row = hashed[0], hashed[1] % self._rows
        values = _ROW.unpack_from(self._memory, self._start + row * _ROW.size)
        first = row * ROW_SLOTS
        try:
            number = values.index(tag, 0, ROW_SLOTS)
        except ValueError:
            if 0 in values[:ROW_SLOTS]:
                number = values.index(0)
            else:  # the fullest bucket without an occupied place
                number = max(
                    range(ROW_SLOTS),
                    key=lambda number: (
                        not self.count_places(first + number),
                        self._fill(values, number, now),
                    ),
                )
            return _BucketSlot(self, first + number, tag, self.quota.burst, 0, is_own=False)
        held = 0 if self.quota.places is None else self.count_places(first + number)
        level = self._fill(values, number, now)
        return _BucketSlot(self, first + number, tag, level, held, is_own=True)

    def write(self, slot: _BucketSlot, now: float) -> None:
        """Assign the slot to the key, with this level."""
        row, number = self._offset_of_row(slot.number), slot.number % ROW_SLOTS
        state = row + ROW_SLOTS * _TAG.size + number * _STATE.size
        _STATE.pack_into(self._memory, state, slot.level, now)
        if not slot.is_own:
            _TAG.pack_into(self._memory, row + number * _TAG.size, slot.tag)
            if self.quota.places is not None:
                places = self._offset_of_places(slot.number)
                self._memory[places : places + self._counts.size] = bytes(self._counts.size)

    def is_still_of(self, slot: _BucketSlot) -> bool:
        offset = self._offset_of_row(slot.number) + slot.number % ROW_SLOTS * _TAG.size
        return bool(_TAG.unpack_from(self._memory, offset)[0] == slot.tag)

    def count_places(self, number: int) -> int:
        """Return how many requests occupy a place, in all workers."""
        return sum(self.places_by_worker(number))

    def places_by_worker(self, number: int) -> tuple[int, ...]:
        if self.quota.places is None:
            return ()
        return self._counts.unpack_from(self._memory, self._offset_of_places(number))

    def change_places(self, number: int, worker: int, by: int) -> None:
        """Count a request of a worker that begins or ends."""
        offset = self._offset_of_places(number) + worker * _PLACE.size
        held = _PLACE.unpack_from(self._memory, offset)[0] + by
        _PLACE.pack_into(self._memory, offset, max(0, held))

    def empty_places(self, worker: int) -> None:
        """Release the places of a worker that has ended."""
        if self.quota.places is None:
            return
        slots, step = self._rows * ROW_SLOTS, self._counts.size
        for byte in range(_PLACE.size):
            first = self._places + worker * _PLACE.size + byte
            self._memory[first : first + (slots - 1) * step + 1 : step] = bytes(slots)

    def _offset_of_row(self, number: int) -> int:
        return self._start + number // ROW_SLOTS * _ROW.size

    def _offset_of_places(self, number: int) -> int:
        return self._places + number * self._counts.size

    def _fill(self, values: tuple[float, ...], number: int, now: float) -> float:
        """Return the current level of a slot's bucket."""
        rate, burst = self.quota.rate, self.quota.burst
        if rate is None:
            return burst
        level, written = values[ROW_SLOTS + 2 * number], values[ROW_SLOTS + 2 * number + 1]
        # A clock that was set back neither adds nor removes anything.
        if now > written:
            level += (now - written) * rate
        return level if level < burst else burst


class Buckets:
    """The tables of an instance, as one process sees them; `close` after use."""

    def __init__(  # noqa: PLR0913 - location, content, caller and time
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
        if worker > workers:
            raise ValueError(f"worker {worker} of {workers}")
        columns = workers + 1  # the parent, where it serves alone, is number 0
        sizes = [_BucketTable.measure(quota, columns, rows) for quota in quotas]
        path = directory / _PURPOSE
        make_once(path, lambda fresh: create_shared(fresh, sum(sizes)))
        self._file = SharedFile(path)
        self._memory = memoryview(self._file.memory)
        self._worker = worker
        self._clock = clock
        self._hash = lru_cache(maxsize=_KNOWN)(partial(_hash_key, secret))
        self._is_open = True
        self._tables = [
            _BucketTable(self._memory, sum(sizes[:number]), quota, columns, rows)
            for number, quota in enumerate(quotas)
        ]
        try:
            with self._file.locked():
                self._presence = WorkerLocks(directory, _PURPOSE, worker)
                self._forget_worker(worker)
        except BaseException:
            self._release()
            raise

    def acquire(self, claims: Sequence[RateRequest]) -> list[RateResult]:
        """Count a request under all of these quotas, or under none if one of them rejects it."""
        hashed = [(self._tables[claim.quota], self._hash(claim.key)) for claim in claims]
        with self._file.locked():
            now = self._clock()
            shares = [
                self._assess(table.find(key, now), claim.further)
                for (table, key), claim in zip(hashed, claims, strict=True)
            ]
            for share in shares:
                if share.refused_by:
                    return shares
            for share, claim in zip(shares, claims, strict=True):
                self._enter(share.slot, now, claim.further)
        return shares

    def give_back(self, shares: Sequence[RateResult]) -> None:
        """Release the places that a request occupied, after its end."""
        if not self._is_open:
            return
        with self._file.locked():
            for share in shares:
                slot = share.slot
                if slot.table.is_still_of(slot):
                    slot.table.change_places(slot.number, self._worker, -1)

    def close(self) -> None:
        """Unmap the memory and release the places of this worker; the rest remains."""
        if self._is_open:
            self._is_open = False
            with self._file.locked():
                self._forget_worker(self._worker)
            self._presence.close()
            self._release()

    def _assess(self, slot: _BucketSlot, further: int) -> RateResult:
        """Return the rest of the quota after this request."""
        quota, wanted = slot.table.quota, further or 1
        rate, places, level = quota.rate, quota.places, slot.level
        if rate is not None and level < wanted - _TRIFLE:
            missing = min(wanted, quota.burst) - level
            return RateResult(slot, seconds=missing / rate, refused_by="rate")
        places_left = 0
        if places is not None and not further:
            if slot.held >= places:  # release those of workers that have ended
                for worker, held in enumerate(slot.table.places_by_worker(slot.number)):
                    if held and worker != self._worker and not self._presence.is_alive(worker):
                        self._forget_worker(worker)
                slot.held = slot.table.count_places(slot.number)
            if slot.held >= places:
                return RateResult(slot, refused_by="concurrent")
            places_left = places - slot.held - 1
        seconds = 0.0 if rate is None else (quota.burst - level + wanted) / rate
        return RateResult(slot, int(level - wanted + _TRIFLE), places_left, seconds)

    def _enter(self, slot: _BucketSlot, now: float, further: int) -> None:
        quota = slot.table.quota
        if quota.rate is not None:
            slot.level = max(0.0, slot.level - (further or 1))
        slot.table.write(slot, now)
        if quota.places is not None and not further:
            slot.table.change_places(slot.number, self._worker, 1)

    def _forget_worker(self, worker: int) -> None:
        for table in self._tables:
            table.empty_places(worker)

    def _release(self) -> None:
        self._memory.release()
        self._file.close()


def _hash_key(secret: bytes, key: str) -> tuple[int, int]:
    """Return the tag of a key, never 0, and the number that selects its row."""
    digest = hashlib.blake2b(key.encode(), key=secret, digest_size=16).digest()
    return int.from_bytes(digest[:8], "little") or 1, int.from_bytes(digest[8:], "little")


class WorkerLocks:
    """Liveness of workers: each holds a file lock that ends with it, even by kill -9.

    Callers that create or check such a lock hold the lock of the shared file that it belongs to. A
    worker therefore cannot be confused with its successor during a check.
    """

    def __init__(self, directory: Path, purpose: str, worker: int) -> None:
        self._directory = directory
        self._purpose = purpose
        self._own = self._open(worker)
        self._others: dict[int, int] = {}
        try:
            fcntl.flock(self._own, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._own)
            raise RuntimeError(f"worker {worker} of this instance is there already") from None

    def is_alive(self, worker: int) -> bool:
        """Return whether another worker is alive."""
        fd = self._others.get(worker)
        if fd is None:
            fd = self._others[worker] = self._open(worker)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(fd, fcntl.LOCK_UN)
        return False

    def close(self) -> None:
        for fd in (self._own, *self._others.values()):
            os.close(fd)

    def _open(self, worker: int) -> int:
        path = self._directory / f"{self._purpose}-worker-{worker}"
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
