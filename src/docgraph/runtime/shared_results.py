"""Results of expensive work that worker processes share, so that an instance does it once."""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Final

from docgraph.runtime.clock import elapsed
from docgraph.runtime.shared_memory import SharedFile, create_shared

_ROWS: Final = 1024
_SLOTS: Final = 4  # of a row
_RESULT: Final = struct.Struct("<16sQQ")  # tag, state, milliseconds until which it is valid


class ResultState(IntEnum):
    """What is known about a piece of work."""

    UNKNOWN = 0
    RUNNING = 1
    SUCCEEDED = 2
    FAILED = 3


def create_results(path: Path) -> None:
    """Create the file without any results; once per instance."""
    create_shared(path, _ROWS * _SLOTS * _RESULT.size)


class SharedResults:
    """Results of expensive work by key, so that workers do it once; keys are keyed digests.

    The table has a fixed size: when its row is full, a key replaces the one that is valid for the
    shortest time. The work of a process that was killed is free again after its time.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = elapsed) -> None:
        self._file = SharedFile(path)
        self._clock = clock

    def read(self, key: bytes) -> ResultState:
        with self._file.locked():
            return self._choose(key)[1]

    def claim(self, key: bytes, seconds: float) -> ResultState:
        """Start the work unless it is running or has succeeded; return the state before."""
        with self._file.locked():
            offset, state = self._choose(key)
            if state not in (ResultState.RUNNING, ResultState.SUCCEEDED):
                self._write(offset, key, ResultState.RUNNING, seconds)
            return state

    def finish(self, key: bytes, state: ResultState, seconds: float) -> None:
        with self._file.locked():
            offset, _ = self._choose(key)
            self._write(offset, key, state, seconds)

    def close(self) -> None:
        """Unmap the memory; the results remain for other processes."""
        self._file.close()

    def _choose(self, key: bytes) -> tuple[int, ResultState]:
        """Return the slot of the key, else the one to replace, and the state of the key."""
        now, size = int(self._clock() * 1000), _RESULT.size
        first = int.from_bytes(key[16:24], "little") % _ROWS * _SLOTS * size
        oldest, offset = None, first
        for place in range(first, first + _SLOTS * size, size):
            tag, state, until = _RESULT.unpack_from(self._file.memory, place)
            if tag == key[:16]:
                return place, ResultState(state) if until > now else ResultState.UNKNOWN
            if oldest is None or until < oldest:
                oldest, offset = until, place
        return offset, ResultState.UNKNOWN

    def _write(self, offset: int, key: bytes, state: ResultState, seconds: float) -> None:
        until = int((self._clock() + seconds) * 1000)
        _RESULT.pack_into(self._file.memory, offset, key[:16], state, until)
