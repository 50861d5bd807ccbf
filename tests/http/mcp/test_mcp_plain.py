"""Values of tool results: plain by default, and described as they are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import jsonschema_rs
import pytest
from bson import Binary, Decimal128, Int64, ObjectId, Regex, Timestamp

from tests.http.harness import Document, Mongo, Service, running
from tests.http.hosts import module_application
from tests.http.mcp_harness import AGENTS, list_tools, use

pytestmark = pytest.mark.anyio

SCHEMA = """
type Query { "Things, the newest first." things(
  "Only those made after this date." after: DateTime
  "Only those of this id." id: ObjectId
): [Thing] }
type Thing {
  id: ObjectId made: DateTime size: Long large: Long price: Decimal128 key: UUID share: Float
  pattern: Regex stamp: Timestamp rest: BsonDocument kind: Kind
}
enum Kind { ONE TWO }
"""
THING: Document = {
    "_id": ObjectId("5d7a4b59cf6eeb5f9a3b8d2e"),
    "made": datetime(2024, 5, 31, 12, tzinfo=UTC),
    "size": Int64(5),
    "large": Int64(2**60),
    "price": Decimal128("19.90"),
    "key": Binary.from_uuid(UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")),
    "share": 0.5,
    "pattern": Regex("^a", "i"),
    "stamp": Timestamp(7, 3),
    "rest": {"at": datetime(2024, 5, 31, tzinfo=UTC), "n": Int64(7)},
    "kind": 1,
}
PLAIN: Document = {
    "id": "5d7a4b59cf6eeb5f9a3b8d2e",
    "made": "2024-05-31T12:00:00.000Z",
    "size": 5,
    "large": str(2**60),
    "price": "19.90",
    "key": "00010203-0405-0607-0809-0a0b0c0d0e0f",
    "share": 0.5,
    "pattern": "/^a/i",
    "stamp": "7.3",
    "rest": {"at": "2024-05-31T00:00:00.000Z", "n": 7},
    "kind": "ONE",
}
FIELDS = " ".join(PLAIN)
OPERATION = {
    "name": "since",
    "query": "query($after: DateTime, $id: ObjectId) "
    f"{{ things(after: $after, id: $id) {{ {FIELDS} }} }}",
}


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri, AGENTS) as one:
        one.insert("things", THING)
        await _define(one)
        yield one


async def _define(one: Service) -> None:
    find = {
        "made": {"$gt": {"$arg": ["after", datetime(1970, 1, 1, tzinfo=UTC)]}},
        "_id": {"$arg": ["id", {"$exists": True}]},
    }
    mappings: dict[str, Any] = {
        "Query": {"things": one.find("things", find)},
        "Thing": {"id": "_id"},
        "Kind": {"ONE": 1, "TWO": 2},
    }
    await one.define("things", SCHEMA, mappings, operations=[OPERATION])


async def test_values_are_plain(service: Service) -> None:
    told = await use(service, "run_query", app="things", query=f"{{ things {{ {FIELDS} }} }}")

    assert told.json["data"] == {"things": [PLAIN]}


async def test_the_endpoint_of_the_app_keeps_its_own_form(service: Service) -> None:
    reply = await service.query("things", "{ things { made size } }")

    (thing,) = reply.data["things"]
    assert thing == {"made": {"$date": 1717156800000}, "size": {"$numberLong": "5"}}


async def test_the_form_of_the_endpoint_can_be_chosen(
    mongo_client: Mongo, mongo_uri: str, service: Service
) -> None:
    settings = {"mcp": {"json-mode": "standard"}}
    query = "{ things { made size price id } }"
    async with running(mongo_client, mongo_uri, AGENTS, settings, db=service.db, drop=False) as one:
        told = await use(one, "run_query", app="things", query=query)
        at_endpoint = await one.query("things", query)

    assert told.json["data"] == at_endpoint.data


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"after": "2024-01-01T00:00:00Z"},
        {"after": {"$date": 0}},
        {"id": "5d7a4b59cf6eeb5f9a3b8d2e"},
        {"id": {"$oid": "5d7a4b59cf6eeb5f9a3b8d2e"}},
    ],
)
async def test_a_result_is_as_its_tool_describes_it(service: Service, arguments: Document) -> None:
    tool = (await list_tools(service))["things__since"]
    told = await use(service, "things__since", **arguments)

    found = told.result["structuredContent"]
    assert found["data"]["things"] == [PLAIN]
    jsonschema_rs.Draft202012Validator(tool["outputSchema"], validate_formats=True).validate(found)


async def test_types_and_formats_are_in_the_schemas(service: Service) -> None:
    tool = (await list_tools(service))["things__since"]

    data = tool["outputSchema"]["properties"]["data"]["anyOf"][0]
    things = data["properties"]["things"]["anyOf"][0]["items"]["anyOf"][0]
    shapes = {name: one["anyOf"][0] for name, one in things["properties"].items()}
    assert shapes["made"] == {"type": "string", "format": "date-time"}
    assert shapes["key"] == {"type": "string", "format": "uuid"}
    assert all("type" in one for one in shapes.values())
    after = tool["inputSchema"]["properties"]["after"]
    assert after["description"] == "Only those made after this date."
    assert after["anyOf"][0]["format"] == "date-time"
    assert after["anyOf"][0]["examples"]


async def test_the_schema_says_how_values_look(service: Service) -> None:
    told = await use(service, "get_schema", app="things", types=["DateTime"])

    assert "2024-05-31T12:00:00.000Z" in told.text


async def test_questions_about_numbers_lead_to_counts_and_groups(service: Service) -> None:
    """With conditions, counts and groups, which are of the same app in the same plain form."""
    service.insert("sales", *({"_id": n, "made": datetime(2024, 1 + n % 3, 1, tzinfo=UTC),
                               "price": Decimal128("1.50")} for n in range(30)))  # fmt: skip
    schema = """
    type Query { sales: [Sale] salesCount: Int! salesBy: [SaleGroup] }
    type Sale { made: DateTime price: Decimal128 }
    type SaleGroup { made: DateTime count: Int! sumPrice: Decimal128 }
    """
    mappings: dict[str, Any] = {
        "Query": {
            "sales": service.find(
                "sales",
                {},
                filter={"fields": {"made": ["range"]}, "indexed-only": False},
                limit=5,
            ),
            "salesCount": service.find("sales", {}, count=True),
            "salesBy": service.find("sales", group={"by": "made", "sum": ["price"]}),
        },
    }
    await service.define("sales", schema, mappings)
    try:
        many = await use(service, "search_schema", app="sales", words="How many sales are there?")
        month = await use(service, "search_schema", app="sales", words="sum of sales per month")
        where = '{ sales(where: {made: {gte: "2024-02-01T00:00:00Z"}}) { made } salesCount }'
        told = await use(service, "run_query", app="sales", query=where)
    finally:
        await service.remove("sales")

    assert many.json["hits"][0]["is"] == "Query.salesCount: Int!"
    assert many.json["hits"][0]["does"] == "count"
    assert "group" in [one.get("does") for one in month.json["hits"][:3]]
    assert told.json["data"]["salesCount"] == 30
    assert {one["made"] for one in told.json["data"]["sales"]} <= {
        "2024-02-01T00:00:00.000Z", "2024-03-01T00:00:00.000Z"
    }  # fmt: skip
    assert told.json["limits"][0]["path"] == ["sales"]


async def test_counts_groups_and_pages_are_as_their_tool_describes_them(service: Service) -> None:
    schema = """
    type Query { things: [Thing!]! number: Int! many: Long kinds: [Kinds] whole: [BsonDocument] }
    type Thing { size: Long parts: Int }
    type Kinds { kind: Int count: Int sumSize: Long }
    """
    find = service.find("things", {})
    query = (
        "query ($where: ThingWhere) { number many kinds { kind count sumSize } whole"
        " things(where: $where) { totalCount edges { cursor node { size parts } } } }"
    )
    mappings: Document = {
        "Query": {
            "things": {**find, "filter": {"fields": {"size": ["eq"]}}, "connection": {}},
            "number": {**find, "count": True},
            "many": {**find, "count": True},
            "kinds": {**find, "group": {"by": "kind", "sum": "size"}},
            "whole": find,
        },
        "Thing": {"parts": {**service.find("things", {"_id": {"$fk": "_id"}}), "count": True}},
    }
    await service.define("lists", schema, mappings, operations=[{"name": "all", "query": query}])
    tool = (await list_tools(service))["lists__all"]
    arguments = {"where": {"size": {"eq": 5}}}
    found = (await use(service, "lists__all", **arguments)).result["structuredContent"]

    assert (found["data"]["number"], found["data"]["things"]["totalCount"]) == (1, 1)
    jsonschema_rs.Draft202012Validator(tool["outputSchema"], validate_formats=True).validate(found)
    jsonschema_rs.Draft202012Validator(tool["inputSchema"]).validate(arguments)
