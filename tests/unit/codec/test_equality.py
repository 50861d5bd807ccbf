"""Equality of stored values is that of MongoDB; `tests/properties` asks the database itself."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime
from types import MappingProxyType
from typing import Any

import pytest

from docgraph.codec.bson_types import (
    Binary,
    Code,
    DatetimeMS,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)
from docgraph.codec.equality import equality_key, is_equal, is_equal_unordered, unordered_key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, Int64(1)),
        (1, Decimal128("1.0")),
        (0.5, Decimal128("0.5")),
        (0.0, -0.0),
        (float("nan"), Decimal128("NaN")),
        (float("inf"), Decimal128("Infinity")),
        ({"a": 1, "b": [1]}, {"a": 1.0, "b": [Int64(1)]}),
        (b"x", Binary(b"x", 0)),
        (Int64(2**53 + 1), Decimal128("9007199254740993.0")),
        (Decimal128("1.00E+400"), Decimal128("10E+399")),
        (0, Decimal128.from_bid(b"\xff" * 14 + b"\x47\x30")),  # more digits than there are
        (Code("a", {}), Code("a", {})),
    ],
)
def test_equal_values_have_equal_keys(one: Any, other: Any) -> None:
    assert equality_key(one) == equality_key(other)
    assert hash(equality_key(one)) == hash(equality_key(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (0, False),
        (1, "1"),
        (0.1, Decimal128("0.1")),
        (Decimal128("1E+400"), Decimal128("1E+401")),
        (Decimal128("1E+400"), Decimal128("-1E+400")),
        (Code("a"), Code("a", {})),
        (2**53, 2**53 + 1),
        (float(2**53), Int64(2**53 + 1)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ([1, 2], [2, 1]),
        (1, [1]),
        ("a", Code("a")),
        ("a", Regex("a")),
        (b"x", Binary(b"x", 5)),
        (b"x", "x"),
        (Timestamp(1, 2), Timestamp(1, 3)),
        (datetime(2020, 1, 1), DatetimeMS(2**60)),
        (MinKey(), MaxKey()),
        (None, 0),
        (ObjectId(b"0" * 12), "30" * 12),
    ],
)
def test_different_values_have_different_keys(one: Any, other: Any) -> None:
    assert equality_key(one) != equality_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": [2]}, {"b": [2.0], "a": Int64(1)}),
        ([{"x": {"a": 1, "b": 2}}], [{"x": {"b": 2, "a": 1}}]),
    ],
)
def test_the_order_of_fields_counts_only_where_it_should(one: Any, other: Any) -> None:
    assert not is_equal(one, other)
    assert is_equal_unordered(one, other)
    assert hash(unordered_key(one)) == hash(unordered_key(other))


@pytest.mark.parametrize(
    ("one", "other"), [({"a": 1}, {"a": True}), ([1, 2], [2, 1]), ({"a": 1}, {"a": 1, "b": None})]
)
def test_without_order_the_rest_still_counts(one: Any, other: Any) -> None:
    assert not is_equal_unordered(one, other)


@pytest.mark.parametrize("kind", [OrderedDict, MappingProxyType])
def test_a_document_is_one_whatever_holds_it(kind: Any) -> None:
    assert is_equal(kind({"a": [1]}), {"a": (1.0,)})
    assert is_equal_unordered(kind({"a": 1, "b": 2}), {"b": 2, "a": 1})


def test_decimals_cannot_be_chosen_so_that_their_keys_collide() -> None:
    """Documents have lists of them, and anyone may write one: a set of keys must stay fast."""
    modulus = 2**61 - 1  # of the hashes of Python's numbers
    chosen = [Decimal128(str(number * modulus)) for number in range(100, 1100)]

    assert len({hash(one.to_decimal()) for one in chosen}) == 1
    assert len({hash(equality_key(one)) for one in chosen}) > 990
