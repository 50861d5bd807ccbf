"""What a write changes, as every check of writes reads it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from docgraph.exchange import Write, WriteKind
from docgraph.store.guard.write_effects import (
    COMPUTED,
    WriteEffects,
    effects_of,
    read_body,
    read_filter,
    read_stage,
)
from docgraph.store.names import EVERYTHING, Written


def update(change: Any, **more: Any) -> Write:
    return Write(WriteKind.UPDATE, update=change, **more)


def read(*bodies: Any) -> WriteEffects:
    return WriteEffects(map(read_body, bodies))


def open_at(*steps: str) -> Written:
    return Written(steps, is_exact=False)


def test_effects_are_computed_once_and_not_copied() -> None:
    write = update({"$set": {"a": 1}})
    effects = effects_of(write)

    assert effects_of(write) is effects
    changed = replace(write, update={"$set": {"b": 1}})
    assert [one.path for one in effects_of(changed).changes] == ["b"]


def test_a_write_of_several_kinds_has_the_effects_of_all() -> None:
    """No check can be evaded by a write that has more than its kind needs."""
    write = Write(WriteKind.REPLACE, ({"a": 1},), {"$set": {"b": 1}}, ({"$unset": "c"},))

    assert [one.path for one in effects_of(write).changes] == ["a", "b", "c"]


def test_a_filter_counts_for_an_upsert_only() -> None:
    change: dict[str, Any] = {"$inc": {"n": 1}}

    assert not effects_of(update(change, filter={"a": 1})).seeds
    assert [one.path for one in effects_of(update(change, filter={"a": 1}, upsert=True)).seeds] == [
        "a"
    ]


@pytest.mark.parametrize(
    ("body", "written"),
    [
        ({"a": {"b": 1, "c": [1, {"d": 2}]}}, {("a", "b"), ("a", "c"), ("a", "c", "d")}),
        ({"a.b.0": 1}, {("a", "b", "0")}),
        ({"$set": {"a.$[x].b": 1, "a.$.c": 2}}, {("a", "b"), ("a", "c")}),
        ({"$push": {"a": {"$each": [1]}}}, {open_at("a")}),
        ({"$rename": {"a": "b.c"}}, {open_at("a"), open_at("b", "c")}),
        ({"$rename": {"a": 5}}, {open_at("a"), EVERYTHING}),
        ({"$unset": {"a.b": ""}, "$currentDate": {"c": True}}, {open_at("a", "b"), open_at("c")}),
        ({"$setOnInsert": {"a": 1}}, {("a",)}),
        ({"$unheard": {}}, {EVERYTHING}),
        ({"$inc": 5}, {EVERYTHING}),
        ({"$set": {"$a": 1}}, {EVERYTHING}),
        ("text", {EVERYTHING}),
    ],
)
def test_paths_of_documents_and_operators(body: Any, written: set[Any]) -> None:
    expected = {one if isinstance(one, Written) else Written(one) for one in written}

    assert set(read(body).written) == expected


@pytest.mark.parametrize(
    ("stage", "written"),
    [
        ({"$set": {"a": {"b": 1, "c": "$d"}}}, {Written(("a", "b")), open_at("a", "c")}),
        ({"$addFields": {"a": {"$let": {"vars": {}, "in": 1}}}}, {open_at("a")}),
        ({"$unset": ["a", "b.c"]}, {open_at("a"), open_at("b", "c")}),
        ({"$unset": 5}, {EVERYTHING}),
        ({"$project": {"a": 1}}, {EVERYTHING}),
        ({"$replaceWith": "$a"}, {EVERYTHING}),
        ({"$replaceRoot": {"newRoot": "$a"}}, {EVERYTHING}),
        ({"$set": {"a": 1}, "$unset": "b"}, {EVERYTHING}),
        ({}, {EVERYTHING}),
        (5, {EVERYTHING}),
    ],
)
def test_paths_of_stages(stage: Any, written: set[Written]) -> None:
    assert set(WriteEffects([read_stage(stage)], is_pipeline=True).written) == written


@pytest.mark.parametrize(
    ("filter", "seeds"),
    [
        ({"a": 1, "b.c": "x"}, [("a", 1), ("b.c", "x")]),
        ({"a": {"$eq": 1}}, [("a", 1)]),
        ({"a": {"b": 1}}, [("a", {"b": 1})]),
        ({"a": {"$in": [1]}, "b": {"$all": [2]}}, [("a", 1), ("b", 2)]),
        ({"a": {"$in": [1, 2]}}, [("a", COMPUTED)]),
        ({"a": {"$gt": 1, "$gte": 1, "$lt": 5, "$lte": 5, "$ne": 3, "$nin": [2]}}, []),
        ({"a": {"$exists": True, "$type": "int", "$mod": [2, 0]}}, []),
        ({"a": {"$regex": "x", "$options": "i"}}, []),
        ({"a": {"$gt": 1, "$eq": 5}}, [("a", 5)]),
        ({"a": {"$elemMatch": {"$eq": 1}}}, [("a", COMPUTED)]),
        ({"a": re.compile("x")}, []),
        ({"$and": [{"a": 1}, {"$and": [{"b": 2}]}]}, [("a", 1), ("b", 2)]),
        ({"$and": [[{"a": 1}]]}, [("a", COMPUTED)]),
        ({"$and": {"a": 1}}, [("a", COMPUTED)]),
        ({"$or": [{"a": 1}]}, [("a", 1)]),
        ({"$or": [{"a": 1}, {"b": 2}]}, [("a", COMPUTED), ("b", COMPUTED)]),
        ({"$or": [{"a": 1}, {"$or": [{"b": 2}, {"c": 3}]}]}, [(one, COMPUTED) for one in "abc"]),
        ({"$or": [{"$and": [{"a": 1}]}, {}]}, [("a", COMPUTED)]),
        ({"$nor": [{"a": 1}, {"$or": [{"b": 1}]}]}, []),
        ({"$nor": [{"a": 1}, {"$or": [{"b": 1}, {"c": 1}]}]}, []),
        ({"$expr": {"$eq": ["$a", 1]}}, []),
    ],
)
def test_what_an_upsert_takes_over_from_its_filter(filter: Any, seeds: list[Any]) -> None:
    changes = list(read_filter(filter))

    assert [(one.path, value) for one in changes for value in one.list_seeds()] == seeds


def test_conditions_that_leave_nothing_are_listed_all_the_same() -> None:
    """A check may want to know of any condition on a path."""
    filter = {"$nor": [{"a": 1}], "$or": [{"b": 1}, {"c": {"$ne": 1}}]}

    assert [(one.operator, one.path) for one in read_filter(filter)] == [
        ("$nor", "a"),
        ("$or", "b"),
        ("$or", "c"),
    ]


@pytest.mark.parametrize(
    ("body", "key", "values"),
    [
        ({"a": 1, "$set": {"b": 2}}, "a", (1,)),
        ({"a": 1, "$set": {"b": 2}}, "b", (2,)),
        ({"a": 1, "$set": {"a": 2}}, "a", None),
        ({"a": {"b": [{"c": 1}, {"c": 2}]}}, "a.b.c", (1, 2)),
        ({"a": [1, 2]}, "a.1", (2,)),
        ({"a": [1, 2]}, "a.5", ()),
        ({"a.0": 1}, "a", None),
        ({"a": {"b.c": 1}}, "a.b.c", None),
        ({"$setOnInsert": {"a": 1}}, "a", None),
        ({"$rename": {"x": "a"}}, "a.b", None),
        ({"b": 1}, "a", ()),
    ],
)
def test_values_at_a_key(body: Any, key: str, values: tuple[Any, ...] | None) -> None:
    found = read(body).find(tuple(key.split(".")))

    assert (None if found is None else found.found) == values


@pytest.mark.parametrize(
    ("body", "key", "is_contained"),
    [
        ({"a": 1}, "a", True),
        ({"a": [{"b": 1}, {"b": 2}]}, "a.b", True),
        ({"a": [{"b": 1}, {"c": 2}]}, "a.b", False),
        ({"a": []}, "a.b", False),
        ({"a": [{"b": 1}]}, "a.0.b", True),
        ({"a": [{"b": 1}]}, "a.0.c", False),
        ({"a": [{"b": 1}]}, "a.1.b", False),
        ({"a": 5}, "a.b", False),
    ],
)
def test_a_document_contains_a_key_if_every_element_of_an_array_has_it(
    body: Any, key: str, is_contained: bool
) -> None:
    assert read(body).contains(tuple(key.split("."))) is is_contained


def test_a_body_that_is_nested_too_deep_writes_everything() -> None:
    body: Any = 1
    for _ in range(300):
        body = {"a": body}

    assert EVERYTHING in read(body).written


def test_too_many_paths_are_everything() -> None:
    assert read({f"a{number}": 1 for number in range(5_001)}).written == (EVERYTHING,)
