"""Permission rules and writes: what is touched, what is merged, and what comes back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.expect import present
from tests.http.access.books import renew, status
from tests.http.access_harness import ADA, allow, guarded
from tests.http.harness import Mongo, Reply, Service
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        yield one


@pytest.fixture
def service(server: Service) -> Service:
    return renew(server)


async def test_a_write_filter_limits_what_is_touched(service: Service) -> None:
    mongo = {"writeFilter": {"owner": "@user._id"}, "allowBulkPatch": True, "allowBulkDelete": True}
    await allow(service, "path-prefix('/books')", "user", mongo=mongo)
    assert await status(service, "PATCH", "/books/1", ADA, json={"price": 6}) == 200
    assert await status(service, "PATCH", "/books/2", ADA, json={"price": 6}) == 404
    assert await status(service, "DELETE", "/books/2", ADA) == 404
    put = {"title": "Mine", "owner": "ada"}
    assert await status(service, "PUT", "/books/2?wm=upsert", ADA, json=put) == 403
    assert await status(service, "PUT", "/books/2", ADA, json=put) in (404, 409)
    everything = '/books/*?filter={"_id":{"$exists":true}}'
    assert await status(service, "PATCH", everything, ADA, json={"seen": True}) == 200
    assert service.mongo[service.db]["books"].count_documents({"seen": True}) == 1
    assert await status(service, "DELETE", everything, ADA) == 200
    left = service.mongo[service.db]["books"].distinct("_id")
    assert left == ["2", "3"]


async def test_merged_values_override_those_of_the_caller(service: Service) -> None:
    mongo = {"mergeRequest": {"owner": "@user._id", "by.name": "@user._id"}}
    await allow(service, "path-prefix('/books')", "user", mongo=mongo)
    bodies: list[Any] = [
        {"_id": 10, "owner": "eve"},
        [{"_id": 11}, {"_id": 12, "owner": "eve", "by": {"name": "eve"}}],
    ]
    for body in bodies:
        assert await status(service, "POST", "/books", ADA, json=body) in (200, 201)
    for update in ({"owner": "eve"}, {"$unset": {"owner": ""}}, {"$set": {"owner.x": 1}}):
        assert await status(service, "PATCH", "/books/2", ADA, json=update) == 200
    stored = list(service.mongo[service.db]["books"].find({"_id": {"$in": ["2", 10, 11, 12]}}))
    assert [(one["owner"], one["by"]) for one in stored] == [("ada", {"name": "ada"})] * 4


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        ({"by": {"c": 1}}, {"c": 1, "name": "ada"}),
        ({"$set": {"by": {"name": "eve", "c": 1}}}, {"c": 1, "name": "ada"}),
        ({"by": "eve"}, {"name": "ada"}),
        ({"$unset": {"by": ""}}, {"name": "ada"}),
        ({"$setOnInsert": {"by": {"c": 1}}}, {"name": "ada"}),
        ({"$rename": {"by": "was"}}, {"name": "ada"}),
        ([{"$set": {"by": {"c": 1}}}], {"c": 1, "name": "ada"}),
    ],
    ids=str,
)
async def test_merged_paths_reach_into_objects_of_a_patch_as_of_a_post(
    service: Service, update: Any, expected: Any
) -> None:
    mongo = {"mergeRequest": {"by.name": "@user._id"}, "allowBulkPatch": True}
    await allow(service, "path-prefix('/books')", "user", mongo=mongo)
    assert await status(service, "PATCH", "/books/2", ADA, json=update) == 200
    assert present(service.mongo[service.db]["books"].find_one("2"))["by"] == expected
    if isinstance(update, dict):
        several = '/books/*?filter={"_id":"1"}'
        assert await status(service, "PATCH", several, ADA, json=update) == 200
        assert present(service.mongo[service.db]["books"].find_one("1"))["by"] == expected


@pytest.mark.parametrize("body", [{}, {"_id": "eve"}, {"_id": 5, "x": 1}], ids=str)
@pytest.mark.parametrize("mode", ["insert", "upsert"])
async def test_an_id_that_is_merged_is_the_one_that_is_told(
    service: Service, body: Any, mode: str
) -> None:
    mongo = {"mergeRequest": {"_id": "@user._id"}, "allowWriteMode": True}
    await allow(service, "path-prefix('/books')", "user", mongo=mongo)
    path, who = f"/books?wm={mode}", {**ADA, "Prefer": "return=representation"}
    reply = await service.request("POST", path, headers=who, json=body)
    assert (reply.status, reply.json["_id"]) == (201, "ada"), reply.text
    assert reply.headers["location"].endswith("/books/ada")
    assert service.mongo[service.db]["books"].find_one("ada") is not None
    again = await service.request("POST", path, headers=who, json=body)
    assert again.status == (409 if mode == "insert" else 200)
    excluded = await service.request("POST", path, headers={**ADA, "If-None-Match": "*"}, json=body)
    assert excluded.status == 412


async def test_an_id_that_is_merged_into_an_array_is_the_one_that_is_told(
    service: Service,
) -> None:
    mongo = {"mergeRequest": {"_id": "@user._id"}, "allowWriteMode": True}
    await allow(service, "path-prefix('/books')", "user", mongo=mongo)
    reply = await service.request("POST", "/books", headers=ADA, json=[{"_id": 5}])
    assert (reply.status, reply.json["links"]) == (200, ["/books/ada"]), reply.text
    assert reply.json["results"] == [{"index": 0, "httpStatus": 201, "link": "/books/ada"}]
    reply = await service.request("POST", "/books?wm=upsert", headers=ADA, json=[{"x": 1}])
    assert reply.json["results"] == [{"index": 0, "httpStatus": 200, "link": "/books/ada"}]


@pytest.mark.parametrize(
    ("shown", "keys"),
    [
        ({"price": 0, "_etag": 0}, {"_id", "title", "team", "owner"}),
        ({"title": 1}, {"title"}),
        ({"title": 1, "_id": 1}, {"_id", "title"}),
    ],
)
async def test_only_what_the_rule_shows_comes_back(
    service: Service, shown: Any, keys: set[str]
) -> None:
    await allow(service, "path-prefix('/books')", "user", mongo={"projectResponse": shown})
    one = await service.request("GET", "/books/1", headers=ADA)
    many = await service.request("GET", "/books", headers=ADA, params={"filter": '{"_id": "1"}'})
    assert set(one.json) == keys
    assert set(many.json[0]) == keys


async def test_a_write_does_not_give_back_what_reads_hide(service: Service) -> None:
    mongo = {"projectResponse": {"price": 0}, "readFilter": {"team": "blue"}}
    await allow(service, "path-prefix('/books')", "user", mongo=mongo)
    who = {**ADA, "Prefer": "return=representation"}
    shown = await service.request("PATCH", "/books/1", headers=who, json={"x": 1})
    assert "price" not in shown.json
    hidden = await service.request("PATCH", "/books/2", headers=who, json={"x": 1})
    assert hidden.text == ""


WRITES: dict[str, tuple[str, str, Any]] = {
    "patch": ("PATCH", "/books/1", {"x": 1}),
    "pipeline": ("PATCH", "/books/1", [{"$set": {"x": 1}}]),
    "put": ("PUT", "/books/1", {"x": 1}),
    "upsert": ("PUT", "/books/new?wm=upsert", {"x": 1}),
    "post": ("POST", "/books", {"x": 1}),
    "typed": ("POST", "/books", {"_id": 7, "x": 1}),
    "update": ("POST", "/books?wm=update", {"_id": "1", "x": 1}),
    "no path": ("POST", "/books", {"_id": {"a": 1}, "x": 1}),
}


async def write_back(service: Service, way: str, keys: str = "") -> Reply:
    method, path, body = WRITES[way]
    if keys:
        path += ("&" if "?" in path else "?") + f"keys={keys}"
    who = {**ADA, "Prefer": "return=representation"}
    return await service.request(method, path, headers=who, json=body)


@pytest.mark.parametrize("way", WRITES)
async def test_a_permission_to_write_is_none_to_read(service: Service, way: str) -> None:
    writing = "path-prefix('/books') and method(PATCH, PUT, POST)"
    await allow(service, writing, "user", mongo={"allowWriteMode": True})
    for keys in ("", '{"title":1}'):
        reply = await write_back(service, way, keys)
        assert reply.status in (200, 201), reply.text
        assert reply.text == ""
        assert "preference-applied" not in reply.headers
        assert reply.headers["etag"]
        service.mongo[service.db]["books"].delete_many({"_id": {"$in": [7, "new", {"a": 1}]}})


@pytest.mark.parametrize("way", WRITES)
async def test_a_write_gives_back_what_a_read_would(service: Service, way: str) -> None:
    writing = "path-prefix('/books') and method(PATCH, PUT, POST)"
    await allow(service, writing, "user", mongo={"allowWriteMode": True}, priority=9)
    reading = "path-prefix('/books') and method(GET)"
    await allow(service, reading, "user", mongo={"projectResponse": {"x": 1}})
    reply = await write_back(service, way)
    assert reply.json == {"x": 1}, reply.text
    assert reply.headers["preference-applied"] == "return=representation"


async def test_a_read_that_only_some_documents_admit_gives_back_these(service: Service) -> None:
    await allow(service, "path-prefix('/books') and method(PATCH)", "user")
    await allow(service, "path('/books/1') and method(GET)", "user")
    await allow(service, "path-template('/books/{id}') and equals(${id}, 7)", "user")
    service.insert("books", {"_id": 7})
    who = {**ADA, "Prefer": "return=representation"}
    for path, shown in (("/books/1", True), ("/books/2", False), ("/books/7?id_type=number", True)):
        reply = await service.request("PATCH", path, headers=who, json={"x": 1})
        assert (reply.status, bool(reply.text)) == (200, shown), path


async def test_row_filters_of_reads_hold_for_what_a_write_gives_back(service: Service) -> None:
    await allow(service, "path-prefix('/books') and method(PATCH)", "user", priority=9)
    reading = "path-prefix('/books') and method(GET)"
    await allow(service, reading, "user", mongo={"readFilter": {"team": "blue"}})
    who = {**ADA, "Prefer": "return=representation"}
    for path, shown in (("/books/1", True), ("/books/2", False)):
        reply = await service.request("PATCH", path, headers=who, json={"x": 1})
        assert (reply.status, bool(reply.text)) == (200, shown), path
