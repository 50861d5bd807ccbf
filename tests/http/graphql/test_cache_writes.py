"""Own writes in every way of the REST API: no answer from before one that was answered (52)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from docgraph.graphql.cache.answer_store import AnswerStore, CachedAnswer
from tests.http.batches import answers_of, entry
from tests.http.cache_harness import CACHE, PATIENT, ask_until_hit
from tests.http.harness import Mongo, identity
from tests.http.rest_harness import Api, serving

pytestmark = pytest.mark.anyio

QUERY = "{ things { n } }"


@pytest.fixture(autouse=True)
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the database reports drops nothing here: it may come before the next request."""
    drop = AnswerStore._drop

    def drop_others(self: AnswerStore, key: bytes, entry: CachedAnswer, reason: str) -> None:
        if reason != "changed":
            drop(self, key, entry, reason)

    monkeypatch.setattr(AnswerStore, "_drop", drop_others)


@pytest.fixture
async def api(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Api]:
    async with serving(mongo_client, mongo_uri, PATIENT, identity("admin")) as api:
        api.things.insert_one({"_id": "a", "n": 1})
        mapped = {"Query": {"things": api.service.find("things", {}, sort={"_id": 1})}}
        schema = "type Query { things: [Thing] } type Thing { n: Int }"
        await api.service.define("things", schema, mapped, **CACHE)
        await ask_until_hit(api.service, "things", QUERY)
        yield api


async def numbers(api: Api) -> list[int]:
    reply = await api.service.query("things", QUERY)
    return [one["n"] for one in reply.data["things"]]


async def test_single_writes(api: Api) -> None:
    assert (await api.patch("/things/a", {"n": 2})).status == 200
    assert await numbers(api) == [2]
    await ask_until_hit(api.service, "things", QUERY)
    assert (await api.post("/things", {"_id": "b", "n": 3})).status == 201
    assert await numbers(api) == [2, 3]
    await ask_until_hit(api.service, "things", QUERY)
    assert (await api.patch("/things/*", {"n": 4}, filter={"n": {"$gt": 0}})).status == 200
    assert await numbers(api) == [4, 4]
    await ask_until_hit(api.service, "things", QUERY)
    assert (await api.delete("/things/a")).status == 204
    assert await numbers(api) == [4]


async def test_a_transaction(api: Api) -> None:
    entries = [
        entry("PATCH", "/things/a", {"n": 5}),
        entry("POST", "/things", {"_id": "b", "n": 6}),
    ]
    assert len(answers_of(await api.post("/_batch", entries))) == 2
    assert await numbers(api) == [5, 6]


async def test_a_collection_that_is_dropped(api: Api) -> None:
    assert (await api.delete("/things")).status == 204
    assert await numbers(api) == []


@pytest.mark.parametrize("dropped", ["outer", "inner", "things"])
async def test_a_view_that_is_dropped(api: Api, dropped: str) -> None:
    """By its own name, and by that of anything that it reads."""
    db = api.things.database
    db.create_collection("inner", viewOn="things", pipeline=[])
    db.create_collection("outer", viewOn="inner", pipeline=[])
    mapped = {"Query": {"things": api.service.find("outer", {}, sort={"_id": 1})}}
    schema = "type Query { things: [Thing] } type Thing { n: Int }"
    await api.service.define("views", schema, mapped, **CACHE)
    await ask_until_hit(api.service, "views", QUERY)
    assert (await api.delete(f"/{dropped}", w=1)).status == 204
    reply = await api.service.query("views", QUERY)
    assert reply.data["things"] == []
