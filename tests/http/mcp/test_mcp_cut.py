"""Results of agents that are too long: whatever their shape, they are cut, and say so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.http.harness import Document, Mongo, Service, identity, running
from tests.http.hosts import module_application
from tests.http.mcp_harness import AGENTS, Used, use

pytestmark = pytest.mark.anyio

LIMIT = 4096
SCHEMA = """
type Query { one(id: String): Thing  things: [Thing]  wrong(limit: Int = 100): [Thing] }
type Thing { _id: String text: String any: BsonDocument number: Int }
"""
LARGE: dict[str, Document] = {
    "keys": {f"key{n}": "v" * 20 for n in range(1000)},
    "lists": {"list": [["z" * 2000] * 5] * 3},
    "text": {"text": "x" * 100_000},
}


def _nest(depth: int) -> Document:
    inner: Document = {"text": "x" * 10_000}
    for _ in range(depth):
        inner = {"in": inner}
    return inner


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    settings = {"mcp": {**AGENTS["mcp"], "max-result-bytes": LIMIT}, **identity("admin")}
    async with running(mongo_client, mongo_uri, settings) as one:
        things = [{"_id": name, "any": value} for name, value in LARGE.items()]
        one.insert("things", *things, {"_id": "deep", "any": _nest(80)})
        one.insert("wrong", *({"_id": f"w{n}", "number": "none"} for n in range(50)))
        mappings = {
            "Query": {
                "one": one.find("things", {"_id": {"$arg": "id"}}),
                "things": one.find("things", sort={"_id": 1}),
                "wrong": one.find("wrong", limit={"$arg": "limit"}),
            }
        }
        await one.define("store", SCHEMA, mappings)
        yield one


async def run(one: Service, query: str, **others: Any) -> Used:
    return await use(one, "run_query", app="store", query=query, **others)


@pytest.mark.parametrize("name", [*LARGE, "deep"])
async def test_a_large_document_value_is_shortened_and_reported(
    service: Service, name: str
) -> None:
    told = await run(service, f'{{ one(id: "{name}") {{ any }} }}')

    assert len(told.text.encode()) <= LIMIT
    assert told.json["data"]["one"]["any"]
    assert any(cut["path"].startswith("one.any") for cut in told.json["cut"])


async def test_large_document_values_in_a_list_are_shortened_and_reported(
    service: Service,
) -> None:
    told = await run(service, "{ things { _id any } }")

    (first,) = told.json["data"]["things"]
    assert first["_id"] == "deep"
    assert first["any"]
    assert told.json["cut"][0]["path"].startswith("things.0.any")


async def test_a_result_of_any_length_about_the_limit_is_answered(service: Service) -> None:
    things = service.mongo[service.db]["things"]
    for length in range(LIMIT - 50, LIMIT + 20):
        things.replace_one({"_id": "edge"}, {"text": "x" * length}, upsert=True)

        told = await run(service, '{ one(id: "edge") { text } }')

        is_whole = len(f'{{"data":{{"one":{{"text":"{"x" * length}"}}}}}}') <= LIMIT
        assert ("cut" in told.json) is not is_whole, length
    things.delete_one({"_id": "edge"})


@pytest.mark.parametrize("alias", ["n", "n" * 500, "n" * 5000])
async def test_errors_that_are_too_long_are_counted(service: Service, alias: str) -> None:
    told = await run(service, f"{{ wrong(limit: 40) {{ {alias}: number }} }}")

    assert len(told.text.encode()) <= LIMIT
    *_, last = told.json["errors"]
    shown = len(told.json["errors"]) - 1
    assert last["message"] == f"{40 - shown} more errors are not shown"
