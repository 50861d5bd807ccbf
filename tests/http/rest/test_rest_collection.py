"""Collections: lists of documents and names, sizes, what exists and what does not."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson import ObjectId

from docgraph.observe.engine_events import CommandFinished
from tests.http.access_harness import ADA, ADMIN, allow, guarded
from tests.http.harness import Mongo, identity, listening
from tests.http.rest_harness import Api, serving

pytestmark = [pytest.mark.anyio, pytest.mark.json]


async def test_an_empty_collection_is_an_empty_array(api: Api) -> None:
    reply = await api.get("/things")

    assert (reply.status, reply.text) == (200, "[]")
    assert reply.headers["content-type"].startswith("application/json")


async def test_a_trailing_slash_makes_no_difference(api: Api) -> None:
    api.things.insert_one({"_id": 1})

    assert (await api.get("/things/")).json == (await api.get("/things")).json


async def test_the_total_is_told_when_asked_for(api: Api) -> None:
    """Decision 41: `X-Total-Count`."""
    api.things.insert_many({"_id": n, "even": n % 2 == 0} for n in range(5))

    exact = await api.get("/things", count="true", pagesize="1", filter={"even": True})
    estimated = await api.get("/things", count="estimated", pagesize="1")
    filtered = await api.get("/things", count="estimated", filter={"even": True})

    for reply, total, strategy in (
        (exact, "3", "exact"),
        (estimated, "5", "estimated"),
        (filtered, "3", "exact"),
    ):
        assert reply.headers["x-total-count"] == total
        assert reply.headers["x-count-strategy"] == strategy
    assert "x-total-count" not in (await api.get("/things")).headers


async def test_sizes(api: Api) -> None:
    api.things.insert_many({"_id": n} for n in range(3))
    api.mongo[api.db].create_collection("others")

    assert (await api.get("/things/_size")).json == {"_size": 3}
    assert (await api.get("/things/_size", filter={"_id": 1})).json == {"_size": 1}
    assert (await api.get("/_size")).json["_size"] >= 2


async def test_the_bytes_of_a_collection_are_those_of_all_documents(api: Api) -> None:
    documents = [{"_id": n, "text": "x" * 100} for n in range(3)]
    api.things.insert_many(documents)

    size = await api.get("/things/_size", bytes="true")
    assert size.json == {"_size": 3, "_bytes": sum(len(bson.encode(one)) for one in documents)}
    for parameters in ({}, {"bytes": "false"}, {"bytes": "true", "filter": {"_id": {"$gt": -1}}}):
        assert (await api.get("/things/_size", **parameters)).json == {"_size": 3}
    api.mongo[api.db].create_collection("seen", viewOn="things", pipeline=[])
    assert (await api.get("/seen/_size", bytes="true")).json == {"_size": 3}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({}, {"_size", "_bytes"}),
        ({"readFilter": {"n": 1}}, {"_size"}),
        ({"projectResponse": {"secret": 0}}, {"_size"}),
    ],
)
async def test_the_bytes_of_what_a_rule_hides_are_not_told(
    mongo_client: Mongo, mongo_uri: str, rule: Any, expected: set[str]
) -> None:
    async with guarded(mongo_client, mongo_uri) as service:
        service.insert("things", {"_id": 1, "n": 1, "secret": "x" * 100})
        await allow(service, "path-prefix('/things')", "user", mongo=rule)
        for caller, members in ((ADA, expected), (ADMIN, {"_size", "_bytes"})):
            reply = await service.request("GET", "/things/_size?bytes=true", headers=caller)
            assert set(reply.json) == members


async def test_the_bytes_of_passwords_are_for_the_root_role(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    async with guarded(mongo_client, mongo_uri) as service:
        service.insert("users", {"_id": "eve", "password": "x" * 100})
        service.app.store.guard.hide(service.db, "users", "password")
        await allow(service, "path-prefix('/users')", "user")
        for caller, members in ((ADA, {"_size"}), (ADMIN, {"_size", "_bytes"})):
            reply = await service.request("GET", "/users/_size?bytes=true", headers=caller)
            assert (reply.status, set(reply.json)) == (200, members)


async def test_the_etag_of_a_list_is_that_of_the_collection(api: Api) -> None:
    etag = ObjectId()
    api.mongo[api.db]["_properties"].insert_one({"_id": "_properties.things", "_etag": etag})

    assert (await api.get("/things")).headers["etag"] == str(etag)


async def test_names_of_collections_are_sorted_and_paged(api: Api) -> None:
    for name in ("zebra", "ant", "_properties", "x.chunks"):
        api.mongo[api.db].create_collection(name)

    names = (await api.get("/")).json
    paged = [name async for page in api.follow("/?pagesize=2") for name in page]

    assert names == sorted(names) == paged
    assert {"ant", "things", "zebra"} <= set(names)
    assert not {"_properties", "x.chunks"} & set(names)
    assert (await api.get("/", page="99")).json == []
    assert (await api.get("/", count="")).headers["x-total-count"] == str(len(names))


async def test_all_databases_can_be_mounted(mongo_client: Mongo, mongo_uri: str) -> None:
    mounts = [{"what": "*", "where": "/all"}, {"what": "/admin", "where": "/secret"}]
    async with serving(mongo_client, mongo_uri, mounts=mounts) as api:
        names = (await api.get("/all")).json

        assert api.db in names
        assert not {"admin", "config", "local"} & set(names)
        assert (await api.get(f"/all/{api.db}")).json == ["things"]
        assert (await api.get("/all/_size")).json["_size"] == len(names)
        assert (await api.get(f"/all/{api.db}/things")).json == []
        for path in ("/all/admin", "/all/LOCAL/x", "/secret", "/secret/system.users"):
            reply = await api.get(path)
            assert (reply.status, reply.json["message"]) == (403, "reserved resource")


# --- what exists ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/none"),
        ("POST", "/none"),
        ("GET", "/none/x"),
        ("PUT", "/none/x"),
        ("PATCH", "/none/x"),
        ("DELETE", "/none/x"),
        ("GET", "/none/_size"),
        ("PATCH", "/none/*"),
        ("DELETE", "/none/*"),
    ],
)
async def test_a_missing_collection_is_404_and_is_not_made(
    api: Api, method: str, path: str
) -> None:
    body = {"a": 1} if method in ("POST", "PUT", "PATCH") else None

    reply = await api.send(method, path, body, wm="upsert", filter={"a": 1})

    assert (reply.status, reply.json["message"]) == (404, "Collection 'none' does not exist")
    assert "none" not in api.mongo[api.db].list_collection_names()


async def test_a_missing_database_is_404(mongo_client: Mongo, mongo_uri: str) -> None:
    mounts = [{"what": "/test_none", "where": "/"}]
    async with serving(mongo_client, mongo_uri, mounts=mounts) as api:
        for path in ("/", "/things", "/things/x", "/_size"):
            reply = await api.get(path)

            assert reply.status == 404
            assert reply.json["message"] == "Db 'test_none' does not exist"


async def test_a_collection_made_by_others_is_seen_at_once(api: Api) -> None:
    assert (await api.get("/late")).status == 404

    api.mongo[api.db]["late"].insert_one({"_id": 1})

    assert (await api.get("/late")).json == [{"_id": 1}]


async def test_that_a_collection_exists_is_not_asked_again(api: Api) -> None:
    api.things.insert_one({"_id": "x"})
    await api.get("/things")

    with listening(CommandFinished) as commands:
        await api.get("/things/x")
        await api.get("/things")

    asked = [(one.command, one.collection) for one in commands if one.request_id]
    assert asked == [("find", "things")] * 2


# --- what is served -------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/a/b/c/d", "/things/x/y", "/things/_indexes/a/b"])
async def test_a_path_that_leads_nowhere_is_404(api: Api, path: str) -> None:
    """Decision 41: 404 for unbound paths."""
    reply = await api.get(path)

    assert reply.status == 404
    assert reply.json["message"] == f"No MongoDB resource bound for {path}"
    assert "mongo.mongo-mounts" in reply.json["hint"]


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/things/x", {"GET", "PUT", "PATCH", "DELETE"}),
        ("/things/*", {"PATCH", "DELETE"}),
        ("/things/_size", {"GET"}),
        ("/things/_aggrs", set()),
        ("/things/_streams", {"GET"}),
    ],
)
async def test_each_resource_takes_its_methods(api: Api, path: str, methods: set[str]) -> None:
    options = await api.send("OPTIONS", path)
    allowed = set(options.headers["access-control-allow-methods"].split(", "))

    assert options.status == 200
    assert allowed - {"HEAD", "OPTIONS"} == methods
    assert "If-Match" in options.headers["access-control-allow-headers"]
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - methods:
        reply = await api.send(method, path, {} if method != "GET" else None)
        assert (reply.status, reply.json["message"]) == (405, f"method {method} not allowed")


@pytest.mark.parametrize("path", ["/_sessions", "/_sessions/x/_txns/1", "/things?sid=x&txn=1"])
async def test_sessions_are_not_there(api: Api, path: str) -> None:
    reply = await api.get(path)

    assert (reply.status, reply.json["code"]) == (501, "not-supported")


async def test_services_win_over_collections(api: Api) -> None:
    """Decision 41: paths of services win over collections by segment."""
    api.mongo[api.db]["ping"].insert_one({"_id": 1})

    assert (await api.get("/ping")).json != [{"_id": 1}]
    assert (await api.get("/pings")).status == 404


async def test_who_is_unknown_learns_nothing(mongo_client: Mongo, mongo_uri: str) -> None:
    """Decision 21: 401 before 404 and 405."""
    closed = {"fullAuthorizer": {"enabled": True, "authentication-required": True}}
    async with serving(mongo_client, mongo_uri, closed) as api:
        for method, path in (
            ("GET", "/none"),
            ("GET", "/things?page=x"),
            ("POST", "/things/x"),
            ("GET", "/a/b/c/d"),
        ):
            assert (await api.send(method, path)).status == 401
    async with serving(mongo_client, mongo_uri, closed, identity("user")) as api:
        assert (await api.get("/none")).status == 404


async def test_a_write_passes_by_the_interceptors_and_tells_their_warnings(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    async with serving(mongo_client, mongo_uri) as api:
        api.mongo[api.db].create_collection("gql-apps")

        reply = await api.post("/gql-apps", _definition("{ a: Int b: Int }"))

    assert reply.status == 201
    assert any("b" in warning for warning in reply.json["_warnings"])


def _definition(fields: str) -> dict[str, Any]:
    return {
        "_id": "app",
        "schema": f"type Query {fields}",
        "mappings": {"Query": {"a": {"db": "x", "collection": "y", "find": {"b": {"$arg": "c"}}}}},
    }
