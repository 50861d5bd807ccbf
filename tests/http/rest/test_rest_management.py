"""Databases and collections made, described and removed (rest-behaviour 1.3, 3.6, 5.1)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from docgraph.codec.bson_types import ObjectId
from tests.databases import drop, new_name
from tests.http.harness import Mongo
from tests.http.rest_harness import Api, serving

pytestmark = pytest.mark.anyio


def collections_of(api: Api) -> set[str]:
    return set(api.mongo[api.db].list_collection_names())


def metadata_of(api: Api, id: str) -> dict[str, object] | None:
    found: dict[str, object] | None = api.mongo[api.db]["_properties"].find_one({"_id": id})
    return found


# --- collections ----------------------------------------------------------------------------------


async def test_put_creates_a_collection_once_and_then_describes_it(api: Api) -> None:
    first = await api.put("/coll", {"note": "one", "kept": True})
    second = await api.put("/coll", {"note": "two"})

    assert (first.status, first.text) == (201, "")
    assert (second.status, second.text) == (200, "")
    assert first.headers["etag"] != second.headers["etag"]
    assert "coll" in collections_of(api)
    stored = metadata_of(api, "_properties.coll")
    assert stored is not None
    assert stored["note"] == "two"
    assert "kept" not in stored
    assert str(stored["_etag"]) == second.headers["etag"]


async def test_put_needs_no_body_and_its_id_is_ignored(api: Api) -> None:
    assert (await api.put("/bare")).status == 201
    assert (await api.put("/other", {"_id": "x", "a": 1})).status == 201

    assert metadata_of(api, "_properties.other")["a"] == 1  # type: ignore[index]
    assert metadata_of(api, "x") is None


async def test_a_new_collection_is_served_at_once(api: Api) -> None:
    assert (await api.get("/coll")).status == 404
    await api.put("/coll")
    posted = await api.post("/coll", {"_id": 1})
    listed = await api.get("/")

    assert posted.status == 201
    assert "coll" in listed.json
    assert "_properties" not in listed.json


async def test_a_body_that_is_no_object_is_refused_before_anything_is_made(api: Api) -> None:
    array = await api.put("/coll", [{"a": 1}])
    scalar = await api.put("/coll", "3")

    assert (array.status, array.json["message"]) == (400, "data must be a json object")
    assert scalar.status == 400
    assert "coll" not in collections_of(api)


async def test_operators_are_for_patch_only(api: Api) -> None:
    reply = await api.put("/coll", {"$set": {"a": 1}})

    assert reply.status == 400
    assert "update operators" in reply.json["message"]


async def test_a_collection_made_elsewhere_is_described_by_put(api: Api) -> None:
    reply = await api.put("/things", {"a": 1})

    assert reply.status == 200
    assert (await api.get("/things/_meta")).json["a"] == 1


async def test_patch_merges_with_dotted_keys_and_operators(api: Api) -> None:
    await api.put("/coll", {"a": {"x": 1, "y": 2}, "b": 1, "list": [1]})
    patched = await api.patch(
        "/coll", {"a.x": 5, "new": True, "$unset": {"b": ""}, "$push": {"list": 2}}
    )
    reply = await api.get("/coll/_meta")

    assert (patched.status, patched.text) == (200, "")
    assert reply.headers["etag"] == patched.headers["etag"]
    del reply.json["_etag"]
    assert reply.json == {"_id": "_meta", "a": {"x": 5, "y": 2}, "new": True, "list": [1, 2]}


async def test_patch_of_what_is_not_there_is_404_and_an_empty_one_400(api: Api) -> None:
    missing = await api.patch("/missing", {"a": 1})
    empty = await api.patch("/things", {})

    assert (missing.status, missing.json["message"]) == (404, "Collection 'missing' does not exist")
    assert (empty.status, empty.json["message"]) == (400, "no data provided")


async def test_patch_describes_a_collection_without_metadata(api: Api) -> None:
    assert (await api.patch("/things", {"a": 1})).status == 200
    assert (await api.get("/things/_meta")).json["a"] == 1


async def test_patches_of_many_at_once_are_all_there_afterwards(api: Api) -> None:
    await api.put("/coll")
    replies = await asyncio.gather(*(api.patch("/coll", {f"p{n}": n}) for n in range(5)))

    assert {reply.status for reply in replies} == {200}
    stored = metadata_of(api, "_properties.coll")
    assert stored is not None
    assert {key: stored[key] for key in stored if key.startswith("p")} == {
        f"p{n}": n for n in range(5)
    }


async def test_delete_needs_the_etag(api: Api) -> None:
    etag = (await api.put("/coll")).headers["etag"]

    without = await api.delete("/coll")
    wrong = await api.delete("/coll", headers={"If-Match": str(ObjectId())})
    assert "coll" in collections_of(api)
    right = await api.delete("/coll", headers={"If-Match": etag})

    assert (without.status, without.headers["etag"]) == (409, etag)
    assert without.json["message"] == "The ETag must be provided using the 'If-Match' header"
    assert (wrong.status, wrong.text, wrong.headers["etag"]) == (412, "", etag)
    assert (right.status, right.text) == (204, "")
    assert "coll" not in collections_of(api)
    assert metadata_of(api, "_properties.coll") is None
    assert (await api.get("/coll")).status == 404


async def test_delete_needs_no_etag_where_none_is_stored(api: Api) -> None:
    assert (await api.delete("/things")).status == 204
    assert (await api.delete("/things")).status == 404


async def test_any_existing_etag_will_do_with_a_star(api: Api) -> None:
    await api.put("/coll")

    assert (await api.delete("/coll", headers={"If-Match": "*"})).status == 204


async def test_put_with_a_wrong_etag_changes_nothing(api: Api) -> None:
    etag = (await api.put("/coll", {"a": 1})).headers["etag"]
    wrong = await api.put("/coll", {"a": 2}, headers={"If-Match": str(ObjectId())})
    patched = await api.patch("/coll", {"a": 3}, headers={"If-Match": str(ObjectId())})

    assert (wrong.status, wrong.text, wrong.headers["etag"]) == (412, "", etag)
    assert (patched.status, patched.headers["etag"]) == (412, etag)
    assert (await api.get("/coll/_meta")).json["a"] == 1
    right = await api.put("/coll", {"a": 2}, headers={"If-Match": f'"{etag}"'})
    assert right.status == 200


async def test_of_many_with_the_same_etag_one_wins(api: Api) -> None:
    etag = (await api.put("/coll")).headers["etag"]
    replies = await asyncio.gather(
        *(api.put("/coll", {"n": n}, headers={"If-Match": etag}) for n in range(20))
    )

    assert sorted(reply.status for reply in replies) == [200] + [412] * 19


async def test_the_policy_of_the_metadata_overrides_the_configured_one(api: Api) -> None:
    etag = (await api.put("/coll", {"etagPolicy": "required"})).headers["etag"]
    demanded = await api.put("/coll", {"a": 1})
    patched = await api.patch("/coll", {"a": 1})
    given = await api.put("/coll", {"etagPolicy": "OPTIONAL"}, headers={"If-Match": etag})

    assert (demanded.status, demanded.headers["etag"]) == (409, etag)
    assert demanded.json["message"] == (
        "The collection's ETag must be provided using the 'If-Match' header."
    )
    assert patched.status == 409
    assert patched.json["message"] == "The ETag must be provided using the 'If-Match' header"
    assert given.status == 200
    assert (await api.delete("/coll")).status == 204


async def test_the_policy_of_the_database_holds_for_its_collections(api: Api) -> None:
    await api.put("/", {"etagPolicy": "OPTIONAL", "etagDocPolicy": "REQUIRED"})
    await api.put("/coll")
    await api.post("/coll", {"_id": "x"})

    assert (await api.put("/coll/x", {"a": 1})).status == 409
    await api.patch("/coll", {"etagDocPolicy": "OPTIONAL"})
    assert (await api.put("/coll/x", {"a": 1})).status == 200
    assert (await api.delete("/coll")).status == 204


async def test_check_etag_demands_one_whatever_the_policy(api: Api) -> None:
    await api.put("/coll")

    assert (await api.put("/coll", {}, checkEtag="")).status == 409


@pytest.mark.parametrize("value", ["sometimes", 1, None])
async def test_an_unknown_etag_policy_is_refused(api: Api, value: object) -> None:
    reply = await api.put("/coll", {"etagPolicy": value})

    assert reply.status == 400
    assert reply.json["message"].startswith("etagPolicy: must be one of REQUIRED")
    assert "coll" not in collections_of(api)


@pytest.mark.parametrize("name", ["system.x", "x.chunks", "_properties"])
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
async def test_reserved_collections_are_out_of_reach(api: Api, method: str, name: str) -> None:
    reply = await api.send(method, f"/{name}", {"a": 1} if method != "GET" else None)

    assert (reply.status, reply.json["message"]) == (403, "reserved resource")


async def test_names_that_cannot_be_are_400(api: Api) -> None:
    dollar = await api.put("/a$b")
    long = await api.put("/" + "x" * 300)

    assert dollar.status == 400
    assert dollar.json["message"].startswith("illegal collection name")
    assert long.status == 400


async def test_a_collection_with_an_underscore_can_be_made_and_not_patched(api: Api) -> None:
    assert (await api.put("/_own")).status == 201
    reply = await api.patch("/_own", {"a": 1})

    assert reply.status == 400
    assert reply.json["message"] == (
        "wrong request, collection name cannot be empty or start with _"
    )


async def test_the_etag_of_a_collection_comes_with_its_documents(api: Api) -> None:
    etag = (await api.put("/things", {"a": 1})).headers["etag"]

    assert (await api.get("/things")).headers["etag"] == etag
    assert (await api.get("/things/_size")).headers["etag"] == etag


# --- metadata -------------------------------------------------------------------------------------


async def test_meta_shows_what_was_written(api: Api) -> None:
    etag = (await api.put("/coll", {"a": {"b.c": 1, "$d": 2}})).headers["etag"]
    reply = await api.get("/coll/_meta")

    assert reply.status == 200
    assert reply.headers["etag"] == etag
    assert reply.json == {"_id": "_meta", "a": {"b.c": 1, "$d": 2}, "_etag": {"$oid": etag}}
    stored = metadata_of(api, "_properties.coll")
    assert stored is not None
    assert stored["a"] == {"b::c": 1, "_$d": 2}


async def test_missing_metadata_is_404(api: Api) -> None:
    collection = await api.get("/things/_meta")
    database = await api.get("/_meta")
    await api.put("/_schemas")
    api.mongo[api.db]["_properties"].delete_many({})
    store = await api.get("/_schemas/_meta", nocache="")

    assert collection.status == 404
    assert collection.json["message"] == "resource _meta is not defined for this collection."
    assert database.json["message"] == "resource _meta is not defined for this db."
    assert store.json["message"] == "resource _meta is not defined for this schema store."
    assert (await api.get("/missing/_meta")).json["message"] == (
        "Collection 'missing' does not exist"
    )


async def test_meta_is_read_only(api: Api) -> None:
    reply = await api.put("/things/_meta", {})

    assert (reply.status, reply.json["message"]) == (405, "method PUT not allowed")


async def test_metadata_is_kept_until_it_changes_here(mongo_client: Mongo, mongo_uri: str) -> None:
    async with serving(mongo_client, mongo_uri) as api:
        await api.service.app._tasks.stop("collectionsUpdater")  # no news, not even of its own
        await api.put("/coll", {"n": 1})
        assert (await api.get("/coll/_meta")).json["n"] == 1
        stored = api.mongo[api.db]["_properties"]
        stored.update_one({"_id": "_properties.coll"}, {"$set": {"n": 2}})

        assert (await api.get("/coll/_meta")).json["n"] == 1
        assert (await api.get("/coll/_meta", nocache="")).json["n"] == 2
        await api.patch("/coll", {"n": 3})
        assert (await api.get("/coll/_meta")).json["n"] == 3


async def test_without_a_cache_changes_elsewhere_are_seen_at_once(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    off = {"mongo": {"local-cache-enabled": False}}
    async with serving(mongo_client, mongo_uri) as one:
        mounted = [{"what": f"/{one.db}", "where": "/"}]
        async with serving(mongo_client, mongo_uri, off, mounts=mounted) as other:
            await one.put("/coll", {"n": 1})
            assert (await other.get("/coll/_meta")).json["n"] == 1
            await one.put("/coll", {"n": 2})
            assert (await other.get("/coll/_meta")).json["n"] == 2


# --- databases ------------------------------------------------------------------------------------


async def test_the_mounted_database_is_described_at_the_root(api: Api) -> None:
    put = await api.put("/", {"note": "mine"})
    meta = await api.get("/_meta")
    patched = await api.patch("/", {"more": 1})

    assert (put.status, patched.status) == (200, 200)
    assert meta.json["note"] == "mine"
    assert meta.headers["etag"] == put.headers["etag"]
    assert (await api.get("/")).headers["etag"] == patched.headers["etag"]
    assert metadata_of(api, "_properties")["more"] == 1  # type: ignore[index]


async def test_deleting_a_database_needs_its_etag_and_takes_everything(api: Api) -> None:
    etag = (await api.put("/", {})).headers["etag"]
    without = await api.delete("/")
    wrong = await api.delete("/", headers={"If-Match": "wrong"})
    assert "things" in collections_of(api)
    right = await api.delete("/", headers={"If-Match": etag})

    assert (without.status, without.headers["etag"]) == (409, etag)
    assert without.json["message"] == (
        "The database's ETag must be provided using the 'If-Match' header."
    )
    assert (wrong.status, wrong.text) == (412, "")
    assert (right.status, right.text) == (204, "")
    assert api.db not in api.mongo.list_database_names()
    assert (await api.get("/")).status == 404


async def test_a_database_named_by_a_mount_need_not_exist(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    db = new_name()
    mounts = [{"what": f"/{db}", "where": "/"}]
    try:
        async with serving(mongo_client, mongo_uri, mounts=mounts) as api:
            assert (await api.put("/gql-apps")).status == 201
            assert (await api.get("/")).json == ["gql-apps"]
    finally:
        drop(mongo_client, db)


async def test_databases_below_a_mount_of_all(mongo_client: Mongo, mongo_uri: str) -> None:
    db = new_name()
    mounts = [{"what": "*", "where": "/"}]
    try:
        async with serving(mongo_client, mongo_uri, mounts=mounts) as api:
            orphan = await api.put(f"/{db}/coll")
            missing = await api.patch(f"/{db}", {"a": 1})
            created = await api.put(f"/{db}", {"a": 1})
            inside = await api.put(f"/{db}/coll")
            listed = await api.get("/", pagesize="1000")
            etag = (await api.get(f"/{db}/_meta")).headers["etag"]
            gone = await api.delete(f"/{db}", headers={"If-Match": etag})

        assert (orphan.status, orphan.json["message"]) == (404, f"Db '{db}' does not exist")
        assert missing.status == 404
        assert (created.status, inside.status) == (201, 201)
        assert db in listed.json
        assert not {"admin", "config", "local"} & set(listed.json)
        assert gone.status == 204
        assert db not in mongo_client.list_database_names()
    finally:
        drop(mongo_client, db)


@pytest.mark.parametrize("name", ["admin", "Config", "LOCAL", "system.x"])
async def test_databases_of_the_server_are_reserved(
    mongo_client: Mongo, mongo_uri: str, name: str
) -> None:
    async with serving(mongo_client, mongo_uri, mounts=[{"what": "*", "where": "/"}]) as api:
        reply = await api.put(f"/{name}")

    assert (reply.status, reply.json["message"]) == (403, "reserved resource")


@pytest.mark.parametrize("name", ["a%20b", "a.b", "a%22b", "x" * 65])
async def test_database_names_that_cannot_be_are_400(
    mongo_client: Mongo, mongo_uri: str, name: str
) -> None:
    async with serving(mongo_client, mongo_uri, mounts=[{"what": "*", "where": "/"}]) as api:
        reply = await api.put(f"/{name}")

    assert reply.status == 400
    assert reply.json["message"].startswith("illegal database name")


# --- services win ---------------------------------------------------------------------------------


async def test_a_collection_in_the_shadow_of_a_service_is_not_made(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    """Decision 41: paths of services win, and creating a shadowed collection is 403."""
    db = new_name()
    mounts = [{"what": f"/{db}", "where": "/"}, {"what": f"/{db}", "where": "/data"}]
    try:
        async with serving(mongo_client, mongo_uri, mounts=mounts) as api:
            shadowed = await api.put("/data/ping")
            fine = await api.put("/data/pings")

        assert shadowed.status == 403
        assert shadowed.json["message"] == (
            "reserved resource: /ping belongs to the service at /ping"
        )
        assert fine.status == 201
        assert "ping" not in mongo_client[db].list_collection_names()
    finally:
        drop(mongo_client, db)


async def test_services_answer_at_their_paths_whatever_the_method(api: Api) -> None:
    api.mongo[api.db]["ping"].insert_one({"_id": 1})

    assert "message" in (await api.get("/ping")).json
    assert (await api.put("/ping")).status == 405


async def test_docs_is_left_to_a_collection(api: Api) -> None:
    """Decision 46."""
    assert (await api.put("/docs")).status == 201
    assert (await api.get("/docs")).json == []


@pytest.mark.parametrize("name", ["checkContentSize", "addRequestProperties"])
async def test_properties_that_would_have_no_effect_are_refused(api: Api, name: str) -> None:
    made = await api.put("/made", {name: {"max": 10}})
    patched = await api.patch("/things", {name: {"max": 10}})

    for reply in (made, patched):
        assert (reply.status, reply.json["code"]) == (501, "not-supported")
        assert name in reply.json["message"]
    assert "made" not in (await api.get("/")).json


async def test_such_a_property_that_is_stored_can_be_taken_away(api: Api) -> None:
    stored = {"_id": "_properties.things", "checkContentSize": {"max": 10}, "a": 1}
    api.mongo[api.db]["_properties"].insert_one(stored)

    reply = await api.patch("/things", {"$unset": {"checkContentSize": ""}})

    assert reply.status == 200
    assert "checkContentSize" not in (await api.get("/things/_meta")).json


@pytest.mark.parametrize("name", ["health", "access"])
async def test_a_collection_above_the_path_of_a_service_is_403(api: Api, name: str) -> None:
    """Decision 41; the mount of this application is a template."""
    reply = await api.put(f"/{name}")

    assert (reply.status, reply.json["code"]) == (403, "reserved-resource")
    assert name not in (await api.get("/")).json
    assert (await api.put(f"/{name}s")).status == 201


async def test_a_database_above_the_path_of_a_service_is_403(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    mounts = [{"what": "*", "where": "/"}, {"what": "*", "where": "/all"}]
    async with serving(mongo_client, mongo_uri, mounts=mounts) as api:
        for path in ("/health", "/all/health", "/all/ping"):
            assert (await api.put(path)).status == 403
        assert (await api.put(f"/{api.db}/health")).status == 201


@pytest.mark.parametrize("name", ["photos.files", "photos.chunks"])
async def test_the_collections_of_a_file_store_are_reserved(api: Api, name: str) -> None:
    api.mongo[api.db][name].insert_one({"_id": 1})

    for method, path in (("GET", ""), ("PUT", ""), ("POST", ""), ("DELETE", ""), ("GET", "/1")):
        body: Any = {} if method in ("PUT", "POST") else None
        assert (await api.send(method, f"/{name}{path}", body)).status == 403
    assert name not in (await api.get("/")).json


@pytest.mark.parametrize("name", ["csv", "ic"])
async def test_paths_of_services_that_there_are_not_do_not_invite_to_make_a_collection(
    api: Api, name: str
) -> None:
    reply = await api.post(f"/{name}", {"a": 1})

    assert reply.status == 404
    assert "PUT" not in reply.json["hint"]


@pytest.mark.parametrize("name", ["rels", "checkers", "transformers"])
async def test_properties_that_have_no_effect_here_are_pointed_out(api: Api, name: str) -> None:
    made = await api.put("/made", {name: []})
    patched = await api.patch("/things", {name: []})

    for reply, status in ((made, 201), (patched, 200)):
        (warning,) = reply.json["_warnings"]
        assert (reply.status, warning.partition(":")[0]) == (status, name)
