"""Attacks on the guards: hidden properties and row filters, by every way to read (34, 40, 42).

Each attack may be refused, or answered without what it is after. Answers about other people's rows
are recognised by their marks, answers about a hidden value by comparing a right with a wrong guess.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from pymongo import MongoClient

from docgraph.exchange import Deadline, Resource, ResourceType, Write, WriteKind
from docgraph.exchange.errors import DocgraphError, NotSupported, SecurityViolation
from docgraph.store import DriverClient, Policy, RevealKey, Store
from tests.databases import drop, new_name

pytestmark = pytest.mark.anyio

Sync = MongoClient[dict[str, Any]]
SOON = Deadline.never()
PASSWORD = "hash-of-ann"
SECRET = "deep-secret-of-ann"
MARKS = (PASSWORD, SECRET, "hash-of-bob", "deep-secret-of-bob")
PEOPLE: list[dict[str, Any]] = [
    {
        "_id": name,
        "tenant": tenant,
        "boss": "bob",
        "place": [tenant, tenant],
        "note": f"note {name}",
        "password": f"hash-of-{name}",
        "profile": {"secret": f"deep-secret-of-{name}", "city": "Rome"},
        "keys": [{"secret": f"key-of-{name}", "label": "a"}],
    }
    for tenant, name in enumerate(["ann", "bob"], start=1)
]


POSTS: list[dict[str, Any]] = [
    {"_id": 1, "author": "ann", "guess": PASSWORD, "tenant": 1},
    {"_id": 2, "author": "bob", "guess": "wrong", "tenant": 2},
]


@pytest.fixture(scope="module")
def database(mongo_client: Sync) -> Iterator[str]:
    """One for all these tests: most of them only read, and text indexes cost the most."""
    name = new_name()
    users = mongo_client[name].users
    users.create_index({"password": 1})
    users.create_index({"place": "2d"})
    users.create_index({"$**": "text"})
    yield name
    drop(mongo_client, name)


@pytest.fixture
def people(mongo_client: Sync, database: str) -> str:
    """Users with things to hide, and posts that point at them, one of them at a password."""
    db = mongo_client[database]
    for collection, documents in ((db.users, PEOPLE), (db.posts, POSTS)):
        if list(collection.find()) != documents:  # the first test, or one before has written
            collection.delete_many({})
            collection.insert_many(documents)
    return "users"


@pytest.fixture
def guarded(store: Store, database: str, people: str) -> Store:
    store.guard.hide(database, people, "password")
    store.guard.hide(database, people, "profile.secret")
    store.guard.hide(database, people, "keys.secret")
    return store


async def answer_of(attack: Awaitable[Any]) -> str:
    """What an attacker gets to see: the answer or the refusal, as text."""
    try:
        return repr(await attack)
    except DocgraphError as error:
        return f"{type(error).__name__}: {error.message}"


# --- hidden properties: pipelines -----------------------------------------------------------------

USERS_PIPELINES: dict[str, list[dict[str, Any]]] = {
    "plain": [],
    "rename": [{"$project": {"x": "$password", "y": "$profile.secret", "z": "$keys.secret"}}],
    "set": [{"$set": {"x": "$password"}}, {"$project": {"x": 1}}],
    "concat": [{"$project": {"x": {"$concat": ["$password", "!"]}}}],
    "characters": [{"$project": {"x": {"$substrCP": ["$$ROOT.password", 0, 99]}}}],
    "root": [{"$project": {"x": "$$ROOT"}}],
    "current": [{"$project": {"x": "$$CURRENT.password"}}],
    "getField": [{"$project": {"x": {"$getField": {"field": "password", "input": "$$ROOT"}}}}],
    "objectToArray": [{"$project": {"x": {"$objectToArray": "$$ROOT"}}}],
    "mergeObjects": [{"$replaceWith": {"$mergeObjects": ["$$ROOT", {"a": 1}]}}],
    "replaceRoot": [{"$replaceRoot": {"newRoot": {"p": "$password", "s": "$profile"}}}],
    "group": [{"$group": {"_id": "$password"}}],
    "push": [{"$group": {"_id": None, "all": {"$push": "$$ROOT"}, "p": {"$max": "$password"}}}],
    "sortByCount": [{"$sortByCount": "$password"}],
    "bucket": [{"$bucketAuto": {"groupBy": "$password", "buckets": 2}}],
    "facet": [{"$facet": {"a": [{"$project": {"x": "$password"}}]}}],
    "window": [
        {
            "$setWindowFields": {
                "sortBy": {"_id": 1},
                "output": {"x": {"$first": "$password", "window": {"documents": [-1, 0]}}},
            }
        }
    ],
    "reduce": [
        {
            "$project": {
                "x": {
                    "$reduce": {
                        "input": {"$objectToArray": "$$ROOT"},
                        "initialValue": [],
                        "in": {"$concatArrays": ["$$value", ["$$this"]]},
                    }
                }
            }
        }
    ],
    "redact": [{"$redact": {"$cond": [{"$gt": ["$password", ""]}, "$$KEEP", "$$PRUNE"]}}],
    "near": [{"$geoNear": {"near": [0, 0], "distanceField": "d", "key": "place"}}],
    "near without key": [{"$geoNear": {"near": [0, 0], "distanceField": "d"}}],
    "near by password": [
        {
            "$geoNear": {
                "near": [0, 0],
                "distanceField": "d",
                "key": "place",
                "query": {"password": PASSWORD},
            }
        }
    ],
    "text": [{"$match": {"$text": {"$search": PASSWORD}}}],
    "index key": [
        {"$match": {"password": {"$gt": ""}}},
        {"$project": {"x": {"$meta": "indexKey"}}},
    ],
    "self lookup": [
        {"$lookup": {"from": "users", "localField": "_id", "foreignField": "_id", "as": "x"}}
    ],
    "unwound lookup": [
        {"$lookup": {"from": "users", "localField": "_id", "foreignField": "_id", "as": "x"}},
        {"$unwind": "$x"},
        {"$match": {"x.password": {"$exists": True}}},
        {"$replaceWith": "$x"},
    ],
    "graph": [
        {
            "$graphLookup": {
                "from": "users",
                "startWith": "$boss",
                "connectFromField": "boss",
                "connectToField": "_id",
                "as": "x",
            }
        },
        {"$project": {"y": {"$objectToArray": {"$first": "$x"}}}},
    ],
    "fill": [{"$fill": {"sortBy": {"_id": 1}, "output": {"x": {"value": "$password"}}}}],
}


@pytest.mark.parametrize("name", USERS_PIPELINES)
async def test_pipeline_on_the_collection_does_not_see_hidden_properties(
    guarded: Store, database: str, name: str
) -> None:
    """Decision 34."""
    seen = await answer_of(
        guarded.aggregate(database, "users", USERS_PIPELINES[name], limit=10, deadline=SOON)
    )

    assert not [mark for mark in MARKS if mark in seen]
    assert "key-of-" not in seen


JOIN = {"localField": "author", "foreignField": "_id"}
OPENINGS: dict[str, Callable[[list[Any]], dict[str, Any]]] = {
    "lookup": lambda inner: {"$lookup": {"from": "users", "as": "u", "pipeline": inner}},
    "lookup by fields": lambda inner: {
        "$lookup": {"from": "users", **JOIN, "as": "u", "pipeline": inner}
    },
    "union": lambda inner: {"$unionWith": {"coll": "users", "pipeline": inner}},
    "lookup in lookup": lambda inner: {
        "$lookup": {
            "from": "posts",
            "as": "p",
            "pipeline": [{"$lookup": {"from": "users", "as": "u", "pipeline": inner}}],
        }
    },
    "union in facet": lambda inner: {
        "$facet": {"a": [{"$unionWith": {"coll": "users", "pipeline": inner}}]}
    },
    "union in lookup": lambda inner: {
        "$lookup": {
            "from": "posts",
            "as": "p",
            "pipeline": [{"$unionWith": {"coll": "users", "pipeline": inner}}],
        }
    },
}
INNER: dict[str, list[dict[str, Any]]] = {
    "nothing": [],
    "rename": [{"$project": {"x": "$password", "y": "$profile.secret"}}],
    "root": [{"$project": {"x": {"$objectToArray": "$$ROOT"}}}],
    "group": [{"$group": {"_id": "$password"}}],
    "match": [{"$match": {"$expr": {"$gt": ["$password", ""]}}}],
}


@pytest.mark.parametrize("opening", OPENINGS)
@pytest.mark.parametrize("inner", INNER)
async def test_joins_do_not_see_hidden_properties(
    guarded: Store, database: str, opening: str, inner: str
) -> None:
    """Decision 34."""
    pipeline = [OPENINGS[opening](INNER[inner]), {"$project": {"guess": 0}}]

    seen = await answer_of(guarded.aggregate(database, "posts", pipeline, limit=10, deadline=SOON))

    assert not [mark for mark in MARKS if f"'{mark}'" in seen.replace(f"'guess': '{PASSWORD}'", "")]


SHORT_JOINS: dict[str, list[dict[str, Any]]] = {
    "union by name": [{"$unionWith": "users"}],
    "union in lookup of documents": [
        {"$lookup": {"pipeline": [{"$documents": [{}]}, {"$unionWith": "users"}], "as": "x"}}
    ],
    "graph": [
        {
            "$graphLookup": {
                "from": "users",
                "startWith": "$author",
                "connectFromField": "boss",
                "connectToField": "_id",
                "as": "x.y",
                "depthField": "password",
            }
        },
        {"$project": {"x": 1}},
    ],
}


@pytest.mark.parametrize("name", SHORT_JOINS)
async def test_short_joins_do_not_see_hidden_properties(
    guarded: Store, database: str, name: str
) -> None:
    pipeline = [{"$project": {"author": 1}}, *SHORT_JOINS[name]]

    seen = await answer_of(guarded.aggregate(database, "posts", pipeline, limit=10, deadline=SOON))

    assert "city" in seen  # the join itself works
    assert not [mark for mark in MARKS if mark in seen]


ORACLES: dict[str, Callable[[str], list[dict[str, Any]]]] = {
    "match": lambda guess: [{"$match": {"password": guess}}],
    "regex": lambda guess: [{"$match": {"password": {"$regex": f"^{guess}"}}}],
    "greater": lambda guess: [{"$match": {"password": {"$gte": guess}}}],
    "expression": lambda guess: [{"$match": {"$expr": {"$eq": ["$password", guess]}}}],
    "error": lambda guess: [
        {"$set": {"x": {"$divide": [1, {"$cond": [{"$eq": ["$password", guess]}, 0, 1]}]}}}
    ],
    "count": lambda guess: [{"$match": {"password": guess}}, {"$count": "n"}],
    "embedded": lambda guess: [{"$match": {"profile": {"secret": guess, "city": "Rome"}}}],
    "schema": lambda guess: [
        {"$match": {"$jsonSchema": {"properties": {"password": {"enum": [guess]}}}}}
    ],
    "lookup by value": lambda guess: [
        {"$limit": 1},
        {"$set": {"g": guess}},
        {"$lookup": {"from": "users", "localField": "g", "foreignField": "password", "as": "x"}},
        {"$project": {"n": {"$size": "$x"}}},
    ],
    "lookup by variable": lambda guess: [
        {"$limit": 1},
        {
            "$lookup": {
                "from": "users",
                "let": {"g": guess},
                "pipeline": [{"$match": {"$expr": {"$eq": ["$password", "$$g"]}}}],
                "as": "x",
            }
        },
        {"$project": {"n": {"$size": "$x"}}},
    ],
    "graph by value": lambda guess: [
        {"$limit": 1},
        {
            "$graphLookup": {
                "from": "users",
                "startWith": guess,
                "connectFromField": "boss",
                "connectToField": "password",
                "as": "x",
            }
        },
        {"$project": {"n": {"$size": "$x"}}},
    ],
    "graph by condition": lambda guess: [
        {"$limit": 1},
        {
            "$graphLookup": {
                "from": "users",
                "startWith": "ann",
                "connectFromField": "boss",
                "connectToField": "_id",
                "as": "x",
                "restrictSearchWithMatch": {"password": guess},
            }
        },
        {"$project": {"n": {"$size": "$x"}}},
    ],
}


@pytest.mark.parametrize("name", ORACLES)
async def test_pipeline_does_not_tell_a_right_guess_from_a_wrong_one(
    guarded: Store, database: str, name: str
) -> None:
    """Decision 34."""
    attack = ORACLES[name]

    async def ask(guess: str) -> str:
        return await answer_of(
            guarded.aggregate(database, "users", attack(guess), limit=10, deadline=SOON)
        )

    assert await ask(PASSWORD) == await ask("wrong")
    assert await ask(SECRET) == await ask("wrong")


async def test_order_of_a_hidden_property_does_not_show(guarded: Store, database: str) -> None:
    pipelines = [[{"$sort": {"password": order}}, {"$project": {"_id": 1}}] for order in (1, -1)]

    up, down = [
        await guarded.aggregate(database, "users", pipeline, limit=10, deadline=SOON)
        for pipeline in pipelines
    ]

    assert up == down


# --- hidden properties: plain reads and writes ----------------------------------------------------


async def test_find_returns_everything_but_hidden_properties(guarded: Store, database: str) -> None:
    """Decision 34."""
    (ann,) = await guarded.find(database, "users", {"_id": "ann"}, limit=1, deadline=SOON)
    chosen = await guarded.find_one(
        database, "users", {"_id": "ann"}, deadline=SOON, projection={"profile": 1, "keys": 1}
    )

    assert ann == {
        "_id": "ann",
        "tenant": 1,
        "boss": "bob",
        "place": [1, 1],
        "note": "note ann",
        "profile": {"city": "Rome"},
        "keys": [{"label": "a"}],
    }
    assert chosen == {"_id": "ann", "profile": {"city": "Rome"}, "keys": [{"label": "a"}]}


@pytest.mark.parametrize(
    "parts",
    [
        {"filter": {"password": PASSWORD}},
        {"filter": {"$or": [{"password": PASSWORD}]}},
        {"filter": {"profile": {"secret": SECRET, "city": "Rome"}}},
        {"filter": {"keys": {"$elemMatch": {"secret": "key-of-ann"}}}},
        {"filter": {"$expr": {"$eq": ["$password", PASSWORD]}}},
        {"filter": {"$text": {"$search": PASSWORD}}},
        {"projection": {"x": "$password"}},
        {"projection": {"password": 1}},
        {"projection": {"x": {"$meta": "indexKey"}}},
        {"sort": [("password", 1)]},
        {"hint": "password_1"},
        {"hint": {"password": 1}},
    ],
)
async def test_find_that_asks_for_a_hidden_property_is_refused(
    guarded: Store, database: str, parts: dict[str, Any]
) -> None:
    """Decision 34."""
    filter = parts.pop("filter", {})

    with pytest.raises(SecurityViolation):
        await guarded.find(database, "users", filter, limit=10, deadline=SOON, **parts)


async def test_counting_by_a_hidden_property_is_refused(guarded: Store, database: str) -> None:
    with pytest.raises(SecurityViolation):
        await guarded.count(database, "users", {"password": PASSWORD}, limit=10, deadline=SOON)


@pytest.mark.parametrize(
    "write",
    [
        Write(WriteKind.UPDATE, update={"$set": {"a": 1}}, filter={"password": PASSWORD}),
        Write(WriteKind.DELETE, filter={"password": {"$gt": "a"}}),
        Write(WriteKind.REPLACE, ({"_id": 1},), filter={"password": "x"}, upsert=True),
        Write(WriteKind.UPDATE, update={"$rename": {"password": "note"}}),
        Write(WriteKind.UPDATE, update={"$max": {"password": "i"}}),
        Write(WriteKind.UPDATE, pipeline=({"$set": {"note": "$password"}},)),
        Write(WriteKind.UPDATE, pipeline=({"$set": {"note": "$$ROOT"}},)),
    ],
)
async def test_write_that_would_tell_or_copy_a_hidden_property_is_refused(
    guarded: Store, database: str, write: Write, mongo_client: Sync
) -> None:
    """Decision 34."""
    users = Resource(ResourceType.COLLECTION, database, "users")

    with pytest.raises(SecurityViolation):
        await guarded.write(users, write, deadline=SOON)

    assert list(mongo_client[database].users.find()) == PEOPLE


async def test_holder_of_the_key_sees_and_filters(store: Store, database: str, people: str) -> None:
    key: RevealKey = store.guard.hide(database, people, "password")

    ann = await store.find_one(
        database, people, {"password": PASSWORD}, deadline=SOON, reveal=[key]
    )

    assert ann is not None
    assert ann["password"] == PASSWORD


# --- row filters ----------------------------------------------------------------------------------


@pytest.fixture
def rows(database: str) -> dict[str, Any]:
    """Only what belongs to tenant 1: ann and her post."""
    return {f"{database}.users": {"tenant": 1}, f"{database}.posts": {"tenant": 1}}


@pytest.mark.parametrize(
    "filter", [{}, {"_id": "bob"}, {"$or": [{"tenant": 2}, {"_id": "ann"}]}, {"tenant": {"$ne": 1}}]
)
async def test_find_and_count_stay_inside_the_row_filter(
    store: Store, database: str, people: str, rows: dict[str, Any], filter: dict[str, Any]
) -> None:
    """Decision 40."""
    found = await store.find(database, people, filter, limit=10, deadline=SOON, rows=rows)
    count = await store.count(database, people, filter, limit=10, deadline=SOON, rows=rows)

    assert [person["_id"] for person in found] in ([], ["ann"])
    assert count == len(found)


@pytest.mark.parametrize("name", USERS_PIPELINES)
async def test_pipeline_stays_inside_the_row_filter(
    store: Store, database: str, people: str, rows: dict[str, Any], name: str
) -> None:
    """Decision 40."""
    seen = await answer_of(
        store.aggregate(database, people, USERS_PIPELINES[name], limit=10, deadline=SOON, rows=rows)
    )

    assert "of-bob" not in seen


@pytest.mark.parametrize("opening", OPENINGS)
@pytest.mark.parametrize("inner", INNER)
async def test_joins_stay_inside_the_row_filter(
    store: Store, database: str, people: str, rows: dict[str, Any], opening: str, inner: str
) -> None:
    """Decision 40: also inside `$lookup` and `$unionWith`."""
    pipeline = [OPENINGS[opening](INNER[inner])]

    seen = await answer_of(
        store.aggregate(database, "posts", pipeline, limit=10, deadline=SOON, rows=rows)
    )

    assert "of-ann" in seen
    assert "of-bob" not in seen


async def test_text_and_near_work_under_a_row_filter(
    store: Store, database: str, people: str, rows: dict[str, Any]
) -> None:
    text: list[dict[str, Any]] = [{"$match": {"$text": {"$search": "note"}}}, {"$sort": {"_id": 1}}]
    near = [{"$geoNear": {"near": [0, 0], "distanceField": "d", "key": "place"}}]

    by_text, by_place = [
        await store.aggregate(database, people, pipeline, limit=10, deadline=SOON, rows=rows)
        for pipeline in (text, near)
    ]

    assert [person["_id"] for person in by_text] == ["ann"]
    assert [person["_id"] for person in by_place] == ["ann"]


# --- streams --------------------------------------------------------------------------------------


async def test_events_come_without_hidden_properties(
    guarded: Store, database: str, mongo_client: Sync
) -> None:
    """Decisions 34 and 42."""
    rename = [{"$set": {"x": "$$ROOT", "y": "$fullDocument.password"}}]
    users = mongo_client[database].users
    async with guarded.streams.watch(database, "users", rename) as events:
        users.insert_one({**PEOPLE[0], "_id": "eve"})
        users.update_one({"_id": "eve"}, {"$set": {"password": PASSWORD, "note": "seen"}})
        users.update_one({"_id": "eve"}, {"$set": {"profile.secret": SECRET, "keys.0.secret": "s"}})
        users.update_one({"_id": "eve"}, {"$set": {"profile": {"secret": SECRET, "city": "Oslo"}}})
        users.update_one({"_id": "eve"}, {"$set": {"keys.0": {"secret": SECRET}}})
        users.update_one({"_id": "eve"}, {"$push": {"keys": {"secret": SECRET, "label": "b"}}})
        users.update_one({"_id": "eve"}, {"$set": {"keys": [{"secret": SECRET, "label": "c"}]}})
        users.delete_one({"_id": "eve"})
        seen = [await anext(events) for _ in range(8)]

    assert not [mark for mark in MARKS if mark in repr(seen)]
    assert seen[1]["updateDescription"]["updatedFields"] == {"note": "seen"}
    assert seen[2]["updateDescription"]["updatedFields"] == {}
    assert seen[3]["updateDescription"]["updatedFields"] == {"profile": {"city": "Oslo"}}
    assert "updateDescription" not in seen[0]
    assert seen[4]["updateDescription"]["updatedFields"] == {}
    assert seen[5]["updateDescription"]["updatedFields"] == {}
    assert seen[6]["updateDescription"]["updatedFields"] == {"keys": [{"label": "c"}]}
    assert seen[7]["operationType"] == "delete"


async def test_an_unguarded_watch_sees_what_is_hidden_and_resumes(
    guarded: Store, database: str, mongo_client: Sync
) -> None:
    """For the revocation of tokens: a written password ends them."""
    stages = [{"$project": {"written": "$updateDescription.updatedFields"}}]
    async with guarded.streams.watch_unguarded(database, stages) as events:
        mongo_client[database].users.update_one({"_id": "ann"}, {"$set": {"password": "new"}})
        first = await anext(events)
        resume = events.resume_token
    mongo_client[database].users.update_one({"_id": "bob"}, {"$set": {"password": "newer"}})
    async with guarded.streams.watch_unguarded(database, stages, resume_after=resume) as events:
        second = await anext(events)

    assert first["written"] == {"password": "new"}
    assert second["written"] == {"password": "newer"}


async def test_events_of_other_rows_are_left_out(
    store: Store, database: str, people: str, rows: dict[str, Any], mongo_client: Sync
) -> None:
    """Decision 42."""
    users = mongo_client[database].users
    async with store.streams.watch(database, people, rows=rows) as events:
        users.update_one({"_id": "bob"}, {"$set": {"note": "of-bob"}})
        users.delete_one({"_id": "bob"})
        users.insert_one({"_id": "eve", "tenant": 2, "note": "of-bob"})
        users.update_one({"_id": "ann"}, {"$set": {"note": "of-ann"}})
        async with asyncio.timeout(30):
            event = await anext(events)

    assert event["documentKey"] == {"_id": "ann"}


@pytest.mark.parametrize(
    "filter",
    [{"$text": {"$search": "note"}}, {"$or": [{"$expr": {"$eq": ["$$ROOT.tenant", 1]}}]}],
)
async def test_row_filter_that_cannot_be_moved_closes_the_stream(
    store: Store, database: str, filter: dict[str, Any]
) -> None:
    rows: dict[str, Any] = {f"{database}.users": filter}

    with pytest.raises(NotSupported):
        store.streams.watch(database, "users", rows=rows)


async def test_the_policy_of_the_store_holds_for_row_filters(
    client: DriverClient, database: str, people: str
) -> None:
    store = Store(client, policy=Policy(operators=frozenset({"$mod"})))
    rows = {f"{database}.{people}": {"tenant": {"$mod": [2, 0]}}}
    place = database, people
    reads = store.reads

    for read in (
        reads.find(*place, {}, limit=1, deadline=SOON, rows=rows),
        reads.aggregate(*place, [], limit=1, deadline=SOON, rows=rows),
        reads.count(*place, {}, limit=1, deadline=SOON, rows=rows),
        reads.explain(*place, {}, deadline=SOON, rows=rows),
    ):
        with pytest.raises(SecurityViolation):
            await read
    with pytest.raises(SecurityViolation):
        store.streams.watch(*place, rows=rows)
