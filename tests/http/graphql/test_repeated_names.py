"""Documents in which a name occurs twice: the database decides which parent they belong to."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest
from bson.raw_bson import RawBSONDocument

from tests.http.harness import Mongo, Service, running
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

SCHEMA = """
type Query { parents: [Parent!]! projected: [Kid!]! listed: [Kid!]! documents: [BsonDocument!]! }
type Parent { _id: Int kids: [Kid!]! only: Kid count: Int whole: [BsonDocument!]! deep: [Kid!]! }
type Kid { _id: Int p: Int n: Int missing: Int }
"""


def number(name: str, value: int) -> bytes:
    return b"\x10" + name.encode() + b"\0" + struct.pack("<i", value)


def build(elements: bytes) -> bytes:
    return struct.pack("<i", len(elements) + 5) + elements + b"\0"


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri) as service:
        service.insert("parents", {"_id": 1}, {"_id": 2})
        kids: Any = service.mongo[service.db]["kids"]
        inner = b"\x03a\0" + build(number("p", 1) + number("p", 2))
        twice = number("p", 1) + number("n", 7) + number("p", 2)
        kids.insert_one(RawBSONDocument(build(number("_id", 10) + twice + inner)))
        service.insert("kids", {"_id": 11, "p": 2, "n": 8, "a": {"p": 2}})
        find = service.find
        mappings = {
            "Query": {
                "parents": find("parents", {}, sort={"_id": 1}),
                "projected": service.stages("kids", {"$project": {"p": 1}}, {"$sort": {"_id": 1}}),
                "listed": find("kids", {}, sort={"_id": 1}),
                "documents": find("kids", {}, sort={"_id": 1}),
            },
            "Parent": {
                "kids": find("kids", {"p": {"$fk": "_id"}}),
                "only": find("kids", {"p": {"$fk": "_id"}}),
                "count": {**find("kids", {"p": {"$fk": "_id"}}), "count": True},
                "whole": find("kids", {"p": {"$fk": "_id"}}),
                "deep": find("kids", {"a.p": {"$fk": "_id"}}),
            },
        }
        await service.define("app", SCHEMA, mappings)
        yield service


@pytest.mark.parametrize("is_reported", [False, True], ids=["the lane", "decoded"])
@pytest.mark.parametrize("name", ["kids", "only", "whole", "deep"])
async def test_a_document_belongs_to_the_parent_of_its_first_value(
    service: Service, name: str, is_reported: bool
) -> None:
    fields = "" if name == "whole" else "{ _id n missing }"
    query = f"{{ parents {{ count {name} {fields} }} }}"
    body = {"query": query, "extensions": {"limits": is_reported}}
    reply = await service.request("POST", f"{service.base}/app", json=body)

    first, second = reply.json["data"]["parents"]
    assert (first["count"], second["count"]) == (1, 1)
    found = [one if isinstance(one, list) else [one] for one in (first[name], second[name])]
    assert [[one["_id"] for one in own] for own in found] == [[10], [11]]


async def test_projections_show_the_first_value_and_whole_documents_the_last(
    service: Service,
) -> None:
    """Decision 75."""
    query = "{ projected { p } listed { p } documents }"
    reply = await service.request("POST", f"{service.base}/app", json={"query": query})

    data = reply.json["data"]
    assert data["projected"] == data["listed"] == [{"p": 1}, {"p": 2}]
    assert [document["p"] for document in data["documents"]] == [2, 2]
