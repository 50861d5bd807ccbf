"""Bounds of computed numbers: every result is within them, and they are no wider than needed."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from math import inf, nan
from typing import Any

import pytest
from bson import Decimal128, Int64, ObjectId
from hypothesis import given
from hypothesis import strategies as st

from docgraph.exchange.errors import ExpressionTooLarge, QueryError
from docgraph.store import Policy
from docgraph.store.guard.operands import BYTE, NUMBERS, Operands, choose, compare
from docgraph.store.guard.sizes import Form, LoopElement, Size, number
from docgraph.store.guard.stage_checks import check_projection

Interval = tuple[int, int]

RULES = {name: rule for names, rule in NUMBERS.items() for name in names.split()}
NUMBER = st.integers(-1000, 1000)
INTERVAL = st.tuples(NUMBER, NUMBER).map(lambda pair: (min(pair), max(pair)))


def bounds_of(name: str, *operands: Interval) -> tuple[float, float]:
    size, _ = RULES[name](Operands([number(*one) for one in operands]))
    return size.low, size.high


EXACT: dict[str, Callable[..., float]] = {
    "add": lambda *n: sum(n),
    "subtract": lambda a, b: a - b,
    "multiply": lambda *n: math.prod(n),
}


@pytest.mark.parametrize("name", EXACT)
@given(one=INTERVAL, other=INTERVAL)
def test_the_bounds_of_sums_and_products_are_their_extremes(
    name: str, one: Interval, other: Interval
) -> None:
    results = [EXACT[name](a, b) for a, b in product(one, other)]
    assert bounds_of(name, one, other) == (min(results), max(results))


@given(operands=st.lists(INTERVAL, min_size=1, max_size=4))
def test_any_number_of_operands_is_added_and_multiplied(operands: list[Interval]) -> None:
    for name in ("add", "multiply"):
        results = [EXACT[name](*one) for one in product(*operands)]
        assert bounds_of(name, *operands) == (min(results), max(results))


@given(one=INTERVAL, divisor=NUMBER.filter(bool))
def test_a_constant_divisor_gives_the_extremes_of_the_quotient(one: Interval, divisor: int) -> None:
    results = [n / divisor for n in one]
    low, high = bounds_of("divide", one, (divisor, divisor))
    assert low <= min(results) == pytest.approx(low, abs=1e-9)
    assert high >= max(results) == pytest.approx(high, abs=1e-9)


@given(one=INTERVAL, other=INTERVAL, data=st.data())
def test_a_remainder_is_below_its_divisor(
    one: Interval, other: Interval, data: st.DataObject
) -> None:
    low, high = bounds_of("mod", one, other)
    assert max(abs(low), abs(high)) == max(map(abs, other))
    divisor = data.draw(st.integers(*other))
    if divisor:
        # As in the database: the remainder has the sign of the number that is divided.
        assert low <= math.fmod(data.draw(st.integers(*one)), divisor) <= high


@given(one=INTERVAL, data=st.data())
def test_rounded_numbers_are_within_their_bounds(one: Interval, data: st.DataObject) -> None:
    value = data.draw(st.floats(*one))
    largest = max(map(abs, one))
    for name, rounded in (("ceil", math.ceil(value)), ("floor", math.floor(value))):
        low, high = bounds_of(name, one)
        assert one[0] - 1 <= low <= rounded <= high <= one[1] + 1
    for digits in range(-4, 3):
        low, high = bounds_of("round", one, (digits, digits))
        if 10**-digits <= 2 * largest + 1:
            assert low <= round(value, digits) <= high
        assert (low, high) == (-2 * largest - 1, 2 * largest + 1)


@given(one=INTERVAL, data=st.data())
def test_absolute_values_are_not_negative(one: Interval, data: st.DataObject) -> None:
    low, high = bounds_of("abs", one)
    assert 0 <= low <= abs(data.draw(st.integers(*one))) <= high
    assert high == max(map(abs, one))


@pytest.mark.parametrize("name", ["toInt", "toLong", "toDouble", "toDecimal"])
def test_a_conversion_keeps_the_bounds_of_a_number(name: str) -> None:
    assert bounds_of(name, (-5, 7)) == (-5, 7)


KEY = {"$first": {"$objectToArray": {"1000000000": 1}}}
LARGE = {"$multiply": [1e15] * 22}  # more than a double can hold
NEARLY = {"$multiply": [1e15] * 20 + [1e8]}


def is_known(expression: Any) -> bool:
    """Whether `$range` accepts it as a bound."""
    try:
        check_projection({"x": {"$range": [0, expression]}}, policy=Policy())
    except ExpressionTooLarge as error:
        if "the bounds of $range must be known" not in str(error):
            raise
        return False
    return True


@pytest.mark.parametrize(
    "expression",
    [
        {"$subtract": [inf, inf]},
        {"$add": [inf, -inf]},
        {"$divide": [inf, inf]},
        {"$subtract": [LARGE, LARGE]},
        {"$add": [NEARLY, NEARLY, {"$subtract": [0, LARGE]}]},
        {"$divide": [{"$toLong": NEARLY}, 1e-15]},
        {"$add": [{"$toLong": NEARLY}, {"$toLong": NEARLY}]},
        {"$subtract": [20_000_000_000_001_000_000.0, 2e19]},
        {"$subtract": [Decimal128("1000000000000000000000000100000"), Decimal128("1E+30")]},
        {"$subtract": [Int64(2**62 + 1), Int64(2**62)]},
        {"$divide": [1e26, 1e20]},
        {"$divide": [5, 0]},
        {"$divide": [5, "$n"]},
        {"$divide": [5, {"$max": [1, {"$min": ["$n", 2]}]}]},
        {"$divide": ["$n", 5]},
        {"$subtract": [5]},
        {"$mod": [5]},
        {"$mod": [5, "$n"]},
        {"$abs": "$n"},
        {"$abs": []},
        {"$ceil": "$n"},
        {"$round": ["$n", 0]},
        {"$multiply": ["$n", 1]},
        {"$add": ["$n", 0]},
        {"$min": ["$n", "$m"]},
        {"$min": ["$n", 1e300]},
        {"$min": ["$n", nan]},
        {"$subtract": [0, {"$max": ["$n", nan]}]},
        {"$subtract": [0, {"$max": ["$n", -1e300]}]},
        {"$max": [["$n"]]},
        # A key, a date, an id and binary data become numbers by a conversion.
        {"$toInt": {"$getField": {"field": "k", "input": KEY}}},
        {"$let": {"vars": {"key": KEY}, "in": {"$toInt": "$$key.k"}}},
        {"$toLong": {"$convert": {"input": "2020-01-01", "to": "date"}}},
        {"$toLong": {"$literal": ObjectId("f" * 24)}},
        {"$toInt": b"\x00\x00\x00\x7f"},
        {"$convert": {"input": b"\x00\x00\x00\x7f", "to": "int"}},
        {"$convert": {"input": "7fffffff", "to": "int", "base": 16}},
        {"$convert": {"input": "7fffffff", "to": {"type": "int"}}},
        # Texts and dates are above all numbers, so that these are the largest.
        {"$abs": {"$toInt": {"$max": [0, {"$first": [["-1000000000"]]}]}}},
        {"$subtract": [0, {"$toLong": {"$max": [0, "$date"]}}]},
        {"$subtract": [0, {"$toLong": {"$add": [0, {"$max": [0, "$date"]}]}}]},
        {"$subtract": [0, {"$toLong": {"$subtract": [{"$max": [0, "$date"]}, 5]}}]},
    ],
)
def test_a_number_that_is_not_known_is_no_bound(expression: Any) -> None:
    assert not is_known(expression)


@pytest.mark.parametrize(
    "expression",
    [
        {"$multiply": [0, "$n"]},
        {"$multiply": ["$n", 0]},
        {"$mod": ["$n", 10]},
        {"$min": ["$n", 10]},
        {"$min": ["$n", 10, 70_000]},
        {"$max": [0, {"$min": ["$n", 10]}]},
        {"$min": [{"$max": ["$n", 5]}, 10]},
        {"$max": [[1, 5, 7]]},
        {"$toInt": {"$mod": ["$n", 10]}},
        {"$toInt": {"$min": ["$n", 10]}},
        {"$toInt": {"$cond": ["$n", 5, {"$size": "$a"}]}},
        {"$toInt": {"$add": [{"$size": "$a"}, 5]}},
        {"$toInt": "10"},
        {"$convert": {"input": "10", "to": "int"}},
        {"$convert": {"input": {"$size": "$a"}, "to": "int", "onNull": 0}},
    ],
)
def test_a_number_with_one_known_limit_is_a_bound(expression: Any) -> None:
    assert is_known(expression)


@given(constants=st.lists(NUMBER, min_size=1, max_size=3), other=INTERVAL)
def test_extremes_are_on_one_side_of_every_constant(constants: list[int], other: Interval) -> None:
    sizes = [number(one, one)._replace(is_number=True) for one in constants]
    operands = Operands([*sizes, number(*other)])
    least, most = RULES["min"](operands)[0], RULES["max"](operands)[0]
    assert (least.low, least.high) == (min(*constants, other[0]), min(constants))
    assert (most.low, most.high) == (max(constants), max(*constants, other[1]))


@pytest.mark.parametrize(
    "expression",
    [
        {"$subtract": [Decimal128("1.00000000000000000001"), 1]},
        {"$subtract": [{"$add": [Decimal128("900000000000000"), Decimal128("0.01")]}, 9e14]},
        {"$subtract": [5.7, {"$toInt": 5.7}]},
        {"$subtract": [{"$toInt": -5.7}, -5.7]},
        {"$subtract": [{"$toDecimal": "1.00000000000000000001"}, 1]},
        {"$subtract": [{"$multiply": [0.1, 3]}, {"$divide": [3, 10]}]},
    ],
)
def test_digits_that_a_double_does_not_hold_are_counted(expression: Any) -> None:
    """The database computes with more digits, and a product makes a number of them."""
    factors = [{"$multiply": [1e15, 1e15]}, expression]
    with pytest.raises(ExpressionTooLarge):
        check_projection({"x": {"$range": [0, {"$multiply": factors}]}}, policy=Policy())


@pytest.mark.parametrize(
    "expression",
    [
        {"$first": [[-1_000_000_000, 5]]},
        {"$first": {"$literal": [-1_000_000_000, 5]}},
        {"$first": {"$concatArrays": [[5], [-1_000_000_000]]}},
        {"$getField": {"field": "a", "input": {"b": 5, "a": -1_000_000_000}}},
        {"$first": {"$zip": {"inputs": [[], [1]], "defaults": [-1_000_000_000, 1]}}},
        {"$convert": {"input": "x", "to": "int", "onError": -1_000_000_000}},
        {"$multiply": [{"$bsonSize": {"$literal": {}}}, -1_000_000_000]},
    ],
)
def test_one_of_several_numbers_may_be_the_least(expression: Any) -> None:
    with pytest.raises(ExpressionTooLarge, match="more than 100000 steps"):
        check_projection({"x": {"$range": [expression, 0]}}, policy=Policy())


@pytest.mark.parametrize("body", ["$n", {"$add": ["$n", 5]}])
def test_a_range_without_a_list_of_bounds_is_rejected(body: Any) -> None:
    with pytest.raises(QueryError, match=r"\$range takes a list of two or three numbers"):
        check_projection({"x": {"$range": body}}, policy=Policy())


@pytest.mark.parametrize("number", [0, 5, -5, 100, 0.5, Decimal128("0.1"), "30", 10**15])
def test_numbers_that_are_written_stay_known(number: Any) -> None:
    check_projection({"x": {"$range": [number, {"$add": [number, 9]}]}}, policy=Policy())


def of_bytes(form: Form | float) -> Size:
    return Size(form if isinstance(form, Form) else Form(form))


@pytest.mark.parametrize(
    ("operands", "bytes"),
    [
        ([5000, 10], 10),
        ([10, 5000], 10),
        ([5000, 10, 300], 310),
        ([5000], 0),
        ([], 0),
        # Its size is not known yet, so that the others may be the shorter ones.
        ([Form(1, {LoopElement(None): 1}), 5000], 5000),
        ([5000, Form(1, {LoopElement(None): 1})], 5000),
    ],
)
def test_a_comparison_ends_with_the_shorter_value(operands: list[Any], bytes: int) -> None:
    steps = compare(Operands([of_bytes(one) for one in operands]))
    assert (steps.constant, steps.parts) == (bytes * BYTE, {})


def test_one_of_several_values_is_as_large_as_the_largest() -> None:
    one = Size(Form(100), Form(2), Form(1), low=1, high=5, supplied=True)
    other = Size(Form(50), Form(9), Form(3), low=-2, high=2, is_whole=True)
    for size in (choose([one, other]), choose([other, one])):
        assert size[:6] == (Form(100), Form(9), Form(3), -2, 5, True)
        assert size.is_whole
    assert not choose([other]).supplied
    assert not choose([one]).is_whole
