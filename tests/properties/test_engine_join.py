"""Equality and joining in memory agree with the database."""

from __future__ import annotations

from datetime import datetime
from itertools import product
from typing import Any
from uuid import uuid4

from bson import Binary, Decimal128, Int64, ObjectId, Timestamp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo import MongoClient

from docgraph.codec.equality import candidate_keys, equality_key, is_equal
from docgraph.graphql.conditions import is_comparable
from tests.chance import examples

NAMES = ("a", "b", "0", "1")
PATHS = ("a", "a.b", "a.0", "a.0.b", "a.b.0", "a.1", "a.0.0", "a.b.a")

scalars = st.sampled_from(
    [
        None, True, False, 0, 1, -0.0, 1.0, 1.5, Int64(1), Int64(2**53 + 1), float(2**53), 0.1,
        float("nan"), float("inf"), Decimal128("1.0"), Decimal128("0.1"), Decimal128("NaN"),
        Decimal128("-0"), Decimal128("1.5"), Decimal128("1E+400"), Decimal128("Infinity"),
        Decimal128("0.1000000000000000055511151231257827"), "", "a", "1", "é", "e\u0301",
        ObjectId(b"docgraph-key"), datetime(2020, 1, 1), b"x", Binary(b"x", 5), Timestamp(1, 2),
    ]
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=2)
    ),
    max_leaves=6,
)


@given(
    stored=st.lists(values, min_size=1, max_size=12),
    sought=st.lists(values, min_size=1, max_size=6),
)
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
def test_candidates_agree_with_the_database(
    mongo_client: MongoClient[dict[str, Any]], stored: list[Any], sought: list[Any]
) -> None:
    """Decision 13."""
    collection = mongo_client.engine_join[uuid4().hex]
    collection.insert_many([{"_id": n, "a": value} for n, value in enumerate(stored)])
    documents = list(collection.find())
    try:
        for path in PATHS:
            reached = {d["_id"]: set(candidate_keys(d, tuple(path.split(".")))) for d in documents}
            for value in (v for v in sought if v is not None and is_comparable(v)):
                found = {d["_id"] for d in collection.find({path: {"$in": [value]}}, {"_id": 1})}
                key = equality_key(value)
                assert {n for n, keys in reached.items() if key in keys} == found, (path, value)
    finally:
        collection.drop()


@given(several=st.lists(values, min_size=1, max_size=8))
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
def test_equality_agrees_with_the_database(
    mongo_client: MongoClient[dict[str, Any]], several: list[Any]
) -> None:
    collection = mongo_client.engine_join[uuid4().hex]
    collection.insert_many([{"one": a, "other": b} for a, b in product(several, several)])
    compare = {"$project": {"one": 1, "other": 1, "equal": {"$eq": ["$one", "$other"]}}}
    try:
        for found in collection.aggregate([compare]):
            one, other = found["one"], found["other"]
            assert is_equal(one, other) is found["equal"], (one, other)
    finally:
        collection.drop()
