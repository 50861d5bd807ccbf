"""What a projection and hidden properties leave of change events, in every part of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from pymongo import MongoClient
from pymongo.collection import Collection

from docgraph.store import ChangeEvents, Store
from docgraph.store.guard.event_stages import hide_in_events
from tests.databases import drop, new_name

pytestmark = pytest.mark.anyio

Sync = MongoClient[dict[str, Any]]
Things = Collection[dict[str, Any]]
DOCUMENT: dict[str, Any] = {
    "_id": 1,
    "name": "Ann",
    "email": "s3cret",
    "profile": {"city": "Rome", "phone": "s3cret"},
    "keys": [{"label": "a", "value": "s3cret"}, {"label": "b", "value": "s3cret"}],
    "list": [1, 2, 3],
}
EXCLUDING = {"email": 0, "profile.phone": 0, "keys.value": 0}
INCLUDING = {"_id": 1, "name": 1, "profile.city": 1, "keys.label": 1, "list": 1}
SEEN = {
    "_id": 1,
    "name": "Ann",
    "profile": {"city": "Rome"},
    "keys": [{"label": "a"}, {"label": "b"}],
    "list": [1, 2, 3],
}


@pytest.fixture
def things(mongo_client: Sync, module_database: str) -> Things:
    """A collection with one document."""
    created = mongo_client[module_database].create_collection(
        f"things_{uuid4().hex[:8]}", changeStreamPreAndPostImages={"enabled": True}
    )
    created.insert_one(DOCUMENT)
    return created


@pytest.fixture(scope="module")
def module_database(mongo_client: Sync) -> Iterator[str]:
    """One for all these tests."""
    name = new_name()
    yield name
    drop(mongo_client, name)


def watch(store: Store, things: Things, *stages: Any, **options: Any) -> ChangeEvents:
    return store.streams.watch(things.database.name, things.name, stages, **options)


async def hear_update(events: ChangeEvents, things: Things, update: Any) -> dict[str, Any]:
    """What is told of an update."""
    things.update_one({"_id": 1}, update)
    async with asyncio.timeout(60):
        event = await anext(events)
    assert event["operationType"] == "update"
    return event


@pytest.mark.parametrize("shown", [EXCLUDING, INCLUDING], ids=["excluding", "including"])
async def test_documents_are_told_as_a_read_shows_them(
    store: Store, things: Things, shown: dict[str, int]
) -> None:
    async with watch(store, things, {"$set": {"copy": "$$ROOT"}}, shown=shown) as events:
        things.insert_one({**DOCUMENT, "_id": 2})
        things.replace_one({"_id": 2}, {"email": "s3cret", "name": "Bob"})
        things.delete_one({"_id": 2})
        async with asyncio.timeout(60):
            inserted, replaced, deleted = [await anext(events) for _ in range(3)]

    assert inserted["fullDocument"] == {**SEEN, "_id": 2}
    assert replaced["fullDocument"] == {"_id": 2, "name": "Bob"}
    assert deleted["documentKey"] == {"_id": 2}
    for event in (inserted, replaced, deleted):
        assert event["ns"] == {"db": things.database.name, "coll": things.name}
        assert {"operationType", "clusterTime", "wallTime"} <= event.keys()
    assert "s3cret" not in repr([inserted, replaced, deleted])


UPDATES: dict[str, tuple[Any, Any, Any]] = {
    "shown": ({"$set": {"name": "Bob"}}, {"name": "Bob"}, {"name": "Bob"}),
    "hidden": ({"$set": {"email": "s3cret2", "name": "Bob"}}, {"name": "Bob"}, {"name": "Bob"}),
    "below": ({"$set": {"profile.phone": "s3cret2"}}, {}, {}),
    "beside": (
        {"$set": {"profile.city": "Oslo"}},
        {"profile.city": "Oslo"},
        {"profile.city": "Oslo"},
    ),
    "unknown": ({"$set": {"profile.age": 3}}, {"profile.age": 3}, {}),
    "around": (
        {"$set": {"profile": {"city": "Oslo", "phone": "s3cret2"}}},
        {"profile": {"city": "Oslo"}},
        {},
    ),
    "element": ({"$set": {"keys.0": {"label": "c", "value": "s3cret2"}}}, {}, {}),
    "in an element": (
        {"$set": {"keys.0.value": "s3cret2", "keys.1.label": "c"}},
        {"keys.1.label": "c"},
        {},
    ),
    "array": (
        {"$set": {"keys": [{"label": "c", "value": "s3cret2"}]}},
        {"keys": [{"label": "c"}]},
        {},
    ),
    "pushed": ({"$push": {"keys": {"label": "c", "value": "s3cret2"}}}, {}, {}),
    "position": ({"$set": {"list.1": 5}}, {"list.1": 5}, {"list.1": 5}),
    "line break": ({"$set": {"name\n": 5, "names": 6}}, {"name\n": 5, "names": 6}, {}),
    "like an expression": ({"$set": {"name": "$email"}}, {"name": "$email"}, {"name": "$email"}),
}


@pytest.mark.parametrize("case", UPDATES)
async def test_updates_are_told_without_what_is_not_shown(
    store: Store, things: Things, case: str
) -> None:
    update, excluding, including = UPDATES[case]
    told: list[Any] = []
    for shown in (EXCLUDING, INCLUDING):
        things.replace_one({"_id": 1}, DOCUMENT)
        async with watch(store, things, shown=shown) as events:
            told.append(await hear_update(events, things, update))

    described = [event["updateDescription"] for event in told]
    assert [one["updatedFields"] for one in described] == [excluding, including]
    assert [one["removedFields"] for one in described] == [[], []]
    assert "s3cret" not in repr(told)
    assert [event["documentKey"] for event in told] == [{"_id": 1}] * 2


async def test_a_path_around_a_hidden_one_is_dropped(store: Store, things: Things) -> None:
    """Its value holds the hidden one, and has no name of its own to cut it by."""
    things.update_one({"_id": 1}, {"$set": {"deep": {"x": 1, "list": [{}]}}})
    hidden = {"s": "s3cret", "y": 1}
    async with watch(store, things, shown={"deep.a.s": 0, "deep.list.s": 0}) as events:
        update = {"deep.a": hidden, "deep.list.0": hidden, "deep.b": 2}
        told = await hear_update(events, things, {"$set": update})

    assert told["updateDescription"]["updatedFields"] == {"deep.b": 2}


async def test_removed_and_shortened_properties_that_are_hidden_are_not_named(
    store: Store, things: Things
) -> None:
    long = [*range(100)]
    lists = {**DOCUMENT, "email": long, "profile": {"phone": long}, "list": long}
    removing = {"$unset": {"name": 1, "email": 1, "profile.phone": 1, "keys.0.value": 1}}
    paths = ("email", "profile.phone", "list")
    shortening = [{"$set": {path: {"$slice": [f"${path}", 90]} for path in paths}}]
    for shown in (EXCLUDING, INCLUDING):
        things.replace_one({"_id": 1}, lists)
        async with watch(store, things, shown=shown) as events:
            shortened = await hear_update(events, things, shortening)
            removed = await hear_update(events, things, removing)

        description = shortened["updateDescription"]
        assert description["truncatedArrays"] == [{"field": "list", "newSize": 90}]
        assert description["updatedFields"] == {}
        assert removed["updateDescription"]["removedFields"] == ["name"]


async def test_hidden_properties_are_not_named_when_they_are_removed(
    store: Store, things: Things
) -> None:
    """Those that are hidden from everybody."""
    for path in ("email", "profile.phone", "keys.value"):
        store.guard.hide(things.database.name, things.name, path)
    async with watch(store, things) as events:
        update = {"$unset": {"name": 1, "email": 1, "profile.phone": 1, "keys.1.value": 1}}
        told = await hear_update(events, things, update)

    assert told["updateDescription"]["removedFields"] == ["name"]
    assert "s3cret" not in repr(told)


@pytest.mark.parametrize("shown", [{"name": 1}, {"_id": 0, "email": 0}], ids=repr)
async def test_the_key_is_told_only_where_the_id_is_shown(
    store: Store, things: Things, shown: dict[str, int]
) -> None:
    async with watch(store, things, shown=shown) as events:
        updated = await hear_update(events, things, {"$set": {"name": "Bob"}})
        things.delete_one({"_id": 1})
        deleted = await anext(events)

    assert "_id" not in updated["fullDocument"]
    assert updated["documentKey"] == deleted["documentKey"] == {}
    assert updated["updateDescription"]["updatedFields"] == {"name": "Bob"}


async def test_a_projection_adds_to_what_is_hidden_from_everybody(
    store: Store, things: Things
) -> None:
    """Also where both name the same, or one names a part of the other."""
    for path in ("email", "profile.phone"):
        store.guard.hide(things.database.name, things.name, path)
    told: list[Any] = []
    for shown in ({"email": 0, "profile": 0}, {"profile": 1, "profile.city": 1, "email": 1}):
        async with watch(store, things, shown=shown) as events:
            things.replace_one({"_id": 1}, {**DOCUMENT, "name": str(shown)})
            told.append((await anext(events))["fullDocument"].get("profile"))
            profile = {"city": "Oslo", "phone": "s3cret"}
            event = await hear_update(
                events, things, {"$set": {"profile": profile, "email": "s3cret"}}
            )
            told.append(event["updateDescription"]["updatedFields"])

    assert told == [None, {}, {"city": "Rome"}, {"profile": {"city": "Oslo"}}]


@pytest.mark.parametrize("shown", [EXCLUDING, INCLUDING, None], ids=["excluding", "including", "-"])
async def test_stages_cannot_ask_for_what_is_not_shown(
    store: Store, things: Things, shown: dict[str, int] | None
) -> None:
    if shown is None:
        for path in ("email", "profile.phone", "keys.value"):
            store.guard.hide(things.database.name, things.name, path)
    asked = [
        {"fullDocument.email": "s3cret"},
        {"fullDocument.profile.phone": {"$exists": True}},
        {"fullDocument.keys.0.value": {"$gt": ""}},
        {"updateDescription.updatedFields.email": "s3cret2"},
        {"$expr": {"$gt": ["$fullDocument.email", None]}},
        {"$expr": {"$in": ["email", {"$ifNull": ["$updateDescription.removedFields", []]}]}},
    ]
    last = {"documentKey._id": "last"}
    match = {"$match": {"$or": [*asked, last]}}
    async with watch(store, things, match, shown=shown) as events:
        things.insert_one({**DOCUMENT, "_id": 2})
        things.update_one({"_id": 1}, {"$set": {"email": "s3cret2"}})
        things.update_one({"_id": 1}, {"$unset": {"email": 1}})
        things.insert_one({"_id": "last"})
        async with asyncio.timeout(60):
            told = await anext(events)

    assert told["documentKey"] == {"_id": "last"}


async def test_a_document_that_is_gone_is_told_as_missing(store: Store, things: Things) -> None:
    async with watch(store, things, shown={"name": 1}) as events:
        things.update_one({"_id": 1}, {"$set": {"name": "Bob"}})
        things.delete_one({"_id": 1})
        updated = await anext(events)

    assert updated.get("fullDocument") is None


@pytest.mark.parametrize("shown", [EXCLUDING, INCLUDING], ids=["excluding", "including"])
def test_shard_keys_and_paths_with_dots_in_names_are_told_where_they_are_shown(
    mongo_client: Sync, shown: dict[str, int]
) -> None:
    """Events as a sharded cluster and later servers make them."""
    event = {
        "operationType": "update",
        "documentKey": {"email": "s3cret", "profile": {"phone": "s3cret"}, "name": "Ann", "_id": 1},
        "updateDescription": {
            "updatedFields": {"name": "Bob"},
            "removedFields": [],
            "disambiguatedPaths": {"keys.0.value": ["keys", 0, "value"]},
        },
        "to": {"coll": "s3cret"},
    }
    stages = [{"$documents": {"$literal": [event]}}, *hide_in_events((), shown)]

    (told,) = mongo_client.test.aggregate(stages)

    assert told == {
        "operationType": "update",
        "documentKey": {"name": "Ann", "_id": 1},
        "updateDescription": {"updatedFields": {"name": "Bob"}, "removedFields": []},
    }
