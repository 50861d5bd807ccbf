"""Of the results of an aggregation only what is needed is fetched (decision 15)."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import MongoClient

from docgraph.graphql.apps.compiled_app import VisibleApp
from tests.http.engine.harness import Engine, only_error

pytestmark = [pytest.mark.anyio, pytest.mark.json]

Client = MongoClient[dict[str, Any]]

SCHEMA = """
type Query {
  all: [Item]
  first: Item
  counted: [Count]
  whole: [BsonDocument]
  things: [Thing]
}
type Item { _id: Int small: Int inner: Int big: String friends: [Item] mine: [Item] theirs: [Item] }
type Count { n: Int }
union Thing = Item
"""
EVERYTHING: dict[str, Any] = {"collection": "items", "stages": [{"$match": {"_id": {"$gte": 0}}}]}
FRIENDS = {"$match": {"_id": {"$in": {"$fk": "friends"}}}}
MAPPINGS: dict[str, Any] = {
    "Query": {
        "all": EVERYTHING,
        "first": EVERYTHING,
        "counted": {"collection": "items", "stages": [{"$count": "n"}]},
        "whole": EVERYTHING,
        "things": EVERYTHING,
    },
    "Item": {
        "inner": "box.n",
        "friends": {"collection": "items", "stages": [FRIENDS]},
        "mine": {
            "collection": "items",
            "stages": [{"$match": {"_id": {"$arg": "rootDoc.box.n"}}}],
        },
        "theirs": {"collection": "items", "stages": [{"$set": {"all": {"$arg": "rootDoc"}}}]},
    },
    "Thing": {"$typeResolver": {"Item": "field-exists(small)"}},
}


@pytest.fixture
def app(engine: Engine, mongo_client: Client) -> VisibleApp:
    mongo_client[engine.database].items.insert_many(
        [
            {"_id": n, "small": n, "box": {"n": n}, "friends": [n, 1 - n], "big": "x"}
            for n in range(2)
        ]
    )
    return engine.app(SCHEMA, MAPPINGS)


@pytest.mark.parametrize(
    ("query", "projection"),
    [
        ("{ all { small } }", {"small": 1, "_id": 0}),
        ("{ all { _id inner } }", {"_id": 1, "box.n": 1}),
        ("{ first { small } }", {"small": 1, "_id": 0}),
        ("{ all { __typename } }", {"_id": 1}),
        ("{ all { mine { __typename } } }", {"box": 1, "_id": 0}),
        ("{ things { ... on Item { big } } }", {"big": 1, "small": 1, "_id": 0}),
    ],
)
async def test_an_aggregation_fetches_only_what_is_needed(
    engine: Engine, app: VisibleApp, query: str, projection: dict[str, int]
) -> None:
    await engine.data(app, query)

    assert {"$project": projection} in engine.commands[0]["pipeline"]


@pytest.mark.parametrize(
    "query",
    ["{ whole }", "{ counted { n } }", "{ all { theirs { _id } } }"],
)
async def test_what_is_needed_whole_or_small_anyway_is_not_projected(
    engine: Engine, app: VisibleApp, query: str
) -> None:
    await engine.data(app, query)

    assert "$project" not in str(engine.commands[0]["pipeline"])


async def test_pipelines_of_several_parents_are_projected_each(
    engine: Engine, app: VisibleApp
) -> None:
    data = await engine.data(app, "{ all { friends { inner } } }")

    assert data["all"] == [{"friends": [{"inner": 0}, {"inner": 1}]}] * 2
    assert str(engine.commands[1]["pipeline"]).count("'$project': {'box.n': 1, '_id': 0}") == 2


async def test_small_fields_of_large_documents_are_no_large_answer(
    engine: Engine, app: VisibleApp, mongo_client: Client
) -> None:
    items = mongo_client[engine.database].items
    large = "x" * 1_000_000
    items.insert_many([{"_id": n, "small": n, "big": large} for n in range(10, 45)])

    data = await engine.data(app, "{ all { small } }")
    result = await engine.run(app, "{ all { big } }")

    assert len(data["all"]) == 37
    assert only_error(result).code == "answer-too-large"
    items.delete_many({})


@pytest.mark.parametrize("operator", ["$divide", "$mod"])
async def test_a_division_by_zero_is_called_one(
    engine: Engine, mongo_client: Client, operator: str
) -> None:
    mongo_client[engine.database].items.insert_one({"_id": 1})
    app = engine.app(
        "type Query { items(by: Int): [Item] } type Item { n: Float }",
        {
            "Query": {
                "items": {
                    "collection": "items",
                    "stages": [{"$project": {"n": {operator: [1, {"$arg": "by"}]}}}],
                }
            }
        },
    )

    result = await engine.run(app, "{ items(by: 0) { n } }")

    assert only_error(result).message == "an expression divides by zero"
    assert only_error(result).code == "rejected-by-database"


async def test_a_caller_cannot_make_an_expression_run_for_ever(
    engine: Engine, mongo_client: Client
) -> None:
    mongo_client[engine.database].items.insert_one({"_id": 1})
    numbers = {"$range": [0, {"$arg": "n"}]}
    app = engine.app(
        "type Query { sums(n: Int): [Item] some(n: Int): [Item] } type Item { n: Int }",
        {
            "Query": {
                "sums": {
                    "collection": "items",
                    "stages": [{"$project": {"n": {"$sum": numbers}}}],
                },
                "some": {"collection": "items", "find": {"$expr": {"$in": [1, numbers]}}},
            }
        },
    )

    few = await engine.data(app, "{ sums(n: 10) { n } }")
    many = await engine.run(app, "{ sums(n: 1000000000) { n } some(n: 1000000000) { n } }")

    assert few == {"sums": [{"n": 45}]}
    assert {error.code for error in many.errors} == {"loop-too-large"}
    assert engine.commands == []
