"""Ids of every kind are accepted back as they were given out: `ID` and `UUID`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest
from bson import Binary, Decimal128, Int64, ObjectId

from tests.http.harness import Mongo, Service, running
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

HEX = "64b000000000000000000001"
UUID = bytes(range(16))
UUID_TEXT = "00010203-0405-0607-0809-0a0b0c0d0e0f"
IDS: dict[str, Any] = {
    "text": "ada",
    "objectId": ObjectId("64b0000000000000000000aa"),
    "int": 7,
    "long": Int64(2**60),
    "negative": -12,
    "double": 2.5,
    "large double": 1e300,
    "decimal": Decimal128("0.10"),
    "date": datetime(2024, 2, 29, 12, 30, 0, 250_000),
    "uuid": Binary(UUID, 4),
    "legacy uuid": Binary(UUID[::-1], 3),
    "text of digits": "0123",
}
# One text for several documents: the preferred one first.
SAME: dict[str, list[Any]] = {
    "42": ["42", 42],
    HEX: [HEX, ObjectId(HEX)],
    "ffffffff-0405-0607-0809-0a0b0c0d0e0f": [
        Binary(b"\xff" * 4 + UUID[4:], 4),
        Binary(b"\xff" * 4 + UUID[4:], 3),
    ],
}
SCHEMA = """
type Query {
  all: [Thing!]!
  thing(id: ID!): Thing
  tagged(id: ID!): Thing
  equal(id: ID!): [Thing!]!
  among(ids: [ID!]!): [Thing!]!
  listed(id: ID!): [Thing!]!
  different(id: ID!): [Thing!]!
  outside(ids: [ID!]!): [Thing!]!
  negated(id: ID!): [Thing!]!
  byText(id: String!): [Thing!]!
  byUuid(id: UUID!): [Thing!]!
  amongUuids(ids: [UUID!]!): [Thing!]!
}
type Thing { id: ID! kind: String parent: Thing others(id: ID!): [Thing!]! }
"""


async def prepare(service: Service) -> None:
    documents = [{"_id": id, "kind": kind, "group": 1} for kind, id in IDS.items()]
    for number, (text, ids) in enumerate(SAME.items()):
        documents += [
            {"_id": id, "kind": f"{number} {place}", "text": text} for place, id in enumerate(ids)
        ]
    service.insert("things", *documents)
    find = service.find
    argument = {"$arg": "id"}
    await service.define(
        "things",
        SCHEMA,
        {
            "Query": {
                "all": find("things", {"group": 1}),
                "thing": find("things", {"_id": argument}),
                "tagged": find("things", {"_id": argument, "kind": {"$exists": True}}),
                "equal": find("things", {"_id": {"$eq": argument}}),
                "among": find("things", {"_id": {"$in": {"$arg": "ids"}}}),
                "listed": find("things", {"_id": {"$in": [argument]}}),
                "different": find("things", {"group": 1, "_id": {"$ne": argument}}),
                "outside": find("things", {"group": 1, "_id": {"$nin": {"$arg": "ids"}}}),
                "negated": find("things", {"group": 1, "_id": {"$not": argument}}),
                "byText": find("things", {"_id": argument}),
                "byUuid": find("things", {"_id": argument}),
                "amongUuids": find("things", {"_id": {"$in": {"$arg": "ids"}}}),
            },
            "Thing": {
                "id": "_id",
                "parent": find("things", {"_id": {"$fk": "_id"}}),
                "others": find("things", {"group": {"$fk": "group"}, "_id": argument}),
            },
        },
    )


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri) as service:
        await prepare(service)
        yield service


async def ask(service: Service, query: str, **variables: Any) -> Any:
    reply = await service.query("things", query, variables)
    assert reply.status == 200, reply.text
    assert "errors" not in reply.json, reply.text
    return reply.json["data"]


async def text_of(service: Service, kind: str) -> str:
    data = await ask(service, "{ all { id kind } }")
    (text,) = [one["id"] for one in data["all"] if one["kind"] == kind]
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize("kind", IDS)
async def test_an_id_of_every_kind_is_found_by_the_text_that_was_given_out(
    service: Service, kind: str
) -> None:
    """Decision 48."""
    text = await text_of(service, kind)
    query = (
        "query ($id: ID!, $ids: [ID!]!) { thing(id: $id) { kind parent { kind } } "
        "tagged(id: $id) { kind } equal(id: $id) { kind } listed(id: $id) { kind } "
        "among(ids: $ids) { kind } different(id: $id) { kind } outside(ids: $ids) { kind } "
        "negated(id: $id) { kind } all { others(id: $id) { kind } } }"
    )
    data = await ask(service, query, id=text, ids=[text, "nothing"])

    own, rest = {"kind": kind}, [{"kind": one} for one in IDS if one != kind]
    assert data["thing"] == {**own, "parent": own}
    assert data["tagged"] == own
    assert [data[name] for name in ("equal", "listed", "among")] == [[own]] * 3
    for name in ("different", "outside", "negated"):
        assert sorted(data[name], key=str) == sorted(rest, key=str)
    assert data["all"] == [{"others": [own]}] * len(IDS)


@pytest.mark.parametrize("text", SAME)
async def test_of_several_documents_with_one_text_a_single_field_prefers_the_text(
    service: Service, text: str
) -> None:
    """Decision 48."""
    number = list(SAME).index(text)
    query = (
        "query ($id: ID!) { thing(id: $id) { kind parent { kind } } tagged(id: $id) { kind } "
        "equal(id: $id) { kind } }"
    )
    data = await ask(service, query, id=text)

    first = {"kind": f"{number} 0"}
    assert data["thing"] == {**first, "parent": first}
    assert data["tagged"] == first
    assert sorted(one["kind"] for one in data["equal"]) == [f"{number} 0", f"{number} 1"]


async def test_a_string_argument_is_a_text(service: Service) -> None:
    """Decision 48."""
    data = await ask(
        service, f'{{ a: byText(id: "42") {{ kind }} b: byText(id: "{HEX}") {{ id }} }}'
    )

    assert data == {"a": [{"kind": "0 0"}], "b": [{"id": HEX}]}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (UUID_TEXT, "uuid"),
        (UUID_TEXT.replace("-", ""), "uuid"),
        (UUID_TEXT.upper(), "uuid"),
        ("0f0e0d0c-0b0a-0908-0706-050403020100", "legacy uuid"),
        ({"$uuid": UUID_TEXT}, "uuid"),
        ({"$binary": {"base64": "AAECAwQFBgcICQoLDA0ODw==", "subType": "04"}}, "uuid"),
        ({"$binary": {"base64": "Dw4NDAsKCQgHBgUEAwIBAA==", "subType": "03"}}, "legacy uuid"),
    ],
)
async def test_a_uuid_is_found_in_every_form(service: Service, text: Any, kind: str) -> None:
    query = (
        "query ($id: UUID!, $ids: [UUID!]!) "
        "{ byUuid(id: $id) { kind } amongUuids(ids: $ids) { kind } }"
    )
    data = await ask(service, query, id=text, ids=[text])

    assert data == {"byUuid": [{"kind": kind}], "amongUuids": [{"kind": kind}]}


@pytest.mark.parametrize("text", ["", "0001", UUID_TEXT + "0", "0" * 31 + "g", 7, {"$oid": HEX}])
async def test_what_is_no_uuid_is_refused_with_the_reason(service: Service, text: Any) -> None:
    reply = await service.query(
        "things", "query ($id: UUID!) { byUuid(id: $id) { id } }", {"id": text}
    )

    assert "UUID" in reply.error["message"]
