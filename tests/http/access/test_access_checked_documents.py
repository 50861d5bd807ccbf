"""Documents that are checked as a whole tell nothing by the check: of rows, of hidden properties.

Collections with a JSON schema, app definitions and permissions: what a caller may not write, or not
see, is read for the check nevertheless, and whether it fails must not depend on it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.http.access_harness import (
    ADA,
    ADMIN,
    allow,
    forget_rules,
    guarded,
    restore,
    write_rules,
)
from tests.http.harness import Document, Reply, Service, build_definition
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

SCHEMA: Document = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "properties": {
        "name": {"type": "string"},
        "salary": {"maximum": 100_000},
        "tags": {"maxItems": 2, "uniqueItems": True},
        "home": {"properties": {"city": {"type": "string"}}, "maxProperties": 2},
        "kind": {"enum": ["a", "b"]},
    },
}
X: Document = {
    "_id": "x",
    "owner": "bob",
    "name": "Ann",
    "secret": "TOPSECRET",
    "salary": 60_000,
    "tags": ["blue", "red"],
    "home": {"city": "Rome", "street": "Via Appia"},
}
OWN = {"owner": "@user._id"}
FLAGS = {"allowWriteMode": True}
CLOSED = {"readFilter": OWN, "writeFilter": OWN, **FLAGS}


@module_application
async def server(mongo_client: Any, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        for path in ("/_schemas", "/gql-apps", "/plain"):
            assert (await one.request("PUT", path, headers=ADMIN)).status == 201
        schema = {"_id": "s", **SCHEMA}
        stored = await one.request("POST", "/_schemas", headers=ADMIN, json=schema)
        assert stored.status == 201, stored.text
        bound = {"jsonSchema": {"schemaId": "s"}}
        assert (await one.request("PUT", "/box", headers=ADMIN, json=bound)).status == 201
        yield one


@pytest.fixture
def service(server: Service) -> Service:
    forget_rules(server)
    for name in ("box", "plain"):
        restore(server, name, X, {"_id": "mine", "owner": "ada"})
    restore(server, "gql-apps")
    return server


async def patch(service: Service, path: str, body: Any, **query: Any) -> Reply:
    texts = {key: one if isinstance(one, str) else json.dumps(one) for key, one in query.items()}
    return await service.request("PATCH", f"{path}?{urlencode(texts)}", headers=ADA, json=body)


def tell(reply: Reply) -> tuple[int, Any]:
    """All that an answer tells."""
    content = dict(reply.json) if reply.text else {}
    return reply.status, content


# --- rows -----------------------------------------------------------------------------------------

BODIES: tuple[Document, ...] = (
    {"name": 5},
    {"name": "New"},
    {"$set": {"name": 5}},
    {"$push": {"name": 1}},
    {"$push": {"tags": "green"}},
    {"$addToSet": {"tags": "blue"}},
    {"$inc": {"salary": 40_001}},
    {"$inc": {"salary": (1 << 63) - 60_000}},
    {"$mul": {"secret": 2}},
    {"$max": {"secret": 1}},
    {"home.city.x": 1},
    {"$rename": {"salary": "name"}},
    {"$unset": {"tags.0": 1}},
)
MATCHING = {"secret": {"$gte": "T", "$lt": "U"}}
OTHER = {"secret": {"$gte": "X", "$lt": "Y"}}


@pytest.mark.parametrize("body", BODIES, ids=str)
async def test_a_document_that_is_not_to_be_written_is_not_there(
    service: Service, body: Document
) -> None:
    await allow(service, "path-prefix('/box')", "user", mongo=CLOSED)
    await allow(service, "path-prefix('/plain')", "user", mongo=CLOSED)
    told = [tell(await patch(service, "/box/x", body, filter=one)) for one in (MATCHING, OTHER)]
    told += [
        tell(await patch(service, "/box/x", body)),
        tell(await patch(service, "/plain/x", body)),
    ]
    assert told == [told[0]] * 4
    assert told[0][0] == 404
    assert service.mongo[service.db]["box"].find_one("x") == X


@pytest.mark.parametrize("mode", ["upsert", "insert"])
@pytest.mark.parametrize("body", BODIES, ids=str)
async def test_it_is_not_there_for_modes_that_create_either(
    service: Service, body: Document, mode: str
) -> None:
    """They collide with its id, or the new document would break the schema: by the body alone."""
    await allow(service, "path-prefix('/box')", "user", mongo=CLOSED)
    replies = [
        await patch(service, "/box/x", body, filter=one, wm=mode)
        for one in (MATCHING, OTHER, {"_id": "x"})
    ]
    assert len({json.dumps(tell(one)) for one in replies}) == 1
    assert replies[0].status in (400, 409)
    assert service.mongo[service.db]["box"].find_one("x") == X


@pytest.mark.parametrize("header", ["If-Match", "If-None-Match"])
@pytest.mark.parametrize("mode", ["update", "upsert", "insert"])
async def test_etags_tell_nothing_of_it(service: Service, header: str, mode: str) -> None:
    await allow(service, "path-prefix('/box')", "user", mongo=CLOSED)
    told = []
    for filter in (MATCHING, OTHER):
        query = urlencode({"wm": mode, "filter": json.dumps(filter)})
        headers = {**ADA, header: "5f0000000000000000000000"}
        reply = await service.request(
            "PATCH", f"/box/x?{query}", headers=headers, json={"name": "New"}
        )
        told.append(tell(reply))
    assert told[0] == told[1]
    assert told[0][0] == (404 if mode == "update" else 409)


async def test_what_may_be_written_is_checked_and_written(service: Service) -> None:
    await allow(service, "path-prefix('/box')", "user", mongo=CLOSED)
    assert (await patch(service, "/box/mine", {"name": 5})).status == 400
    assert (await patch(service, "/box/mine", {"name": "Ada"})).status == 200
    assert (await patch(service, "/box/mine", {"name": "Ada"}, wm="insert")).status == 409
    assert (await patch(service, "/box/mine", {"name": "A"}, filter={"name": "Ada"})).status == 200
    assert (await patch(service, "/box/mine", {"name": "A"}, filter={"name": "Ada"})).status == 404
    assert (await patch(service, "/box/new", {"name": "New"}, wm="upsert")).status == 201


async def test_definitions_of_others_are_not_told_by_their_checks(service: Service) -> None:
    schema = "type Query { o: String }"
    mapping = {"Query": {"o": {"db": service.db, "collection": "box", "find": {"k": "T"}}}}
    definition = {**build_definition("g", schema, mapping), "owner": "bob"}
    stored = await service.request("POST", "/gql-apps", headers=ADMIN, json=definition)
    assert stored.status == 201, stored.text
    rule = {"_id": "r", "predicate": "path('/t')", "roles": ["x"], "description": "bob"}
    await write_rules(service, rule)
    await allow(service, "path-prefix('/gql-apps')", "user", mongo=CLOSED)
    mine = {"readFilter": {"description": "ada"}, "writeFilter": {"description": "ada"}}
    await allow(service, "path-prefix('/acl')", "user", mongo=mine)
    for path, body, matching, other in (
        ("/gql-apps/g", {"schema": "("}, {"mappings.Query.o.find.k": "T"}, {"x": 1}),
        ("/gql-apps/g", {"$push": {"schema": 1}}, {"mappings.Query.o.find.k": "T"}, {"x": 1}),
        ("/acl/r", {"predicate": "("}, {"predicate": "path('/t')"}, {"x": 1}),
        ("/acl/r", {"$inc": {"roles": 1}}, {"predicate": "path('/t')"}, {"x": 1}),
    ):
        told = [tell(await patch(service, path, body, filter=one)) for one in (matching, other)]
        assert told[0] == told[1]
        assert told[0][0] == 404, path


# --- hidden properties ----------------------------------------------------------------------------

HIDING: dict[str, Document] = {
    "but": {"salary": 0, "tags": 0, "home.street": 0, "notes": 0},
    "only": {"name": 1, "kind": 1, "home.city": 1},
}
TELLING: tuple[Document, ...] = (
    {"$inc": {"salary": 1}},
    {"$inc": {"salary": 40_001}},
    {"$inc": {"salary": -5.5}},
    {"$mul": {"salary": 2}},
    {"$max": {"salary": 70_000}},
    {"$min": {"salary": 200_000}},
    {"$addToSet": {"tags": "blue"}},
    {"$addToSet": {"tags": {"$each": ["blue", "green"]}}},
    {"$push": {"tags": "green"}},
    {"$push": {"tags": {"$each": ["blue"], "$slice": 2}}},
    {"$pull": {"tags": "blue"}},
    {"$pullAll": {"tags": ["blue"]}},
    {"$pop": {"tags": 1}},
    {"$rename": {"salary": "name"}},
    {"$rename": {"home": "kind"}},
    {"tags.0": "red"},
    {"$set": {"tags.1": "blue"}},
    {"$set": {"salary.x": 1}},
    {"$unset": {"tags.0": 1}},
    {"$unset": {"home.street.x": 1}},
    {"$currentDate": {"tags.0": True}},
    {"name": "New", "$inc": {"salary": 1}},
)


@pytest.mark.parametrize("hiding", HIDING)
@pytest.mark.parametrize("body", TELLING, ids=str)
async def test_no_check_tells_what_is_hidden(service: Service, body: Document, hiding: str) -> None:
    mongo = {"projectResponse": HIDING[hiding], **FLAGS}
    await allow(service, "path-prefix('/box')", "user", mongo=mongo)
    for query in ({}, {"wm": "upsert"}):
        reply = await patch(service, "/box/x", body, **query)
        assert (reply.status, reply.json["code"]) == (403, "security-violation"), reply.text
    assert service.mongo[service.db]["box"].find_one("x") == X


@pytest.mark.parametrize("hiding", HIDING)
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"salary": 1}, 200),
        ({"salary": 200_000}, 400),
        ({"$set": {"tags": ["a", "b"]}}, 200),
        ({"$set": {"tags": ["a", "a"]}}, 400),
        ({"$unset": {"salary": 1, "tags": 1}}, 200),
        ({"home": {"city": "Pisa"}}, 200),
        ({"home.city": "Pisa"}, 200),
        ({"$unset": {"home": 1}}, 200),
        ({"$set": {"name": "New", "notes": [1]}}, 200),
        ({"name": 5}, 400),
        ({"kind": "a"}, 200),
    ],
    ids=str,
)
async def test_what_is_replaced_as_a_whole_or_shown_is_checked(
    service: Service, body: Document, status: int, hiding: str
) -> None:
    mongo = {"projectResponse": HIDING[hiding], **FLAGS}
    await allow(service, "path-prefix('/box')", "user", mongo=mongo)
    reply = await patch(service, "/box/x", body)
    assert reply.status == status, reply.text


async def test_without_a_schema_small_steps_tell_nothing(service: Service) -> None:
    await allow(service, "path-prefix('/plain')", "user", mongo={"projectResponse": {"salary": 0}})
    assert (await patch(service, "/plain/x", {"$inc": {"salary": 1}})).status == 200
