"""The schema store, and documents that have to follow a schema (rest-behaviour 5.6)."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from tests.http.harness import Mongo
from tests.http.rest_harness import Api, relative, serving

pytestmark = pytest.mark.anyio

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
PERSON = {
    "$schema": DRAFT_4,
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
}


@pytest.fixture
async def api(api: Api) -> Api:
    assert (await api.put("/_schemas")).status == 201
    return api


async def store_schema(api: Api, id: str, schema: Any) -> None:
    reply = await api.put(f"/_schemas/{id}", schema, wm="upsert")
    assert reply.status in (200, 201), reply.text


async def demand(api: Api, id: str = "person", **others: Any) -> None:
    reply = await api.put("/things", {"jsonSchema": {"schemaId": id, **others}})
    assert reply.status == 200, reply.text


@pytest.fixture
async def people(api: Api) -> Api:
    """The collection `things` takes only people."""
    await store_schema(api, "person", PERSON)
    await demand(api)
    return api


# --- the store ------------------------------------------------------------------------------------


async def test_schemas_are_posted_read_listed_and_deleted(api: Api) -> None:
    posted = await api.post("/_schemas", {"_id": "person", **PERSON})
    read = await api.get("/_schemas/person")
    listed = await api.get("/_schemas")
    size = await api.get("/_schemas/_size")
    deleted = await api.delete("/_schemas/person")

    assert (posted.status, posted.text) == (201, "")
    assert relative(posted.headers["location"]) == "/_schemas/person"
    assert read.json["properties"] == PERSON["properties"]
    assert read.json["$schema"] == DRAFT_4
    assert read.json["id"] == f"http://schema-store/{api.db}/person#"
    assert read.headers["etag"] == posted.headers["etag"]
    assert [one["_id"] for one in listed.json] == ["person"]
    assert listed.json[0]["$schema"] == DRAFT_4
    assert size.json == {"_size": 1}
    assert deleted.status == 204
    assert (await api.get("/_schemas/person")).status == 404


async def test_put_needs_upsert_to_create_a_schema(api: Api) -> None:
    missing = await api.put("/_schemas/x", PERSON)
    created = await api.put("/_schemas/x", PERSON, wm="upsert")
    replaced = await api.put("/_schemas/x", {**PERSON, "title": "again"})

    assert missing.status == 404
    assert created.status == 201
    assert relative(created.headers["location"]) == "/_schemas/x"
    assert replaced.status == 200
    assert (await api.get("/_schemas/x")).json["title"] == "again"


async def test_a_schema_without_a_draft_is_one_of_draft_4(api: Api) -> None:
    await store_schema(api, "x", {"type": "object"})

    assert (await api.get("/_schemas/x")).json["$schema"] == DRAFT_4


@pytest.mark.parametrize(
    "draft",
    [
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-07/schema#",
        "http://json-schema.org/draft-07/schema",
        "https://json-schema.org/draft-07/schema",
        "https://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft/2020-12/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        DRAFT_2020,
    ],
)
async def test_later_drafts_are_kept(api: Api, draft: str) -> None:
    await store_schema(api, "x", {"$schema": draft, "const": 1})
    read = (await api.get("/_schemas/x")).json

    assert read["$schema"] == draft
    assert read["$id"] == f"http://schema-store/{api.db}/x"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"properties": 3},
        {"pattern": "(a"},
        {"$schema": "http://127.0.0.1:1/schema"},
        {"$schema": "ftp://json-schema.org/draft-07/schema"},
        {"$schema": "http://json-schema.org/draft-07/schema##"},
        {"$schema": "json-schema.org/draft-07/schema"},
        {"$schema": 3},
    ],
)
async def test_what_is_no_schema_is_400(api: Api, schema: Any) -> None:
    reply = await api.post("/_schemas", {"_id": "x", **schema})

    assert reply.status == 400, reply.text
    assert reply.json["message"].startswith("Request content violates JSON Schema meta schema: ")
    assert (await api.get("/_schemas/_size")).json == {"_size": 0}


async def test_nothing_is_fetched_from_elsewhere(api: Api) -> None:
    for address in ("http://127.0.0.1:1/x", "file:///etc/passwd", "http://json-schema.org/x"):
        reply = await api.post("/_schemas", {"properties": {"a": {"$ref": address}}})
        assert reply.status == 400
        assert "which is not in the schema store" in reply.json["message"]


async def test_typed_values_can_be_described_with_and_without_underscore(api: Api) -> None:
    """The names of extended JSON are names like any other inside a schema."""
    plain = {"properties": {"_id": {"properties": {"$oid": {"type": "string"}}}}}
    escaped = {"properties": {"_id": {"properties": {"_$oid": {"type": "string"}}}}}
    await store_schema(
        api, "plain", '{"properties":{"_id":{"properties":{"$oid":{"type":"string"}}}}}'
    )
    await store_schema(api, "escaped", escaped)

    for id, written in (("plain", plain), ("escaped", escaped)):
        read = await api.get(f"/_schemas/{id}")
        assert read.json["properties"] == written["properties"]


async def test_schemas_cannot_be_patched(api: Api) -> None:
    await store_schema(api, "x", PERSON)

    assert (await api.patch("/_schemas/x", {"title": "x"})).status == 405


async def test_without_a_store_there_are_no_schemas(mongo_client: Mongo, mongo_uri: str) -> None:
    async with serving(mongo_client, mongo_uri) as api:
        replies = [
            await api.post("/_schemas", PERSON),
            await api.get("/_schemas"),
            await api.get("/_schemas/person"),
            await api.put("/_schemas/person", PERSON),
            await api.delete("/_schemas/person"),
            await api.get("/_schemas/_size"),
        ]

    for reply in replies:
        assert (reply.status, reply.json["message"]) == (404, "Schema Store does not exist")


async def test_the_store_is_removed_like_a_collection(api: Api) -> None:
    assert (await api.patch("/_schemas", {"note": 1})).status == 200
    etag = (await api.get("/_schemas/_meta")).headers["etag"]

    assert (await api.delete("/_schemas")).status == 409
    assert (await api.delete("/_schemas", headers={"If-Match": etag})).status == 204


# --- documents ------------------------------------------------------------------------------------


async def test_post_and_put_are_checked_before_they_are_written(people: Api) -> None:
    good = await people.post("/things", {"_id": "ada", "name": "Ada"})
    bad = await people.post("/things", {"name": 3, "age": -1})
    replaced = await people.put("/things/ada", {"age": 1})

    assert good.status == 201, good.text
    assert bad.status == 400
    assert bad.json["message"].startswith("Request content violates schema 'person': #/")
    assert len(bad.json["details"]) == 2
    assert replaced.status == 400
    assert "name" in replaced.json["message"]
    assert [one["_id"] for one in people.things.find()] == ["ada"]


async def test_an_array_is_written_whole_or_not_at_all(people: Api) -> None:
    reply = await people.post("/things", [{"name": "Ada"}, {"age": 3}])

    assert reply.status == 400
    assert "document at index 1" in reply.json["message"]
    assert people.things.count_documents({}) == 0
    assert (await people.post("/things", [{"name": "Ada"}, {"name": "Bob"}])).status == 200


async def test_a_patch_is_checked_on_the_document_that_it_makes(people: Api) -> None:
    await people.post("/things", {"_id": "ada", "name": "Ada", "age": 1})
    grown = await people.patch("/things/ada", {"$inc": {"age": 1}, "nick": "A"})
    shrunk = await people.patch("/things/ada", {"$inc": {"age": -5}})
    nameless = await people.patch("/things/ada", {"$unset": {"name": ""}})
    stored = people.things.find_one({"_id": "ada"})

    assert grown.status == 200, grown.text
    assert (shrunk.status, nameless.status) == (400, 400)
    assert stored is not None
    assert (stored["age"], stored["name"], stored["nick"]) == (2, "Ada", "A")


async def test_a_message_does_not_show_stored_values(people: Api) -> None:
    people.things.insert_one({"_id": "x", "name": "secret-name", "age": "secret-age"})
    reply = await people.patch("/things/x", {"nick": "n"})

    assert reply.status == 400
    assert "secret" not in reply.text


async def test_updates_that_cannot_be_foreseen_are_refused(people: Api) -> None:
    await people.post("/things", {"_id": "ada", "name": "Ada"})
    many = await people.patch("/things/*", {"age": -1}, filter={"_id": "ada"})
    pipeline = await people.patch("/things/ada", [{"$set": {"age": -1}}])

    assert many.status == 501
    assert many.json["message"] == (
        "'jsonSchema' checker does not support bulk PATCH requests. Set 'skipNotSupported:true' "
        "to allow them."
    )
    assert pipeline.status == 400
    assert "pipeline" in pipeline.json["message"]
    assert "age" not in (people.things.find_one({"_id": "ada"}) or {})


async def test_skip_not_supported_lets_bulk_patches_through(people: Api) -> None:
    await people.post("/things", {"_id": "ada", "name": "Ada"})
    await demand(people, skipNotSupported=True)
    many = await people.patch("/things/*", {"age": -1}, filter={"_id": "ada"})

    assert many.status == 200
    assert many.json["modified"] == 1


async def test_deletes_are_not_checked(people: Api) -> None:
    await people.post("/things", {"_id": "ada", "name": "Ada"})

    assert (await people.delete("/things/ada")).status == 204
    assert (await people.delete("/things/*", filter={"a": 1})).status == 200


async def test_a_changed_schema_counts_at_once(people: Api) -> None:
    await people.post("/things", {"name": "Ada"})
    await store_schema(people, "person", {**PERSON, "required": ["name", "age"]})

    assert (await people.post("/things", {"name": "Bob"})).status == 400


async def test_documents_are_seen_in_their_json_form(api: Api) -> None:
    oid = {"type": "object", "properties": {"$oid": {"type": "string"}}, "required": ["$oid"]}
    schema = {
        "properties": {
            "_id": oid,
            "_etag": oid,
            "at": {"properties": {"$date": {"type": "integer"}}, "required": ["$date"]},
        },
        "additionalProperties": False,
    }
    await store_schema(api, "strict", json.dumps(schema))
    await demand(api, "strict")
    good = await api.post("/things", '{"at": {"$date": 1568295769260}}')
    bad = await api.post("/things", {"other": 1})

    assert good.status == 201, good.text
    assert bad.status == 400


async def test_references_lead_to_other_schemas_of_the_store(api: Api) -> None:
    address = f"http://schema-store/{api.db}"
    await store_schema(api, "defs", {"definitions": {"name": {"type": "string", "minLength": 2}}})
    await store_schema(
        api, "mid", {"properties": {"name": {"$ref": f"{address}/defs#/definitions/name"}}}
    )
    await store_schema(api, "top", {"allOf": [{"$ref": f"{address}/mid#"}]})
    await demand(api, "top")

    assert (await api.post("/things", {"name": "Ada"})).status == 201
    assert (await api.post("/things", {"name": "A"})).status == 400
    dangling = await api.post("/_schemas", {"$ref": f"{address}/none#"})
    assert dangling.status == 400


async def test_draft_2020_12_is_understood(api: Api) -> None:
    schema = {
        "$schema": DRAFT_2020,
        "properties": {"pair": {"prefixItems": [{"type": "string"}], "items": False}},
    }
    await store_schema(api, "x", schema)
    await demand(api, "x")

    assert (await api.post("/things", {"pair": ["a"]})).status == 201
    assert (await api.post("/things", {"pair": ["a", 1]})).status == 400


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({}, "jsonSchema: missing property schemaId"),
        ("x", "jsonSchema: must be an object with schemaId"),
        ({"schemaId": "x", "schemaStoreDb": 3}, "jsonSchema.schemaStoreDb: must be a text"),
        ({"schemaId": "x", "skip": True}, "jsonSchema.skip: is not known"),
    ],
)
async def test_a_wrong_setting_is_refused_when_it_is_written(
    api: Api, setting: Any, message: str
) -> None:
    reply = await api.put("/things", {"jsonSchema": setting})

    assert (reply.status, reply.json["message"]) == (400, message)


async def test_a_schema_that_is_not_there_is_a_warning_and_then_a_conflict(api: Api) -> None:
    warned = await api.put("/things", {"jsonSchema": {"schemaId": "none"}})
    refused = await api.post("/things", {"a": 1})

    assert warned.status == 200
    assert warned.json == {
        "_warnings": [f"jsonSchema.schemaId: schema {api.db}/_schemas/none does not exist"]
    }
    assert refused.status == 409
    assert refused.json["message"] == (
        f"wrong 'jsonSchema': schema {api.db}/_schemas/none not found"
    )


async def test_a_schema_may_be_in_another_database(api: Api, database: str) -> None:
    api.mongo[database]["_schemas"].insert_one({"_id": "n", "required": ["n"]})
    await demand(api, "n", schemaStoreDb=database)

    assert (await api.post("/things", {"a": 1})).status == 400
    assert (await api.post("/things", {"n": 1})).status == 201


async def test_without_the_library_nothing_is_let_through(
    people: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    await people.patch("/", {"n": 1})  # forget what is compiled
    document = await people.post("/things", {"name": "Ada"})
    schema = await people.post("/_schemas", PERSON)
    setting = await people.put("/things", {"jsonSchema": {"schemaId": "person"}})

    for reply in (document, schema, setting):
        assert reply.status == 501
        assert reply.json["message"] == "JSON schemas need the package jsonschema-rs"
        assert "docgraph[schema]" in reply.json["hint"]
    assert people.things.count_documents({}) == 0


async def test_writers_of_one_document_without_an_etag_all_succeed(people: Api) -> None:
    people.things.insert_one({"_id": "x", "name": "Ann", "age": 0})

    replies = await asyncio.gather(
        *(people.patch("/things/x", {"$inc": {"age": 1}}) for _ in range(60))
    )

    assert [reply.status for reply in replies] == [200] * 60
    assert people.things.find_one()["age"] == 60


async def test_writers_on_two_instances_all_succeed(
    people: Api, mongo_client: Mongo, mongo_uri: str
) -> None:
    people.things.insert_one({"_id": "x", "name": "Ann", "age": 0})
    own = [{"what": f"/{people.db}", "where": "/"}]
    async with serving(mongo_client, mongo_uri, mounts=own) as other:
        replies = await asyncio.gather(
            *(
                one.patch("/things/x", {"$inc": {"age": 1}})
                for one in (people, other)
                for _ in range(30)
            )
        )

    assert [reply.status for reply in replies] == [200] * 60
    assert people.things.find_one()["age"] == 60


async def test_writers_who_create_one_document_all_succeed(people: Api) -> None:
    body = {"name": "Ann", "$inc": {"age": 1}}

    replies = await asyncio.gather(
        *(people.patch("/things/x", body, wm="upsert") for _ in range(30))
    )

    assert sorted(reply.status for reply in replies) == [200] * 29 + [201]
    assert people.things.find_one()["age"] == 30


async def test_of_many_patches_with_one_etag_one_wins(people: Api) -> None:
    etag = (await people.post("/things", {"_id": "x", "name": "Ann"})).headers["etag"]

    replies = await asyncio.gather(
        *(people.patch("/things/x", {"age": n}, headers={"if-match": etag}) for n in range(20))
    )

    assert sorted(reply.status for reply in replies) == [200] + [412] * 19


@pytest.mark.parametrize("mode", ["insert", "update", "upsert"])
async def test_a_patch_that_must_not_find_the_document_is_412(people: Api, mode: str) -> None:
    await people.post("/things", {"_id": "x", "name": "Ann"})

    reply = await people.patch("/things/x", {"age": 1}, headers={"if-none-match": "*"}, wm=mode)

    assert (reply.status, "age" in people.things.find_one()) == (412, False)


async def test_a_created_document_that_collides_with_another_is_409(people: Api) -> None:
    people.things.create_index("name", unique=True)
    await people.post("/things", {"_id": "x", "name": "Ann"})

    reply = await people.patch("/things/y", {"name": "Ann"}, wm="upsert")

    assert reply.status == 409


async def test_writers_of_the_metadata_without_an_etag_all_succeed(api: Api) -> None:
    replies = await asyncio.gather(*(api.patch("/things", {"$inc": {"n": 1}}) for _ in range(40)))

    assert [reply.status for reply in replies] == [200] * 40
    assert (await api.get("/things/_meta")).json["n"] == 40
