"""Cut lists: which lists of a response have more documents than their limit, by path.

A list is fetched with one document beyond its limit, which is dropped. Lists are identified by
themselves while the response is built, because their paths are known only at the end: the objects
that contain them may be in several positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from docgraph.graphql.errors import Damaged

MAX_ENTRIES: Final = 100


class CutLists:
    """The lists that were cut, with their limits; they are kept, so that no other gets their id."""

    __slots__ = ("_limits",)

    def __init__(self) -> None:
        self._limits: dict[int, tuple[Any, int]] = {}

    def add(self, documents: list[Any], limit: int) -> None:
        """Record a list that was cut."""
        self._limits[id(documents)] = (documents, limit)

    def follow(self, values: Sequence[Any], completed: Sequence[Any]) -> None:
        """Record the completed lists of those that were cut."""
        for value, item in zip(values, completed, strict=True) if self._limits else ():
            known = self._limits.get(id(value))
            shown = item.value if type(item) is Damaged else item
            if known is not None and type(shown) is list:
                self.add(shown, known[1])

    def list_entries(self, data: Any) -> tuple[dict[str, Any], ...]:
        """Return path and limit of the first lists in the response that were cut."""
        entries: list[dict[str, Any]] = []
        for path, limit in self._walk(data, ()) if self._limits else ():
            entries.append({"path": list(path), "limit": limit})
            if len(entries) == MAX_ENTRIES:
                break
        return tuple(entries)

    def _walk(self, value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[Any, int]]:
        if type(value) is dict:
            for key, item in value.items():
                if type(item) is dict or type(item) is list:
                    yield from self._walk(item, (*path, key))
        elif type(value) is list:
            if id(value) in self._limits:
                yield path, self._limits[id(value)][1]
            for number, item in enumerate(value):
                if type(item) is dict or type(item) is list:
                    yield from self._walk(item, (*path, number))
