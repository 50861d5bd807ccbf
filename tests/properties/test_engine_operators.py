"""A foreign key under any operator finds what the database finds for its value."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from graphql import parse
from pymongo import MongoClient

from docgraph.graphql.apps.compiled_app import VisibleApp, build_app
from docgraph.graphql.definition.definition import decode_definition
from docgraph.graphql.sections import Graphql
from tests.properties.engine_runner import Engine

SETTINGS = Graphql(default_limit=100, max_limit=1000)
Build = Callable[[Any, Any], dict[str, Any]]

# A filter of the key, and of the list that it stands for where the database wants one.
SHAPES: dict[str, Build] = {
    "equal": lambda k, _: {"x": {"$eq": k}},
    "ne": lambda k, _: {"x": {"$ne": k}},
    "gt": lambda k, _: {"x": {"$gt": k}},
    "lte": lambda k, _: {"x": {"$lte": k}},
    "nin": lambda _, ks: {"x": {"$nin": ks}},
    "all": lambda _, ks: {"x": {"$all": ks}},
    "not_in": lambda _, ks: {"x": {"$not": {"$in": ks}}},
    "not_nin": lambda _, ks: {"x": {"$not": {"$nin": ks}}},
    "not_all": lambda _, ks: {"x": {"$not": {"$all": ks}}},
    "not_eq": lambda k, _: {"x": {"$not": {"$eq": k}}},
    "not_element": lambda _, ks: {"x": {"$not": {"$elemMatch": {"$in": ks}}}},
    "element_in": lambda _, ks: {"x": {"$elemMatch": {"$in": ks}}},
    "element_nin": lambda _, ks: {"x": {"$elemMatch": {"$nin": ks}}},
    "element_not_in": lambda _, ks: {"x": {"$elemMatch": {"$not": {"$in": ks}}}},
    "element_field": lambda _, ks: {"s": {"$elemMatch": {"x": {"$in": ks}}}},
    "element_or": lambda _, ks: {"s": {"$elemMatch": {"$or": [{"x": {"$in": ks}}, {"x": 9}]}}},
    "all_elements": lambda _, ks: {"x": {"$all": [{"$elemMatch": {"$in": ks}}]}},
    "nor": lambda _, ks: {"$nor": [{"x": {"$in": ks}}, {"x": 9}]},
    "nor_equal": lambda k, _: {"$nor": [{"x": {"$eq": k}}]},
    "nor_and": lambda _, ks: {"$nor": [{"$and": [{"x": {"$in": ks}}, {"n": 0}]}]},
    "and_nin": lambda _, ks: {"$and": [{"n": 0}, {"x": {"$nin": ks}}]},
    "or_nin": lambda _, ks: {"$or": [{"n": 2}, {"x": {"$nin": ks}}]},
    "nin_one": lambda k, _: {"x": {"$nin": [k, 9]}},
    "not_in_one": lambda k, _: {"x": {"$not": {"$in": [k, 9]}}},
    "both": lambda _, ks: {"x": {"$nin": ks, "$exists": True}},
    "expr_eq": lambda k, _: {"$expr": {"$eq": ["$x", k]}},
    "expr_not": lambda k, _: {"$expr": {"$not": [{"$eq": ["$x", k]}]}},
    "expr_in": lambda k, _: {"$expr": {"$in": ["$x", {"$cond": [{"$isArray": k}, k, [k]]}]}},
}
# These join, so that null elements are dropped.
JOINS: dict[str, Build] = {
    "in_": lambda _, ks: {"x": {"$in": ks}},
    "in_and": lambda _, ks: {"$and": [{"x": {"$in": ks}}, {"n": {"$gte": 0}}]},
    "in_or": lambda _, ks: {"$or": [{"x": {"$in": ks}}, {"n": 2}]},
    "in_field": lambda _, ks: {"s.x": {"$in": ks}},
}

ITEMS = (None, 1, "a")
VALUES: list[Any] = [*ITEMS, [], *([one] for one in ITEMS), *map(list, product(ITEMS, ITEMS))]
KEYS: list[dict[str, Any]] = [{}, *({"arr": value} for value in VALUES), {"arr": [1, None, "b"]}]
KIDS: list[dict[str, Any]] = [
    {},
    *({"x": value} for value in (*VALUES, 9, [9, None])),
    *({"s": [{"x": value}]} for value in ITEMS),
    {"s": [{}, {"x": 9}]},
    {"s": [{"x": 1}, {"x": None}], "x": 2},
]


@pytest.fixture
def app(database: str) -> VisibleApp:
    """Every shape as a field, once as a query and once as an aggregation."""
    key = {"$fk": "arr"}
    fields: dict[str, Any] = {}
    for name, build in (SHAPES | JOINS).items():
        filter_ = build(key, key)
        place = {"db": database, "collection": "kids"}
        fields[f"find_{name}"] = {**place, "find": filter_, "sort": {"_id": 1}}
        fields[f"stages_{name}"] = {
            **place,
            "stages": [{"$match": filter_}, {"$sort": {"_id": 1}}],
        }
    own = {"db": database, "collection": "parents"}
    schema = (
        "type Query { parents: [Parent] parent(id: Int): Parent }"
        f"type Parent {{ _id: Int {' '.join(f'{name}: [Kid]' for name in fields)} }}"
        "type Kid { _id: Int }"
    )
    queries = {
        "parents": {**own, "find": {}, "sort": {"_id": 1}},
        "parent": {**own, "find": {"_id": {"$arg": "id"}}},
    }
    mappings = {"Query": queries, "Parent": fields}
    definition = {"_id": "operators", "schema": schema, "mappings": mappings}
    return build_app(decode_definition(definition), SETTINGS).visible_to(())


def test_a_key_under_any_operator_means_what_it_means_to_the_database(
    engine: Engine, mongo_client: MongoClient[dict[str, Any]], app: VisibleApp, database: str
) -> None:
    """Decision 11: for all parents at once and for each alone."""
    stored = mongo_client[database]
    stored.parents.insert_many([{"_id": n, **one} for n, one in enumerate(KEYS)])
    stored.kids.insert_many([{"_id": n, "n": n % 3, **one} for n, one in enumerate(KIDS)])
    ways = [f"{way}_{name} {{ _id }}" for name in SHAPES | JOINS for way in ("find", "stages")]
    selection = " ".join(ways)

    together = engine.answer(app, parse(f"{{ parents {{ {selection} }} }}"), {})
    alone = [
        engine.answer(app, parse(f"{{ parent(id: {n}) {{ {selection} }} }}"), {})
        for n in range(len(KEYS))
    ]

    assert together.problems == frozenset()
    for number, parent in enumerate(KEYS):
        key = parent.get("arr")
        for name, filter_ in ask(key).items():
            found = [{"_id": kid["_id"]} for kid in stored.kids.find(filter_).sort("_id")]
            for way in (f"find_{name}", f"stages_{name}"):
                assert together.data["parents"][number][way] == found, (way, parent)
                assert alone[number].data["parent"][way] == found, (way, parent)


def ask(key: Any) -> dict[str, dict[str, Any]]:
    """The filter of each shape, as one would send it for this key."""
    if key is None:  # decision 11: nothing is joined, whatever else is asked
        return {name: {"_id": {"$in": []}} for name in SHAPES | JOINS}
    keys = key if isinstance(key, list) else [key]
    present = [one for one in keys if one is not None]
    literal = {"$literal": key}
    filters = {
        name: build(literal if name.startswith("expr") else key, keys)
        for name, build in SHAPES.items()
    }
    return filters | {name: build(key, present) for name, build in JOINS.items()}
