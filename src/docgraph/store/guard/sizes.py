"""Upper bounds of sizes, as sums in which parts of a whole may appear.

The elements of an array share its bytes: all turns of a loop together copy `$$this` once, however
the bytes are distributed. So the size of a value is a linear form, a number plus a multiple of each
`LoopElement`: the element of a loop, or the `$$value` of a `$reduce`, whose size is known at the
end only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from math import inf, nextafter
from typing import Any, Final, NamedTuple

from bson import DatetimeMS, Decimal128, Regex
from bson.timestamp import Timestamp

# A stored element, with its key and its entry in an array in memory, takes 16 bytes or more.
ELEMENT: Final = 16
# Whole numbers up to here are the same as doubles and as decimals.
EXACT: Final = 10**15
_ROUNDING: Final = 1 + 1e-9  # products of floating-point numbers may be slightly too small


class LoopElement:
    """The element of a loop over `total` bytes, None: not known yet; `most` and `mean` of it."""

    __slots__ = ("mean", "most", "total")

    def __init__(self, total: Form | None, turns: float = 1) -> None:
        self.total = total
        itself = Form(0, {self: 1})
        self.most = itself if total is None else total.flatten()
        self.mean = itself if total is None else total.average().times(1 / max(turns, 1))


class Form(NamedTuple):
    """A linear form: a number plus a multiple of each part."""

    constant: float = 0
    parts: Mapping[LoopElement, float] = {}

    def flatten(self) -> Form:
        """Return the upper bound as a number and the parts whose size is not known yet."""
        if not self.parts:
            return self
        return add(
            Form(self.constant), *(part.most.times(count) for part, count in self.parts.items())
        )

    def average(self) -> Form:
        """Return the same for work that is summed over all turns of the enclosing loops."""
        if not self.parts:
            return self
        return add(
            Form(self.constant), *(part.mean.times(count) for part, count in self.parts.items())
        )

    @property
    def is_open(self) -> bool:
        """Return whether the form contains a part whose size is not known yet."""
        return bool(self.flatten().parts)

    def peak(self) -> float:
        """Return the upper bound without the parts whose size is not known yet."""
        return self.flatten().constant

    def bound(self) -> float:
        """Return the upper bound; infinite while a part is not known."""
        most = self.flatten()
        return inf if most.parts else most.constant * _ROUNDING

    def times(self, factor: float) -> Form:
        if not self.parts:
            return Form(_times(self.constant, factor))
        if not factor:
            return NONE
        parts = {part: _times(count, factor) for part, count in self.parts.items()}
        return Form(_times(self.constant, factor), parts)

    def resolve(self, part: LoopElement, value: Form) -> Form:
        count = self.parts.get(part, 0)
        return add(self.without(part), value.times(count)) if count else self

    def without(self, part: LoopElement) -> Form:
        if part not in self.parts:
            return self
        return Form(
            self.constant, {other: n for other, n in self.parts.items() if other is not part}
        )


NONE: Final = Form()


def _times(number: float, factor: float) -> float:
    """Multiply; zero times infinity is zero."""
    return number * factor if number and factor else 0


def add(*forms: Form) -> Form:
    constant = 0.0
    parts: dict[LoopElement, float] = {}
    for form in forms:
        constant += form.constant
        for part, count in form.parts.items():
            parts[part] = parts.get(part, 0) + count
    return Form(constant, parts)


def join(forms: Iterable[Form]) -> Form:
    """Return an upper bound of the forms."""
    constant = 0.0
    parts: dict[LoopElement, float] = {}
    for form in forms:
        constant = max(constant, form.constant)
        for part, count in form.parts.items():
            parts[part] = max(parts.get(part, 0), count)
    return Form(constant, parts)


def product(first: Form, other: Form) -> Form:
    """Return an upper bound of the product."""
    if first.parts and (not other.parts or first.is_open):
        first, other = other, first
    factor = first.bound()
    return other.times(factor)


def close(form: Form, part: LoopElement, turns: Form) -> Form:
    """Return the size of all iterations of a loop over the part; one iteration is `form`."""
    shared = (part.total or NONE).times(form.parts.get(part, 0))
    return add(product(turns, form.without(part)), shared)


class Depth(NamedTuple):
    """Nesting depth of arrays and documents: the maximum of a number and of some parts.

    A part is the `$$value` of a `$reduce`, with the levels that are added to it. At some 10 000
    levels the database runs out of stack, and ends.
    """

    levels: float = 0
    parts: Mapping[LoopElement, float] = {}

    def add(self, levels: float) -> Depth:
        """Return the depth plus a number of levels, which may be negative."""
        parts = {part: added + levels for part, added in self.parts.items()}
        return Depth(max(self.levels + levels, 0), parts)

    def resolve(self, part: LoopElement, value: Depth) -> Depth:
        if part not in self.parts:
            return self
        others = {other: added for other, added in self.parts.items() if other is not part}
        return deepest([Depth(self.levels, others), value.add(self.parts[part])])

    def repeat(self, part: LoopElement, first: Depth, turns: float) -> Depth:
        """Return the depth of the part: `first`, then this depth of itself in each turn."""
        start = deepest([first, self.resolve(part, first)])
        grown = max(self.parts.get(part, 0), 0)
        return start.add(grown * max(turns - 1, 0)) if grown else start


FLAT: Final = Depth()


def deepest(depths: Iterable[Depth]) -> Depth:
    levels = 0.0
    parts: dict[LoopElement, float] = {}
    for depth in depths:
        levels = max(levels, depth.levels)
        for part, added in depth.parts.items():
            parts[part] = max(parts.get(part, added), added)
    return Depth(levels, parts)


class Size(NamedTuple):
    """The known size of a value: bytes, elements or properties, also of its content, and numbers.

    `built` are the bytes that did not exist before: a property or a variable is a reference.
    `supplied`: a caller's value takes part in it. `text`: it is that constant. `is_number`: it is
    one that was written. `is_whole`: it holds a whole document, unpacked with each use.
    `is_numeric`: it is a number or null, not a text or a date that a conversion would make a number
    of. `is_stored`: it is stored, or a part of what is. `depth`: its levels.
    """

    bytes: Form = Form(ELEMENT)
    length: Form = Form(1)
    inner: Form = Form(1)
    low: float = -inf
    high: float = inf
    supplied: bool = False
    text: str | None = None
    built: Form = NONE
    is_number: bool = False
    is_numeric: bool = False
    is_whole: bool = False
    is_stored: bool = False
    depth: Depth = FLAT

    @property
    def is_constant(self) -> bool:
        """Return whether only one number is possible."""
        return self.low == self.high

    def within(self, steps: int = 1) -> Size:
        """Return the size of a value at a path of so many steps below it."""
        length = join([self.length, self.inner])
        size = Size(self.bytes, length, self.inner, self.low, self.high, self.supplied)
        return size._replace(is_stored=self.is_stored, depth=self.depth.add(-steps))

    def element(self, part: LoopElement) -> Size:
        """Return the size of an element, in the loop of that part."""
        share = Form(0, {part: 1})
        # As many elements as it has bytes for; or as the longest array inside, where that is less.
        length = Form(0, {part: 1 / ELEMENT})
        if self.length.bound() * self.inner.bound() < self.bytes.peak() / ELEMENT:
            length = self.inner
        size = Size(share, length, length, self.low, self.high, self.supplied)
        return size._replace(is_whole=self.is_whole, depth=self.depth.add(-1))


def number(low: float, high: float, *, supplied: bool = False) -> Size:
    """Return the size of a number between these two."""
    return Size(low=low, high=high, supplied=supplied, is_numeric=True)


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
        bound = {name: size._replace(built=NONE) for name, size in variables.items()}
        return replace(self, variables={**self.variables, **bound})

    def compute(self, fields: Mapping[str, Size]) -> ExpressionScope:
        """Return the scope with properties that a stage computes."""
        bound = {name: size._replace(built=NONE) for name, size in fields.items()}
        return replace(self, fields={**self.fields, **bound})

    def deepen(self, depth: Depth) -> ExpressionScope:
        """Return the scope with a document, and properties of it, of this depth."""
        fields = {name: _deepen(size, depth) for name, size in self.fields.items()}
        return replace(self, stored=_deepen(self.stored, depth), fields=fields)

    @property
    def document(self) -> Size:
        parts = [self.stored, *self.fields.values()]
        inner = join([form for part in parts for form in (part.length, part.inner)])
        low, high = min(part.low for part in parts), max(part.high for part in parts)
        length = add(inner, Form(len(self.fields)))
        names = Form(sum(len(name) + ELEMENT for name in self.fields))
        bytes = add(names, *(part.bytes for part in parts))
        depth = deepest([self.stored.depth, *(size.depth.add(1) for size in self.fields.values())])
        return Size(bytes, length, inner, low, high, is_whole=True, depth=depth)

    def read(self, path: str) -> Size:
        """Return the size of the property at a path, or of one that contains it."""
        name, *below = path.split(".")
        if self.below is not None and name == self.below[0]:
            return self.below[1]
        size = self.fields.get(name, self.stored.within())
        return size.within(len(below)) if below else size


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
        for node in level:
            if isinstance(node, Mapping):
                bytes += sum(len(key) + ELEMENT for key in node)
                below += node.values()
            elif isinstance(node, list | tuple):
                bytes += len(node) * ELEMENT
                below += node
            else:
                size = measure_constant(node, supplied=supplied, trusted=False)
                bytes, low, high = (
                    bytes + size.bytes.constant,
                    min(low, size.low),
                    max(high, size.high),
                )
        inner = max(
            [inner, *(len(part) for part in below if isinstance(part, Mapping | list | tuple))]
        )
        depth += any(isinstance(item, Mapping | list | tuple) for item in level)
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
        number = float(text)
    except ValueError:
        return 0, 1
    if not abs(number) <= EXACT:  # or it is no number
        return -inf, inf
    if isinstance(value, str | Decimal128) and Decimal(text) != number:
        return nextafter(number, -inf), nextafter(number, inf)
    return number, number
