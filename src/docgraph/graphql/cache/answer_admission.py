"""Admission of answers: which misses are stored.

Recording what an answer depends on costs more than many answers are worth. While at least half of
the stored answers are used, each miss is stored. Otherwise only a miss whose key was requested
before is stored: that keeps requests that come only once from evicting the answers in use.
"""

from __future__ import annotations

from typing import Final

MAX_CREDIT: Final = 256  # answers that are stored before one of them was used
_OF_USE: Final = 2  # answers that may be stored for each one that was used
_MAX_KEYS: Final = 1 << 17


class AnswerAdmission:
    """Decides which answers are stored; two generations of hashes are the keys of late."""

    def __init__(self) -> None:
        self._credit = MAX_CREDIT
        self._recent: set[int] = set()
        self._previous: set[int] = set()

    def admits(self, key: bytes, capacity: int) -> bool:
        """Return whether a miss is to be stored; if not, the next one with this key is.

        `capacity`: an answer is evicted after so many others, so older keys are worth nothing.
        """
        if self._credit or (code := hash(key)) in self._recent or code in self._previous:
            return True
        self.record(key, capacity)
        return False

    def record(self, key: bytes, capacity: int) -> None:
        """Record that the next miss with this key is to be stored."""
        if len(self._recent) >= min(capacity, _MAX_KEYS) // 2:
            self._recent, self._previous = set(), self._recent
        self._recent.add(hash(key))

    def record_stored(self) -> None:
        """Record that an answer was stored."""
        self._credit = max(0, self._credit - 1)

    def record_used(self) -> None:
        """Record that a stored answer was used for the first time."""
        self._credit = min(MAX_CREDIT, self._credit + _OF_USE)
