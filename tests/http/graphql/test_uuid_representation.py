"""`mclient.uuid-representation`: UUIDs of subtype 3 in the byte order of old drivers."""

from __future__ import annotations

from base64 import b64encode
from uuid import UUID

import pytest
from bson import Binary
from bson.binary import UuidRepresentation

from tests.http.harness import Mongo, Service, running

pytestmark = pytest.mark.anyio

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
