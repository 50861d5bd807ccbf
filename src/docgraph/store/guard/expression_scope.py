"""The scope of an expression: stored values, variables, results of earlier stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from math import inf, nextafter
from typing import Any, Final, NamedTuple

from bson import DatetimeMS, Decimal128, Regex
from bson.timestamp import Timestamp

from docgraph.store.guard.sizes import ELEMENT, EXACT, NONE, Depth, Form, Size, add, deepest, join

_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class CostModel:
    """The weight of a stored value, and whether constants of the text count."""

    elements: int
    bytes: int
    trusted: bool = False
    depth: int = 1

    @property
    def stored(self) -> Size:
        """Return the size of a stored value of any kind."""
        length = Form(self.elements)
        low, high = (0, 1) if self.trusted else (-inf, inf)
        size = Size(Form(self.bytes), length, length, low, high, is_stored=True)
        return size._replace(depth=Depth(self.depth))


WRITTEN: Final = CostModel(elements=1_000, bytes=16 * 1024, depth=100)
"""The weights for expressions of callers."""

TRUSTED: Final = CostModel(elements=1, bytes=1, trusted=True)
"""The weights for expressions of authors, with values that callers supply."""


class Place(NamedTuple):
    """A path in the expression: a key below another place."""

    above: Place | None
    key: str | int

    def __str__(self) -> str:
        steps: list[str] = []
        place: Place | None = self
        while place is not None:
            steps.append(f"[{place.key}]" if isinstance(place.key, int) else f".{place.key}")
            place = place.above
        return "".join(reversed(steps)).removeprefix(".")[:_SHOWN]


@dataclass(frozen=True, slots=True)
class ExpressionScope:
    """The sizes of variables, of properties that earlier stages computed, and of the document.

    `below` is the property that a dotted name passes through, and its share of each turn.
    """

    stored: Size
    variables: Mapping[str, Size] = field(default_factory=dict)
    fields: Mapping[str, Size] = field(default_factory=dict)
    below: tuple[str, Size] | None = None

    def bind(self, variables: Mapping[str, Size]) -> ExpressionScope:
        """Return the scope with more variables."""
        bound = {name: size._replace(built=NONE) for name, size in variables.items()}
        return replace(self, variables={**self.variables, **bound})

    def compute(self, fields: Mapping[str, Size]) -> ExpressionScope:
        """Return the scope with properties that a stage computes."""
        bound = {name: size._replace(built=NONE) for name, size in fields.items()}
        return replace(self, fields={**self.fields, **bound})

    def deepen(self, depth: Depth) -> ExpressionScope:
        """Return the scope with a document, and properties of it, of this depth."""
        fields = {name: _deepen(one, depth) for name, one in self.fields.items()}
        return replace(self, stored=_deepen(self.stored, depth), fields=fields)

    @property
    def document(self) -> Size:
        """Return the size of the whole document."""
        parts = [self.stored, *self.fields.values()]
        inner = join([form for one in parts for form in (one.length, one.inner)])
        low, high = min(one.low for one in parts), max(one.high for one in parts)
        length = add(inner, Form(len(self.fields)))
        names = Form(sum(len(name) + ELEMENT for name in self.fields))
        bytes = add(names, *(one.bytes for one in parts))
        depth = deepest([self.stored.depth, *(one.depth.add(1) for one in self.fields.values())])
        return Size(bytes, length, inner, low, high, is_whole=True, depth=depth)

    def read(self, path: str) -> Size:
        """Return the size of the property at a path, or of one that contains it."""
        name, *below = path.split(".")
        if self.below is not None and name == self.below[0]:
            return self.below[1]
        found = self.fields.get(name, self.stored.within())
        return found.within(len(below)) if below else found


def _deepen(size: Size, depth: Depth) -> Size:
    return size._replace(depth=deepest([size.depth, depth]))


def measure_constant(value: Any, *, supplied: bool, trusted: bool) -> Size:
    """Return the size of a constant; one that an author wrote does not count."""
    if trusted and not supplied:
        low, high = _read_number(value)
        text = value if isinstance(value, str) else None
        size = Size(Form(1), low=low, high=high, text=text)
        return size._replace(is_number=_is_number(value), is_numeric=_is_number(value))
    if isinstance(value, Mapping | list | tuple):
        return _measure_container(value, supplied)
    low, high = _read_number(value)
    if isinstance(value, Regex) or hasattr(value, "pattern"):
        value = value.pattern
    if isinstance(value, bytes):
        return Size(Form(len(value) + ELEMENT), low=low, high=high, supplied=supplied)
    if not isinstance(value, str):
        is_number = _is_number(value)
        size = Size(low=low, high=high, supplied=supplied)
        return size._replace(is_number=is_number, is_numeric=is_number)
    return Size(Form(len(value.encode())), low=low, high=high, supplied=supplied, text=value)


def _measure_container(value: Any, supplied: bool) -> Size:
    """Return the size of a constant list or document, level by level."""
    bytes, inner, low, high, depth = 0.0, 0.0, inf, -inf, 0
    level: list[Any] = [value]
    while level:
        below: list[Any] = []
        for one in level:
            if isinstance(one, Mapping):
                bytes += sum(len(key) + ELEMENT for key in one)
                below += one.values()
            elif isinstance(one, list | tuple):
                bytes += len(one) * ELEMENT
                below += one
            else:
                size = measure_constant(one, supplied=supplied, trusted=False)
                bytes, low, high = (
                    bytes + size.bytes.constant,
                    min(low, size.low),
                    max(high, size.high),
                )
        inner = max(
            [inner, *(len(one) for one in below if isinstance(one, Mapping | list | tuple))]
        )
        depth += any(isinstance(one, Mapping | list | tuple) for one in level)
        level = below
    if low > high:
        low, high = 0, 1
    size = Size(Form(bytes), Form(len(value)), Form(inner), low, high, supplied)
    return size._replace(depth=Depth(depth))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal128) and not isinstance(value, bool)


def _read_number(value: Any) -> tuple[float, float]:
    """Return the value as a number, if it is one or can be converted."""
    if isinstance(value, datetime | DatetimeMS | Timestamp):
        return -inf, inf
    if isinstance(value, bool):
        return 0, 1
    if not isinstance(value, int | float | str | Decimal128):
        return 0, 1
    text = value if isinstance(value, str) else str(value)
    try:
        found = float(text)
    except ValueError:
        return 0, 1
    if not abs(found) <= EXACT:  # or it is no number
        return -inf, inf
    if isinstance(value, str | Decimal128) and Decimal(text) != found:
        return nextafter(found, -inf), nextafter(found, inf)
    return found, found
