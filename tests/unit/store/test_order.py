"""Ties of a sort: `_id` at its end, but where it would cost an index (decision 12)."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.store.collection_stats import Index
from docgraph.store.order import find_obstacle, order_ties, pinned_paths

SCORE = {"$meta": "textScore"}


def index(*keys: tuple[str, Any], **options: bool) -> Index:
    return Index(keys, **options)


ID = index(("_id", 1), unique=True)
AGE = index(("age", 1))


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ({"age": 1}, {"age": 1, "_id": 1}),
        ({"age": -1}, {"age": -1, "_id": -1}),
        ({"age": 1, "name": -1}, {"age": 1, "name": -1, "_id": -1}),
        ({"s": SCORE}, {"s": SCORE, "_id": 1}),
        ({"age": -1, "s": SCORE}, {"age": -1, "s": SCORE, "_id": 1}),
        ({"_id": -1, "age": 1}, {"_id": -1, "age": 1}),
        ({"$natural": 1}, {"$natural": 1}),
        ({}, {}),
    ],
)
def test_a_sort_ends_with_the_id_in_the_direction_of_its_last_key(sort: Any, expected: Any) -> None:
    ordered = order_ties(sort, frozenset(), [ID])

    assert ordered == expected
    assert list(ordered) == list(expected)
    assert order_ties(sort, frozenset(), None) == expected


@pytest.mark.parametrize(
    ("sort", "pinned", "indexes", "extended"),
    [
        ({"age": 1}, "", [AGE], False),
        ({"age": -1}, "", [AGE], False),
        ({"age": 1}, "", [AGE, index(("age", 1), ("_id", 1))], True),
        ({"age": -1}, "", [index(("age", 1), ("_id", 1))], True),
        ({"age": 1}, "", [index(("age", 1), ("name", 1))], False),
        ({"name": 1}, "", [index(("age", 1), ("name", 1))], True),
        ({"name": 1}, "age", [index(("age", 1), ("name", 1))], False),
        ({"name": 1}, "age", [index(("age", 1), ("name", 1), ("_id", 1))], True),
        ({"age": 1, "name": -1}, "", [index(("age", 1), ("name", 1))], True),
        ({"age": 1, "name": -1}, "", [index(("age", -1), ("name", 1))], False),
        ({"age": 1}, "", [index(("age", 1), complete=False)], True),
        ({"age": 1}, "", [index(("age", "hashed"))], True),
        ({"s": SCORE}, "", [index(("_fts", "text"))], True),
    ],
)
def test_an_index_that_serves_a_sort_is_in_the_way_unless_one_serves_it_with_the_id(
    sort: Any, pinned: str, indexes: Any, extended: bool
) -> None:
    obstacle = find_obstacle(sort, frozenset(pinned.split()), [ID, *indexes])

    assert (obstacle is None) is extended


@pytest.mark.parametrize(
    ("pinned", "indexes", "extended"),
    [
        ("team", [index(("team", 1), ("age", 1))], False),
        ("team", [index(("team", 1), ("age", 1), ("_id", 1))], True),
        ("team", [AGE], True),
        ("team", [AGE, index(("team", 1))], True),
        ("", [AGE], True),
    ],
)
def test_for_many_filters_a_sort_stays_where_an_index_begins_with_what_they_pin(
    pinned: str, indexes: Any, extended: bool
) -> None:
    ordered = order_ties({"age": 1}, frozenset(pinned.split()), [ID, *indexes])

    assert ("_id" in ordered) is extended


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        ({"a": 1, "b": {"$gt": 1}}, {"a"}),
        ({"a": {"$eq": 1}, "b": {"$in": [1, 2]}, "c": {"x": 1}}, {"a", "b", "c"}),
        ({"$and": [{"a": {"$fk": "x"}}, {"b": {"$arg": "y"}}], "$or": [{"c": 1}]}, {"a", "b"}),
        ({"a": {"$eq": 1, "$exists": True}}, set()),
        (None, set()),
    ],
)
def test_what_a_filter_pins(filter_: Any, expected: set[str]) -> None:
    assert set(pinned_paths(filter_)) == expected
