"""Joined documents that are not decoded: the native extension has assigned them to their parents.

Both classes are sequences of what each parent has, which is built only when code reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class JoinedLists(Sequence[Any]):
    """The documents of each parent.

    `documents` are those of all distinct keys, one key after the other; `ends` is where those of
    each key end, and `keys` has the number of the key of each parent.
    """

    __slots__ = ("_lists", "documents", "ends", "keys")

    def __init__(self, documents: list[bytes], ends: list[int], keys: list[int]) -> None:
        self.documents = documents
        self.ends = ends
        self.keys = keys
        self._lists: list[list[bytes]] | None = None

    @property
    def total(self) -> int:
        """How many documents all parents have; those of a shared key count for each of them."""
        if len(self.keys) < len(self.ends):
            return len(self.documents)  # no key is shared
        return sum(map(len, self))

    @property
    def slots(self) -> list[int]:
        """The positions of the documents of all parents, one parent after the other."""
        starts = [0, *self.ends]
        return [slot for key in self.keys for slot in range(starts[key], starts[key + 1])]

    def place(self, lists: Sequence[Any]) -> list[Any]:
        """Return for each parent what belongs to its key."""
        return [lists[key] for key in self.keys]

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: Any) -> Any:
        if self._lists is None:
            starts = [0, *self.ends]
            pairs = zip(starts, self.ends, strict=False)
            self._lists = self.place([self.documents[start:end] for start, end in pairs])
        return self._lists[index]


class JoinedFirsts(Sequence[Any]):
    """The only document of each parent, or None; `slots` are their positions in `documents`."""

    __slots__ = ("documents", "slots")

    def __init__(self, documents: list[bytes], slots: list[int | None]) -> None:
        self.documents = documents
        self.slots = slots

    @property
    def total(self) -> int:
        """How many parents have a document."""
        return len(self.slots) - self.slots.count(None)

    def place(self, items: Sequence[Any]) -> list[Any]:
        """Return for each parent what belongs to its document."""
        return [None if slot is None else items[slot] for slot in self.slots]

    def __len__(self) -> int:
        return len(self.slots)

    def __getitem__(self, index: Any) -> Any:
        return self.place(self.documents)[index]

    def __iter__(self) -> Any:
        return iter(self.place(self.documents))


Joined = JoinedLists | JoinedFirsts
