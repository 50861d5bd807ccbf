"""Wildcard patterns with `*` for any text, for paths and origins in the configuration."""

from __future__ import annotations


class Wildcard:
    """A compiled pattern; matching takes linear time, however many `*` it has.

    A regular expression with as many `.*` would try every way to divide the text among them.
    """

    __slots__ = ("_first", "_last", "_middle")

    def __init__(self, text: str) -> None:
        self._first, *rest = text.split("*")
        self._last = rest.pop() if rest else None
        self._middle = [part for part in rest if part]

    def matches(self, text: str) -> bool:
        """Return whether the whole text matches."""
        if self._last is None:
            return text == self._first
        start, end = len(self._first), len(text) - len(self._last)
        if end < start or not text.startswith(self._first) or not text.endswith(self._last):
            return False
        for part in self._middle:
            # The leftmost match leaves the most text for the parts that follow.
            found = text.find(part, start, end)
            if found < 0:
                return False
            start = found + len(part)
        return True
