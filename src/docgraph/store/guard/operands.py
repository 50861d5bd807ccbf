"""Operands of an aggregation operator: sizes of its results, and steps that it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil, floor, isfinite, isnan
from typing import Final

from docgraph.store.guard.sizes import EXACT, NONE, Form, Size, add, deepest, join, number

PLAIN: Final = 1 / 20  # steps: an operator on single values, or reading one element
BYTE: Final = 1 / 512  # steps: a byte that is copied or searched

_ONE: Final = Form(1)

SizeAndForm = tuple[Size, Form]
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
        return self.all[index] if index < len(self.all) else number(0, 0)

    def name(self, name: str) -> Size:
        return self.named.get(name, number(0, 0))

    @property
    def supplied(self) -> bool:
        """Whether a value of the caller is among them."""
        return any(operand.supplied for operand in self.all)

    @property
    def bytes(self) -> Form:
        return add(*(operand.bytes for operand in self.all))

    @property
    def length(self) -> Form:
        """The elements of all of them together."""
        return add(*(operand.length for operand in self.all))

    @property
    def input(self) -> Size:
        """The first operand, or the one that is named `input`."""
        return self.named.get("input") or self.get(0)

    def number(self, low: float, high: float) -> Size:
        """Return the size of a number between these two, computed from the operands."""
        return number(low, high, supplied=self.supplied)

    def size(self, bytes: Form, length: Form = _ONE, inner: Form = _ONE) -> Size:
        """Return the size of a value that is computed from the operands."""
        return Size(bytes, length, inner, supplied=self.supplied)

    def unite(self) -> Size:
        """Return the size of an array with the elements of all operands."""
        low = min((operand.low for operand in self.all), default=0)
        high = max((operand.high for operand in self.all), default=0)
        inner = join([operand.inner for operand in self.all])
        return self.size(self.bytes, self.length, inner)._replace(low=low, high=high)


SizeRule = Callable[[Operands], SizeAndForm]


def scan(operands: Operands, factor: float = 1) -> Form:
    """Return the steps to read or copy the operands."""
    return operands.bytes.times(BYTE * factor)


def visit(operands: Operands) -> Form:
    """Return the steps to read each element."""
    return operands.length.times(PLAIN)


def compare(operands: Operands) -> Form:
    """Return the steps to compare the operands: a comparison ends with the shorter value."""
    work = [operand.bytes.average() for operand in operands.all]
    work.sort(key=lambda form: (bool(form.parts), form.constant))
    return add(*work[:-1]).times(BYTE)


def compare_elements(operands: Operands) -> Form:
    """Return the steps to compare or hash each element, however large it is."""
    return add(visit(operands), scan(operands))


def unknown(operands: Operands) -> Size:
    """Return the size of an unknown number; if only an author's values count, it is ignored."""
    if operands.trusted and not operands.supplied:
        return number(0, 1)
    return Size(supplied=operands.supplied)


def scalar(operands: Operands) -> SizeAndForm:
    """Return the size of an unknown single value."""
    return unknown(operands), NONE


def choose(sizes: list[Size]) -> Size:
    """Return the size of any one of the values."""
    sizes = sizes or [number(0, 1)]
    return Size(
        join([size.bytes for size in sizes]),
        join([size.length for size in sizes]),
        join([size.inner for size in sizes]),
        min(size.low for size in sizes),
        max(size.high for size in sizes),
        any(size.supplied for size in sizes),
        is_numeric=all(size.is_numeric for size in sizes),
        is_whole=any(size.is_whole for size in sizes),
        depth=deepest(size.depth for size in sizes),
    )


Bounds = tuple[float, float]

_ROUNDING: Final = 2.0**-47  # of a double that becomes a decimal of 15 digits


