"""Texts with `*` for any text, as configurations write them for paths and origins."""

from __future__ import annotations

__all__ = ["Wildcard"]


class Wildcard:
    """A compiled text; matching takes time in proportion to what it is tried on, however many `*`.

    A regular expression with as many `.*` would try every way to divide the text among them.
    """

    __slots__ = ("_first", "_last", "_middle")

    def __init__(self, text: str) -> None:
        self._first, *rest = text.split("*")
        self._last = rest.pop() if rest else None
        self._middle = [part for part in rest if part]

    def matches(self, text: str) -> bool:
        """Whether the whole text fits."""
        if self._last is None:
            return text == self._first
        start, end = len(self._first), len(text) - len(self._last)
        if end < start or not text.startswith(self._first) or not text.endswith(self._last):
            return False
        for part in self._middle:
            # The leftmost place leaves the most for the parts that follow.
            found = text.find(part, start, end)
            if found < 0:
                return False
            start = found + len(part)
        return True
