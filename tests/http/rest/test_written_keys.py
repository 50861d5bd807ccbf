"""Decision 6: what is stored with escaped keys comes back exactly as it was written.

Whatever the keys look like, and wherever: app definitions, aggregations and other metadata, JSON
schemas, permission rules. The marker that tells the versions of the escaping apart is never seen.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest

from docgraph.codec import escape_keys
from docgraph.exchange.data import ESCAPING
from tests.databases import new_name
from tests.http.harness import Document, Mongo, Service, build_definition, running
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

SCHEMA = "type Query { items: [Item] } type Item { name: String }"
KEYS = ["c::d", "c.d", "_$z", "$z", "__$z", "a:", ":a", "a.~c", "a::~c", "_", "$", "_$"]


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    db = new_name()
    settings = {
        "mongo": {"mongo-mounts": [{"what": f"/{db}", "where": "/"}]},
        "dbAclAuthorizer": {"acl-db": db},
    }
    async with running(mongo_client, mongo_uri, settings, db=db) as one:
        for path in ("/", "/gql-apps", "/acl", "/_schemas", "/things"):
            await send(one, "PUT", path)
        one.insert("items", {"name": "one"}, {"name": "two"})
        yield one


async def send(service: Service, method: str, path: str, body: Any = None, **query: str) -> Any:
    """A request that is answered well; its JSON."""
    mode = {"wm": "upsert"} if method == "PUT" and path.count("/") > 1 else {}
    reply = await service.request(method, path, json=body or {}, params={**mode, **query})
    assert reply.status in (200, 201), reply.text
    return reply.json if reply.text else None


def stored(service: Service, collection: str, id: str) -> Document:
    found: Document | None = service.mongo[service.db][collection].find_one({"_id": id})
    assert found is not None
    return found


def invent(chance: random.Random, depth: int = 3) -> Any:
    """A value with keys and texts that look escaped, or need to be."""
    text = "".join(chance.choices("$_.:~cd", k=chance.randrange(8)))
    match chance.randrange(4 if depth else 2):
        case 0:
            return text
        case 1:
            return chance.randrange(100)
        case 2:
            return [invent(chance, depth - 1) for _ in range(chance.randrange(4))]
    keys = [*chance.sample(KEYS, 3), text]
    return {key: invent(chance, depth - 1) for key in keys}


def definition(service: Service, notes: Any) -> Document:
    mapping = service.find("items", {"name": {"$in": ["one"]}})
    document = build_definition("shop", SCHEMA, {"Query": {"items": mapping}})
    return {**document, "notes": notes}


@pytest.mark.parametrize("seed", range(12))
async def test_definitions_come_back_exactly(service: Service, seed: int) -> None:
    document = definition(service, {"root": invent(random.Random(seed))})

    await send(service, "PUT", "/gql-apps/shop", document)
    (listed,) = await send(service, "GET", "/gql-apps")
    read = await send(service, "GET", "/gql-apps/shop")

    assert {key: value for key, value in read.items() if key != "_etag"} == document
    assert listed == read
    assert stored(service, "gql-apps", "shop")[ESCAPING] == 2
    assert (await service.query("shop", "{ items { name } }")).data == {"items": [{"name": "one"}]}


@pytest.mark.parametrize("seed", range(12))
async def test_metadata_comes_back_exactly(service: Service, seed: int) -> None:
    notes = {"root": invent(random.Random(seed)), "c::d": 1, "_$z": {"e.f": 2}}

    await send(service, "PUT", "/things", {"notes": notes})
    put = await send(service, "GET", "/things/_meta")
    await send(service, "PATCH", "/things", {"more": notes})
    patched = await send(service, "GET", "/things/_meta")

    assert {key: put[key] for key in put if key != "_etag"} == {"_id": "_meta", "notes": notes}
    assert {key: patched[key] for key in patched if key not in ("_etag", "_id")} == {
        "notes": notes,
        "more": notes,
    }


async def test_a_patch_leaves_the_other_keys_as_they_were_written(service: Service) -> None:
    document = definition(service, {key: {key: [key]} for key in KEYS})
    await send(service, "PUT", "/gql-apps/shop", document)

    await send(service, "PATCH", "/gql-apps/shop", {"more": {"_$z": 1, "c::d": 2, "$z": 3}})
    read = await send(service, "GET", "/gql-apps/shop")

    assert read["notes"] == document["notes"]
    assert read["more"] == {"_$z": 1, "c::d": 2, "$z": 3}


async def test_both_forms_mean_the_same_and_come_back_as_they_were_written(
    service: Service,
) -> None:
    service.insert("deep", {"_id": 1, "a": {"b": 1}}, {"_id": 2, "a": {"b": 2}})
    find = {"a::b": {"_$gt": 1}}
    aggregation = {"uri": "e", "type": "ap", "stages": [{"_$match": find}]}
    document = definition(service, {})
    document["mappings"] = {"Query": {"items": service.find("deep", find)}}
    document["schema"] = "type Query { items: [Item] } type Item { _id: Int }"

    await send(service, "PUT", "/gql-apps/shop", document)
    await send(service, "PUT", "/deep", {"aggrs": [aggregation]})

    assert (await send(service, "GET", "/gql-apps/shop"))["mappings"] == document["mappings"]
    assert (await service.query("shop", "{ items { _id } }")).data == {"items": [{"_id": 2}]}
    assert (await send(service, "GET", "/deep/_meta"))["aggrs"] == [aggregation]
    assert [one["_id"] for one in await send(service, "GET", "/deep/_aggrs/e")] == [2]


async def test_schemas_come_back_exactly(service: Service) -> None:
    properties = {key: {"type": "integer"} for key in KEYS}

    await send(service, "PUT", "/_schemas/keys", {"properties": properties})
    read = await send(service, "GET", "/_schemas/keys")

    assert read["properties"] == properties
    assert ESCAPING not in read


async def test_rules_come_back_exactly(service: Service) -> None:
    rule = {
        "_id": "r",
        "roles": ["user"],
        "predicate": "path('/x')",
        "mongo": {
            "readFilter": {"_$or": [{"c::d": 1}, {"c.d": {"$in": ["_$z", "$z"]}}], "$and": [{}]}
        },
    }

    await send(service, "PUT", "/acl/r", rule)
    read = await send(service, "GET", "/acl/r")

    assert {key: value for key, value in read.items() if key != "_etag"} == rule


async def test_documents_without_a_marker_are_read_as_ever(service: Service) -> None:
    old = escape_keys(definition(service, {"$z": 1, "c.d": 2, "list": ["$z"]}))
    await service.smuggle({**old, "_id": "old"})
    service.mongo[service.db]["_properties"].insert_one(
        {"_id": "_properties.items", "aggrs": [{"uri": "e", "stages": [{"_$match": {}}]}]}
    )

    read = await send(service, "GET", "/gql-apps/old")
    meta = await send(service, "GET", "/items/_meta")

    assert read["notes"] == {"$z": 1, "c.d": 2, "list": ["$z"]}
    assert meta["aggrs"][0]["stages"] == [{"$match": {}}]
    assert (await service.query("old", "{ items { name } }")).data == {"items": [{"name": "one"}]}
    service.definitions.delete_one({"_id": "old"})


# --- the marker -----------------------------------------------------------------------------------


async def test_the_marker_cannot_be_written(service: Service) -> None:
    document = {**definition(service, {"__$z": 1}), ESCAPING: 7}

    await send(service, "PUT", "/gql-apps/shop", document)
    await send(service, "PUT", "/things", {"notes": {"__$z": 1}, ESCAPING: 7})
    await send(service, "PATCH", "/things", {f"{ESCAPING}.x": 7})

    assert stored(service, "gql-apps", "shop")[ESCAPING] == 2
    assert stored(service, "_properties", "_properties.things")[ESCAPING] == 2
    assert (await send(service, "GET", "/gql-apps/shop"))["notes"] == {"__$z": 1}
    assert (await send(service, "GET", "/things/_meta"))["notes"] == {"__$z": 1}


@pytest.mark.parametrize("collection", ["gql-apps", "_schemas"])
@pytest.mark.parametrize(
    "query",
    [
        {"filter": '{"_escaping": 2}'},
        {"filter": '{"_escaping.x": {"$exists": false}}'},
        {"filter": '{"$or": [{"_id": 1}, {"_escaping": {"$gt": 1}}]}'},
        {"filter": '{"$expr": {"$eq": ["$_escaping", 2]}}'},
        {"filter": '{"$expr": {"$eq": ["$$ROOT._escaping", 2]}}'},
        {"sort": '{"_escaping": 1}'},
        {"sort": "-_escaping"},
        {"keys": '{"x": "$_escaping"}'},
    ],
    ids=str,
)
async def test_nobody_asks_for_the_marker(
    service: Service, collection: str, query: dict[str, str]
) -> None:
    for path in (f"/{collection}", f"/{collection}/_size"):
        reply = await service.request("GET", path, params=query)
        assert reply.status == 403 or (path.endswith("_size") and "filter" not in query), path


async def test_keys_do_not_show_the_marker(service: Service) -> None:
    await send(service, "PUT", "/_schemas/keys", {"title": "x"})

    refused = await service.request("GET", "/gql-apps", params={"keys": '{"_escaping": 1}'})
    shown = await send(service, "GET", "/_schemas", keys='{"_escaping": 1, "title": 1}')

    assert refused.status == 403
    assert shown == [{"_id": "keys", "title": "x"}]


async def test_no_aggregation_shows_the_marker(service: Service) -> None:
    await send(service, "PUT", "/gql-apps/shop", definition(service, {}))
    project = {"$project": {"kept": {"$objectToArray": "$$ROOT"}}}
    await send(service, "PUT", "/gql-apps", {"aggrs": [{"uri": "all", "stages": [project]}]})

    (row,) = await send(service, "GET", "/gql-apps/_aggrs/all")

    assert {"_id", "schema"} <= {one["k"] for one in row["kept"]}
    assert ESCAPING not in {one["k"] for one in row["kept"]}


async def test_nothing_is_deleted_by_the_marker(service: Service) -> None:
    await send(service, "PUT", "/gql-apps/shop", definition(service, {}))

    filter = quote('{"_escaping": 2}')
    reply = await service.request("DELETE", f"/gql-apps/*?filter={filter}")

    assert reply.status == 403
    assert stored(service, "gql-apps", "shop")