def _bound(by: Callable[..., Bounds], *, allows_dates: bool = False) -> SizeRule:
    """Return the rule of an operator that computes its bounds from those of its operands."""

    def rule(operands: Operands) -> SizeAndForm:
        try:
            low, high = by(*operands.all)
        except (TypeError, ZeroDivisionError):
            return scalar(operands)
        error = _find_error([*operands.all, number(low, high)])
        low, high = low - error, high + error
        if isnan(low) or isnan(high):
            return scalar(operands)
        is_numeric = not allows_dates or all(operand.is_numeric for operand in operands.all)
        return operands.number(low, high)._replace(is_numeric=is_numeric), NONE

    return rule


def _find_error(sizes: list[Size]) -> float:
    """Return the rounding error of the result: the database computes decimals differently."""
    edges = [edge for size in sizes for edge in (size.low, size.high) if isfinite(edge)]
    total = sum(map(abs, edges))
    is_exact = total <= EXACT and all(edge == int(edge) for edge in edges)
    return 0 if is_exact else total * _ROUNDING


def _multiply(*sizes: Size) -> Bounds:
    bounds = [1.0]
    for size in sizes:
        # Nothing times something unknown is nothing.
        every = [n * edge if n and edge else 0 for n in bounds for edge in (size.low, size.high)]
        bounds = [min(every), max(every)]
    return min(bounds), max(bounds)


def _divide(dividend: Size, divisor: Size) -> Bounds:
    if not divisor.is_constant:
        raise TypeError
    edges = dividend.low / divisor.low, dividend.high / divisor.low
    return min(edges), max(edges)


def _largest(size: Size) -> float:
    return max(abs(size.low), abs(size.high))


def convert(size: Size, operands: Operands) -> Size:
    """Return the size of a value converted to a number; digits or the fraction may be dropped.

    The bounds of a value are those of a number. A key, a date, an id or binary data is no number,
    and `$max` returns a text or a date although it is below the constant.
    """
    if not (size.is_numeric or size.text is not None):
        return unknown(operands)
    error = _find_error([size])
    low, high = (
        float(rounded(edge)) if isfinite(edge) else edge
        for rounded, edge in ((floor, size.low - error), (ceil, size.high + error))
    )
    return number(low, high, supplied=size.supplied)


def _extreme(is_least: bool) -> SizeRule:
    """Return the rule of `$min` and `$max`: one of several operands, or an element of one."""

    def rule(operands: Operands) -> SizeAndForm:
        size = choose(operands.all)
        # Null and missing values do not take part, so that only constants are a bound.
        constants = [operand for operand in operands.all if operand.is_number]
        if len(operands.all) == 1:
            return size.within(), compare_elements(operands)
        if constants and is_least:
            # Only MinKey is less than a number, of all that is none.
            size = size._replace(high=min(constant.high for constant in constants), is_numeric=True)
        elif constants:
            size = size._replace(low=max(constant.low for constant in constants))
        return size, compare(operands)

    return rule


_WHOLE: Final = _bound(lambda a: (a.low - 1, a.high + 1))
# Rounding to tens, hundreds and so on gives at most twice the number.
_ROUND: Final = _bound(lambda a, *_: (-2 * _largest(a) - 1, 2 * _largest(a) + 1))

NUMBERS: Final[Mapping[str, SizeRule]] = {
    "add": _bound(
        lambda *n: (sum(term.low for term in n), sum(term.high for term in n)), allows_dates=True
    ),
    "subtract": _bound(lambda a, b: (a.low - b.high, a.high - b.low), allows_dates=True),
    "multiply": _bound(_multiply),
    "divide": _bound(_divide),
    "abs": _bound(lambda a, *_: (0, _largest(a))),
    # What remains is below the divisor, and not above what is divided.
    "mod": _bound(lambda a, b: (-_largest(b), _largest(b))),
    "ceil floor": _WHOLE,
    "round trunc": _ROUND,
    "toInt toLong toDouble toDecimal": lambda ops: (
        convert(ops.get(0), ops),
        ops.get(0).bytes.times(BYTE),
    ),
    "min": _extreme(is_least=True),
    "max": _extreme(is_least=False),
}
"""The names of operators that result in a number which has a bound, each with its rule."""
