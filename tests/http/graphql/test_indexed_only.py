"""`indexed-only` passes what the database finds by an index: its plan is the oracle."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import pytest

from tests.http.harness import Document, Mongo, Service, running
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

SCHEMA = "type Post { a: String b: String at: [Float!] } type Query { posts: [Post!] }"
FIELDS = {"a": ["eq", "range", "exists"], "at": ["near"]}
NEAR = "{longitude: 1, latitude: 2, maxDistance: 637810}"
WITHIN = {"$geoWithin": {"$centerSphere": [[1, 2], 0.1]}}
CONDITIONS: list[tuple[str, Document]] = [
    ('{a: {eq: "x1"}}', {"a": {"$eq": "x1"}}),
    ("{a: {eq: null}}", {"a": {"$eq": None}}),
    ('{a: {gt: "x"}}', {"a": {"$gt": "x"}}),
    ("{a: {exists: false}}", {"a": {"$eq": None}}),
    (f"{{at: {{near: {NEAR}}}}}", {"at": WITHIN}),
]
ENGLISH = {"collation": {"locale": "en"}}
_numbers = count()


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri) as service:
        yield service


@pytest.mark.parametrize(
    ("keys", "options", "collection"),
    [
        ({"a": 1}, {}, {}),
        ({"a": 1}, {"sparse": True}, {}),
        ({"a": 1}, {"hidden": True}, {}),
        ({"a": 1}, {}, ENGLISH),
        ({"a": "hashed"}, {}, {}),
        ({"a": "hashed"}, {"sparse": True}, {}),
        ({"a": 1, "b": "text"}, {}, {}),
        ({"a": 1, "at": "2dsphere"}, {}, {}),
        ({"at": "2dsphere", "a": 1}, {}, {}),
        ({"b": 1, "a": 1}, {}, {}),
    ],
)
async def test_what_an_index_finds_passes(
    service: Service, keys: Document, options: Document, collection: Document
) -> None:
    name = f"posts{next(_numbers)}"
    posts = service.mongo[service.db].create_collection(name, **collection)
    posts.insert_many([{"a": f"x{n}", "b": "y", "at": [1.0, 2.0]} for n in range(9)] + [{"b": "z"}])
    posts.create_index(list(keys.items()), **options)
    filter_ = {"fields": FIELDS, "indexed-only": True}
    own = service.find(name, filter=filter_, orderBy={"fields": ["a"], "indexed-only": True})
    await service.define(name, SCHEMA, {"Query": {"posts": own}})

    for where, condition in CONDITIONS:
        reply = await service.query(name, f"{{ posts(where: {where}) {{ a }} }}")
        assert ("errors" in reply.json) is is_scanned(posts.find(condition).explain()), where
    if not collection:  # with one, an order is not recognised
        reply = await service.query(name, "{ posts(orderBy: [{a: ASC}]) { a } }")
        assert ("errors" in reply.json) is is_scanned(posts.find().sort("a").explain())


@pytest.mark.parametrize(
    ("options", "collection"),
    [(ENGLISH, {}), ({"collation": {"locale": "simple"}}, ENGLISH)],
)
async def test_an_index_with_another_collation_finds_nothing(
    service: Service, options: Document, collection: Document
) -> None:
    name = f"posts{next(_numbers)}"
    service.mongo[service.db].create_collection(name, **collection).create_index("a", **options)
    own: dict[str, Any] = {"fields": FIELDS, "indexed-only": True}
    await service.define(name, SCHEMA, {"Query": {"posts": service.find(name, filter=own)}})

    reply = await service.query(name, '{ posts(where: {a: {eq: "x1"}}) { a } }')
    assert reply.code == "not-indexed"


def is_scanned(plan: Document) -> bool:
    return "COLLSCAN" in str(plan["queryPlanner"]["winningPlan"])
