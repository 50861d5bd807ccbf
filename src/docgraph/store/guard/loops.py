"""Loops inside one document's expression, which the database cannot interrupt.

`$map`, `$filter` and `$reduce` run over arrays, and `$range` makes them as long as one likes. What
an author writes, or a document holds, is their business; a value that somebody supplies (it comes
as `$literal`) may not make a loop, or loops inside one another, run more than ten thousand times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import ceil, isfinite
from typing import Any, Final

from bson import Decimal128

from docgraph.exchange.errors import LoopTooLarge

__all__ = ["LOOPS", "check_loops"]

_MOST: Final = 10_000
_RANGE: Final = "$range"
_RUNNING: Final = frozenset({"$map", "$filter", "$reduce"})
# In lower case, as `has_key` wants them.
LOOPS: Final = frozenset({_RANGE, *_RUNNING})
_DIGITS: Final = re.compile(r"\s*[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,3})?\s*")

Sizes = Mapping[str, int]  # of arrays that variables hold


def check_loops(value: Any) -> None:
    """Refuse loops that a supplied value makes too long; raises `LoopTooLarge`."""
    _check(value, 1, {})


def _check(value: Any, times: int, sizes: Sizes) -> None:
    """`times` is how often the loops around this expression run it."""
    if isinstance(value, list | tuple):
        for item in value:
            _check(item, times, sizes)
    elif isinstance(value, Mapping):
        for key, body in value.items():
            if key == "$literal":
                continue
            if key == "$let" and isinstance(body, Mapping):
                _check(body.get("vars"), times, sizes)
                _check(body.get("in"), times, {**sizes, **_read_variables(body, sizes)})
            elif key in _RUNNING and isinstance(body, Mapping):
                _check_loop(body, times, sizes)
            else:
                if key == _RANGE:
                    _refuse_above(times * _measure({key: body}, sizes))
                _check(body, times, sizes)


def _check_loop(body: Mapping[str, Any], times: int, sizes: Sizes) -> None:
    size = _measure(body.get("input"), sizes)
    if size > 1:
        _refuse_above(times * size)
    _check(body.get("input"), times, sizes)
    for key, part in body.items():
        if key != "input":
            _check(part, times * size, sizes)


def _read_variables(body: Mapping[str, Any], sizes: Sizes) -> dict[str, int]:
    variables = body.get("vars")
    if not isinstance(variables, Mapping):
        return {}
    return {name: _measure(value, sizes) for name, value in variables.items()}


def _refuse_above(times: int) -> None:
    if times > _MOST:
        raise LoopTooLarge(
            f"the values given make an expression run more than {_MOST} times for one document",
            hint="give smaller numbers, or shorter lists",
        )


def _measure(value: Any, sizes: Sizes) -> int:
    """The length of the array as far as supplied values decide it; 1 where they do not."""
    if isinstance(value, str):
        return sizes.get(value.removeprefix("$$"), 1) if value.startswith("$$") else 1
    if isinstance(value, list | tuple):
        return _total(_measure(item, sizes) for item in value)
    if not isinstance(value, Mapping):
        return 1
    if "$literal" in value:
        literal = value["$literal"]
        return len(literal) if isinstance(literal, list) else 1
    if _RANGE in value:
        return _measure_range(value[_RANGE])
    return _total(_measure(item, sizes) for item in value.values())


def _total(parts: Iterator[int]) -> int:
    return sum(part for part in parts if part > 1) or 1


def _measure_range(operands: Any) -> int:
    numbers = list(_literals(operands))
    if not numbers or not isinstance(operands, list | tuple):
        return 1
    start, end, step = (*map(_evaluate, operands), 1, 1)[:3]
    if start is None or end is None or not step:
        # Something of the document takes part; what was supplied must be small by itself.
        return ceil(min(max(map(abs, numbers)), _MOST + 1))
    return ceil(min(max((end - start) / step, 1), _MOST + 1))


def _evaluate(operand: Any) -> float | None:
    """The number of an operand that is constant, by the simplest arithmetic; else None."""
    if isinstance(operand, Mapping) and len(operand) == 1:
        ((name, body),) = operand.items()
        if name == "$literal":
            return _read_number(body)
        if name in _ARITHMETIC:
            values = [_evaluate(one) for one in (body if isinstance(body, list) else [body])]
            known = [one for one in values if one is not None]
            return _ARITHMETIC[name](known) if known and len(known) == len(values) else None
        return None
    return _read_number(operand)


def _product(numbers: list[float]) -> float:
    result = 1.0
    for number in numbers:
        result *= number
    return result


_ARITHMETIC: Final[Mapping[str, Any]] = {
    "$add": sum,
    "$multiply": _product,
    "$subtract": lambda numbers: numbers[0] - sum(numbers[1:]),
    "$min": min,
    "$max": max,
    "$abs": lambda numbers: abs(numbers[0]),
    **dict.fromkeys(
        ("$toInt", "$toLong", "$toDouble", "$ceil", "$floor", "$round", "$trunc", "$ifNull"),
        lambda numbers: numbers[0],
    ),
}


def _literals(value: Any) -> Iterator[float]:
    """The numbers that were supplied for some part of an expression."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _literals(item)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if key != "$literal":
                yield from _literals(inner)
            elif (number := _read_number(inner)) is not None:
                yield number


def _read_number(value: Any) -> float | None:
    if isinstance(value, Decimal128):
        value = str(value)
    if isinstance(value, str):
        if not _DIGITS.fullmatch(value[:100]):
            return None
        value = float(value[:100])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if isfinite(value) else None
