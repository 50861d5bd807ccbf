"""The operands of an operator, what it results in, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from docgraph.store.guard.sizes import NONE, Form, Size, add, deepest, join, number

PLAIN: Final = 1 / 20  # steps: an operator on single values, or reading one element
BYTE: Final = 1 / 512  # steps: a byte that is copied or searched

_ONE: Final = Form(1)

Result = tuple[Size, Form]
"""The result of an operator, and the steps that it takes."""


@dataclass(frozen=True, slots=True)
class Operands:
    """The operands of an operator: those of a list, or a single one; those with a name.

    `trusted`: an author wrote the expression, and only values that callers supply count.
    """

    all: list[Size]
    named: Mapping[str, Size] = field(default_factory=dict)
    trusted: bool = False

    def get(self, index: int) -> Size:
        """The operand at that position."""
        return self.all[index] if index < len(self.all) else number(0, 0)

    def name(self, name: str) -> Size:
        """The operand of that name."""
        return self.named.get(name, number(0, 0))

    @property
    def supplied(self) -> bool:
        """Whether a value of the caller is among them."""
        return any(one.supplied for one in self.all)

    @property
    def bytes(self) -> Form:
        """All of them together."""
        return add(*(one.bytes for one in self.all))

    @property
    def length(self) -> Form:
        """The elements of all of them together."""
        return add(*(one.length for one in self.all))

    @property
    def input(self) -> Size:
        """The first operand, or the one that is named `input`."""
        return self.named.get("input") or self.get(0)

    def number(self, low: float, high: float) -> Size:
        """A number between these two that is computed of the operands."""
        return number(low, high, supplied=self.supplied)

    def size(self, bytes: Form, length: Form = _ONE, inner: Form = _ONE) -> Size:
        """A value of that size that is computed of the operands."""
        return Size(bytes, length, inner, supplied=self.supplied)

    def unite(self) -> Size:
        """An array of the elements of all of them."""
        low = min((one.low for one in self.all), default=0)
        high = max((one.high for one in self.all), default=0)
        inner = join([one.inner for one in self.all])
        return self.size(self.bytes, self.length, inner)._replace(low=low, high=high)


Rule = Callable[[Operands], Result]


def scan(operands: Operands, factor: float = 1) -> Form:
    """The steps to read or copy them."""
    return operands.bytes.times(BYTE * factor)


def visit(operands: Operands) -> Form:
    """The steps to read each element."""
    return operands.length.times(PLAIN)


def compare(operands: Operands) -> Form:
    """The steps to compare them with one another: a comparison ends with the shorter value."""
    work = [one.bytes.average() for one in operands.all]
    work.sort(key=lambda form: (bool(form.parts), form.constant))
    return add(*work[:-1]).times(BYTE)


def compare_elements(operands: Operands) -> Form:
    """The steps to compare or hash each element, however large it is."""
    return add(visit(operands), scan(operands))


def unknown(operands: Operands) -> Size:
    """A number that is not known; of an author's values alone it does not matter."""
    if operands.trusted and not operands.supplied:
        return number(0, 1)
    return Size(supplied=operands.supplied)


def scalar(operands: Operands) -> Result:
    """A single value that is not known."""
    return unknown(operands), NONE


def choose(sizes: list[Size]) -> Size:
    """One of the values, whichever it is."""
    sizes = sizes or [number(0, 1)]
    return Size(
        join([one.bytes for one in sizes]),
        join([one.length for one in sizes]),
        join([one.inner for one in sizes]),
        min(one.low for one in sizes),
        max(one.high for one in sizes),
        any(one.supplied for one in sizes),
        is_whole=any(one.is_whole for one in sizes),
        depth=deepest(one.depth for one in sizes),
    )
