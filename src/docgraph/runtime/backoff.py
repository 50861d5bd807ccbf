"""Backoff with jitter: growing random pauses between attempts."""

from __future__ import annotations

import random
from collections.abc import Iterator


class GrowingPauses(Iterator[float]):
    """The pauses between attempts, in seconds, without end: each is below a bound that doubles.

    `least` is the smallest part of the bound. 0 (full jitter) separates writers that conflict, 0.5
    tasks of many processes that fail together; 1 has no jitter, where only one process waits.
    """

    def __init__(self, first: float, longest: float, *, least: float = 0.0) -> None:
        self._first, self._longest, self._least = min(first, longest), longest, least
        self._bound = self._first

    def __next__(self) -> float:
        bound, self._bound = self._bound, min(2 * self._bound, self._longest)
        return random.uniform(self._least * bound, bound)  # noqa: S311 - guards nothing

    def reset(self) -> None:
        """Begin with the first pause again: an attempt has succeeded."""
        self._bound = self._first
