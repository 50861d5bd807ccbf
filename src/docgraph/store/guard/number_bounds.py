"""Between which numbers the result of arithmetic is: `$range` has no other bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, floor, isfinite, isnan
from typing import Final

from docgraph.store.guard.operands import (
    BYTE,
    Operands,
    Result,
    Rule,
    choose,
    compare,
    compare_elements,
    scalar,
)
from docgraph.store.guard.sizes import EXACT, NONE, Size, number

Bounds = tuple[float, float]

_ROUNDING: Final = 2.0**-47  # of a double that becomes a decimal of 15 digits


def _bound(by: Callable[..., Bounds]) -> Rule:
    """The rule of an operator whose result has these bounds, as far as its operands have some."""

    def rule(operands: Operands) -> Result:
        try:
            low, high = by(*operands.all)
        except (TypeError, ZeroDivisionError):
            return scalar(operands)
        error = _find_error([*operands.all, number(low, high)])
        low, high = low - error, high + error
        if isnan(low) or isnan(high):
            return scalar(operands)
        return operands.number(low, high), NONE

    return rule


def _find_error(sizes: list[Size]) -> float:
    """Return how far the result may be off: the database computes decimals with more digits."""
    edges = [edge for one in sizes for edge in (one.low, one.high) if isfinite(edge)]
    total = sum(map(abs, edges))
    is_exact = total <= EXACT and all(edge == int(edge) for edge in edges)
    return 0 if is_exact else total * _ROUNDING


def _multiply(*sizes: Size) -> Bounds:
    found = [1.0]
    for one in sizes:
        # Nothing times something unknown is nothing.
        every = [n * edge if n and edge else 0 for n in found for edge in (one.low, one.high)]
        found = [min(every), max(every)]
    return min(found), max(found)


def _divide(one: Size, other: Size) -> Bounds:
    if not other.is_constant:
        raise TypeError
    edges = one.low / other.low, one.high / other.low
    return min(edges), max(edges)


def _largest(one: Size) -> float:
    return max(abs(one.low), abs(one.high))


def _same_number(operands: Operands) -> Result:
    """Conversions: they may drop digits, or all behind the point."""
    one = operands.get(0)
    error = _find_error([one])
    low, high = (
        float(rounded(edge)) if isfinite(edge) else edge
        for rounded, edge in ((floor, one.low - error), (ceil, one.high + error))
    )
    return number(low, high, supplied=one.supplied), one.bytes.times(BYTE)


def _extreme(is_least: bool) -> Rule:
    """`$min` and `$max`: of several operands one of them, of a single one an element."""

    def rule(operands: Operands) -> Result:
        size = choose(operands.all)
        # Null and missing values do not take part, so that only constants are a bound.
        known = [one for one in operands.all if one.is_number]
        if len(operands.all) == 1:
            return size.within(), compare_elements(operands)
        if known and is_least:
            size = size._replace(high=min(one.high for one in known))
        elif known:
            size = size._replace(low=max(one.low for one in known))
        return size, compare(operands)

    return rule


_WHOLE: Final = _bound(lambda a: (a.low - 1, a.high + 1))
# Rounding to tens, hundreds and so on gives at most twice the number.
_ROUND: Final = _bound(lambda a, *_: (-2 * _largest(a) - 1, 2 * _largest(a) + 1))

NUMBERS: Final[Mapping[str, Rule]] = {
    "add": _bound(lambda *n: (sum(one.low for one in n), sum(one.high for one in n))),
    "subtract": _bound(lambda a, b: (a.low - b.high, a.high - b.low)),
    "multiply": _bound(_multiply),
    "divide": _bound(_divide),
    "abs": _bound(lambda a, *_: (0, _largest(a))),
    # What remains is below the divisor, and not above what is divided.
    "mod": _bound(lambda a, b: (-_largest(b), _largest(b))),
    "ceil floor": _WHOLE,
    "round trunc": _ROUND,
    "toInt toLong toDouble toDecimal": _same_number,
    "min": _extreme(is_least=True),
    "max": _extreme(is_least=False),
}
"""The names of operators that result in a number which has a bound, each with its rule."""
