"""The index of row filters; `tests/properties` compares its decisions with the database."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from bson import Code, Decimal128, Int64, MaxKey, ObjectId, Regex, encode
from bson.raw_bson import RawBSONDocument

from docgraph.events import row_index
from docgraph.events.row_index import RowIndex, is_indexable
from docgraph.store.exact import decode_exactly

Filter = dict[str, Any]


def deep(levels: int) -> Filter:
    filter: Filter = {"a": 1}
    for _ in range(levels):
        filter = {"$and": [filter]}
    return filter


@pytest.mark.parametrize(
    "filter",
    [
        {"a": 1},
        {"a.b": "x", "c": ObjectId()},
        {"a": {"$eq": True}},
        {"a": {"$in": [1, 2.5, "x", Decimal128("1")]}},
        {"a": {"$in": []}},
        {"a": {"$eq": 1, "$in": [1, 2]}},
        {"$or": [{"from": "me"}, {"to": "me"}]},
        {"$and": [{"a": 1}, {"$or": [{"b": 1}, {"c": {"$in": [1]}}]}], "d": 1},
        deep(10),
    ],
)
def test_equality_of_scalars_is_decided_in_memory(filter: Filter) -> None:
    assert is_indexable(filter)
    assert RowIndex().add(1, filter)


@pytest.mark.parametrize(
    "filter",
    [
        {},
        {"a": None},
        {"a": {"$in": [1, None]}},
        {"a": {"$eq": None}},
        {"a": [1]},
        {"a": {}},
        {"a": {"b": 1}},
        {"a": {"$eq": {"b": 1}}},
        {"a": {"$in": [[1]]}},
        {"a": {"$in": 1}},
        {"a": Regex("x")},
        {"a": {"$in": [Regex("x")]}},
        {"a": {"$regex": "x"}},
        {"a": Code("x")},
        {"a": MaxKey()},
        {"a": {"$gt": 1}},
        {"a": {"$eq": 1, "$ne": 2}},
        {"a": {"$not": {"$eq": 1}}},
        {"a": {"$ref": "x", "$id": 1}},
        {"a.0": 1},
        {"0": 1},
        {"a.01.b": 1},
        {"a.$id": 1},
        {"": 1},
        {"a.": 1},
        {"a..b": 1},
        {"$nor": [{"a": 1}]},
        {"$or": []},
        {"$and": []},
        {"$or": [{"a": 1}, {}]},
        {"$or": [{"a": 1}, {"b": {"$gt": 1}}]},
        {"$or": {"a": 1}},
        {"$or": [1]},
        {"$expr": {"$eq": ["$a", 1]}},
        {"$comment": "x", "a": 1},
        {"a": 2**70},
        {"a": "\ud800"},
        {"a\0": 1},
        {"a": {"$in": list(range(1001))}},
        {"$or": [{"a": {"$in": list(range(600))}}, {"b": {"$in": list(range(600))}}]},
        deep(30),
        deep(500),
    ],
)
def test_everything_else_is_left_to_the_database(filter: Filter) -> None:
    index = RowIndex()

    assert not is_indexable(filter)
    assert not index.add(1, filter)
    assert not len(index)
    assert index.match({"a": 1}) == set()


def test_a_document_finds_all_filters_that_match_it() -> None:
    index = RowIndex()
    index.add("either", {"$or": [{"from": "ada"}, {"to": "ada"}]})
    index.add("both", {"from": "ada", "to": "bob"})
    index.add("some", {"to": {"$in": ["bob", "eve"]}})
    index.add("none", {"to": {"$in": []}})

    assert index.match({"from": "ada", "to": "bob"}) == {"either", "both", "some"}
    assert index.match({"from": "bob", "to": ["ada", "eve"]}) == {"either", "some"}
    assert index.match({"from": "bob"}) == set()
    assert index.match({"from": "ada", "to": "eve"}) == {"either", "some"}


def test_values_are_compared_as_the_database_gets_them() -> None:
    index = RowIndex()
    index.add(1, {"at": datetime(2020, 1, 1, 0, 0, 0, 1999)})

    assert index.match({"at": datetime(2020, 1, 1, 0, 0, 0, 1000)}) == {1}


def test_adding_again_replaces_and_removing_leaves_nothing() -> None:
    index = RowIndex()
    index.add(1, {"a": 1, "b": {"$in": [1, 2]}})
    index.add(2, {"a": 1})
    index.add(1, {"$or": [{"a": 2}, {"a": 2}, {"c": 3}]})
    assert index.match({"a": 1, "b": 1}) == {2}
    assert index.match({"a": 2}) == {1}

    for key in (2, 1, 1, 3):
        index.remove(key)

    assert not len(index)
    assert 1 not in index
    assert index.match({"a": 1}) == index.match({"a": 2}) == set()
    assert not index._anchors  # nothing is left in memory
    assert not index._chosen


def test_a_condition_that_all_filters_share_does_not_make_all_of_them_candidates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = RowIndex()
    for number in range(1000):
        index.add(number, {"kind": "message", "tenant": number % 4, "to": f"user{number}"})
    evaluated: list[Any] = []
    is_met = row_index._Combined.is_met

    def record(one: Any, reached: Any) -> bool:
        evaluated.append(one)
        return is_met(one, reached)

    monkeypatch.setattr(row_index._Combined, "is_met", record)

    assert index.match({"kind": "message", "tenant": 3, "to": "user7"}) == {7}
    assert len(evaluated) < 10


def test_documents_are_decoded_exactly_or_not_at_all() -> None:
    document = {"_id": 1, "a": [Int64(1), {"b": datetime(2020, 1, 1)}], "c": Decimal128("1.0")}
    twice = encode({"a": 1, "b": 2}).replace(b"b", b"a")
    old = encode({"_": 1, "a": "x"}).replace(b"\2a", b"\x0ea")  # a symbol

    assert decode_exactly(encode(document)) == document
    assert decode_exactly(old) == {"_": 1, "a": "x"}
    assert decode_exactly(twice) is None
    for inside in ({"x": RawBSONDocument(twice)}, {"x": [1, {"y": RawBSONDocument(twice)}]}):
        assert decode_exactly(encode(inside)) is None
    assert decode_exactly(encode({"a": "x"}).replace(b"x", b"\xff")) is None


def test_large_documents_are_not_searched_for_names_in_memory() -> None:
    text = "x" * 200_000
    old = encode({"a": "x", "text": text}).replace(b"\2a", b"\x0ea")

    assert decode_exactly(encode({"a": "x", "text": text})) is not None
    assert decode_exactly(old) is None
