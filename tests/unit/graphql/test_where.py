"""Compilation of `where`: filters of MongoDB, in which values stay values."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.codec.bson_types import ObjectId, Regex
from docgraph.codec.id_text import IdText
from docgraph.graphql.conditions import is_served
from docgraph.graphql.errors import Classification, FieldFailure
from docgraph.graphql.where import (
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_TEXT,
    MAX_VALUES,
    OPERATORS,
    WhereField,
    WhereSpec,
    compile_where,
    find_end,
)
from docgraph.store.collection_stats import Index
from docgraph.variables import MATCH_NOTHING

ALL = frozenset(OPERATORS)
SPEC = WhereSpec(
    {
        "a": WhereField("x.a", ALL),
        "b": WhereField("b", ALL),
        "list": WhereField("l", ALL, is_list=True),
        "over": WhereField("p.q", ALL, is_list=True),
        "object": WhereField("o", fields={"in": WhereField("deep.in", ALL)}),
        "items": WhereField("i", is_list=True, fields={"n": WhereField("n", ALL)}),
    },
    search=True,
    is_root=True,
)
NEAR = {"longitude": 1, "latitude": 2, "maxDistance": 6_378_100.0}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, {}),
        ({}, {}),
        ({"a": None}, {}),
        ({"a": {"eq": 1}}, {"x.a": {"$eq": 1}}),
        ({"a": {"eq": {"$gt": 1}}}, {"x.a": {"$eq": {"$gt": 1}}}),
        ({"a": {"ne": Regex("a")}}, {"$nor": [{"x.a": {"$eq": Regex("a")}}]}),
        (
            {"a": {"in": [1, {"$gt": 1}]}},
            {"$or": [{"x.a": {"$in": [1]}}, {"x.a": {"$eq": {"$gt": 1}}}]},
        ),
        ({"a": {"gt": 1, "lt": 5}}, {"$and": [{"x.a": {"$gt": 1}}, {"x.a": {"$lt": 5}}]}),
        ({"a": {"eq": 1}, "b": {"eq": 2}}, {"x.a": {"$eq": 1}, "b": {"$eq": 2}}),
        ({"a": {"prefix": "ab"}}, {"x.a": {"$gte": "ab", "$lt": "ac"}}),
        ({"a": {"contains": "a.*b"}}, {"x.a": {"$regex": r"a\.\*b"}}),
        ({"a": {"eq": IdText("7")}}, {"x.a": {"$in": ["7", 7]}}),
        ({"a": {"ne": IdText("7")}}, {"x.a": {"$nin": ["7", 7]}}),
        ({"a": {"eq": IdText("x")}}, {"x.a": {"$eq": "x"}}),
        ({"list": {"has": 1}}, {"$and": [{"l": {"$eq": 1}}, {"l": {"$type": "array"}}]}),
        ({"object": {"in": {"eq": 1}}}, {"o.deep.in": {"$eq": 1}}),
        ({"items": {"any": {"n": {"eq": 1}}}}, {"i": {"$elemMatch": {"n": {"$eq": 1}}}}),
        ({"items": {"any": {"n": {"in": []}}}}, MATCH_NOTHING),
        ({"or": [{"a": {"eq": 1}}]}, {"x.a": {"$eq": 1}}),
        ({"not": {"a": {"eq": 1}}}, {"$nor": [{"x.a": {"$eq": 1}}]}),
        ({"search": "a"}, {"$text": {"$search": "a"}}),
        ({"a": {"near": NEAR}}, {"x.a": {"$geoWithin": {"$centerSphere": [[1.0, 2.0], 1.0]}}}),
    ],
)
def test_filters(where: Any, expected: Any) -> None:
    assert compile_where(SPEC, where).filter == expected


def test_values_of_ids_are_found_as_all_kinds() -> None:
    text = "65000000000000000000000a"
    filter_ = compile_where(SPEC, {"a": {"in": [IdText(text)]}}).filter
    assert filter_ == {"x.a": {"$in": [text, ObjectId(text)]}}


@pytest.mark.parametrize(
    ("prefix", "end"),
    [
        ("a", "b"),
        ("az", "a{"),
        ("a\U0010ffff", "b"),
        ("\U0010ffff", None),
        ("\ud7ff", "\ue000"),
        ("\uffff", "\U00010000"),
    ],
)
def test_the_end_of_a_prefix(prefix: str, end: str | None) -> None:
    assert find_end(prefix) == end


def nest(depth: int) -> Any:
    where: Any = {"a": {"eq": 1}}
    for _ in range(depth):
        where = {"not": where}
    return where


@pytest.mark.parametrize(
    ("within", "beyond"),
    [
        (nest(MAX_DEPTH), nest(MAX_DEPTH + 1)),
        ({"a": {"in": [1] * MAX_VALUES}}, {"a": {"in": [1] * (MAX_VALUES + 1)}}),
        (
            {"a": {"in": [1] * (MAX_VALUES - 1)}, "list": {"any": [1]}},
            {"a": {"in": [1] * MAX_VALUES}, "list": {"any": [1]}},
        ),
        ({"and": [{}] * MAX_CONDITIONS}, {"and": [{}] * (MAX_CONDITIONS + 1)}),
        (
            {"and": [{"a": {"eq": 1}}] * (MAX_CONDITIONS // 2)},
            {"and": [{"a": {"eq": 1, "ne": 2}}] * (MAX_CONDITIONS // 2)},
        ),
        ({"a": {"eq": "x" * MAX_TEXT}}, {"a": {"eq": "x" * (MAX_TEXT + 1)}}),
        (
            {"a": {"eq": {"k": "x" * (MAX_TEXT - 1)}}},
            {"a": {"eq": {"k": ["x" * MAX_TEXT]}}},
        ),
    ],
)
def test_the_size_is_bounded(within: Any, beyond: Any) -> None:
    compile_where(SPEC, within)
    with pytest.raises(FieldFailure) as caught:
        compile_where(SPEC, beyond)
    assert caught.value.classification is Classification.VALIDATION
    assert caught.value.message.startswith("where")


# --- indexes --------------------------------------------------------------------------------------

INDEXES = [
    Index((("x.a", 1),)),
    Index((("tenant", 1), ("b", -1))),
    Index((("l", "hashed"),)),
    Index((("p.q", 1),)),
    Index((("i.n", 1),), complete=False),
    Index((("o.deep.in", 1),), complete=False, finds_all=False),
    Index((("place", "2dsphere"),)),
]
EQUAL = {"eq": 1}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"a": EQUAL}, True),
        ({"a": {"in": [1, 2]}}, True),
        ({"a": {"prefix": "x"}}, True),
        ({"a": {"exists": False}}, True),
        ({"a": {"exists": True}}, False),
        ({"a": {"ne": 1}}, False),
        ({"a": {"nin": [1]}}, False),
        ({"a": {"contains": "abc"}}, False),
        ({"a": {"near": NEAR}}, False),
        ({"not": {"a": EQUAL}}, False),
        ({"b": EQUAL}, False),
        ({"list": {"has": 1}}, True),
        ({"list": {"exists": False}}, False),
        ({"over": {"has": 1}}, True),
        ({"over": {"any": [1, 2]}}, True),
        ({"items": {"any": {}}}, False),
        ({"items": {"any": {"n": EQUAL}}}, True),
        ({"object": {"in": EQUAL}}, False),
        ({"or": [{"a": EQUAL}, {"b": EQUAL}]}, False),
        ({"or": [{"a": EQUAL}, {"b": EQUAL, "a": {"gt": 1}}]}, True),
        ({"a": EQUAL, "or": [{"b": EQUAL}, {"b": {"ne": 1}}]}, True),
        ({"search": "x"}, True),
    ],
)
def test_conditions_that_an_index_serves(where: Any, expected: bool) -> None:
    assert is_served(compile_where(SPEC, where).filter, INDEXES, frozenset()) is expected


def test_fixed_keys_may_come_before() -> None:
    filter_ = compile_where(SPEC, {"b": EQUAL}).filter
    assert is_served(filter_, INDEXES, frozenset({"tenant"}))
    assert not is_served(filter_, INDEXES, frozenset({"other"}))


def test_geo_indexes_find_what_is_near() -> None:
    spec = WhereSpec({"place": WhereField("place", ALL)})
    filter_ = compile_where(spec, {"place": {"near": NEAR}}).filter
    assert is_served(filter_, INDEXES, frozenset())
    assert not is_served(compile_where(spec, {"place": EQUAL}).filter, INDEXES, frozenset())
