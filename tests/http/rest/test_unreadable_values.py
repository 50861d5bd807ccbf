"""Values that nobody could read: refused on the way in, shown as their bytes on the way out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import bson
import pytest
from bson import Binary
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument

from docgraph.exchange import Deadline
from docgraph.observe.events import UnreadableValue
from docgraph.store.driver import fast_path, portions
from tests.http.access_harness import ADA, ADMIN, guarded
from tests.http.harness import Mongo, Service, build_definition, listening
from tests.http.hosts import module_application
from tests.http.rest_harness import Api, serving

pytestmark = [pytest.mark.anyio, pytest.mark.json]

BAD = Binary(b"\0", 4)
SHOWN = {"$binary": {"base64": "AA==", "subType": "04"}}


def spoilt(document: dict[str, Any]) -> Any:
    """The document with bytes that are not UTF-8 in place of `????`."""
    return RawBSONDocument(bson.encode(document).replace(b"????", b"\xff\xfe\xfd\xfc"))


@module_application
async def api(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Api]:
    async with serving(mongo_client, mongo_uri) as one:
        await one.service.there(one.service.app.store.available())
        assert (await one.put("/gql-apps")).status == 201
        yield one


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    quick = {"dbAclAuthorizer": {"cache-enabled": False}}
    async with guarded(mongo_client, mongo_uri, quick) as one:
        for name in ("things", "users", "acl"):
            await one.request("PUT", f"/{name}", headers=ADMIN)
        yield one


# --- in -------------------------------------------------------------------------------------------

UNREADABLE = (
    '{"$binary": {"base64": "AA==", "subType": "04"}}',
    '{"$binary": {"base64": "AA==", "subType": "4"}}',
    '{"$binary": {"base64": "AA==", "subType": "03"}}',
    '{"$binary": {"base64": "", "subType": "03"}}',
    '{"$binary": {"base64": "AAECAwQFBgcICQoLDA0ODxA=", "subType": "04"}}',
    '{"$binary": "AA==", "$type": "04"}',
    'BinData(4, "AA==")',
    'HexData(3, "00")',
)


@pytest.mark.parametrize("value", UNREADABLE)
async def test_a_value_that_cannot_be_read_back_is_not_stored(api: Api, value: str) -> None:
    for method, path, body in (
        ("POST", "/things", f'{{"v": {value}}}'),
        ("POST", "/things", f'[{{"v": 1}}, {{"v": [{{"w": {value}}}]}}]'),
        ("POST", "/things", f'{{"_id": {value}}}'),
        ("PUT", "/things/x?wm=upsert", f'{{"v": {value}}}'),
        ("PATCH", "/things/x?wm=upsert", f'{{"$push": {{"v": {value}}}}}'),
        ("PATCH", "/things/x?wm=upsert", f'[{{"$set": {{"v": {value}}}}}]'),
        ("PATCH", '/things/*?filter={"a":1}', f'{{"v": {value}}}'),
        ("PUT", "/things", f'{{"v": {value}}}'),
        ("PATCH", "/things", f'{{"v": {value}}}'),
        ("PUT", "/", f'{{"v": {value}}}'),
        ("PUT", "/things/_indexes/i", f'{{"keys": {{"a": 1}}, "ops": {{"min": {value}}}}}'),
        ("POST", "/gql-apps", f'{{"_id": "x", "schema": "", "mappings": {value}}}'),
    ):
        reply = await api.send(method, path, body)
        assert reply.status == 400, (method, path, reply.text)
    assert api.things.count_documents({}) == 0


@pytest.mark.parametrize("value", UNREADABLE)
async def test_nor_can_it_be_asked_for(api: Api, value: str) -> None:
    condition = f'{{"v": {value}}}'
    for path, parameters in (
        ("/things", {"filter": condition}),
        ("/things/_size", {"filter": condition}),
        ("/things/_aggrs/a", {"avars": condition}),
        ("/things/x", {"shardkey": condition}),
    ):
        reply = await api.get(path, **parameters)
        assert reply.status == 400 or path.endswith("/a"), reply.text


async def test_a_real_uuid_is_stored(api: Api) -> None:
    value = '{"$binary": {"base64": "AAECAwQFBgcICQoLDA0ODw==", "subType": "04"}}'
    assert (await api.post("/things", f'{{"_id": "u", "v": {value}}}')).status == 201
    assert (await api.get("/things/u")).status == 200
    assert (await api.delete("/things/u")).status == 204


async def test_rules_and_users_with_it_are_not_stored(server: Service) -> None:
    who = '"predicate": "path-prefix(\'/x\')", "roles": ["a"]'
    rule = f'{{{who}, "mongo": {{"readFilter": {{"v": {UNREADABLE[0]}}}}}}}'
    user = f'{{"_id": "eve", "password": "secret word", "roles": [], "v": {UNREADABLE[0]}}}'
    headers = {**ADMIN, "content-type": "application/json"}
    for path, body in (("/acl", rule), ("/users", user)):
        reply = await server.request("POST", path, headers=headers, content=body)
        assert reply.status == 400, reply.text


# --- out ------------------------------------------------------------------------------------------


async def test_one_unreadable_value_takes_no_page_down(api: Api) -> None:
    api.things.insert_many([{"_id": 1, "a": "ok"}, {"_id": 2, "v": {"w": [BAD]}, "b": 1}])
    api.things.insert_one(spoilt({"_id": 3, "t": "????", "????": 5, "a": "ok"}))
    try:
        with listening(UnreadableValue) as heard:
            reply = await api.get("/things", sort="_id")
        one, two, three = reply.json
        assert (reply.status, one) == (200, {"_id": 1, "a": "ok"})
        assert two == {"_id": 2, "v": {"w": [SHOWN]}, "b": 1}
        assert three == {
            "_id": 3,
            "t": {"$binary": {"base64": "//79/A==", "subType": "00"}},
            "\\xff\\xfe\\xfd\\xfc": 5,
            "a": "ok",
        }
        told = [(event.db, event.collection, event.id, event.path, event.values) for event in heard]
        assert (api.db, "things", "2", "v.w.0", 1) in told
        assert (api.db, "things", "3", "t", 2) in told
        assert (await api.get("/things/2", id_type="NUMBER")).json["v"] == {"w": [SHOWN]}
    finally:
        api.things.delete_many({})


@pytest.mark.parametrize("path", ["/things?", "/things?after=&", "/things?sort=n&after=&"])
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("in_portions", [False, True], ids=["at once", "in portions"])
async def test_pages_lead_past_ids_that_cannot_be_read(
    api: Api, monkeypatch: pytest.MonkeyPatch, path: str, size: int, in_portions: bool
) -> None:
    """What stands for such an id is another value, which has another place in the order."""
    if in_portions:  # of one document each
        monkeypatch.setattr(fast_path, "LARGE", 0)
        monkeypatch.setattr(portions, "PORTION", 1)
    ids = [1, "????", "a", "????b", {"k": "????"}, {"????": 1}, BAD, True]
    api.things.insert_many([spoilt({"_id": id, "n": n % 2}) for n, id in enumerate(ids)])
    expected = [str(one["_id"]) for one in (await api.get("/things")).response.json()]

    found: list[str] = []
    following: str | None = f"{path}pagesize={size}"
    while following and len(found) < 20:
        reply = await api.get(following)
        assert reply.status == 200, reply.text
        found += [str(one["_id"]) for one in reply.response.json()]
        link = reply.headers.get("link")
        following = None if link is None else link[1 : link.index(">")]
    api.things.delete_many({})

    assert sorted(found) == sorted(expected)
    assert len(expected) == 8


async def test_nor_by_the_way_of_the_driver(mongo_client: Mongo, mongo_uri: str) -> None:
    """Some options of the connection turn the fast path off."""
    mark = "&" if "?" in mongo_uri else "/?"
    async with serving(mongo_client, f"{mongo_uri}{mark}socketTimeoutMS=60000") as api:
        api.things.insert_many([{"_id": 1, "v": BAD}, {"_id": 2, "v": "ok"}])
        with listening(UnreadableValue) as heard:
            reply = await api.get("/things", sort="_id")
        assert (reply.status, [one["v"] for one in reply.json]) == (200, [SHOWN, "ok"])
        assert [(event.collection, event.id) for event in heard] == [("things", "1")]


async def test_nor_an_answer_of_several_batches(api: Api) -> None:
    large = "x" * (9 << 20)
    api.things.insert_many([{"_id": 1, "v": BAD, "l": large}, {"_id": 2, "v": "ok", "l": large}])
    try:
        with listening(UnreadableValue) as heard:
            found = await api.service.there(
                api.service.app.store.find(
                    api.db, "things", {}, limit=10, deadline=Deadline.after_ms(60_000)
                )
            )
        assert [one["v"] for one in found] == [BAD, "ok"]
        assert {(event.collection, event.id) for event in heard} == {("things", "1")}
    finally:
        api.things.delete_many({})


async def test_graphql_and_aggregations_show_what_can_be_read(api: Api) -> None:
    api.things.insert_many([{"_id": 1, "name": "a", "v": BAD}, {"_id": 2, "name": "b"}])
    schema = "type Query { items: [Item] } type Item { name: String doc: BsonDocument }"
    stages = [{"$sort": {"_id": 1}}, {"$set": {"doc": {"v": "$v"}}}]
    mapping = {"db": api.db, "collection": "things", "stages": stages}
    definition = build_definition("raw", schema, {"Query": {"items": mapping}})
    try:
        assert (await api.post("/gql-apps", definition)).status == 201
        answer = await api.service.query("raw", "{ items { name doc } }")
        assert answer.data == {
            "items": [{"name": "a", "doc": {"v": SHOWN}}, {"name": "b", "doc": {}}]
        }
        aggrs = {"aggrs": [{"uri": "a", "stages": [{"$group": {"_id": "$v"}}]}]}
        assert (await api.put("/things", aggrs)).status == 200
        groups = (await api.get("/things/_aggrs/a")).json
        assert {"_id": SHOWN} in groups
    finally:
        api.things.delete_many({})


async def test_a_checked_patch_leaves_it_as_it_is_stored(api: Api) -> None:
    """The document is read, patched and replaced; what nobody could read is not what was read."""
    await api.put("/_schemas")
    await api.put("/_schemas/any?wm=upsert", {"type": "object"})
    await api.put("/checked", {"jsonSchema": {"schemaId": "any"}})
    raw = CodecOptions(document_class=RawBSONDocument)
    checked = api.mongo[api.db].get_collection("checked", codec_options=raw)
    document = {"_id": "x", "a": "????", "b::c": BAD, "d": {"e": "????"}, "n": 1}
    checked.insert_one(spoilt(document))

    reply = await api.patch("/checked/x", {"n": 2})
    found: Any = checked.find_one({"_id": "x"})
    repaired = await api.patch("/checked/x", {"a": "text"})

    assert (reply.status, repaired.status) == (200, 200), (reply.text, repaired.text)
    assert found is not None
    for name in ("a", "b::c", "d"):
        assert spoilt({name: document[name]}).raw[4:-1] in found.raw
    (shown,) = (await api.get("/checked")).response.json()
    assert (shown["a"], shown["n"]) == ("text", 2)


async def test_metadata_with_it_are_repaired_by_put(api: Api) -> None:
    metadata = api.mongo[api.db]["_properties"]
    for id, path in (("_properties.things", "/things"), ("_properties", "/")):
        metadata.replace_one({"_id": id}, {"v": BAD, "w": 1}, upsert=True)
        shown = await api.get(f"{path.rstrip('/')}/_meta", nocache="")
        assert (shown.status, shown.json["v"]) == (200, SHOWN)
        assert (await api.get("/things", nocache="")).status == 200
        assert (await api.put(path, {"w": 2})).status == 200
        assert "v" not in (await api.get(f"{path.rstrip('/')}/_meta")).json


async def test_a_rule_with_it_is_repaired_by_put_and_delete(server: Service) -> None:
    rules = server.mongo[server.db]["acl"]
    rule = {"predicate": "path-prefix('/things')", "roles": ["user"]}
    rules.insert_one({"_id": "r", **rule, "mongo": {"readFilter": {"v": BAD}}})
    rules.insert_one(spoilt({"_id": "s", **rule, "note": "????"}))
    assert (await server.request("GET", "/things", headers=ADA)).status == 200
    put = await server.request("PUT", "/acl/r", headers=ADMIN, json=rule)
    assert put.status == 200, put.text
    assert (await server.request("DELETE", "/acl/s", headers=ADMIN)).status == 204
    assert (await server.request("GET", "/things", headers=ADA)).status == 200
    rules.delete_many({})


async def test_a_user_with_it_is_repaired_by_put_and_delete(server: Service) -> None:
    users = server.mongo[server.db]["users"]
    users.insert_many([{"_id": "u", "v": BAD, "roles": []}, {"_id": "w", "v": BAD, "roles": []}])
    listed = await server.request("GET", "/users", headers=ADMIN)
    assert (listed.status, listed.json[0]["v"]) == (200, SHOWN)
    body = {"password": "quite a secret word 17", "roles": ["user"]}
    put = await server.request("PUT", "/users/u", headers=ADMIN, json=body)
    assert put.status == 200, put.text
    assert (await server.request("DELETE", "/users/w", headers=ADMIN)).status == 204
    assert [one["_id"] for one in users.find()] == ["u"]
    users.delete_many({})


async def test_change_streams_go_on_behind_it(api: Api) -> None:
    async def watch() -> list[Any]:
        seen = []
        events = api.service.app.store.streams.watch(api.db, "streamed")
        async with events:
            collection = api.mongo[api.db]["streamed"]
            collection.insert_one({"_id": 1, "v": BAD})
            collection.insert_one({"_id": 2, "v": "ok"})
            async for event in events:
                seen.append(event["fullDocument"])
                if len(seen) == 2:
                    assert isinstance(events.resume_token, dict)
                    return seen
        return seen

    assert await api.service.there(watch()) == [{"_id": 1, "v": BAD}, {"_id": 2, "v": "ok"}]
