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
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, Literal, NamedTuple

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
_KNOWN: Final = 4096  # keys whose hash a process remembers
_TRIFLE: Final = 1e-9  # of a request: what floating point numbers may have lost


@dataclass(frozen=True, slots=True)
class Quota:
    """What one caller may have; None is no limit."""

    rate: float | None  # requests a second
    burst: int
    places: int | None  # requests at a time


class Claim(NamedTuple):
    """One more request of a caller (`key`) under the quota of this number.

    `further` are requests that it holds beside the one that was counted; they take no place.
    """

    quota: int
    key: str
    further: int = 0


@dataclass(slots=True)
class Share:
    """What a caller has of a quota after this request, and what keeps it out, if anything does.

    `left` requests could follow at once, `places_left` of them at a time. In `seconds` the bucket
    is full; where it is `refused_by` the "rate", it holds what was asked for by then. More than a
    whole bucket is refused always; then it is full by then.
    """

    slot: _Slot
    left: int = 0
    places_left: int = 0
    seconds: float = 0.0
    refused_by: Literal["", "rate", "concurrent"] = ""


@dataclass(slots=True)
class _Slot:
    """A slot of a table: the key's own already, or the one that it takes over."""

    table: _Table
    number: int
    tag: int
    level: float
    held: int
    is_own: bool


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

    def find(self, hashed: tuple[int, int], now: float) -> _Slot:
        """The slot of a key, else the one that it takes over when it is written."""
        tag, row = hashed[0], hashed[1] % self._rows
        values = _ROW.unpack_from(self._memory, self._start + row * _ROW.size)
        first = row * ROW_SLOTS
        try:
            number = values.index(tag, 0, ROW_SLOTS)
        except ValueError:
            number = self._choose_victim(values, first, now)
            return _Slot(self, first + number, tag, self.quota.burst, 0, is_own=False)
        held = 0 if self.quota.places is None else self.count_places(first + number)
        level = self._fill(values, number, now)
        return _Slot(self, first + number, tag, level, held, is_own=True)

    def _choose_victim(self, values: tuple[float, ...], first: int, now: float) -> int:
        """A free slot, else that of the fullest bucket without a place."""
        if 0 in values[:ROW_SLOTS]:
            return values.index(0)
        return max(
            range(ROW_SLOTS),
            key=lambda one: (not self.count_places(first + one), self._fill(values, one, now)),
        )

    def write(self, slot: _Slot, now: float) -> None:
        """Make the slot the key's, with this level."""
        row, number = self._offset_of_row(slot.number), slot.number % ROW_SLOTS
        state = row + ROW_SLOTS * _TAG.size + number * _STATE.size
        _STATE.pack_into(self._memory, state, slot.level, now)
        if not slot.is_own:
            _TAG.pack_into(self._memory, row + number * _TAG.size, slot.tag)
            if self.quota.places is not None:
                places = self._offset_of_places(slot.number)
                self._memory[places : places + self._counts.size] = bytes(self._counts.size)

    def is_still_of(self, slot: _Slot) -> bool:
        """Whether nobody has taken over the slot of a key in the meantime."""
        offset = self._offset_of_row(slot.number) + slot.number % ROW_SLOTS * _TAG.size
        return bool(_TAG.unpack_from(self._memory, offset)[0] == slot.tag)

    def count_places(self, number: int) -> int:
        """How many requests hold a place, in all workers."""
        return sum(self.places_by_worker(number))

    def places_by_worker(self, number: int) -> tuple[int, ...]:
        """The same for each worker."""
        if self.quota.places is None:
            return ()
        return self._counts.unpack_from(self._memory, self._offset_of_places(number))

    def change_places(self, number: int, worker: int, by: int) -> None:
        """A request of a worker has come, or gone."""
        offset = self._offset_of_places(number) + worker * _PLACE.size
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

    def _offset_of_row(self, number: int) -> int:
        return self._start + number // ROW_SLOTS * _ROW.size

    def _offset_of_places(self, number: int) -> int:
        return self._places + number * self._counts.size

    def _fill(self, values: tuple[float, ...], number: int, now: float) -> float:
        """What is in the bucket of a slot by now."""
        rate, burst = self.quota.rate, self.quota.burst
        if rate is None:
            return burst
        level, written = values[ROW_SLOTS + 2 * number], values[ROW_SLOTS + 2 * number + 1]
        # A clock that was set back gives nothing, and takes nothing.
        if now > written:
            level += (now - written) * rate
        return level if level < burst else burst


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
        if worker > workers:
            raise ValueError(f"worker {worker} of {workers}")
        columns = workers + 1  # the parent, where it serves alone, is number 0
        sizes = [_Table.measure(quota, columns, rows) for quota in quotas]
        path = directory / _PURPOSE
        make_once(path, lambda fresh: create_shared(fresh, sum(sizes)))
        self._file = SharedFile(path)
        self._memory = memoryview(self._file.memory)
        self._worker = worker
        self._clock = clock
        self._hash = lru_cache(maxsize=_KNOWN)(partial(_hash_key, secret))
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
        hashed = [(self._tables[one.quota], self._hash(one.key)) for one in claims]
        with self._file.locked():
            now = self._clock()
            shares = [
                self._judge(table.find(key, now), claim.further)
                for (table, key), claim in zip(hashed, claims, strict=True)
            ]
            for share in shares:
                if share.refused_by:
                    return shares
            for share, claim in zip(shares, claims, strict=True):
                self._enter(share.slot, now, claim.further)
        return shares

    def give_back(self, shares: Sequence[Share]) -> None:
        """The request is over: give back the places that it holds by these."""
        if not self._is_open:
            return
        with self._file.locked():
            for share in shares:
                slot = share.slot
                if slot.table.is_still_of(slot):
                    slot.table.change_places(slot.number, self._worker, -1)

    def close(self) -> None:
        """Give back the memory, and what this worker holds; the rest stays for the others."""
        if self._is_open:
            self._is_open = False
            with self._file.locked():
                self._forget_worker(self._worker)
            self._presence.close()
            self._release()

    def _judge(self, slot: _Slot, further: int) -> Share:
        """What the caller would have after this request."""
        quota, wanted = slot.table.quota, further or 1
        rate, places, level = quota.rate, quota.places, slot.level
        if rate is not None and level < wanted - _TRIFLE:
            missing = min(wanted, quota.burst) - level
            return Share(slot, seconds=missing / rate, refused_by="rate")
        places_left = 0
        if places is not None and not further:
            if slot.held >= places:
                self._forget_dead(slot)
            if slot.held >= places:
                return Share(slot, refused_by="concurrent")
            places_left = places - slot.held - 1
        seconds = 0.0 if rate is None else (quota.burst - level + wanted) / rate
        return Share(slot, int(level - wanted + _TRIFLE), places_left, seconds)

    def _enter(self, slot: _Slot, now: float, further: int) -> None:
        quota = slot.table.quota
        if quota.rate is not None:
            slot.level = max(0.0, slot.level - (further or 1))
        slot.table.write(slot, now)
        if quota.places is not None and not further:
            slot.table.change_places(slot.number, self._worker, 1)

    def _forget_dead(self, slot: _Slot) -> None:
        """Give back the places of workers that are gone."""
        for worker, held in enumerate(slot.table.places_by_worker(slot.number)):
            if held and worker != self._worker and not self._presence.is_alive(worker):
                self._forget_worker(worker)
        slot.held = slot.table.count_places(slot.number)

    def _forget_worker(self, worker: int) -> None:
        for table in self._tables:
            table.empty_places(worker)

    def _release(self) -> None:
        self._memory.release()
        self._file.close()


def _hash_key(secret: bytes, key: str) -> tuple[int, int]:
    """The tag of a key, never 0, and a number that its row is chosen by."""
    digest = hashlib.blake2b(key.encode(), key=secret, digest_size=16).digest()
    return int.from_bytes(digest[:8], "little") or 1, int.from_bytes(digest[8:], "little")
