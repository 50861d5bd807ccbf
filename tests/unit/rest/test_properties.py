"""The properties of collections that mean something, and the paths that collections have."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.codec import as_written
from docgraph.codec.bson_types import ObjectId
from docgraph.exchange import Resource, ResourceType
from docgraph.exchange.errors import DefinitionError
from docgraph.rest.properties import check_properties, to_stored
from docgraph.rest.sections import Mongo
from docgraph.store import Policy
from docgraph.store.mounts import find_paths
from docgraph.store.sections import MongoMount


def check(properties: dict[str, Any], *, of_collection: bool = True) -> None:
    check_properties(properties, db="db", policy=Policy(), of_collection=of_collection)


def test_properties_of_ones_own_are_free() -> None:
    check({"note": 1, "nested": {"aggrs": "x"}, "rels": []})


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(DefinitionError) as caught:
        check({"etagPolicy": "x", "etagDocPolicy": None, "jsonSchema": 3, "aggrs": [{}]})

    assert [one.split(":")[0] for one in caught.value.details] == [
        "etagPolicy",
        "etagDocPolicy",
        "aggrs[0].uri",
        "aggrs[0].stages",
        "jsonSchema",
    ]
    assert caught.value.message == caught.value.details[0]


def test_a_database_has_policies_and_no_aggregations() -> None:
    check({"aggrs": "free", "jsonSchema": "free"}, of_collection=False)

    with pytest.raises(DefinitionError):
        check({"etagPolicy": 1}, of_collection=False)


def test_what_is_stored_is_read_back() -> None:
    properties = {"a": [{"$match": {"b.c": "x"}}], "d": ["$e", "f::g"]}
    stored = to_stored({**properties, "_id": "mine", "_etag": "mine"})

    assert stored["a"] == [{"_$match": {"b::c": "x"}}]
    assert "_id" not in stored
    assert "_etag" not in stored
    assert as_written({**stored, "_etag": ObjectId("0" * 24)}) == {
        **properties,
        "_etag": ObjectId("0" * 24),
    }


@pytest.mark.parametrize(
    ("mounts", "paths"),
    [
        ([("/db", "/")], [("coll",)]),
        ([("*", "/")], [("db", "coll")]),
        ([("/db/coll", "/x/y")], [("x", "y")]),
        ([("/db/other", "/x"), ("/else", "/z")], []),
        ([("*", "/all"), ("/db", "/")], [("all", "db", "coll"), ("coll",)]),
        ([("/db", "/{tenant}")], []),
    ],
)
def test_paths_of_a_collection(mounts: list[tuple[str, str]], paths: list[tuple[str, ...]]) -> None:
    settings = Mongo(mongo_mounts=tuple(MongoMount(what=what, where=at) for what, at in mounts))
    resource = Resource(ResourceType.COLLECTION, "db", "coll")

    assert list(find_paths(resource, settings.mongo_mounts, settings.uri)) == paths


def test_paths_stand_below_the_path_of_the_service() -> None:
    settings = Mongo(uri="/data", mongo_mounts=(MongoMount(what="/db", where="/x"),))
    resource = Resource(ResourceType.DATABASE, "db")

    assert list(find_paths(resource, settings.mongo_mounts, settings.uri)) == [("data", "x")]
