"""Admission of answers: a miss is stored if its request was missed before, not long ago.

Recording what an answer depends on costs more than an answer is worth that no one requests again.
So the first miss of a request leaves a mark, and the next one removes the mark and is stored. An
answer that was used leaves a mark when it is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_MAX_MARKS: Final = 1 << 17


class AnswerAdmission:
    """The marks of late: hashes of keys, in two generations.

    `capacity` returns for how many answers there is room: an answer is evicted after so many
    others, so older marks are worth nothing.
    """

    def __init__(self, capacity: Callable[[], int]) -> None:
        self._capacity = capacity
        self._room = 0  # for marks in one generation
        self._recent: set[int] = set()
        self._previous: set[int] = set()

    def mark(self, key: bytes) -> bool:
        """Leave a mark for the next miss with this key; return whether there was none."""
        code = hash(key)
        if code in self._recent or code in self._previous:
            return False
        if len(self._recent) >= self._room:
            self._room = min(self._capacity(), _MAX_MARKS) // 2
            self._recent, self._previous = set(), self._recent
        self._recent.add(code)
        return True

    def remove(self, key: bytes) -> None:
        """Remove the mark of a key."""
        code = hash(key)
        self._recent.discard(code)
        self._previous.discard(code)
