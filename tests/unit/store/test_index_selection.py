"""Which index serves a query, and how few serve many."""

from __future__ import annotations

import pytest
from bson.regex import Regex

from docgraph.store.index_selection import Want, find_wants


def in_no_array(path: str) -> None:
    return None


def want(*equal: str, sort: tuple[tuple[str, int], ...] = (), ranges: tuple[str, ...] = ()) -> Want:
    return Want(frozenset(equal), sort, ranges)


@pytest.mark.parametrize(
    ("filter", "sort", "wanted"),
    [
        ({"n": {"$gt": 1}, "a": 1}, {"b": -1}, want("a", sort=(("b", -1),), ranges=("n",))),
        ({"$and": [{"a": 1}, {"b": {"$in": [1]}}]}, {}, want("a", "b")),
        ({"a": 1}, {"a": 1, "b": 1}, want("a", sort=(("b", 1),))),
        ({"a": Regex("^x")}, {}, want(ranges=("a",))),
        ({"a": {"$regex": "^x"}, "b": 1}, {}, want("b", ranges=("a",))),
        ({"a": {"$ne": 1}}, {"b": 1}, want(sort=(("b", 1),))),
        ({"a": {"$elemMatch": {"b": 1, "c": {"$gt": 2}}}}, {}, want("a.b", ranges=("a.c",))),
        (
            {"a": {"$elemMatch": {"$eq": 1}}, "b": {"$elemMatch": {"$gt": 1}}},
            {},
            want("a", ranges=("b",)),
        ),
        ({"a": 1}, {"score": {"$meta": "textScore"}}, want("a")),
    ],
)
def test_an_index_has_equal_values_then_the_order_then_ranges(
    filter: dict[str, object], sort: dict[str, object], wanted: Want
) -> None:
    assert find_wants(filter, sort, in_no_array) == [wanted]


@pytest.mark.parametrize(
    "filter",
    [{"a": {"$ne": 1}}, {"a": {"$regex": "x"}}, {"$nor": [{"a": 1}]}, {"$or": [{"a": 1}, {}]}],
)
def test_what_no_index_can_serve_wants_none(filter: dict[str, object]) -> None:
    assert find_wants(filter, {}, in_no_array) == []


def test_each_alternative_wants_an_index_unless_something_else_leads_there() -> None:
    either = {"$or": [{"a": 1}, {"b": 2}]}

    assert find_wants(either, {}, in_no_array) == [want("a"), want("b")]
    assert find_wants({**either, "c": 1}, {}, in_no_array) == [want("c")]


def test_an_index_looks_into_one_array_only() -> None:
    arrays = {"tags": "tags", "items.sku": "items", "items.qty": "items"}

    assert find_wants({"tags": 1, "items.sku": 2, "a": 3}, {}, arrays.get) == [want("tags", "a")]
    assert find_wants({"items.qty": 1, "items.sku": 2}, {}, arrays.get) == [
        want("items.qty", "items.sku")
    ]
