"""Ids of every kind are accepted back as they were given out: `ID` and `UUID`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest
from bson import Binary, DatetimeMS, Decimal128, Int64, ObjectId, Timestamp

from docgraph.graphql.definition.check import check_definition
from docgraph.graphql.sections import Graphql
from tests.http.harness import Mongo, Service, build_definition, running
from tests.http.hosts import module_application

pytestmark = [pytest.mark.anyio, pytest.mark.json]

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
    "true": True,
    "false": False,
    "not a number": float("nan"),
    "infinity": float("-inf"),
    "infinite decimal": Decimal128("Infinity"),
    "whole double": 3.0,
    "small double": 5e-324,
    "24 digits": Decimal128("123456789012345678901234"),
    "34 digits": Decimal128("-9.999999999999999999999999999999999E+6144"),
    "decimal with a point": Decimal128("0.000001234567890123456789012345678901234"),
    "far date": DatetimeMS(253_402_300_800_000),
    "early date": DatetimeMS(-(2**53)),
    "timestamp": Timestamp(1_700_000_000, 2**32 - 1),
    "bytes": b"\x00\x01\x02",
    "12 bytes": b"abcdefghijkl",
    "md5": Binary(UUID, 5),
    "user-defined binary": Binary(b"abcde", 128),
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
  joined(id: ID!): Thing
  optional(id: ID): Thing
  single(id: ID!): Thing
  one(ids: [ID!]!): Thing
  either(id: ID!): Thing
  both(id: ID!, ids: [ID!]!): Thing
  staged(id: ID!): Thing
  counted(id: ID!): Count
  last(id: ID!): Thing
  numbers: [Number!]!
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
type Count { count: Int }
type Number { n: Int text: String near(id: ID!): Thing far(id: ID!): Thing staged(id: ID!): Thing }
type Thing { id: ID! kind: String parent: Thing others(id: ID!): [Thing!]! }
"""


