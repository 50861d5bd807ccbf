"""`projectResponse` goes through arrays, and through arrays of arrays, at every door alike."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from bson import DBRef, json_util

from docgraph.store.guard.shown import build_projection, project
from tests.http.access_harness import ADA, ADMIN, build_rule, ensure_rules, guarded
from tests.http.harness import Document, Mongo, Reply, Service
from tests.http.hosts import module_application
from tests.http.stream_harness import listen

pytestmark = pytest.mark.anyio

# Every `h` holds SECRET: where one is hidden, the text is in no answer.
SECRET = "S3CRET"
H = {"h": SECRET}
SHAPES: dict[str, Any] = {
    "object": {"a": 1, "b": 2, **H},
    "array": [{"a": 1, **H}, {"a": 2, "b": 3, **H}],
    "arrays": [[{"a": 1, **H}], [[{"a": 2, **H}, 5]], []],
    "mixed": [5, "x", None, {"a": 1, **H}, [H], {}],
    "deep": [{"in": [{"a": 1, **H}], "a": [{**H}]}, {"in": {"a": 2, **H}}, {"in": 3}],
    "whole": [{"a": [{"x": 1}], "h": [{"x": SECRET}, SECRET]}],
    "reference": [{"$ref": "other", "$id": 1, "a": 1, **H}],
    "scalar": 5,
    "null": None,
    "empty": [],
    "missing": ...,
}
DOCUMENTS: list[Document] = [
    {"_id": name, "n": 1} if items is ... else {"_id": name, "n": 1, "items": items}
    for name, items in SHAPES.items()
]
EXCLUSIVE: list[dict[str, int]] = [
    {"items.h": 0, "items.in.h": 0, "items.a.h": 0},
    {"items.h": 0, "items.h.x": 0, "items.in": 0, "items.in.h": 0, "items.a.h": 0},
]
INCLUSIVE: list[dict[str, int]] = [
    {"_id": 1, "items.a.x": 1, "items.in.a": 1},
    {"_id": 1, "items.b": 1, "items.in.a": 1, "items.in.a.x": 1},
    {"_id": 1, "n": 1},
]
SHOWN = [*EXCLUSIVE, *INCLUSIVE]
AGGREGATIONS: list[Document] = [
    {"uri": "all", "stages": []},
    {
        "uri": "join",
        "stages": [
            {"$lookup": {"from": "things", "localField": "_id", "foreignField": "_id", "as": "t"}},
            {"$replaceWith": {"$first": "$t"}},
        ],
    },
]


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        meta = {"aggrs": AGGREGATIONS, "streams": [{"uri": "all", "stages": []}]}
        made = await one.request("PUT", "/things", headers=ADMIN, json=meta)
        assert made.status == 201, made.text
        one.insert("things", *DOCUMENTS)
        yield one


@pytest.fixture(params=SHOWN, ids=str)
def shown(request: pytest.FixtureRequest) -> dict[str, int]:
    found: dict[str, int] = request.param
    return found


async def hide(service: Service, shown: dict[str, int]) -> None:
    flags = {"allowBulkPatch": True, "allowBulkDelete": True, "allowWriteMode": True}
    mongo = {"projectResponse": shown, **flags}
    await ensure_rules(
        service,
        build_rule("path-prefix('/things')", "user", mongo=mongo, _id="rest"),
        build_rule("path-prefix('/_batch')", "user", _id="batch"),
    )


def expected(service: Service, shown: dict[str, int]) -> dict[str, Document]:
    """What MongoDB itself makes of the documents; it accepts no path below another."""
    paths = [key for key in shown if not any(key.startswith(f"{one}.") for one in shown)]
    stage = {"$project": {key: shown[key] for key in paths}}
    found = list(service.mongo[service.db]["things"].aggregate([stage]))
    text = json_util.dumps(found, json_options=json_util.RELAXED_JSON_OPTIONS)
    return by_id(json.loads(text))


def by_id(documents: list[Document]) -> dict[str, Document]:
    found = [{key: one for key, one in each.items() if key != "_etag"} for each in documents]
    return {one["_id"]: one for one in found}


def read(reply: Reply, status: int = 200) -> Any:
    assert reply.status == status, reply.text
    assert SECRET not in reply.text
    return reply.json


# --- what is read ---------------------------------------------------------------------------------


async def get_list(service: Service) -> list[Document]:
    found: list[Document] = read(await service.request("GET", "/things?pagesize=50", headers=ADA))
    return found


async def get_pages(service: Service) -> list[Document]:
    """By keyset: the token holds what the page is sorted by."""
    target, found = "/things?after=&pagesize=4", []
    while target:
        reply = await service.request("GET", target, headers=ADA)
        found += read(reply)
        link = urlsplit(reply.headers.get("link", "").partition(">")[0].lstrip("<"))
        token = parse_qs(link.query).get("after", [""])[0]
        assert SECRET.encode() not in urlsafe_b64decode(token + "=" * (-len(token) % 4))
        target = f"{link.path}?{link.query}" if link.path else ""
    return found


async def get_each(service: Service) -> list[Document]:
    return [read(await service.request("GET", f"/things/{name}", headers=ADA)) for name in SHAPES]


async def get_keys(service: Service) -> list[Document]:
    keys = quote('{"_id": 1, "n": 1, "items": 1}')
    found: list[Document] = read(
        await service.request("GET", f"/things?pagesize=50&keys={keys}", headers=ADA)
    )
    return found


def aggregate(uri: str) -> Callable[[Service], Awaitable[list[Document]]]:
    async def run(service: Service) -> list[Document]:
        found: list[Document] = read(
            await service.request("GET", f"/things/_aggrs/{uri}", headers=ADA)
        )
        return found

    return run


async def represent(service: Service) -> list[Document]:
    headers = {**ADA, "Prefer": "return=representation"}
    return [
        read(await service.request("PATCH", f"/things/{name}", headers=headers, json={"n": 1}))
        for name in SHAPES
    ]


async def batch(service: Service) -> list[Document]:
    entries = [{"method": "GET", "path": f"/things/{name}"} for name in SHAPES]
    written = [
        {
            "method": "PATCH",
            "path": f"/things/{name}",
            "body": {"n": 1},
            "headers": {"Prefer": "return=representation"},
        }
        for name in SHAPES
    ]
    reply = await service.request("POST", "/_batch", headers=ADA, json=[*entries, *written])
    bodies = [one["body"] for one in read(reply)]
    assert by_id(bodies[: len(entries)]) == by_id(bodies[len(entries) :])
    return bodies[: len(entries)]


async def watch(service: Service) -> list[Document]:
    """Insertions and updates; of an update only what is shown is in its description."""
    things, found = service.mongo[service.db]["things"], []
    async with listen(service, "/things/_streams/all", ADA) as ada:
        for one in DOCUMENTS:
            things.delete_one({"_id": one["_id"]})
            things.insert_one(one)
            things.update_one({"_id": one["_id"]}, {"$set": {"items": one.get("items")}})
            if "items" not in one:
                things.update_one({"_id": one["_id"]}, {"$unset": {"items": ""}})
        things.update_one({"_id": "array"}, {"$set": {"items.0.h": SECRET, "items.1": dict(H)}})
        things.update_one({"_id": "array"}, {"$set": {"items": SHAPES["array"]}})
        things.insert_one({"_id": "end"})
        while (event := await ada.next())["documentKey"]["_id"] != "end":
            assert SECRET not in json.dumps(event), event
            found += [event["fullDocument"]] if "fullDocument" in event else []
    things.delete_one({"_id": "end"})
    return found


DOORS: dict[str, Callable[[Service], Awaitable[list[Document]]]] = {
    "list": get_list,
    "keyset": get_pages,
    "document": get_each,
    "keys": get_keys,
    "aggregation": aggregate("all"),
    "join": aggregate("join"),
    "representation": represent,
    "batch": batch,
    "stream": watch,
}


@pytest.mark.parametrize("door", DOORS)
async def test_every_door_shows_what_a_projection_of_mongodb_shows(
    server: Service, door: str, shown: dict[str, int]
) -> None:
    """Decision 47: arrays, arrays of arrays, and paths of which one is below another."""
    await hide(server, shown)
    documents = await DOORS[door](server)
    assert by_id(documents) == expected(server, shown)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: one["_id"])
def test_what_is_projected_here_is_what_mongodb_projects(
    mongo_client: Mongo, document: Document, shown: dict[str, int]
) -> None:
    """Also without `_id`, which MongoDB shows unless it is told not to."""
    pipeline = [{"$documents": {"$literal": [document]}}]
    for one in (shown, {key: value for key, value in shown.items() if key != "_id"}):
        stage = {"$project": build_projection(one)}
        (theirs,) = mongo_client["admin"].aggregate([*pipeline, stage])
        (stored,) = mongo_client["admin"].aggregate(pipeline)
        (ours,) = project([stored], one)
        assert plain(ours) == plain(theirs)
        assert list(ours) == list(theirs)


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(one) for one in value]
    value = value.as_doc() if isinstance(value, DBRef) else value
    return {key: plain(one) for key, one in value.items()} if isinstance(value, dict) else value


# --- what is asked --------------------------------------------------------------------------------

ASKED = (
    "filter={'items.h':'S3CRET'}",
    "filter={'items.0.h':'S3CRET'}",
    "filter={'items.0.0.h':'S3CRET'}",
    "filter={'items.h.0.x':'S3CRET'}",
    "filter={'items':{'$elemMatch':{'h':'S3CRET'}}}",
    "filter={'items':{'$elemMatch':{'$elemMatch':{'h':'S3CRET'}}}}",
    "filter={'items':{'a':1,'h':'S3CRET'}}",
    "filter={'items':{'$size':2}}",
    "filter={'$nor':[{'items.in.h':{'$regex':'^S'}}]}",
    "filter={'$expr':{'$in':['S3CRET','$items.h']}}",
    "shardkey={'items.h':'S3CRET'}",
    "sort=items.h",
    "sort=items",
    "sort=items.0.h&after=",
    "sort={'items.in.h':-1}&after=",
    "hint={'items.h':1}",
    "keys={'x':'$items.h'}",
    "keys={'items':{'$elemMatch':{'h':'S3CRET'}}}",
    "keys={'x':{'$first':'$items.h'}}",
)


@pytest.mark.parametrize("query", ASKED)
@pytest.mark.parametrize("part", [EXCLUSIVE[0], INCLUSIVE[0]], ids=["exclusive", "inclusive"])
async def test_what_is_hidden_in_arrays_cannot_be_asked_for(
    server: Service, query: str, part: dict[str, int]
) -> None:
    await hide(server, part)
    quoted = quote(query, safe="=&")
    paths = ["/things"]
    if query.startswith(("filter", "shardkey")):
        paths += ["/things/array"]
    if query.startswith("filter"):
        paths += ["/things/_size"]
        for method, path in (("PATCH", "/things/*"), ("PATCH", "/things/array")):
            body = {"n": 1}
            entry = {"method": method, "path": f"{path}?{quoted}", "body": body}
            alone = await service_write(server, method, f"{path}?{quoted}", body)
            together = await service_write(server, "POST", "/_batch", [entry])
            assert (alone.status, together.status) == (403, 403), (alone.text, together.text)
    for path in paths:
        reply = await server.request("GET", f"{path}?{quoted}", headers=ADA)
        assert reply.status == 403, (path, reply.text)


async def service_write(service: Service, method: str, path: str, body: Any) -> Reply:
    return await service.request(method, path, headers=ADA, json=body)


@pytest.mark.parametrize(
    "body",
    [
        {"$rename": {"items.h": "n"}},
        {"$push": {"items": {"$each": [], "$sort": {"h": 1}}}},
        {"$pull": {"items": {"h": SECRET}}},
        {"$pull": {"items.0": {"h": SECRET}}},
        {"$addToSet": {"items": {"a": 1, "h": SECRET}}},
        {"$max": {"items.0": {"a": 1, "h": SECRET}}},
        [{"$set": {"n": "$items.h"}}],
    ],
    ids=str,
)
async def test_nor_told_by_an_update_of_its_array(server: Service, body: Any) -> None:
    await hide(server, EXCLUSIVE[0])
    reply = await service_write(server, "PATCH", "/things/array", body)
    assert (reply.status, reply.json["code"]) == (403, "security-violation")
