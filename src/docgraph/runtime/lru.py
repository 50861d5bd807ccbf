"""LRU cache: a bounded dictionary that drops the least recently used entry.

Threads may share one: each method consists of a few operations on a dictionary, and none of them
fails when another thread removes the entry in between.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruDict(Generic[K, V]):
    """At most `size` values, none of which is None."""

    __slots__ = ("_entries", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return the value, which becomes the most recently used one, or None."""
        value = self._entries.get(key)
        if value is not None:
            try:
                self._entries.move_to_end(key)
            except KeyError:  # another thread dropped it
                return value
        return value

    def peek(self, key: K) -> V | None:
        """Return the value or None, without marking it as used."""
        return self._entries.get(key)

    def put(self, key: K, value: V) -> tuple[K, V] | None:
        """Store a value, and return the entry that was dropped for it."""
        self._entries.pop(key, None)
        self._entries[key] = value
        return self.pop_oldest() if len(self._entries) > self.size else None

    def pop(self, key: K) -> None:
        """Remove a value if it is stored."""
        self._entries.pop(key, None)

    def pop_oldest(self) -> tuple[K, V]:
        """Remove and return the least recently used entry."""
        return self._entries.popitem(last=False)

    def clear(self) -> None:
        """Remove everything."""
        self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)