async def prepare(service: Service) -> None:
    documents = [{"_id": id, "kind": kind, "group": 1} for kind, id in IDS.items()]
    for number, (text, ids) in enumerate(SAME.items()):
        documents += [
            {"_id": id, "kind": f"{number} {place}", "text": text, "place": place}
            for place, id in reversed(list(enumerate(ids)))
        ]
    service.insert("things", *documents)
    service.insert("numbers", *({"n": n, "text": text} for text in SAME for n in (0, 0, 1)))
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
                "joined": find(
                    "things", {"$and": [{"kind": {"$exists": True}}, {"_id": argument}]}
                ),
                "optional": find("things", {"$ifarg": ["id", {"_id": argument}, {"_id": 0}]}),
                "single": find("things", {"_id": {"$in": [argument]}}),
                "one": find("things", {"_id": {"$in": {"$arg": "ids"}}}),
                "either": find("things", {"$or": [{"_id": argument}, {"kind": argument}]}),
                "both": find("things", {"_id": {"$eq": argument, "$in": {"$arg": "ids"}}}),
                "staged": service.stages("things", {"$match": {"_id": argument}}),
                "counted": service.stages(
                    "things", {"$match": {"_id": argument}}, {"$count": "count"}
                ),
                "last": find("things", {"_id": argument}, sort={"kind": -1}),
                "numbers": find("numbers", {}, sort={"n": 1}),
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
            "Number": {
                "near": find("things", {"text": {"$fk": "text"}, "_id": argument}),
                "far": find("things", {"place": {"$gte": {"$fk": "n"}}, "_id": argument}),
                "staged": service.stages(
                    "things", {"$match": {"place": {"$gte": {"$fk": "n"}}, "_id": argument}}
                ),
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


@pytest.mark.parametrize("text", SAME)
async def test_one_kind_is_preferred_wherever_the_id_is_compared(
    service: Service, text: str
) -> None:
    """Decision 48: the rule is the same in all conditions, in stages, and below other documents."""
    number = list(SAME).index(text)
    query = (
        "query ($id: ID!, $ids: [ID!]!) { joined(id: $id) { kind } optional(id: $id) { kind } "
        "single(id: $id) { kind } one(ids: $ids) { kind } either(id: $id) { kind } "
        "both(id: $id, ids: $ids) { kind } staged(id: $id) { kind } counted(id: $id) { count } "
        "last(id: $id) { kind } numbers { n text near(id: $id) { kind } far(id: $id) { kind } "
        "staged(id: $id) { kind } } }"
    )
    data = await ask(service, query, id=text, ids=[text])

    first, second = {"kind": f"{number} 0"}, {"kind": f"{number} 1"}
    for name in ("joined", "optional", "single", "one", "either", "both", "staged"):
        assert data[name] == first, name
    assert data["counted"] == {"count": 2}  # one result of both
    assert data["last"] == second  # the sort chooses
    for one in data["numbers"]:
        assert one["near"] == (first if one["text"] == text else None)
        assert one["far"] == one["staged"] == (second if one["n"] else first)


@pytest.mark.parametrize("kind", ["objectId", "text", "int", "uuid", "bytes"])
async def test_equality_beside_a_list_compares_all_kinds(service: Service, kind: str) -> None:
    text = await text_of(service, kind)
    query = "query ($id: ID!, $ids: [ID!]!) { both(id: $id, ids: $ids) { kind } }"
    found = await ask(service, query, id=text, ids=["other", text])
    missing = await ask(service, query, id=text, ids=["other", "nothing"])

    assert (found["both"], missing["both"]) == ({"kind": kind}, None)


_ID = {"$arg": "id"}
_IDS = {"$arg": "ids"}
COMPARED: dict[str, Any] = {
    "equal": {"k": _ID},
    "path": {"o.y": _ID},
    "object": {"o": {"y": _ID}},
    "equalObject": {"o": {"$eq": {"y": _ID}}},
    "oneObject": {"o": {"$in": [{"y": _ID}]}},
    "element": {"l": _ID},
    "wholeList": {"l": _IDS},
    "equalList": {"l": {"$eq": _IDS}},
    "listInList": {"l": {"$in": [_IDS]}},
    "writtenList": {"l": [_ID]},
    "among": {"l": {"$in": _IDS}},
    "notOutside": {"k": {"$not": {"$nin": _IDS}}},
    "all": {"l": {"$all": _IDS}},
    "range": {"k": {"$gte": _ID}},
    "match": {"l": {"$elemMatch": {"$eq": _ID}}},
    "expression": {"$expr": {"$eq": ["$k", {"$arg": "f.k"}]}},
    "input": {"k": {"$arg": "f.k"}},
    "inputList": {"k": {"$in": {"$arg": "f.ks"}}},
    "wholeInput": {"o": {"$arg": "g"}},
    "filter": {"$arg": "h"},
}


async def test_the_check_warns_where_the_text_does_not_find_a_number(service: Service) -> None:
    """Decision 48: the notes of the check are compared with what the database finds."""
    service.insert("numbered", {"_id": 1, "k": 42, "l": [42], "o": {"y": 42}})
    arguments = "id: ID, ids: [ID!], f: F, g: G, h: H"
    fields = " ".join(f"{name}({arguments}): [Found!]!" for name in COMPARED)
    schema = f"type Query {{ {fields} }} type Found {{ k: Int }} "
    schema += "input F { k: ID ks: [ID!] } input G { y: ID } input H { k: ID }"
    mappings = {name: service.find("numbered", find) for name, find in COMPARED.items()}
    definition = build_definition("numbered", schema, {"Query": mappings})
    await service.store(definition)

    given = 'id: "42", ids: ["42"], f: {k: "42", ks: ["42"]}, g: {y: "42"}, h: {k: "42"}'
    found = " ".join(f"{name}({given}) {{ k }}" for name in COMPARED)
    reply = await service.query("numbered", f"{{ {found} }}")
    warnings = check_definition(definition, settings=Graphql()).warnings
    warned = {one.where.split(".")[2] for one in warnings if one.what.startswith("an ID in ")}
    assert warned == {name for name in COMPARED if not reply.data[name]}
    assert {"object", "wholeList", "expression", "wholeInput"} <= warned


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
