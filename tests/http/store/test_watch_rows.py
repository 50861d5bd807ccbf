"""What readers of some rows are told by change streams, with images of documents and without."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any
from uuid import uuid4

import pytest
from bson import Binary, Int64
from pymongo import MongoClient
from pymongo.collection import Collection

from docgraph.exchange import Deadline
from docgraph.exchange.errors import NotFound, NotSupported, StoreUnavailable
from docgraph.store import ChangeEvents, Store
from tests.databases import drop, new_name
from tests.http.harness import UNREACHABLE, failing
from tests.watched import Watched, open_hub, watching

pytestmark = pytest.mark.anyio

Sync = MongoClient[dict[str, Any]]
Things = Collection[dict[str, Any]]
LAST: dict[str, Any] = {"_id": "last"}
MINE: dict[str, Any] = {"$or": [{"owner": "me"}, LAST]}
SOON = Deadline.never()


@pytest.fixture(scope="module")
def database(mongo_client: Sync) -> Iterator[str]:
    name = new_name()
    yield name
    drop(mongo_client, name)


@pytest.fixture
def things(mongo_client: Sync, database: str) -> Things:
    """A collection that keeps images."""
    db = mongo_client[database]
    return db.create_collection(
        f"things_{uuid4().hex[:8]}", changeStreamPreAndPostImages={"enabled": True}
    )


def watch(
    store: Store, things: Things, *stages: Any, row: Any = None, **options: Any
) -> AbstractAsyncContextManager[Watched]:
    """What somebody hears who may read the rows of one owner."""
    return watching(store, things, *stages, row=MINE if row is None else row, **options)


async def listen(events: Watched | ChangeEvents, things: Things) -> list[dict[str, Any]]:
    """Everything that is told, up to one last insertion."""
    things.insert_one(LAST)
    told: list[dict[str, Any]] = []
    async with asyncio.timeout(60):
        while not told or told[-1]["documentKey"] != LAST:
            if (event := await events.try_next()) is not None:
                told.append(event)
    return told[:-1]


def brief(event: dict[str, Any]) -> tuple[str, Any, Any]:
    """Kind, id and document of an event."""
    return event["operationType"], event["documentKey"]["_id"], event.get("fullDocument")


# --- with images ----------------------------------------------------------------------------------


async def test_a_document_is_told_from_when_it_comes_until_it_leaves(
    store: Store, things: Things
) -> None:
    async with watch(store, things, images=True) as events:
        things.insert_one({"_id": 1, "owner": "you"})
        things.update_one({"_id": 1}, {"$set": {"x": "unseen"}})
        things.update_one({"_id": 1}, {"$set": {"owner": "me"}})
        things.update_one({"_id": 1}, {"$set": {"x": 2}})
        things.replace_one({"_id": 1}, {"owner": "me", "x": 3})
        things.replace_one({"_id": 1}, {"owner": "you", "x": "unseen"})
        things.replace_one({"_id": 1}, {"owner": "me", "x": 4})
        things.update_one({"_id": 1}, {"$set": {"owner": "you", "x": "unseen"}})
        things.delete_one({"_id": 1})
        told = await listen(events, things)

    assert [brief(event) for event in told] == [
        ("insert", 1, {"_id": 1, "owner": "me", "x": "unseen"}),
        ("update", 1, {"_id": 1, "owner": "me", "x": 2}),
        ("replace", 1, {"_id": 1, "owner": "me", "x": 3}),
        ("delete", 1, None),
        ("insert", 1, {"_id": 1, "owner": "me", "x": 4}),
        ("delete", 1, None),
    ]
    assert told[1]["updateDescription"]["updatedFields"] == {"x": 2}
    assert [index for index, event in enumerate(told) if "updateDescription" in event] == [1]
    assert not any("fullDocumentBeforeChange" in event for event in told)
    assert not any("fullDocument" in event for event in told if event["operationType"] == "delete")


async def test_inserts_and_deletes_are_told_of_visible_documents(
    store: Store, things: Things
) -> None:
    things.insert_many([{"_id": 1, "owner": "me"}, {"_id": 2, "owner": "you"}])
    async with watch(store, things, images=True) as events:
        things.insert_many([{"_id": 3, "owner": "me"}, {"_id": 4, "owner": "you"}])
        things.delete_many({})
        told = await listen(events, things)

    assert [brief(event) for event in told] == [
        ("insert", 3, {"_id": 3, "owner": "me"}),
        ("delete", 1, None),
        ("delete", 3, None),
    ]


async def test_an_image_that_is_missing_counts_as_not_visible(store: Store, things: Things) -> None:
    """They are kept from when they are switched on; before that only the new document is known."""
    db, name = things.database, things.name
    things.insert_many([{"_id": 1, "owner": "me"}, {"_id": 2, "owner": "me"}])
    async with watch(store, things, images=True) as events:
        db.command({"collMod": name, "changeStreamPreAndPostImages": {"enabled": False}})
        things.update_one({"_id": 1}, {"$set": {"x": 1}})
        things.replace_one({"_id": 1}, {"owner": "me", "x": 2})
        things.delete_one({"_id": 2})
        told = await listen(events, things)

    assert [brief(event) for event in told] == [("insert", 1, {"_id": 1, "owner": "me", "x": 2})]


async def test_the_stages_of_the_author_see_what_is_told(store: Store, things: Things) -> None:
    things.insert_many([{"_id": 1, "owner": "you"}, {"_id": 2, "owner": "me"}])
    stages = [
        {"$match": {"operationType": "insert"}},
        {
            "$set": {
                "fullDocument.seen": "$$ROOT.operationType",
                "documentKey.before": "$fullDocumentBeforeChange",
            }
        },
    ]
    async with watch(store, things, *stages, images=True) as events:
        things.update_one({"_id": 1}, {"$set": {"owner": "me"}})
        things.update_one({"_id": 2}, {"$set": {"x": 1}})
        things.update_one({"_id": 2}, {"$set": {"owner": "you"}})
        told = await listen(events, things)

    assert [brief(event) for event in told] == [
        ("insert", 1, {"_id": 1, "owner": "me", "seen": "insert"})
    ]
    assert told[0]["documentKey"] == {"_id": 1}


async def test_rows_go_by_properties_that_are_hidden(store: Store, things: Things) -> None:
    """The images are judged whole, and told without what is hidden."""
    name = things.database.name
    store.guard.hide(name, things.name, "secret")
    row = {"$or": [{"owner": "me", "secret": 1}, LAST]}
    async with watch(store, things, row=row, shown={"owner": 0}, images=True) as events:
        things.insert_one({"_id": 1, "owner": "me", "secret": 2})
        things.update_one({"_id": 1}, {"$set": {"secret": 1, "x": 1}})
        things.update_one({"_id": 1}, {"$set": {"secret": 1, "owner": "me", "x": 2}})
        things.update_one({"_id": 1}, {"$unset": {"secret": 1}})
        told = await listen(events, things)

    assert [brief(event) for event in told] == [
        ("insert", 1, {"_id": 1, "x": 1}),
        ("update", 1, {"_id": 1, "x": 2}),
        ("delete", 1, None),
    ]
    assert told[1]["updateDescription"]["updatedFields"] == {"x": 2}


async def test_values_that_look_like_expressions_are_told_as_they_are(
    store: Store, things: Things
) -> None:
    odd = {
        "_id": "$owner",
        "owner": "me",
        "text": "$$ROOT",
        "made": {"$add": [1, 2], "$literal": "$x"},
        "with.dot": Int64(1),
        "uuid": Binary(b"abc", 4),  # no UUID: the driver cannot read it
        "deep": [[{"$function": 1}], None],
    }
    things.insert_one({"_id": "$owner"})
    async with watch(store, things, images=True) as events:
        things.replace_one({"_id": "$owner"}, odd)
        (told,) = await listen(events, things)

    assert told["operationType"] == "insert"
    assert told["fullDocument"] == odd


@pytest.mark.parametrize("visible", [True, False])
async def test_images_that_are_too_large_together_do_not_end_the_stream(
    store: Store, things: Things, visible: bool
) -> None:
    """The database sends no event of more than 16 MiB: the image from before is missing then."""
    large = "a" * (9 << 20)
    things.insert_one({"_id": 1, "owner": "me", "x": large})
    async with watch(store, things, images=True) as events:
        things.update_one({"_id": 1}, {"$set": {"owner": "me" if visible else "you", "y": 1}})
        told = await listen(events, things)

    now = {"_id": 1, "owner": "me", "x": large, "y": 1}
    assert [brief(event) for event in told] == ([("insert", 1, now)] if visible else [])
    assert not any("updateDescription" in event for event in told)


async def test_an_event_about_which_nobody_could_decide_is_not_lost(
    store: Store, things: Things, mongo_client: Sync
) -> None:
    """Nor told twice to those about whom no database has to decide."""
    things.insert_one({"_id": 1, "owner": "me"})
    away = {"errorCode": UNREACHABLE, "namespace": f"{things.database.name}.$cmd.aggregate"}
    row = {"$or": [{"owner": {"$regex": "^me$"}}, LAST]}
    async with (
        open_hub(store) as hub,
        watch(store, things, hub=hub, row=row, images=True) as events,
        watch(store, things, hub=hub, images=True) as others,
    ):
        with failing(mongo_client, "aggregate", mode={"times": 3}, **away):
            things.update_one({"_id": 1}, {"$set": {"x": 1}})
            told = await listen(events, things)
        also = [await anext(others), await anext(others)]

    assert [event["updateDescription"]["updatedFields"] for event in told] == [{"x": 1}]
    assert [*told, {"_id": "last"}] == [also[0], also[1]["documentKey"]]


@pytest.mark.parametrize("images", [True, False])
@pytest.mark.parametrize(
    "row",
    [
        {"$nor": [{"owner": {"$ne": "me"}}, {"x": 1}]},  # the server cannot rewrite it for its log
        {"$expr": {"$eq": ["$owner", "me"]}, "x": {"$ne": 1}},
        {"$jsonSchema": {"properties": {"owner": {"enum": ["me"]}}, "required": ["owner"]}},
        {"$comment": "mine", "owner": "me"},
    ],
    ids=lambda row: next(iter(row)),
)
async def test_filters_of_every_kind_admit_what_they_admit_in_reads(
    store: Store, things: Things, row: dict[str, Any], images: bool
) -> None:
    async with watch(store, things, row={"$or": [row, LAST]}, images=images) as events:
        things.insert_many([{"_id": 1}, {"_id": 2, "owner": "me"}, {"_id": 3, "owner": "you"}])
        told = await listen(events, things)

    assert [brief(event) for event in told] == [("insert", 2, {"_id": 2, "owner": "me"})]


# --- without images -------------------------------------------------------------------------------


async def test_without_images_documents_are_told_as_they_are_now(
    store: Store, things: Things, mongo_client: Sync
) -> None:
    """The description of an update could hold values of a state that was not visible."""
    things.insert_many([{"_id": 1, "owner": "you"}, {"_id": 2, "owner": "me"}])
    async with watch(store, things) as events:
        with mongo_client.start_session() as session, session.start_transaction():
            things.update_one({"_id": 1}, {"$set": {"x": "unseen"}}, session=session)
            things.update_one({"_id": 2}, {"$set": {"owner": "you"}}, session=session)
            things.delete_one({"_id": 2}, session=session)
            things.update_one({"_id": 1}, {"$set": {"owner": "me", "x": 2}}, session=session)
        told = await listen(events, things)

    now = {"_id": 1, "owner": "me", "x": 2}
    assert [brief(event) for event in told] == [("update", 1, now)] * 2
    assert "unseen" not in repr(told)
    assert not any("updateDescription" in event for event in told)


@pytest.mark.parametrize("images", [True, False])
async def test_no_document_is_not_one_without_a_property(
    store: Store, things: Things, images: bool
) -> None:
    """The event of a deletion holds none, of which a filter could ask what is not there."""
    things.insert_one({"_id": 1, "owner": "you"})
    async with watch(store, things, row={"owner": {"$ne": "you"}}, images=images) as events:
        things.delete_one({"_id": 1})
        told = await listen(events, things)

    assert told == []


# --- collections ----------------------------------------------------------------------------------


@pytest.mark.parametrize("images", [True, False])
async def test_the_end_of_a_collection_is_told_to_everybody(
    store: Store, things: Things, images: bool
) -> None:
    """The name that it gets is that of another collection."""
    async with watch(store, things, row={"owner": "nobody"}, images=images) as events:
        things.insert_one({"_id": 1, "owner": "me"})
        things.rename(f"{things.name}_private")
        async with asyncio.timeout(60):
            told = [event async for event in events]

    assert [event["operationType"] for event in told] == ["rename", "invalidate"]
    assert "private" not in repr(told)


async def test_the_name_that_a_collection_gets_is_told_to_nobody(
    store: Store, things: Things
) -> None:
    async with store.streams.watch(things.database.name, things.name) as events:
        things.rename(f"{things.name}_private")
        async with asyncio.timeout(60):
            told = [event async for event in events]

    assert [event["operationType"] for event in told] == ["rename", "invalidate"]
    assert "private" not in repr(told)


async def test_texts_are_compared_as_in_reads_of_the_collection(
    store: Store, database: str, mongo_client: Sync
) -> None:
    """Without images that cannot be done: `$ne` would admit what it does not admit in a read."""
    things = mongo_client[database].create_collection(
        f"things_{uuid4().hex[:8]}",
        collation={"locale": "en", "strength": 2},
        changeStreamPreAndPostImages={"enabled": True},
    )
    row = {"$or": [{"owner": "ME", "x": {"$ne": "SECRET"}}, LAST]}
    async with watch(store, things, row=row, images=True) as events:
        things.insert_many([{"_id": 1, "owner": "me", "x": "secret"}, {"_id": 2, "owner": "me"}])
        things.update_one({"_id": 1}, {"$set": {"x": 1}})
        told = await listen(events, things)

    assert [brief(event)[:2] for event in told] == [("insert", 2), ("insert", 1)]
    with pytest.raises(NotSupported):
        async with watch(store, things, row=row):
            pass


async def test_rows_of_a_collection_that_is_not_there_cannot_be_watched(
    store: Store, database: str, mongo_client: Sync
) -> None:
    """How it will compare texts is not known."""
    with pytest.raises(NotFound):
        async with watch(store, mongo_client[database].none):
            pass


# --- the images -----------------------------------------------------------------------------------


async def test_images_are_switched_on_once(store: Store, database: str, mongo_client: Sync) -> None:
    mongo_client[database].create_collection("plain")

    assert not await store.streams.has_images(database, "plain", deadline=SOON)
    assert await store.streams.enable_images(database, "plain", deadline=SOON)
    assert await store.streams.has_images(database, "plain", deadline=SOON)
    with failing(mongo_client, "collMod", errorCode=1):
        assert await store.streams.enable_images(database, "plain", deadline=SOON)


async def test_images_are_not_kept_of_what_cannot_have_them(
    store: Store, database: str, mongo_client: Sync
) -> None:
    db = mongo_client[database]
    db.create_collection("base")
    db.create_collection("view", viewOn="base", pipeline=[])
    db.create_collection("series", timeseries={"timeField": "t"})

    for name in ("view", "series", "none"):
        assert not await store.streams.enable_images(database, name, deadline=SOON)
        assert not await store.streams.has_images(database, name, deadline=SOON)


@pytest.mark.parametrize("code", [13, 40415, 72])
async def test_images_are_not_kept_where_the_database_refuses(
    store: Store, database: str, mongo_client: Sync, code: int
) -> None:
    """A missing right, and what servers before 6.0 say of an option that they do not know."""
    mongo_client[database].refused.insert_one({})
    with failing(mongo_client, "collMod", errorCode=code):
        assert not await store.streams.enable_images(database, "refused", deadline=SOON)
    with failing(mongo_client, "listCollections", errorCode=13):
        assert not await store.streams.has_images(database, "refused", deadline=SOON)


async def test_that_images_cannot_be_asked_for_now_is_no_answer(
    store: Store, database: str, mongo_client: Sync
) -> None:
    mongo_client[database].away.insert_one({})
    with failing(mongo_client, "collMod", errorCode=UNREACHABLE), pytest.raises(StoreUnavailable):
        await store.streams.enable_images(database, "away", deadline=SOON)
