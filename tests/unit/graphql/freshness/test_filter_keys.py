"""Which paths a filter fixes, and with which values; in doubt, none."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from bson import Binary, Decimal128, Int64, ObjectId, Regex

from docgraph.graphql.freshness.filter_keys import MAX_VALUES, drop_texts, find_keys

ID = ObjectId(b"docgraph-key")


@pytest.mark.parametrize(
    ("filter_", "keys"),
    [
        ({"a": 1}, {"a": {1}}),
        ({"a": {"$eq": "x"}}, {"a": {"x"}}),
        ({"a": {"$in": [1, "x", ID]}}, {"a": {1, "x", ID}}),
        ({"a.b": Int64(1)}, {"a.b": {1}}),
        ({"a": 2.0}, {"a": {2}}),
        ({"a": True}, {"a": {("bool", True)}}),
        ({"a": Binary(b"0123456789abcdef", 4)}, {"a": {("binary", 4, b"0123456789abcdef")}}),
        ({"a": datetime(2026, 1, 1, 0, 0, 0, 1999)}, {"a": {datetime(2026, 1, 1, 0, 0, 0, 1000)}}),
        ({"a": {"$in": [1, 2], "$gt": 1}}, {"a": {1, 2}}),
        ({"a": 1, "b": {"$gt": 2}}, {"a": {1}}),
        ({"a": {"$in": []}}, {"a": set()}),
        ({"$and": [{"a": 1}, {"b": 2}]}, {"a": {1}, "b": {2}}),
        ({"$and": [{"a": {"$in": [1, 2]}}, {"a": 3}]}, {"a": {3}}),
        ({"$or": [{"a": 1, "b": 1}, {"a": 2}]}, {"a": {1, 2}}),
        ({"$or": [{"a": 1}, {"b": 1}]}, {}),
        ({"$or": [{"a": 1}, {"a": {"$gt": 5}}]}, {}),
        ({"$or": []}, {}),
        ({"$nor": [{"a": 1}]}, {}),
        ({"$expr": {"$eq": ["$a", 1]}}, {}),
        ({"a": None}, {}),
        ({"a": {"$in": [1, None]}}, {}),
        ({"a": [1]}, {}),
        ({"a": {"b": 1}}, {}),
        ({"a": {}}, {}),
        ({"a": Regex("x")}, {}),
        ({"a": {"$in": ["x", Regex("x")]}}, {}),
        ({"a": {"$ne": 1}}, {}),
        ({"a": {"$not": {"$eq": 1}}}, {}),
        ({"a": {"$elemMatch": {"$eq": 1}}}, {}),
        ({"a": 1.5}, {}),
        ({"a": float("nan")}, {}),
        ({"a": 2.0**53}, {}),
        ({"a": Decimal128("1")}, {}),
        ({"a": Binary(b"a", 2)}, {}),
        ({"a": datetime(2026, 1, 1, tzinfo=UTC)}, {}),
        ({"a.0": 1}, {}),
        ({"a..b": 1}, {}),
        ({"a.$b": 1}, {}),
        ({"a": {"$in": list(range(MAX_VALUES + 1))}}, {}),
        ({}, {}),
    ],
)
def test_keys_of_a_filter(filter_: dict[str, Any], keys: dict[str, set[Any]]) -> None:
    assert find_keys([filter_]) == keys


def test_row_filters_fix_paths_too() -> None:
    assert find_keys([{"a": 1}, {"owner": "anna"}]) == {"a": {1}, "owner": {"anna"}}
    assert find_keys([{"a": 1}, None]) == {"a": {1}}


def test_of_two_conditions_on_a_path_one_counts() -> None:
    """`{tags: "a"}` and `{tags: "b"}` both hold for `["a", "b"]`: they have no value in common."""
    assert find_keys([{"tags": {"$in": ["a", "c"]}}, {"tags": "b"}]) == {"tags": {"b"}}


def test_a_collation_leaves_no_texts() -> None:
    keys = find_keys([{"a": {"$in": [1, "x"]}, "b": 2}])
    assert drop_texts(keys) == {"b": {2}}
