"""Definitions: whatever is written, the checker answers; whatever is sent, it stays a value."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymongo import MongoClient

from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.definition.check import check_definition
from docgraph.graphql.sections import Graphql
from docgraph.variables import Scope, Variables, compile_template

SCHEMA = """
type Query { posts(first: Int, q: BsonDocument): [Post] hits: [Hit] }
type Post { title: String author: User status: Status }
type User { name: String posts: [Post] }
union Hit = Post | User
enum Status { A B }
"""
MAPPINGS: dict[str, Any] = {
    "Query": {
        "posts": {
            "db": "blog",
            "collection": "posts",
            "find": {"$or": [{"a": {"$arg": ["first", None]}}, {"b": {"$in": [1, 2]}}]},
            "sort": {"date": -1},
            "limit": {"$arg": "first"},
            "dataLoader": {"batching": True},
        },
        "hits": {
            "db": "blog",
            "collection": "hits",
            "stages": [
                {"$match": {"x": {"$arg": "@user._id"}}},
                {"$ifarg": ["first", {"$limit": 3}, {"$facet": {"f": [{"$count": "n"}]}}]},
            ],
        },
    },
    "User": {"posts": {"db": "blog", "collection": "posts", "find": {"a": {"$fk": "_id"}}}},
    "Hit": {"$typeResolver": {"Post": "field-exists(title)", "User": "true"}},
    "Status": {"A": 1},
}
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from([{}, [], {"$arg": []}, {"$ifarg": 1}, [{"$out": "x"}], {"$fk": {}}, "$x", "@"]),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    return [path] + [place for key, item in items for place in places(item, (*path, key))]


def put(value: Any, path: tuple[Any, ...], junk: Any) -> Any:
    if not path:
        return junk
    changed = copy.copy(value)
    changed[path[0]] = put(changed[path[0]], path[1:], junk)
    return changed


@given(st.sampled_from(places(MAPPINGS)), JUNK)
def test_a_mutated_mapping_is_accepted_or_refused_with_its_place(
    path: tuple[Any, ...], junk: Any
) -> None:
    """Reliability D02."""
    document = {"_id": "a", "schema": SCHEMA, "mappings": put(MAPPINGS, path, junk)}

    report = check_definition(document, settings=Graphql())

    assert all(error.where.startswith("mappings") for error in report.errors)
    assert all(error.what for error in report.errors)


@given(st.integers(0, len(SCHEMA)), st.integers(0, 20), st.text(max_size=3))
def test_a_mutated_schema_is_accepted_or_refused(start: int, length: int, text: str) -> None:
    """Reliability D01."""
    schema = SCHEMA[:start] + text + SCHEMA[start + length :]
    document = {"_id": "a", "schema": schema, "mappings": MAPPINGS}

    check_definition(document, settings=Graphql())


@given(st.recursive(JUNK, lambda inner: st.dictionaries(st.text(max_size=3), inner), max_leaves=8))
def test_any_document_gets_a_report(document: Any) -> None:
    if isinstance(document, dict):
        check_definition(document, settings=Graphql())


# --- against the database --------------------------------------------------------------------

NULL = {"$arg": ["@user._id", None]}
KEY = {"$fk": "ref"}
DOCUMENTS: list[dict[str, Any]] = [
    {"_id": "null", "o": None, "l": [None], "d": {"o": None}},
    {"_id": "missing"},
    {"_id": "bob", "o": "bob", "l": ["bob"], "d": {"o": "bob"}},
    {"_id": "empty", "o": [], "l": [], "d": {}},
]


@pytest.fixture
def collection(mongo_client: MongoClient[dict[str, Any]], database: str) -> Any:
    found = mongo_client[database]["docs"]
    found.insert_many(copy.deepcopy(DOCUMENTS))
    return found


def conditions(value: Any) -> list[Any]:
    return [
        {"o": value},
        {"o": {"$eq": value}},
        {"o": {"$ne": value}},
        {"o": {"$in": [value]}},
        {"o": {"$in": value}},
        {"o": {"$nin": [value]}},
        {"o": {"$not": {"$eq": value}}},
        {"o": {"$lte": value}},
        {"l": {"$elemMatch": {"$eq": value}}},
        {"l": {"$all": [value]}},
        {"d.o": value},
        {"d": {"o": value}},
        {"$and": [{"o": value}]},
        {"$or": [{"o": value}, {"d.o": value}]},
        {"$expr": {"$eq": ["$o", value]}},
        {"$expr": {"$not": [{"$gt": ["$o", value]}]}},
    ]


@pytest.mark.parametrize("absent", [NULL, KEY])
def test_a_condition_without_value_finds_neither_null_nor_missing(
    collection: Any, absent: Any
) -> None:
    """Decisions 9 and 11: in `find` and `$match`, against documents with null and without."""
    for condition in conditions(absent):
        scope = Scope({}, Variables(), parent={})
        filter_ = compile_template(condition, context="filter").render(scope)
        stages = compile_template([{"$match": condition}], context="stages").render(scope)

        assert list(collection.find(filter_)) == [], condition
        assert list(collection.aggregate(stages)) == [], condition


def test_the_other_alternatives_still_find(collection: Any) -> None:
    """Decision 9: under `$or` only the branch falls away."""
    source = {"$or": [{"o": NULL}, {"_id": "missing"}, {"o": {"$in": [NULL, "bob"]}}]}

    filter_ = compile_template(source, context="filter").render(Scope())

    assert {found["_id"] for found in collection.find(filter_)} == {"missing", "bob"}


def test_an_explicit_null_finds_null_and_missing(collection: Any) -> None:
    """Decision 9: an explicit null is bound."""
    template = compile_template({"o": {"$arg": ["x", "bob"]}}, context="filter")

    filter_ = template.render(Scope({"x": None}))

    assert {found["_id"] for found in collection.find(filter_)} == {"null", "missing"}


hostile = st.recursive(
    st.none() | st.integers(-2, 2) | st.sampled_from(["$o", "$$ROOT", "bob", ""]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["$ne", "$gt", "$where", "$exists", "$expr", "$function", "o"]),
            inner,
            max_size=2,
        )
    ),
    max_leaves=4,
)


def test_supplied_values_never_find_more_than_their_equals(collection: Any) -> None:
    """Decision 20a, reliability N01: a value from outside is compared, whatever it looks like."""
    equal = compile_template({"o": {"$arg": "x"}}, context="filter")
    either = compile_template({"$or": [{"o": {"$arg": "x"}}]}, context="filter")
    shown = compile_template([{"$project": {"v": {"$arg": "x"}}}], context="stages")

    @given(hostile)
    def check(value: Any) -> None:
        scope = Scope({"x": value})
        expected = [found["_id"] for found in collection.find({"o": {"$eq": value}})]
        for template in (equal, either):
            filter_ = template.render(scope)
            assert [found["_id"] for found in collection.find(filter_)] == expected
        for found in collection.aggregate(shown.render(scope)):
            assert found["v"] == value

    check()


@given(hostile)
def test_rendering_never_fails_with_anything_but_its_own_errors(value: Any) -> None:
    for condition in [*conditions({"$arg": "x"}), {"$arg": "x"}, {"o": {"$regex": {"$arg": "x"}}}]:
        with suppress(DocgraphError):
            compile_template(condition, context="filter").render(Scope({"x": value}))
