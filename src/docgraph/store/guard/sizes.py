"""Upper bounds of sizes, as sums in which parts of a whole may appear.

The elements of an array share its bytes: all turns of a loop together copy `$$this` once, however
the bytes are distributed. So the size of a value is a linear form, a number plus a multiple of each
`Part`: the element of a loop, or the `$$value` of a `$reduce`, whose size is known at its end only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Final, NamedTuple

__all__ = ["ELEMENT", "NONE", "Form", "Part", "Size", "add", "close", "join", "number", "product"]

# A stored element, with its key and its entry in an array in memory, takes 16 bytes or more.
ELEMENT: Final = 16


class Part:
    """The element of a loop that runs `turns` times over `total` bytes; None: not known yet.

    `most` is the largest that it can be, `mean` what it is on average over all turns.
    """

    __slots__ = ("mean", "most", "total")

    def __init__(self, total: Form | None, turns: float = 1) -> None:
        self.total = total
        itself = Form(0, {self: 1})
        self.most = itself if total is None else total.flatten()
        self.mean = itself if total is None else total.average().times(1 / max(turns, 1))


class Form(NamedTuple):
    """A number, and how many times each part is added to it."""

    constant: float = 0
    parts: Mapping[Part, float] = {}

    def flatten(self) -> Form:
        """The most that it can be: a number, and parts whose size is not known yet."""
        if not self.parts:
            return self
        return add(
            Form(self.constant), *(part.most.times(count) for part, count in self.parts.items())
        )

    def average(self) -> Form:
        """The same, for work that is added up over all turns of the loops around it."""
        if not self.parts:
            return self
        return add(
            Form(self.constant), *(part.mean.times(count) for part, count in self.parts.items())
        )

    @property
    def is_open(self) -> bool:
        """Whether a part is in it whose size is not known yet."""
        return bool(self.flatten().parts)

    def peak(self) -> float:
        """The most that it can be, without the parts whose size is not known yet."""
        return self.flatten().constant

    def bound(self) -> float:
        """The most that it can be; infinite as long as that is not known."""
        most = self.flatten()
        return inf if most.parts else most.constant

    def times(self, factor: float) -> Form:
        """The form, that often."""
        if not self.parts:
            return Form(_times(self.constant, factor))
        if not factor:
            return NONE
        parts = {part: _times(count, factor) for part, count in self.parts.items()}
        return Form(_times(self.constant, factor), parts)

    def resolve(self, part: Part, value: Form) -> Form:
        """The form with `value` in place of a part."""
        count = self.parts.get(part, 0)
        return add(self.without(part), value.times(count)) if count else self

    def without(self, part: Part) -> Form:
        """The form without one of its parts."""
        if part not in self.parts:
            return self
        return Form(self.constant, {one: n for one, n in self.parts.items() if one is not part})


NONE: Final = Form()


def _times(one: float, other: float) -> float:
    """Nothing times something without end is nothing."""
    return one * other if one and other else 0


def add(*forms: Form) -> Form:
    """Their sum."""
    constant = 0.0
    parts: dict[Part, float] = {}
    for form in forms:
        constant += form.constant
        for part, count in form.parts.items():
            parts[part] = parts.get(part, 0) + count
    return Form(constant, parts)


def join(forms: Iterable[Form]) -> Form:
    """A form that is not below any of them."""
    constant = 0.0
    parts: dict[Part, float] = {}
    for form in forms:
        constant = max(constant, form.constant)
        for part, count in form.parts.items():
            parts[part] = max(parts.get(part, 0), count)
    return Form(constant, parts)


def product(one: Form, other: Form) -> Form:
    """A form that is not below their product."""
    if one.parts and (not other.parts or one.is_open):
        one, other = other, one
    factor = one.bound()
    return other.times(factor)


def close(form: Form, part: Part, turns: Form) -> Form:
    """What all turns of a loop over the part make together, where one makes `form`."""
    shared = (part.total or NONE).times(form.parts.get(part, 0))
    return add(product(turns, form.without(part)), shared)


class Size(NamedTuple):
    """What is known of a value: bytes, elements or properties, those of what is inside, number.

    `built` are the bytes that did not exist before: a property or a variable is a reference.
    `supplied`: a caller's value takes part in it. `text`: it is that constant. `is_number`: it is
    one that was written. `is_whole`: it holds a whole document, unpacked with each use.
    `is_stored`: it is stored, or a part of what is.
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
    is_whole: bool = False
    is_stored: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether only one number is possible."""
        return self.low == self.high

    def within(self) -> Size:
        """What a path below it may lead to."""
        length = join([self.length, self.inner])
        size = Size(self.bytes, length, self.inner, self.low, self.high, self.supplied)
        return size._replace(is_stored=self.is_stored)

    def element(self, part: Part) -> Size:
        """An element of it, in the loop of that part."""
        share = Form(0, {part: 1})
        # As many elements as it has bytes for; or as the longest array inside, where that is less.
        length = Form(0, {part: 1 / ELEMENT})
        if self.length.bound() * self.inner.bound() < self.bytes.peak() / ELEMENT:
            length = self.inner
        size = Size(share, length, length, self.low, self.high, self.supplied)
        return size._replace(is_whole=self.is_whole)


def number(low: float, high: float, *, supplied: bool = False) -> Size:
    """A number between these two."""
    return Size(low=low, high=high, supplied=supplied)
