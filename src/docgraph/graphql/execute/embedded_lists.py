"""Embedded objects: extract them from the values of a column, complete and put them back.

The values of a column are documents, lists of them, or null, one for each parent. All documents are
extracted, the same one only once (with `rootDoc` below: once for each root), so that nested fields
run once for all of them. `rebuild` puts the completed objects in their positions.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import chain
from typing import Any

from graphql import is_non_null_type

from docgraph.graphql.errors import Damaged, FieldFailure
from docgraph.graphql.execute.complete import CompletedValues
from docgraph.graphql.execute.examine import examine
from docgraph.graphql.execute.joined import JoinedFirsts, JoinedLists
from docgraph.graphql.plan.plan_tree import Embedded, Fetch, Selection

_DICT = frozenset({dict})
_FETCHED = frozenset({dict, bytes})  # bytes: a document that is not decoded
_LIST = frozenset({list})
_JSON = frozenset({bytes})
_LONG = 1024 * 1024
_ONE = range(1)


class Elements:
    """The `documents` of a column, and the root document of each where a field needs it.

    `slots` lists which document is at each position, in the order of the values. It is None if
    there are other values among them; then only the slow rebuild is correct. `ends`: the documents
    are in lists, one after the other, that end there.
    """

    __slots__ = (
        "_column",
        "_index",
        "_parent_roots",
        "_values",
        "documents",
        "ends",
        "roots",
        "slots",
    )

    def __init__(
        self,
        column: Embedded | Fetch,
        selection: Selection,
        values: Sequence[Any],
        parent_roots: Sequence[Any] | None,
    ) -> None:
        """Extract the documents.

        `parent_roots` are the roots of the parents; at the top, each document is its own.
        """
        self._column = column
        self._values = values
        self._parent_roots = parent_roots if selection.needs_root else None
        self._index: dict[Hashable, int] = {}
        self.documents: list[Any] = []
        # The documents inside of an object around them are their own roots.
        needs_root = selection.needs_root and not (column.is_wrapper and parent_roots is None)
        self.roots: list[Any] | None = [] if needs_root else None
        self.slots: Sequence[int] | None = None
        self.ends: Sequence[int] | None = None
        if self.roots is None and type(values) is not list and self._extract_joined():
            return
        is_plain = self.roots is None and selection.resolve is None
        if len(values) == 1 and type(values[0]) is list and isinstance(column, Fetch):
            # Of one parent: no document can occur twice.
            documents = self.documents = values[0]
            if self.roots is not None:
                self.roots = [self._root(0, document) for document in documents]
            self.slots, self.ends = range(len(documents)), (len(documents),)
        elif len(values) == 1 and type(values[0]) is dict and is_plain and not column.is_list_type:
            self.documents, self.slots = [values[0]], _ONE
        elif not is_plain or not self._extract_fast():
            self._extract_each()

    def _extract_joined(self) -> bool:
        """Extract documents that the native extension has joined; return False for others."""
        values = self._values
        if type(values) is JoinedLists:
            self.documents, self.ends = values.documents, values.ends
            return True
        if type(values) is not JoinedFirsts:
            return False
        if None in values.slots and is_non_null_type(self._column.type):
            return False
        self.documents = values.documents
        self.slots = [slot for slot in values.slots if slot is not None]
        return True

    def _extract_fast(self) -> bool:
        """Extract documents, or lists of them, or null; return False for any other value.

        Written for many values: the work per value is done in C.
        """
        documents = _FETCHED if isinstance(self._column, Fetch) else _DICT
        kinds = _LIST if self._column.is_list_type else documents
        values = self._values
        if not kinds.issuperset(map(type, values)):
            if is_non_null_type(self._column.type):
                return False
            values = [value for value in values if value is not None]
            if not kinds.issuperset(map(type, values)):
                return False
        if self._column.is_list_type:
            values = list(chain.from_iterable(values))
            if not documents.issuperset(map(type, values)):
                return False
        distinct = dict(zip(map(id, values), values, strict=True))
        self.documents = list(distinct.values())
        if len(distinct) == len(values):
            self.slots = range(len(values))
        else:
            slot_of = dict(zip(distinct, range(len(distinct)), strict=True))
            self.slots = [slot_of[id(value)] for value in values]
        return True

    def _extract_each(self) -> None:
        depth = int(self._column.is_list_type)
        may_be_null = not is_non_null_type(self._column.type)
        slots: list[int] = []
        is_regular = True
        for number, value in enumerate(self._values):
            if value is None:
                is_regular = is_regular and may_be_null
            elif not self._extract(number, value, depth, slots):
                is_regular = False
        self.slots = slots if is_regular else None

    def _extract(self, number: int, value: Any, depth: int, slots: list[int]) -> bool:
        """Extract documents from a value; return False unless it is `depth` lists of them."""
        if type(value) is list:
            taken = [self._extract(number, item, depth - 1, slots) for item in value]
            return depth == 1 and all(taken)
        if not self._accepts(value):
            return False
        key = self._key(number, value)
        slot = self._index.get(key)
        if slot is None:
            slot = self._index[key] = len(self.documents)
            self.documents.append(value)
            if self.roots is not None:
                self.roots.append(self._root(number, value))
        slots.append(slot)
        return depth == 0

    def _accepts(self, value: Any) -> bool:
        """Return whether this is an object; for an interface or union, its resolver decides."""
        selection = self._column.selection
        if selection is None or selection.resolve is None:
            return type(value) in (_FETCHED if isinstance(self._column, Fetch) else _DICT)
        return value is not None and not isinstance(value, list | FieldFailure)

    def _key(self, number: int, document: Any) -> Hashable:
        if self._parent_roots is None:
            return id(document)
        return id(document), id(self._parent_roots[number])

    def _root(self, number: int, document: Any) -> Any:
        return document if self._parent_roots is None else self._parent_roots[number]

    def rebuild(self, objects: CompletedValues) -> CompletedValues:
        """Return the values, with the completed objects in the positions of the documents.

        Lists of JSON become JSON, unless they are long: copies of those would need much memory.
        """
        if objects.are_lists:
            values, items = self._values, objects.items
            return CompletedValues(values.place(items) if type(values) is JoinedLists else items)
        if self.ends is not None and type(self._values) is JoinedLists:
            self.slots = self._values.slots
        if self.slots is None or objects.damaged:
            return self._rebuild_carefully(objects.items)
        items = objects.items
        placed = items if type(self.slots) is range else [items[slot] for slot in self.slots]
        if self._column.is_list_type:
            lists = self._slice(placed)
            if placed and _JSON.issuperset(map(type, placed)) and sum(map(len, placed)) <= _LONG:
                lists = [items if items is None else b"[%b]" % b",".join(items) for items in lists]
            return CompletedValues(lists)
        if len(placed) < len(self._values):
            given = iter(placed)
            placed = [None if value is None else next(given) for value in self._values]
        return CompletedValues(placed)

    def _slice(self, placed: list[Any]) -> list[Any]:
        if len(self._values) == 1 and self._values[0] is not None:
            return [placed]
        result: list[Any] = []
        start = 0
        for value in self._values:
            if value is None:
                result.append(None)
                continue
            end = start + len(value)
            result.append(placed[start:end])
            start = end
        return result

    def _rebuild_carefully(self, objects: list[Any]) -> CompletedValues:
        """Rebuild by the type of the field, with every error at its position."""
        column = self._column
        if not self._index:
            self._index = {self._key(0, item): slot for slot, item in enumerate(self.documents)}
        results = []
        for number, value in enumerate(self._values):

            def finish(document: Any, number: int = number) -> Any:
                if self._accepts(document):
                    return objects[self._index[self._key(number, document)]]
                name = column.position.coordinates
                text = f"the stored value of {name} does not fit: it is no object"
                return Damaged(None, FieldFailure(text, "value-does-not-fit").at(column.position))

            results.append(examine(column.type, value, finish, column.position))
        return CompletedValues.checked(results)
