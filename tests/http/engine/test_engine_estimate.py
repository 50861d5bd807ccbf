"""How many documents a query could need: its limits, its collections, its unique keys."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pymongo import MongoClient

from docgraph.graphql.apps.compiled_app import VisibleApp
from docgraph.graphql.errors import OperationRefused
from docgraph.graphql.sections import Graphql
from tests.http.engine.harness import Engine

pytestmark = [pytest.mark.anyio, pytest.mark.json]

Client = MongoClient[dict[str, Any]]

SCHEMA = """
type Query {
  items(n: Int): [Item]
  stages: [Item]
  one: [Item]
  byId(id: BsonDocument, key: Int): [Item]
  maybe(key: Int): [Item]
  byCode: [Item]
  equal(key: Int): [Item]
  between: [Item]
  unwound: [Item]
  counted: [Item]
}
type Item { _id: Int items(n: Int): [Item] others(n: Int): [Item] self: [Item] pairs: [Item] }
"""


def find(filter_: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {"collection": "items", "find": filter_, **parts}


def stages(*pipeline: dict[str, Any]) -> dict[str, Any]:
    return {"collection": "items", "stages": list(pipeline)}


LIMIT = {"$arg": ["n", 0]}
MAPPINGS: dict[str, Any] = {
    "Query": {
        "items": find({}, limit=LIMIT),
        "stages": stages({"$match": {"_id": {"$gte": 0}}}),
        "one": find({"_id": 1}),
        "byId": find({"_id": {"$arg": ["id", {"$arg": "key"}]}}),
        "maybe": find({"$ifarg": ["key", {"_id": {"$arg": "key"}}]}),
        "byCode": find({"code": "c1", "_id": {"$gte": 0}}),
        "equal": find({"_id": {"$eq": {"$arg": "key"}, "$gte": 0}}),
        "between": find({"_id": {"$gte": 0, "$lt": 5}}),
        "unwound": stages({"$unwind": "$tags"}),
        "counted": stages({"$unwind": "$tags"}, {"$count": "n"}),
    },
    "Item": {
        "items": find({"group": {"$fk": "group"}}, limit=LIMIT),
        "others": find({"group": {"$ne": {"$fk": "group"}}}, limit=LIMIT),
        "self": find({"_id": {"$fk": "_id"}}),
        "pairs": stages({"$match": {"_id": {"$fk": "_id"}}}, {"$set": {"pair": 1}}),
    },
}


@pytest.fixture
def app(engine: Engine, mongo_client: Client) -> VisibleApp:
    items = mongo_client[engine.database].items
    items.insert_many(
        [{"_id": n, "group": n % 2, "code": f"c{n}", "tags": [1, 2]} for n in range(5)]
    )
    items.create_index("code", unique=True)
    engine.settings = Graphql(default_limit=100, max_limit=1000)
    return engine.app(SCHEMA, MAPPINGS)


FOUR = "{ items { items { items { items { _id } } } } }"


@pytest.mark.parametrize(
    "query",
    [
        FOUR,
        "{ stages { items { items { _id } } } }",
        "{ items(n: 1000) { items(n: 1000) { _id } others(n: 1000) { _id } } }",
        "{ one { items { items { items { _id } } } } }",
    ],
)
async def test_lists_inside_lists_of_a_small_collection_are_answered(
    engine: Engine, app: VisibleApp, query: str
) -> None:
    """Decision 26: a list is no longer than its collection."""
    await engine.data(app, query)


@pytest.mark.parametrize(
    "query",
    [
        "{ one { items { _id } } }",
        "{ byId(key: 1) { items { _id } } }",
        "{ byCode { items { _id } } }",
        "{ maybe(key: 1) { items { _id } } }",
        "{ equal(key: 1) { items { _id } } }",
        "{ items { self { self { _id } } } }",
        "{ items { pairs { _id } } }",
        "{ counted { __typename } }",
    ],
)
async def test_a_list_by_a_unique_key_counts_as_one(
    engine: Engine, mongo_client: Client, app: VisibleApp, query: str
) -> None:
    small = engine.app(SCHEMA, MAPPINGS, estimated_documents=15)

    await engine.data(small, query)


@pytest.mark.parametrize(
    "query",
    [
        "{ items { items { _id } } }",
        "{ maybe { items { _id } } }",
        "{ between { items { _id } } }",
        "{ byId(id: {_id: {op: 1}}) { items { items { _id } } } }",
        "{ stages { items { _id } } }",
        "{ unwound { _id } }",
    ],
)
async def test_what_could_become_too_much_is_refused_before_a_document_is_fetched(
    engine: Engine, app: VisibleApp, query: str
) -> None:
    small = engine.app(SCHEMA, MAPPINGS, estimated_documents=15)

    with pytest.raises(OperationRefused) as refused:
        await engine.run(small, query)

    (error,) = refused.value.errors
    assert error.code == "too-many-estimated-documents"
    assert not re.search(r"\d", error.message)
    assert not [command for command in engine.commands if "find" in command]


async def test_a_document_of_the_caller_is_no_unique_key(engine: Engine, app: VisibleApp) -> None:
    small = engine.app(SCHEMA, MAPPINGS, estimated_documents=15)

    with pytest.raises(OperationRefused):
        await engine.run(
            small,
            "query ($id: BsonDocument) { byId(id: $id) { items { _id } } }",
            {"id": {"$gte": 0}},
        )


async def test_the_size_of_a_collection_is_asked_only_where_limits_do_not_do(
    engine: Engine, app: VisibleApp
) -> None:
    await engine.data(app, "{ items { items { _id } } }")
    few = len(engine.commands)
    await engine.data(app, FOUR)
    asked = [one for one in engine.commands if "$collStats" in str(one)]
    await engine.data(app, FOUR)

    assert few == 2
    assert len(asked) == 1
    assert not [one for one in engine.commands if "$collStats" in str(one)]


async def test_a_view_and_a_missing_collection_have_no_size_to_go_by(
    engine: Engine, app: VisibleApp, mongo_client: Client
) -> None:
    database = mongo_client[engine.database]
    database.create_collection("seen", viewOn="items")
    stats = engine.store.stats

    assert await stats.count(engine.database, "items") == 5
    assert await stats.count(engine.database, "seen") is None
    assert await stats.count(engine.database, "absent") == 0
    assert await stats.indexes(engine.database, "seen") is None
    assert await stats.indexes(engine.database, "absent") == ()
