"""Decision 49: what a caller or an author wrote never runs on a row outside of the row filter.

The oracle: a request is sent while hidden rows exist that would make its condition fail, and again
without them. Both answers have to be the same at every door.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.http.access_harness import (
    ADA,
    NOBODY,
    Document,
    allow,
    forget_rules,
    guarded,
    restore,
)
from tests.http.batches import entry
from tests.http.harness import Reply, Service
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

# The first hidden row makes every expression below fail, and no visible one does.
POISON = {"_id": "h0", "owner": "bob", "secret": "S0", "a": 1, "n": "zero", "k": "j1", "t": "apple"}
HIDDEN = [POISON, {**POISON, "_id": "h1", "a": 2}]
VISIBLE = [
    {
        "_id": f"v{i}",
        "owner": "ada",
        "secret": "x",
        "a": i % 3,
        "n": str(i),
        "k": "j1",
        "t": "apple",
    }
    for i in range(6)
]
FAILING: Document = {"$expr": {"$divide": [1, {"$cond": [{"$eq": ["$secret", "S0"]}, 0, 1]}]}}
NUMBER: Document = {"$expr": {"$gte": [{"$toInt": "$n"}, 0]}}
# MongoDB evaluates a disjunction before an equality, so that it does not matter where it is.
FILTERS: dict[str, Document] = {
    "alone": FAILING,
    "or": {"$or": [FAILING, {"a": 1}]},
    "and or": {"$and": [{"$or": [NUMBER, {"a": 9}]}, {"a": {"$gte": 0}}]},
    "nor": {"$nor": [{"$and": [FAILING, {"a": 9}]}]},
    "beside a comparison": {"a": {"$lt": 3}, **NUMBER},
}


@module_application
async def server(mongo_client: Any, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri, {"mcp": {"enabled": True}}) as one:
        yield one


@pytest.fixture
def service(server: Service) -> Service:
    forget_rules(server)
    return server


Door = Callable[[Service, Document], Awaitable[Reply]]


def query_of(**parameters: Any) -> str:
    return urlencode({key: json.dumps(one) for key, one in parameters.items()})


def read(path: str, parameter: str = "filter", who: dict[str, str] = ADA, **others: Any) -> Door:
    async def send(service: Service, filter: Document) -> Reply:
        query = urlencode({parameter: json.dumps(filter), **others})
        return await service.request("GET", f"{path}?{query}", headers=who)

    return send


async def read_in_batch(service: Service, filter: Document) -> Reply:
    entries = [entry("GET", f"/notes/v1?{query_of(filter=filter)}")]
    return await service.request("POST", "/_batch", headers=ADA, json=entries)


DOORS: dict[str, Door] = {
    "list": read("/notes"),
    "list counted": read("/notes", count="exact"),
    "list sorted": read("/notes", sort="a"),
    "list by keyset": read("/notes", after="", sort="a"),
    "size": read("/notes/_size"),
    "document": read("/notes/v1"),
    "document, hidden": read("/notes/h0"),
    "shardkey of a list": read("/notes", "shardkey"),
    "shardkey of a size": read("/notes/_size", "shardkey"),
    "shardkey of a document": read("/notes/v1", "shardkey"),
    "anonymous list": read("/notes", who=NOBODY),
    "anonymous size": read("/notes/_size", who=NOBODY),
    "batch": read_in_batch,
}


def notes(service: Service, *documents: Document) -> None:
    restore(service, "notes", *documents)


async def admit(service: Service) -> None:
    mongo = {"readFilter": {"owner": "ada"}, "allowWriteMode": True}
    await allow(service, "path-prefix('/notes')", "user", "$unauthenticated", mongo=mongo)
    await allow(service, "path-prefix('/_batch')", "user")


async def ask_twice(service: Service, send: Callable[[], Awaitable[Reply]]) -> Reply:
    """The answer, which hidden rows have no part in."""
    notes(service, *HIDDEN, *VISIBLE)
    with_hidden = await send()
    notes(service, *VISIBLE)
    without = await send()
    assert (with_hidden.status, with_hidden.text) == (without.status, without.text)
    return with_hidden


@pytest.mark.parametrize("filter", FILTERS.values(), ids=FILTERS.keys())
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS.keys())
async def test_no_read_tells_of_hidden_rows_by_failing(
    service: Service, door: Door, filter: Document
) -> None:
    await admit(service)

    reply = await ask_twice(service, lambda: door(service, filter))

    assert reply.status in (200, 404), reply.text
