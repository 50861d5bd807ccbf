"""Profile of a sample: fields, kinds, frequencies, some values.

Memory and time are bounded whatever the documents are: only so many fields, levels, elements and
values are read. What exceeds the bounds is counted, not stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from docgraph.workbench.infer.sensitive import (
    is_random,
    is_secret_if_unique,
    is_secret_value,
    may_be_random,
)
from docgraph.workbench.infer.value_kinds import NUMBERS, is_date_text, kind_of

MAX_DEPTH: Final = 8
_MAX_FIELDS: Final = 2_500  # of one object
_MAX_ALL_FIELDS: Final = 6_000  # of one collection
_MAX_VALUES: Final = 200  # of one field
_MAX_ALL_VALUES: Final = 200_000  # of one collection
_MAX_ELEMENTS: Final = 20  # of one array
_MAX_STEPS: Final = 20_000  # in one document
_LONGEST_TEXT: Final = 100
_NEARLY_ALL: Final = 0.9
_COMPARED: Final = frozenset(
    {"string", "int", "long", "double", "objectId", "uuid", "date", "bool"}
)


@dataclass(slots=True)
class Seen:
    """A field, or the elements of an array: what the sample has there."""

    count: int = 0  # occurrences, null or not
    nulls: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    values: dict[Hashable, int] = field(default_factory=dict)
    overflowed: bool = False  # there were more values than were stored
    is_prose: bool = False  # there were long strings
    dates: int = 0  # strings that are dates
    secrets: int = 0  # strings that are hashes of passwords, keys or tokens
    random: int = 0  # strings that were drawn at random
    shape: Shape | None = None
    elements: Seen | None = None

    @property
    def filled(self) -> int:
        """How often there was a value."""
        return self.count - self.nulls

    @property
    def is_nearly_unique(self) -> bool:
        """Whether its values hardly repeat."""
        return self.overflowed or len(self.values) >= self.filled * _NEARLY_ALL

    def holds_secrets(self, name: str, owner: str) -> bool:
        """Return whether its values, or those of its elements, look like secrets."""
        if self.elements is not None and self.elements.holds_secrets(name, owner):
            return True
        texts, is_number = self.kinds["string"], self.kinds.keys() <= NUMBERS
        if not texts and not is_number:
            return False
        if self.secrets * 2 > texts:
            return True
        if not self.is_nearly_unique:
            return False
        is_random = self.random * 2 > texts and not may_be_random(name, owner)
        return is_random or is_secret_if_unique(name, is_number=is_number)

    @property
    def is_empty(self) -> bool:
        """Whether its kind is unknown: always null, or always an empty array."""
        if set(self.kinds) == {"array"}:
            return self.elements is None or self.elements.is_empty
        return not self.kinds


@dataclass(slots=True)
class Shape:
    """Objects at one path: how many, and their fields in the order of appearance."""

    count: int = 0
    fields: dict[str, Seen] = field(default_factory=dict)
    omitted: int = 0  # occurrences of fields beyond the bound

    def walk(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Seen]]:
        """Yield all fields with their paths, those of objects in arrays included.

        Arrays of arrays are left out: no filter of the database reaches into them.
        """
        for name, seen in self.fields.items():
            here = (*path, name)
            yield here, seen
            inner = seen.shape or (seen.elements.shape if seen.elements else None)
            if inner is not None:
                yield from inner.walk(here)

    def find(self, path: tuple[str, ...]) -> Seen | None:
        """Return the field at a path."""
        seen = self.fields.get(path[0])
        inner = None if seen is None else seen.shape or (seen.elements and seen.elements.shape)
        return seen if len(path) == 1 or not inner else inner.find(path[1:])


class Profile:
    """The sampled documents of one collection."""

    def __init__(self) -> None:
        self.shape = Shape()
        self._fields_left = _MAX_ALL_FIELDS
        self._values_left = _MAX_ALL_VALUES
        self._steps_left = 0

    @property
    def documents(self) -> int:
        """How many documents were sampled."""
        return self.shape.count

    def add_all(self, documents: Iterable[dict[str, Any]]) -> None:
        """Add more documents."""
        for document in documents:
            self._steps_left = _MAX_STEPS
            self._add_object(self.shape, document, 0)

    def add_id(self, value: Any) -> None:
        """Add the `_id` of a document of which nothing else is known."""
        seen = self.shape.fields.get("_id")
        if seen is not None:
            seen.kinds[kind_of(value)] += 1

    def _add_object(self, shape: Shape, document: dict[str, Any], depth: int) -> None:
        shape.count += 1
        for name, value in document.items():
            seen = shape.fields.get(name)
            if seen is None:
                if len(shape.fields) >= _MAX_FIELDS or self._fields_left <= 0:
                    shape.omitted += 1
                    continue
                self._fields_left -= 1
                seen = shape.fields[name] = Seen()
            self._add(seen, value, depth)

    def _add(self, seen: Seen, value: Any, depth: int) -> None:
        seen.count += 1
        self._steps_left -= 1
        kind = kind_of(value)
        if kind == "null":
            seen.nulls += 1
            return
        seen.kinds[kind] += 1
        if kind == "object":
            self._enter(seen, value, depth)
        elif kind == "dbRef":
            self._enter(seen, dict(value.as_doc()), depth)
        elif kind == "array":
            self._add_elements(seen, value, depth)
        elif kind in _COMPARED:
            self._keep(seen, kind, value)

    def _enter(self, seen: Seen, value: dict[str, Any], depth: int) -> None:
        if depth < MAX_DEPTH and self._steps_left > 0:
            seen.shape = seen.shape or Shape()
            self._add_object(seen.shape, value, depth + 1)

    def _add_elements(self, seen: Seen, value: list[Any], depth: int) -> None:
        if depth >= MAX_DEPTH or self._steps_left <= 0:
            return
        elements = seen.elements = seen.elements or Seen()
        for element in value[:_MAX_ELEMENTS]:
            self._add(elements, element, depth + 1)

    def _keep(self, seen: Seen, kind: str, value: Any) -> None:
        if kind == "string":
            seen.dates += is_date_text(value)
            seen.secrets += is_secret_value(value)
            seen.random += is_random(value[:_LONGEST_TEXT])
            if len(value) > _LONGEST_TEXT:
                seen.overflowed = seen.is_prose = True
                return
        if value in seen.values:
            seen.values[value] += 1
        elif len(seen.values) < _MAX_VALUES and self._values_left > 0:
            self._values_left -= 1
            seen.values[value] = 1
        else:
            seen.overflowed = True
