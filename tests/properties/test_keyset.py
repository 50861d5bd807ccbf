"""Keyset conditions agree with the order of the database, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from docgraph.codec.bson_types import MaxKey, MinKey, Regex
from docgraph.codec.keyset import EMPTY, ahead, behind, build_key, find_empty, read_key
from tests.chance import examples
from tests.properties.test_engine_join import scalars

Document = dict[str, Any]

leaves = scalars | st.sampled_from([MinKey(), MaxKey(), Regex("a"), Regex("b", "i")])
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("bc"), inner, max_size=2)
    ),
    max_leaves=5,
)
documents = st.lists(
    st.dictionaries(st.sampled_from("ab"), values, max_size=2), min_size=2, max_size=9
)
directions = st.sampled_from([1, -1])
orders = st.lists(
    st.tuples(st.sampled_from(["a", "b", "a.b", "a.c", "b.b", "a.0"]), directions),
    max_size=2,
    unique_by=lambda one: one[0],
)


@given(stored=documents, order=orders, last=directions)
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
def test_what_is_behind_and_ahead_of_a_document_is_the_rest_of_the_sort(
    mongo_client: MongoClient[Document],
    stored: list[Document],
    order: list[tuple[str, int]],
    last: int,
) -> None:
    collection = mongo_client.keyset[uuid4().hex]
    collection.insert_many([{**one, "_id": number} for number, one in enumerate(stored)])
    sort = (*order, ("_id", last))
    try:
        try:
            keys = read_keys(collection, sort)
        except OperationFailure as error:  # the database has no order of parallel arrays
            assert "parallel arrays" in str(error)  # noqa: PT017 - any other is a failure
            return
        ids = list(keys)
        for place, (id, key) in enumerate(keys.items()):
            after = find_parts(collection, sort, behind(sort, key))
            before = find_parts(collection, sort, ahead(sort, key))
            assert after == ids[place + 1 :], (id, key)
            assert set(before) == set(ids[:place]), (id, key)
            assert len(before) == place
    finally:
        collection.drop()


def read_keys(
    collection: Collection[Document], sort: Sequence[tuple[str, int]]
) -> dict[int, list[Any]]:
    """The sort key of each document, in the order of the sort."""
    order = tuple(sort)
    shown = {"key": build_key(order), "empty": find_empty(order), "_id": 1}
    keys: dict[int, list[Any]] = {}
    for one in collection.find({}, shown, sort=list(sort)):
        key = keys[one["_id"]] = read_key(one["key"])
        assert [place for place, value in enumerate(key) if value is EMPTY] == one["empty"]
    return keys


def find_parts(
    collection: Collection[Document], sort: Sequence[tuple[str, int]], parts: list[Document]
) -> list[int]:
    """The ids that the parts find one after the other."""
    found = [list(collection.find(part, {"_id": 1}, sort=list(sort))) for part in parts]
    return [one["_id"] for part in found for one in part]
