"""Join keys: equal exactly when the database finds the values equal (decision 13)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.datetime_ms import DatetimeMS

from docgraph.graphql.execute.join import candidate_keys, is_comparable, join_key


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
    ],
)
def test_equal_values_have_equal_keys(one: Any, other: Any) -> None:
    assert join_key(one) == join_key(other)
    assert hash(join_key(one)) == hash(join_key(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (0, False),
        (1, "1"),
        (0.1, Decimal128("0.1")),
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
    assert join_key(one) != join_key(other)


@pytest.mark.parametrize(
    ("document", "path", "reached"),
    [
        ({"a": 1}, "a", [1]),
        ({"a": [1, 2]}, "a", [1, 2, [1, 2]]),
        ({"a": {"b": 1}}, "a.b", [1]),
        ({"a": [{"b": 1}, {"b": [2]}, 3]}, "a.b", [1, 2, [2]]),
        ({"a": [[{"b": 1}]]}, "a.b", []),
        ({"a": [1, 2]}, "a.0", [1]),
        ({"a": [[1, 2]]}, "a.0", [[1, 2]]),
        ({"a": {"0": 1}}, "a.0", [1]),
        ({"a": [{"b": 1}]}, "a.0.b", [1]),
        ({}, "a", [None]),
    ],
)
def test_candidates_are_what_a_filter_compares_with(
    document: dict[str, Any], path: str, reached: list[Any]
) -> None:
    found = candidate_keys(document, tuple(path.split(".")))

    assert set(found) == {join_key(value) for value in reached}


def test_patterns_and_operators_do_not_mean_themselves_in_a_command() -> None:
    assert not is_comparable(Regex("a"))
    assert not is_comparable({"$gt": 1})
    assert is_comparable({"a": {"$gt": 1}})
    assert is_comparable({})
