"""`mclient.uuid-representation`: UUIDs of subtype 3 in the byte order of old drivers."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from uuid import UUID

import pytest
from bson import Binary
from bson.binary import UuidRepresentation

from tests.http.harness import Mongo, Service, running

pytestmark = [pytest.mark.anyio, pytest.mark.json]

VALUE = UUID("00112233-4455-6677-8899-aabbccddeeff")
ORDERS = {
    "standard": UuidRepresentation.PYTHON_LEGACY,
    "python-legacy": UuidRepresentation.PYTHON_LEGACY,
    "java-legacy": UuidRepresentation.JAVA_LEGACY,
    "csharp-legacy": UuidRepresentation.CSHARP_LEGACY,
}
SCHEMA = """
type Query { all: [Thing!]! thing(id: ID!): Thing byUuid(id: UUID!): [Thing!]! }
type Thing { id: ID! uuid: UUID! kind: String children: [Thing!]! }
"""


async def prepare(service: Service, order: str) -> None:
    """Store a UUID as the old driver does, and a new one that refers to it."""
    legacy = Binary.from_uuid(VALUE, ORDERS[order])
    assert legacy.subtype == 3
    service.insert(
        "things",
        {"_id": legacy, "kind": "legacy", "parent": None},
        {"_id": Binary(UUID(int=7).bytes, 4), "kind": "new", "parent": legacy},
    )
    argument = {"$arg": "id"}
    await service.define(
        "things",
        SCHEMA,
        {
            "Query": {
                "all": service.find("things", {}, sort={"kind": 1}),
                "thing": service.find("things", {"_id": argument}),
                "byUuid": service.find("things", {"_id": argument}),
            },
            "Thing": {
                "id": "_id",
                "uuid": "_id",
                "children": service.find("things", {"parent": {"$fk": "_id"}}),
            },
        },
    )


@pytest.mark.parametrize("order", ORDERS)
async def test_a_uuid_of_an_old_driver_is_shown_and_found_by_its_text(
    mongo_client: Mongo, mongo_uri: str, order: str
) -> None:
    settings = {
        "mclient": {"uuid-representation": order},
        "mongo": {"mongo-mounts": [{"what": "*", "where": "/"}]},
    }
    async with running(mongo_client, mongo_uri, settings) as service:
        await prepare(service, order)
        text, other = str(VALUE), str(UUID(int=7))
        service.mongo[service.db].create_collection("copies")
        query = (
            "query ($id: ID!, $uuid: UUID!) { all { id uuid } thing(id: $id) { kind children"
            " { kind } } byUuid(id: $uuid) { kind } }"
        )
        reply = await service.query("things", query, {"id": text, "uuid": text.replace("-", "")})
        path = f"/{service.db}/things/{text}"
        read = await service.request("GET", f"{path}?id_type=UUID_LEGACY")
        bytes_ = b64encode(Binary.from_uuid(VALUE, ORDERS[order])).decode()
        copy = {"_id": {"$binary": {"base64": bytes_, "subType": "03"}}}
        written = await service.request("POST", f"/{service.db}/copies", json=copy)

    assert reply.json["data"] == {
        "all": [{"id": text, "uuid": text}, {"id": other, "uuid": other}],
        "thing": {"kind": "legacy", "children": [{"kind": "new"}]},
        "byUuid": [{"kind": "legacy"}],
    }
    assert (read.status, read.json["kind"]) == (200, "legacy")
    assert written.status == 201, written.text
    assert written.headers["Location"].endswith(f"/copies/{text}?id_type=UUID_LEGACY")


async def test_an_unknown_representation_is_reported(mongo_client: Mongo, mongo_uri: str) -> None:
    with pytest.raises(Exception, match="uuid-representation"):
        async with running(mongo_client, mongo_uri, {"mclient": {"uuid-representation": "legacy"}}):
            raise AssertionError("started")


async def test_servers_of_one_process_keep_their_own_representations(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    def settings(order: str) -> dict[str, object]:
        return {"mclient": {"uuid-representation": order}}

    async with (
        running(mongo_client, mongo_uri, settings("java-legacy")) as java,
        running(mongo_client, mongo_uri, settings("csharp-legacy")) as csharp,
    ):
        await prepare(java, "java-legacy")
        await prepare(csharp, "csharp-legacy")
        query = f'{{ all {{ id }} thing(id: "{VALUE}") {{ kind }} }}'
        services = [java, csharp] * 3
        replies = await asyncio.gather(*(one.query("things", query) for one in services))

    expected = {"all": [{"id": str(VALUE)}, {"id": str(UUID(int=7))}], "thing": {"kind": "legacy"}}
    assert [reply.json["data"] for reply in replies] == [expected] * len(services)


@pytest.mark.parametrize("mode", ["standard", "canonical", "relaxed", "plain"])
async def test_a_uuid_inside_a_document_is_shown_like_the_scalar(
    mongo_client: Mongo, mongo_uri: str, mode: str
) -> None:
    """Decision 17: inside of documents the rules are the same."""
    legacy = Binary.from_uuid(VALUE, UuidRepresentation.JAVA_LEGACY)
    new, other = Binary(VALUE.bytes, 4), Binary(b"\x01", 5)
    settings = {"mclient": {"uuid-representation": "java-legacy"}, "graphql": {"json-mode": mode}}
    async with running(mongo_client, mongo_uri, settings) as service:
        inner = {"legacy": legacy, "list": [{"new": new}], "other": other}
        service.insert("things", {"_id": 1, "uuid": legacy, "inner": inner})
        await service.define(
            "things",
            "type Query { all: [Thing!]! } type Thing { uuid: UUID inner: BsonDocument }",
            {"Query": {"all": service.find("things", {})}},
        )
        reply = await service.query("things", "{ all { uuid inner } }")
    (thing,) = reply.json["data"]["all"]

    def shown(value: Binary) -> object:
        base64, subtype = b64encode(value).decode(), f"{value.subtype:02x}"
        return {"$binary": {"base64": base64, "subType": subtype}}

    is_typed = mode == "canonical"
    assert thing["uuid"] == thing["inner"]["legacy"] == (shown(legacy) if is_typed else str(VALUE))
    assert thing["inner"]["list"] == [{"new": shown(new) if is_typed else str(VALUE)}]
    assert thing["inner"]["other"] == ("AQ==" if mode == "plain" else shown(other))
