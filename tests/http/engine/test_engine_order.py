"""Pages of a sort with ties neither lose nor repeat documents (decision 12)."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import AsyncMongoClient, MongoClient

from docgraph.graphql.apps.compiled_app import VisibleApp
from docgraph.graphql.execute import fetch_by_in
from docgraph.observe.engine_events import CommandFinished
from docgraph.store import Store
from tests.http.engine.harness import Engine
from tests.http.harness import listening

pytestmark = [pytest.mark.anyio, pytest.mark.json]

Client = MongoClient[dict[str, Any]]

SCHEMA = """
type Query {
  items(skip: Int, dir: Int = 1): [Item] some(skip: Int, dir: Int): [Item]
  maybe(group: Int): [Item]
  groups: [Group] group(_id: Int): Group
}
type Group { _id: Int items(skip: Int): [Item] own(skip: Int): [Item] maybe(kind: Int): [Item]
  oldest: Item }
type Item { _id: Int }
"""
PAGE = {"skip": {"$arg": ["skip", 0]}, "limit": 9}
MAPPINGS: dict[str, Any] = {
    "Query": {
        "items": {"collection": "items", "sort": {"age": {"$arg": "dir"}}, **PAGE},
        "maybe": {
            "collection": "items",
            "find": {"$ifarg": ["group", {"group": {"$arg": "group"}}]},
            "sort": {"age": -1},
        },
        "some": {
            "collection": "items",
            "find": {"group": {"$lt": 1}},
            "sort": {"age": {"$arg": "dir"}},
            **PAGE,
        },
        "groups": {"collection": "groups", "sort": {"_id": 1}},
        "group": {"collection": "groups", "find": {"_id": {"$arg": "_id"}}},
    },
    "Group": {
        "items": {
            "collection": "items",
            "find": {"group": {"$fk": "_id"}},
            "sort": {"age": -1},
            **PAGE,
        },
        "maybe": {
            "collection": "items",
            "find": {
                "$and": [
                    {"group": {"$fk": "_id"}},
                    {"$ifarg": ["kind", {"kind": {"$arg": "kind"}}]},
                ]
            },
            "sort": {"age": -1},
        },
        "oldest": {
            "collection": "items",
            "find": {"group": {"$fk": "_id"}},
            "sort": {"age": -1, "_id": 1},
        },
        "own": {
            "collection": "items",
            "find": {"group": {"$fk": "_id"}},
            "sort": {"age": {"$fk": "direction"}},
            **PAGE,
        },
    },
}


@pytest.fixture
def app(engine: Engine, mongo_client: Client) -> VisibleApp:
    database = mongo_client[engine.database]
    numbers = [n * 37 % 97 for n in range(97)]
    database.items.insert_many([{"_id": n, "age": n % 5, "group": n % 2} for n in numbers])
    database.groups.insert_many([{"_id": n, "direction": 1 - 2 * n} for n in range(2)])
    return engine.app(SCHEMA, MAPPINGS)


def ids(items: Any) -> list[int]:
    return [item["_id"] for item in items]


@pytest.mark.parametrize("direction", [1, -1])
async def test_pages_of_a_sort_with_ties_are_whole(
    engine: Engine, app: VisibleApp, direction: int
) -> None:
    found: list[int] = []
    for skip in range(0, 97, 9):
        data = await engine.data(app, f"{{ items(skip: {skip}, dir: {direction}) {{ _id }} }}")
        found += ids(data["items"])

    assert found == sorted(range(97), key=lambda n: (n % 5, n), reverse=direction < 0)


async def test_a_plan_that_is_used_again_follows_the_indexes(
    engine: Engine, app: VisibleApp, mongo_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_by_in, "LARGE_FROM", 1_000)
    plan = engine.plan(app, "{ groups { items { _id } } }")
    sorts = []
    for index in ([], [("group", 1), ("age", -1)]):
        if index:
            mongo_client[engine.database].items.create_index(index)
        engine.store.stats.forget()
        for _ in range(2):
            await engine.execute(plan)
            sorts.append(engine.commands[-1]["sort"])

    assert sorts == [{"age": -1, "_id": -1}] * 2 + [{"age": -1}] * 2


@pytest.fixture(params=["", "age", "group", "age group"])
def indexed(
    request: pytest.FixtureRequest, engine: Engine, mongo_client: Client, app: VisibleApp
) -> VisibleApp:
    for path in request.param.split():
        mongo_client[engine.database].items.create_index(path)
    return app


@pytest.mark.parametrize("way", ["together", "lookup", "apart", "alone"])
@pytest.mark.parametrize("field", ["items", "own"])
async def test_pages_of_each_parent_are_whole(
    engine: Engine, indexed: VisibleApp, monkeypatch: pytest.MonkeyPatch, field: str, way: str
) -> None:
    if way != "together":
        monkeypatch.setattr(fetch_by_in, "FIRST_TRY", 1)
        monkeypatch.setattr(fetch_by_in, "LARGEST_TRY", 1)
    if way == "apart":

        async def never(*_: Any) -> None:
            """Not this way."""

        monkeypatch.setattr(fetch_by_in, "fetch_by_lookup", never)
    found: dict[int, list[int]] = {0: [], 1: []}
    for skip in range(0, 49, 9):
        part = f"{{ _id page: {field}(skip: {skip}) {{ _id }} }}"
        query = f"groups {part}"
        if way == "alone":
            query = f"a: group(_id: 0) {part} b: group(_id: 1) {part}"
        data = await engine.data(indexed, f"{{ {query} }}")
        groups = data["groups"] if "groups" in data else [data["a"], data["b"]]
        for group in groups:
            found[group["_id"]] += ids(group["page"])

    for number, pages in found.items():
        down = field == "items" or number == 1
        own = [n for n in range(97) if n % 2 == number]
        assert pages == sorted(own, key=lambda n: (n % 5, n), reverse=down)


@pytest.mark.parametrize("way", ["together", "lookup"])
async def test_conditions_of_a_relation_hold_however_its_pages_are_fetched(
    engine: Engine, mongo_client: Client, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "lookup":
        monkeypatch.setattr(fetch_by_in, "FIRST_TRY", 1)
        monkeypatch.setattr(fetch_by_in, "LARGEST_TRY", 1)
    documents = [{"_id": n, "group": n % 2, "kind": n % 3} for n in range(30)]
    mongo_client[engine.database].items.insert_many(documents)
    mongo_client[engine.database].groups.insert_many([{"_id": 0}, {"_id": 1}])
    find = {"group": {"$fk": "_id"}, "kind": 1}
    items = {"collection": "items", "find": find, "sort": {"_id": 1}, **PAGE}
    app = engine.app(SCHEMA, {**MAPPINGS, "Group": {"items": items}})

    data = await engine.data(app, "{ groups { items { _id } } }")

    expected = [[n for n in range(group, 30, 2) if n % 3 == 1] for group in (0, 1)]
    assert [ids(group["items"]) for group in data["groups"]] == expected
    lookups = [one for one in engine.commands if "$lookup" in str(one)]
    assert bool(lookups) is (way == "lookup")


async def test_a_relation_to_one_takes_the_first_in_order_of_each_parent(
    engine: Engine, app: VisibleApp
) -> None:
    data = await engine.data(app, "{ groups { _id oldest { _id } } }")

    # Age 4 is the highest of both groups; 4 and 9 are the first documents that have it.
    assert [group["oldest"] for group in data["groups"]] == [{"_id": 4}, {"_id": 9}]


@pytest.mark.parametrize("direction", [1, -1])
async def test_pages_of_a_root_field_are_whole_where_the_filter_has_an_index_of_its_own(
    engine: Engine, mongo_client: Client, app: VisibleApp, direction: int
) -> None:
    """An index that could serve the sort gives ties no order if it is not used."""
    items = mongo_client[engine.database].items
    items.create_index("age")
    items.create_index("group")
    found: list[int] = []
    for skip in range(0, 97, 9):
        query = f"{{ some(skip: {skip}, dir: {direction}) {{ _id }} }}"
        found += ids((await engine.data(app, query))["some"])

    assert sorted(found) == [n for n in range(97) if n % 2 == 0]


async def test_an_index_that_serves_the_sort_goes_on_serving_it(
    engine: Engine, mongo_client: Client, app: VisibleApp
) -> None:
    items = mongo_client[engine.database].items
    items.create_index("age")

    await engine.data(app, "{ items(skip: 0) { _id } }")
    served = engine.commands[0]["sort"]
    items.create_index([("age", 1), ("_id", 1)])
    engine.store.stats.forget()
    await engine.data(app, "{ items(skip: 0) { _id } }")

    assert served == {"age": 1}
    assert engine.commands[0]["sort"] == {"age": 1, "_id": 1}


async def test_an_index_behind_the_key_of_a_relation_goes_on_serving_it(
    engine: Engine, mongo_client: Client, app: VisibleApp
) -> None:
    mongo_client[engine.database].items.create_index([("group", 1), ("age", -1)])

    await engine.data(app, "{ group(_id: 1) { items { _id } } }")

    assert "'_id': -1" not in str(engine.commands)


async def test_an_index_behind_an_optional_condition_serves_where_it_is_given(
    engine: Engine, mongo_client: Client, app: VisibleApp
) -> None:
    mongo_client[engine.database].items.create_index([("group", 1), ("age", -1)])
    sorts = []

    for field in ("maybe(group: 1)", "maybe", "maybe(group: 0)"):
        await engine.data(app, f"{{ {field} {{ _id }} }}")
        sorts.append(engine.commands[0]["sort"])

    assert sorts == [{"age": -1}, {"age": -1, "_id": -1}, {"age": -1}]


async def test_an_index_behind_the_key_and_an_optional_condition_serves_where_it_is_given(
    engine: Engine, mongo_client: Client, app: VisibleApp
) -> None:
    items = mongo_client[engine.database].items
    items.create_index([("group", 1), ("kind", 1), ("age", -1)])
    breaks_ties = []

    for field in ("maybe(kind: 1)", "maybe", "maybe(kind: 2)"):
        await engine.data(app, f"{{ groups {{ {field} {{ _id }} }} }}")
        breaks_ties.append("'_id': -1" in str(engine.commands))

    assert breaks_ties == [False, True, False]


async def test_a_database_that_is_away_is_not_waited_for_twice(database: str) -> None:
    """What is not known of a collection at once is done without."""
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient("mongodb://127.0.0.1:9/")
    store = Store(client)

    with listening(CommandFinished) as commands:
        assert await store.stats.indexes(database, "items") is None
        assert await store.stats.count(database, "items") is None

    assert commands == []
    await store.close()
