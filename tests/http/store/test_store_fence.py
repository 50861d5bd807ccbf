"""The fence holds on the server in use: by its own plan, and by expressions that would fail.

Decision 49. Each pipeline is sent as it would be without a fence, which fails because of a hidden
row, and as the store sends it.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from docgraph.exchange import Deadline, Document
from docgraph.exchange.errors import NotSupported, QueryError, SecurityViolation
from docgraph.store import Store
from docgraph.store.guard.fence import FENCE, match_behind
from docgraph.store.guard.rewrite import guard_pipeline
from docgraph.store.guard.shield import Shield
from tests.http.harness import failing, profiled

pytestmark = pytest.mark.anyio

Sync = MongoClient[dict[str, Any]]
SOON = Deadline.never()
ROW = {"owner": "eve"}
WHOLE = match_behind({})
FORM = {"type": "Point", "coordinates": [1, 1]}


def fails_on(path: str) -> Document:
    return {"$expr": {"$divide": [1, {"$cond": [{"$eq": [path, "S0"]}, 0, 1]}]}}


def either(path: str = "secret", other: str = "a") -> Document:
    """Evaluated before an equality, and it fails on hidden rows."""
    return {"$match": {"$or": [fails_on(f"${path}"), {other: 9}]}}


FAILS = either()
FOUND = either("found.secret", "found.a")
JOIN = {"from": "notes", "localField": "k", "foreignField": "k", "as": "found"}
LET = {"from": "notes", "let": {"k": "$k"}, "as": "found"}
# On the collection with the row filter.
ON_ROWS: dict[str, list[Document]] = {
    "alone": [FAILS],
    "merged": [{"$match": {"a": {"$gte": 0}}}, FAILS],
    "sort": [{"$sort": {"a": 1}}, FAILS],
    "project": [{"$project": {"secret": 1, "a": 1}}, FAILS],
    "unset": [{"$unset": "t"}, FAILS],
    "set": [{"$set": {"b": 1}}, FAILS],
    "unwind": [{"$unwind": "$list"}, FAILS],
    "replaced": [{"$set": {"b": 1}}, {"$sort": {"a": 1}}, {"$unwind": "$list"}, FAILS],
    "lookup": [{"$lookup": {**JOIN, "from": "open"}}, FAILS],
    "lookup of itself": [{"$lookup": {**JOIN, "pipeline": [FAILS]}}],
    "lookup with let": [{"$lookup": {**LET, "pipeline": [FAILS]}}],
    "union of itself": [{"$unionWith": {"coll": "notes", "pipeline": [FAILS]}}],
    "before a union": [{"$unionWith": "notes"}, FAILS],
    "view": [{"$unionWith": {"coll": "view", "pipeline": []}}, FAILS],
    "nested": [
        {
            "$lookup": {
                **JOIN,
                "from": "open",
                "pipeline": [{"$lookup": {**JOIN, "pipeline": [FAILS]}}],
            }
        }
    ],
    "text": [{"$match": {"$text": {"$search": "apple"}, "$or": FAILS["$match"]["$or"]}}],
}
# On a collection without one that reads the other.
ON_OPEN: dict[str, list[Document]] = {
    "lookup": [{"$lookup": {**JOIN, "pipeline": [FAILS]}}],
    "lookup with let": [{"$lookup": {**LET, "pipeline": [FAILS]}}],
    "union": [{"$unionWith": {"coll": "notes", "pipeline": [FAILS]}}],
    "behind a union": [{"$unionWith": "notes"}, FAILS],
    "behind a union and a sort": [{"$unionWith": "notes"}, {"$sort": {"a": 1}}, FAILS],
    "facet": [{"$facet": {"x": [{"$lookup": {**JOIN, "pipeline": [FAILS]}}]}}],
}
# Nothing that this server fails at, and nothing that another one should.
HARMLESS: dict[str, list[Document]] = {
    "behind a join": [{"$lookup": JOIN}, {"$unwind": "$found"}, FOUND],
    "facet": [{"$facet": {"x": [FAILS]}}],
    "redact": [{"$redact": "$$KEEP"}, FAILS],
    "group": [{"$group": {"_id": "$secret"}}, {"$match": fails_on("$_id")}],
    "set": [{"$set": {"b": fails_on("$secret")["$expr"]}}],
    "near": [{"$geoNear": {"near": FORM, "distanceField": "far", "key": "place"}}, FAILS],
}


@pytest.fixture
def base(mongo_client: Sync, database: str) -> Any:
    db = mongo_client[database]
    visible = [_record(f"v{i}", "eve", "x", i) for i in range(4)]
    hidden = [_record(f"h{i}", "bob", "S0", i) for i in range(4)]
    db.notes.insert_many([*hidden, *visible])
    db.notes.create_index([("t", "text")])
    db.notes.create_index([("place", "2dsphere")])
    db.open.insert_many([_record(f"o{i}", "ann", "x", i) for i in range(2)])
    db.create_collection("view", viewOn="notes", pipeline=[{"$set": {"seen": 1}}])
    return db


def _record(id: str, owner: str, secret: str, a: int) -> Document:
    own = {"_id": id, "owner": owner, "secret": secret, "a": a % 3, "k": 1, "t": "apple"}
    return {**own, "list": [{"s": secret}], "place": FORM}


def rows_of(base: Any) -> dict[str, Document]:
    return {f"{base.name}.{name}": ROW for name in ("notes", "view", "series")}


def without_fence(base: Any, collection: str, stages: list[Document]) -> list[Any]:
    guarded = guard_pipeline(stages, base.name, collection, Shield(rows=rows_of(base)))
    return list(_drop_fences(guarded))


def _drop_fences(value: Any) -> Any:
    if isinstance(value, list):
        return [_drop_fences(one) for one in value if one not in (FENCE, WHOLE, WHOLE["$match"])]
    if isinstance(value, dict):
        return {key: _drop_fences(one) for key, one in value.items()}
    return value


async def aggregate(store: Store, base: Any, collection: str, stages: list[Document]) -> Any:
    return await store.aggregate(
        base.name, collection, stages, limit=100, deadline=SOON, rows=rows_of(base)
    )


@pytest.mark.parametrize(
    ("collection", "stages"),
    [
        *(pytest.param("notes", one, id=f"notes: {key}") for key, one in ON_ROWS.items()),
        *(pytest.param("open", one, id=f"open: {key}") for key, one in ON_OPEN.items()),
    ],
)
async def test_nothing_is_moved_across_the_fence(
    store: Store, base: Any, collection: str, stages: list[Document]
) -> None:
    with pytest.raises(OperationFailure, match="divide by zero"):
        list(base[collection].aggregate(without_fence(base, collection, stages)))

    with_hidden = await aggregate(store, base, collection, stages)
    base.notes.delete_many({"owner": "bob"})

    assert with_hidden == await aggregate(store, base, collection, stages)
    assert with_hidden


@pytest.mark.parametrize("stages", HARMLESS.values(), ids=HARMLESS.keys())
async def test_what_is_evaluated_in_its_place_fails_on_no_hidden_row(
    store: Store, base: Any, stages: list[Document]
) -> None:
    assert await aggregate(store, base, "notes", stages)


def conditions_in(plan: Any) -> Iterator[Any]:
    """The conditions that the database evaluates while it finds documents."""
    for key, value in plan.items() if isinstance(plan, dict) else ():
        if key in ("parsedQuery", "filter"):
            yield value
        yield from conditions_in(value)
    for value in plan if isinstance(plan, list) else ():
        yield from conditions_in(value)


@pytest.mark.parametrize("name", ["alone", "sort", "project", "set", "unwind", "merged"])
async def test_the_plan_has_nothing_but_safe_conditions_in_front(base: Any, name: str) -> None:
    def plan(stages: Any) -> str:
        command = {"aggregate": "notes", "pipeline": stages, "cursor": {}}
        return str(list(conditions_in(base.command("explain", command, verbosity="queryPlanner"))))

    shield = Shield(rows=rows_of(base))
    guarded = guard_pipeline(ON_ROWS[name], base.name, "notes", shield)

    assert "divide" in plan(without_fence(base, "notes", ON_ROWS[name]))
    assert "divide" not in plan(guarded)
    assert "owner" in plan(guarded)


async def test_a_match_is_not_taken_into_a_join(base: Any) -> None:
    stages: list[Document] = [
        {"$lookup": JOIN},
        {"$unwind": "$found"},
        {"$match": {"found.t": {"$regex": "a"}}},
    ]
    shield = Shield(rows=rows_of(base))

    def join(pipeline: Any) -> str:
        command = {"aggregate": "open", "pipeline": pipeline, "cursor": {}}
        told = base.command("explain", command, verbosity="queryPlanner")
        return str([one["$lookup"] for one in told["stages"] if "$lookup" in one])

    assert "regex" in join(without_fence(base, "open", stages))
    assert "regex" not in join(guard_pipeline(stages, base.name, "open", shield))


@pytest.mark.parametrize("row", [ROW, {"meta.dev": {"$lt": 3}}], ids=["measured", "meta"])
@pytest.mark.parametrize("path", ["secret", "meta.s"])
async def test_a_time_series_is_no_exception(
    store: Store, mongo_client: Sync, database: str, row: Document, path: str
) -> None:
    db = mongo_client[database]
    db.create_collection("series", timeseries={"timeField": "at", "metaField": "meta"})
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    for owner, secret, dev in (("eve", "x", 1), ("bob", "S0", 5)):
        db.series.insert_many(
            {
                "at": start + datetime.timedelta(seconds=i),
                "meta": {"dev": dev, "s": secret},
                "owner": owner,
                "secret": secret,
            }
            for i in range(3)
        )
    filter, rows = fails_on(f"${path}"), {f"{database}.series": row}

    found = await store.find(database, "series", filter, limit=9, deadline=SOON, rows=rows)
    computed = await store.aggregate(
        database,
        "series",
        [{"$set": {"b": filter["$expr"]}}, {"$match": filter}],
        limit=9,
        deadline=SOON,
        rows=rows,
    )

    assert len(found) == len(computed) == 3
    assert await store.count(database, "series", filter, limit=9, deadline=SOON, rows=rows) == 3


# --- the commands ---------------------------------------------------------------------------------

PATTERN = {"t": {"$regex": "^app"}}


async def commands_of(store: Store, base: Any, **parts: Any) -> list[Document]:
    arguments = {"filter": PATTERN, "limit": 2, "complete": True, **parts}
    with profiled(base.client, base.name, "notes") as seen:
        await store.find(base.name, "notes", deadline=SOON, rows=rows_of(base), **arguments)
    return [one["command"] for one in seen if {"find", "aggregate"} & one["command"].keys()]


def names_of(command: Document) -> list[str]:
    return [next(iter(stage)) for stage in command["pipeline"]]


async def test_a_find_stays_a_find_where_nothing_can_fail(store: Store, base: Any) -> None:
    (command,) = await commands_of(store, base, filter={"t": {"$gte": "a"}, "a": {"$in": [0, 1]}})

    assert command["filter"] == {"$and": [ROW, {"t": {"$gte": "a"}, "a": {"$in": [0, 1]}}]}


async def test_an_index_that_serves_the_order_is_used_in_front(store: Store, base: Any) -> None:
    base.notes.create_index([("owner", 1), ("a", 1), ("_id", 1)])

    (command,) = await commands_of(store, base, sort={"a": 1})

    assert names_of(command)[:4] == ["$match", "$sort", "$limit", "$match"]
    assert command["pipeline"][0]["$match"] == {"$and": [ROW, {"t": {"$gte": "app", "$lt": "apq"}}]}


async def test_what_no_index_serves_is_sorted_behind_the_fence(store: Store, base: Any) -> None:
    """All rows that the caller may see are more than the database sorts in memory."""
    (command,) = await commands_of(store, base, sort={"a": 1}, skip=1)

    assert names_of(command)[:6] == ["$match", "$limit", "$match", "$sort", "$skip", "$limit"]


async def test_an_index_that_holds_all_that_is_used_is_not_read_for_documents(
    store: Store, base: Any
) -> None:
    """It shows null for what is missing."""
    base.notes.create_index([("owner", 1), ("b", 1)])
    filter, rows = {"$jsonSchema": {"required": ["b"]}}, rows_of(base)
    found: list[Document] = [{"$match": filter}, {"$group": {"_id": "$b"}}]

    assert await store.count(base.name, "notes", filter, limit=9, deadline=SOON, rows=rows) == 0
    assert await aggregate(store, base, "notes", found) == []
    assert await aggregate(store, base, "notes", [{"$set": {"c": 1}}, *found]) == []


async def test_the_plan_that_is_told_is_that_of_the_front(store: Store, base: Any) -> None:
    base.notes.create_index("owner")
    place, rows = (base.name, "notes"), rows_of(base)

    plan = await store.reads.explain(*place, fails_on("$secret"), deadline=SOON, rows=rows)
    assert plan.indexes == ("owner_1",)
    assert not plan.sorts
    sort = {"a": 1}
    plan = await store.reads.explain(
        *place, fails_on("$secret"), deadline=SOON, rows=rows, sort=sort
    )
    assert plan.sorts


@pytest.mark.parametrize("collation", [None, {"locale": "en", "alternate": "shifted"}], ids=str)
async def test_a_collation_does_not_cost_documents(
    store: Store, mongo_client: Sync, database: str, collation: Any
) -> None:
    """Such a collation ignores the hyphen, and no text is between `a-` and `a.`."""
    db = mongo_client[database]
    db.create_collection("texts", collation=collation)
    db.texts.create_index("owner", collation={"locale": "simple"})
    db.texts.insert_many([{"t": "a-b", "owner": "eve"}, {"t": "ab", "owner": "eve"}])
    filter, rows = {"t": {"$regex": "^a-"}}, {f"{database}.texts": ROW}

    found = await store.find(database, "texts", filter, limit=9, deadline=SOON, rows=rows)
    gathered = await store.aggregate(
        database, "texts", [{"$match": filter}], limit=9, deadline=SOON, rows=rows
    )

    assert [one["t"] for one in found] == [one["t"] for one in gathered] == ["a-b"]


ENGLISH = {"locale": "en", "strength": 2}


@pytest.mark.parametrize("stage", ["$lookup", "$unionWith"])
@pytest.mark.parametrize(
    ("first", "second"), [(None, ENGLISH), (ENGLISH, None), (ENGLISH, ENGLISH)]
)
async def test_a_row_filter_is_never_compared_by_another_collation(
    store: Store, mongo_client: Sync, database: str, first: Any, second: Any, stage: str
) -> None:
    """A pipeline compares all that it reads by the collation of its first collection."""
    db = mongo_client[database]
    db.create_collection("orders", collation=first).insert_one({"_id": 1, "k": 1})
    secrets = db.create_collection("secrets", collation=second)
    secrets.insert_many([{"_id": 2, "k": 1, "owner": "eve"}, {"_id": 3, "k": 1, "owner": "EVE"}])
    bodies = {"$lookup": {**JOIN, "from": "secrets"}, "$unionWith": {"coll": "secrets"}}
    stages, rows = [{stage: bodies[stage]}], {f"{database}.secrets": ROW}
    options: Document = {"limit": 9, "deadline": SOON}

    open_ = await store.aggregate(database, "orders", stages, **options)
    if first == second:
        found = await store.aggregate(database, "orders", stages, **options, rows=rows)
        assert found == open_  # both owners are the caller
        assert "'_id': 3" in repr(found)
    else:
        with pytest.raises(NotSupported, match="another collation"):
            await store.aggregate(database, "orders", stages, **options, rows=rows)
    if second is None:
        missing = await store.aggregate(database, "none", stages, **options, rows=rows)
        assert "'_id': 3" not in repr(missing)
    else:  # a missing collection compares by bytes, and `$unionWith` adds documents to it
        with pytest.raises(NotSupported, match="another collation"):
            await store.aggregate(database, "none", stages, **options, rows=rows)


async def test_a_row_filter_is_not_applied_where_the_collation_is_unknown(
    store: Store, base: Any, mongo_client: Sync
) -> None:
    rows = {**rows_of(base), f"{base.name}.open": {}}  # its definition decides nothing
    with (
        failing(mongo_client, "listCollections", errorCode=13),
        pytest.raises(NotSupported, match="another collation"),
    ):
        await store.aggregate(
            base.name, "open", [{"$lookup": JOIN}], limit=9, deadline=SOON, rows=rows
        )


async def test_indexes_that_cannot_be_listed_cost_no_documents(
    store: Store, base: Any, mongo_client: Sync
) -> None:
    """Then nothing is known of the collation, and the pattern leaves no range in front."""
    with failing(mongo_client, "listIndexes", errorCode=13):
        (command,) = await commands_of(store, base)
        arguments: Document = {"deadline": SOON, "rows": rows_of(base)}
        found = await store.find(base.name, "notes", PATTERN, limit=9, **arguments)

    assert command["pipeline"][0] == {"$match": ROW}
    assert {one["_id"] for one in found} == {"v0", "v1", "v2", "v3"}


async def test_searches_without_room_for_a_fence_are_refused(store: Store, base: Any) -> None:
    near = {"$geoNear": {"near": FORM, "distanceField": "far", "key": "place", "query": PATTERN}}
    graph = {"startWith": "$k", "connectFromField": "k", "connectToField": "k", "as": "found"}
    walk = {"$graphLookup": {"from": "notes", **graph, "restrictSearchWithMatch": PATTERN}}
    for collection, stage in (("notes", near), ("open", walk)):
        with pytest.raises(SecurityViolation, match="under a row filter"):
            await aggregate(store, base, collection, [stage])
        await store.aggregate(base.name, collection, [stage], limit=9, deadline=SOON)
    closest = {"place": {"$near": {"$geometry": FORM}}, **PATTERN}
    with pytest.raises(QueryError, match=r"\$near"):
        await store.find(base.name, "notes", closest, limit=9, deadline=SOON, rows=rows_of(base))
    safe = {"place": {"$near": {"$geometry": FORM}}, "a": {"$gte": 0}}
    assert await store.find(base.name, "notes", safe, limit=9, deadline=SOON, rows=rows_of(base))
