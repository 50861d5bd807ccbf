"""Pipelines that copy and rename a hidden property: each comparison of it is named.

A generated pipeline runs in MongoDB. Wherever a planted value is in its results, a condition on
that path could find the value, so the check of a definition must name the condition (decision 59).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from docgraph.graphql.definition.check import check_definition
from docgraph.graphql.sections import Graphql
from tests.chance import examples

SDL = """
type Query { people: [Person] results(least: Int): [Result] }
type Person { name: String salary: Int @visible(roles: ["hr"]) }
type Result { n: Int }
"""
PLANTED: Final = 987654321
NAMES = st.sampled_from(["a", "b", "c"])
LEAVES = ["$$ROOT", "$$CURRENT", "$salary", "$a", "$b", "$a.b", "$c", "$a.c.b", "$_id"]

Build = Callable[[Any, str], Any]

EXPRESSIONS: list[Build] = [
    lambda e, n: [e],
    lambda e, n: {n: e},
    lambda e, n: {n: {"d": e}},
    lambda e, n: {"$arrayElemAt": [[e], 0]},
    lambda e, n: {"$first": [[e]]},
    lambda e, n: {"$let": {"vars": {"v": e}, "in": "$$v"}},
    lambda e, n: {"$let": {"vars": {"v": e}, "in": f"$$v.{n}"}},
    lambda e, n: {"$let": {"vars": {"CURRENT": e}, "in": f"${n}"}},
    lambda e, n: {"$let": {"vars": {"CURRENT": e}, "in": "$salary"}},
    lambda e, n: {"$map": {"input": [e], "as": "m", "in": {n: "$$m"}}},
    lambda e, n: {"$map": {"input": e, "in": "$$this.salary"}},
    lambda e, n: {"$filter": {"input": [e], "cond": True}},
    lambda e, n: {"$reduce": {"input": [e], "initialValue": None, "in": {n: "$$this"}}},
    lambda e, n: {
        "$reduce": {
            "input": [e, 1],
            "initialValue": None,
            "in": {"a": "$$this", "b": "$$value.a", "c": "$$value"},
        }
    },
    lambda e, n: {"$mergeObjects": [{"k": 1}, e]},
    lambda e, n: {"$cond": [True, e, None]},
    lambda e, n: {"$cond": {"if": True, "then": e, "else": None}},
    lambda e, n: {"$switch": {"branches": [{"case": True, "then": e}], "default": None}},
    lambda e, n: {"$switch": {"branches": [{"case": False, "then": None}], "default": e}},
    lambda e, n: {"$ifNull": [e, 0]},
    lambda e, n: {"$concatArrays": [[e], []]},
    lambda e, n: {"$reverseArray": [[e]]},
    lambda e, n: {"$slice": [[e], 1]},
    lambda e, n: {"$firstN": {"input": [e], "n": 1}},
    lambda e, n: {"$sortArray": {"input": [e], "sortBy": {n: 1}}},
    lambda e, n: {"$objectToArray": e},
    lambda e, n: {"$arrayToObject": [[[n, e]]]},
    lambda e, n: {"$arrayToObject": [[{"k": n, "v": e}]]},
    lambda e, n: {"$zip": {"inputs": [[e], [1]]}},
    lambda e, n: {"$setUnion": [[e], []]},
    lambda e, n: {"$max": [e, 1]},
    lambda e, n: {"$add": [e, 0]},
    lambda e, n: {"$setField": {"field": n, "input": {}, "value": e}},
    lambda e, n: {"$setField": {"field": n, "input": e, "value": 1}},
    lambda e, n: {"$getField": {"field": n, "input": e}},
    lambda e, n: {"$getField": {"field": {"$literal": "salary"}, "input": e}},
    lambda e, n: {"$unsetField": {"field": n, "input": e}},
]
ACCUMULATORS: list[Build] = [
    *(lambda e, n, name=name: {name: e} for name in ("$first", "$last", "$push", "$addToSet")),
    *(lambda e, n, name=name: {name: e} for name in ("$max", "$min", "$mergeObjects")),
    lambda e, n: {"$top": {"output": e, "sortBy": {n: 1}}},
    lambda e, n: {"$bottomN": {"output": [e], "sortBy": {n: 1}, "n": 2}},
    lambda e, n: {"$firstN": {"input": e, "n": 2}},
    lambda e, n: {"$maxN": {"input": e, "n": 2}},
]
JOIN: Final = {"from": "people", "as": "c"}
STAGES: list[Build] = [
    lambda e, n: {"$set": {n: e}},
    lambda e, n: {"$set": {f"{n}.b": e}},
    lambda e, n: {"$project": {n: e}},
    lambda e, n: {"$project": {n: 1, "d": {"c": e}}},
    lambda e, n: {"$unset": n},
    lambda e, n: {"$replaceWith": e},
    lambda e, n: {"$replaceRoot": {"newRoot": {n: e}}},
    lambda e, n: {"$unwind": f"${n}"},
    lambda e, n: {"$sortByCount": e},
    lambda e, n: {"$facet": {n: [{"$set": {"c": e}}]}},
    lambda e, n: {"$facet": {n: [{"$group": {"_id": None, "c": {"$push": e}}}]}},
    lambda e, n: {"$lookup": {**JOIN, "pipeline": [], "as": n}},
    lambda e, n: {"$lookup": {**JOIN, "localField": "_id", "foreignField": "_id"}},
    lambda e, n: {"$lookup": {**JOIN, "let": {"v": e}, "pipeline": [{"$set": {n: "$$v"}}]}},
    lambda e, n: {"$lookup": {**JOIN, "let": {"v": e}, "pipeline": [{"$project": {n: "$$v.b"}}]}},
    lambda e, n: {
        "$graphLookup": {
            "from": "people",
            "startWith": "$_id",
            "connectFromField": "_id",
            "connectToField": "_id",
            "as": n,
        }
    },
    lambda e, n: {"$unionWith": {"coll": "people", "pipeline": [{"$project": {n: e}}]}},
    lambda e, n: {"$unionWith": "people"},
    lambda e, n: {"$fill": {"output": {n: {"value": e}}}},
    *(
        lambda e, n, build=build: {"$group": {"_id": None, n: build(e, "_id")}}
        for build in ACCUMULATORS
    ),
    lambda e, n: {"$group": {"_id": e}},
    lambda e, n: {"$bucketAuto": {"groupBy": "$_id", "buckets": 1, "output": {n: {"$push": e}}}},
    lambda e, n: {
        "$setWindowFields": {
            "sortBy": {"_id": 1},
            "output": {n: {"$push": e, "window": {"documents": ["unbounded", "unbounded"]}}},
        }
    },
    lambda e, n: {
        "$setWindowFields": {
            "sortBy": {"_id": 1},
            "output": {n: {"$shift": {"output": e, "by": 0}}},
        }
    },
]
COMPARISONS: list[Callable[[str], Any]] = [
    lambda path: {"$match": {path: {"$gte": {"$arg": "least"}}}},
    lambda path: {"$match": {"$expr": {"$gte": [f"${path}", {"$arg": "least"}]}}},
    lambda path: {"$sort": {path: {"$arg": "least"}}},
    lambda path: {"$group": {"_id": f"${path}"}},
    lambda path: {"$set": {"n": {"$eq": [f"$$ROOT.{path}", {"$arg": "least"}]}}},
]


def build(builders: list[Build], expressions: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda builder, inner, name: builder(inner, name),
        st.sampled_from(builders),
        expressions,
        NAMES,
    )


VALUES = st.recursive(
    st.sampled_from(LEAVES), lambda inner: build(EXPRESSIONS, inner), max_leaves=3
)
PIPELINES = st.lists(build(STAGES, VALUES), min_size=1, max_size=4)


def find_paths(value: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Return the paths of the planted value."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from find_paths(inner, (*path, name))
    elif isinstance(value, list):
        for inner in value:
            yield from find_paths(inner, path)
    elif value == PLANTED:
        yield ".".join(path)


@pytest.fixture(scope="module")
def people(mongo_uri: str) -> Iterator[Any]:
    with MongoClient[dict[str, Any]](mongo_uri) as client:
        name = "renamed_properties"
        client.drop_database(name)
        client[name]["people"].insert_many(
            [{"_id": 1, "name": "ada", "salary": PLANTED}, {"_id": 2, "name": "bob", "salary": 5}]
        )
        yield client[name]["people"]
        client.drop_database(name)


@settings(max_examples=examples(600), deadline=None)
@given(stages=PIPELINES, comparison=st.sampled_from(COMPARISONS))
def test_each_comparison_of_a_renamed_property_is_named(
    people: Any, stages: list[Any], comparison: Callable[[str], Any]
) -> None:
    try:
        results = list(people.aggregate(stages))
    except OperationFailure:
        assume(False)
    paths = sorted({path for result in results for path in find_paths(result)})
    for path in paths[:4]:
        reachable = {"$match": {path: PLANTED}}
        if not list(people.aggregate([*stages, reachable, {"$limit": 1}])):
            continue  # a list of lists, into which conditions do not reach
        named = check([*stages, comparison(path)])
        assert f"mappings.Query.results.stages[{len(stages)}]" in named, (path, named)


def check(stages: list[Any]) -> set[str]:
    """Return the locations of warnings about hidden properties."""
    place = {"db": "d", "collection": "people"}
    own = {"people": place, "results": {**place, "stages": stages}}
    document = {"_id": "app", "schema": SDL, "mappings": {"Query": own}}
    report = check_definition(document, settings=Graphql())
    assert not report.errors, report.errors
    return {one.where for one in report.warnings if "do not see" in one.what}
