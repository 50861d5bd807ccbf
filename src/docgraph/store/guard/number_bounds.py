"""Between which numbers the result of arithmetic is: `$range` has no other bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from docgraph.store.guard.sizes import NONE, Size, number

__all__ = ["NUMBERS"]


def _numeric(low: Callable[..., float], high: Callable[..., float]) -> Rule:
    def rule(operands: Operands) -> Result:
        try:
            found = low(*operands.all), high(*operands.all)
        except (TypeError, ZeroDivisionError, IndexError, OverflowError):
            return scalar(operands)
        if any(one != one for one in found):  # noqa: PLR0124 - not a number
            return scalar(operands)
        return number(*found, supplied=operands.supplied), NONE

    return rule


def _products(*sizes: Size) -> list[float]:
    found = [1.0]
    for one in sizes:
        # Nothing times something unknown is nothing.
        every = [n * edge if n and edge else 0 for n in found for edge in (one.low, one.high)]
        found = [min(every), max(every)]
    return found


def _largest(one: Size, *_: Size) -> float:
    return max(abs(one.low), abs(one.high))


def _quotient(one: Size, other: Size) -> list[float]:
    if not other.is_constant:
        raise TypeError
    return [one.low / other.low, one.high / other.low]


def _edge(pick: Callable[..., float], of_all: Callable[..., list[float]]) -> Callable[..., float]:
    return lambda *sizes: pick(of_all(*sizes))


_ADD = _numeric(lambda *n: sum(one.low for one in n), lambda *n: sum(one.high for one in n))
_SUBTRACT = _numeric(lambda a, b: a.low - b.high, lambda a, b: a.high - b.low)
_MULTIPLY = _numeric(_edge(min, _products), _edge(max, _products))
_DIVIDE = _numeric(_edge(min, _quotient), _edge(max, _quotient))
_ABSOLUTE = _numeric(lambda *_: 0, _largest)
# What remains is below the divisor, and not above what is divided.
_MODULO = _numeric(lambda a, b: -_largest(b), lambda a, b: _largest(b))
_TO_WHOLE = _numeric(lambda a: a.low - 1, lambda a: a.high + 1)
# To tens, hundreds and so on, where that is asked for: to at most twice the number.
_ROUND = _numeric(lambda a, *_: -2 * _largest(a) - 1, lambda a, *_: 2 * _largest(a) + 1)


def _same_number(operands: Operands) -> Result:
    one = operands.get(0)
    return number(one.low, one.high, supplied=one.supplied), one.bytes.times(BYTE)


def _extreme(is_least: bool) -> Rule:
    """`$min` and `$max`: of several operands one of them, of a single one an element."""

    def rule(operands: Operands) -> Result:
        size, _ = choose(operands)
        # What is null or missing does not take part, so that only constants are a bound.
        known = [one.low for one in operands.all if one.is_number]
        if len(operands.all) == 1:
            return size.within(), compare_elements(operands)
        if known and is_least:
            size = size._replace(high=min(known))
        elif known:
            size = size._replace(low=max(known))
        return size, compare(operands)

    return rule


_SAME: Final = ("$toInt", "$toLong", "$toDouble", "$toDecimal")

NUMBERS: Final[Mapping[str, Rule]] = {
    "$add": _ADD,
    "$subtract": _SUBTRACT,
    "$multiply": _MULTIPLY,
    "$divide": _DIVIDE,
    "$abs": _ABSOLUTE,
    "$mod": _MODULO,
    "$ceil": _TO_WHOLE,
    "$floor": _TO_WHOLE,
    "$round": _ROUND,
    "$trunc": _ROUND,
    **dict.fromkeys(_SAME, _same_number),
    "$min": _extreme(is_least=True),
    "$max": _extreme(is_least=False),
}
"""The operators that result in a number which has a bound, each with its rule."""
