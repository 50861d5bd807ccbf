"""Users that another program changes in the database: idle live queries and streams notice it.

A minute passes between two checks without an announcement: longer than the tests wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from docgraph.auth.tokens import revocation_watch
from tests.http.access_harness import ADMIN, allow, guarded
from tests.http.harness import Document, Mongo, Service, eventually
from tests.http.live_harness import subscribe
from tests.http.realms import hashed, render_basic
from tests.http.stream_harness import listen

pytestmark = pytest.mark.anyio

SCHEMA = "type Query { mine: [Note] } type Note { _id: Int }"
MINE = "query @live { mine { _id } }"
SETTINGS: Document = {
    "events": {"renewal-interval-ms": 60_000},
    "basicAuthMechanism": {"enabled": True},
    "rndTokenManager": {"enabled": False},
    "jwtTokenManager": {"enabled": True, "key": 40 * "x"},
    "tokenBasicAuthMechanism": {"enabled": True},
}
ZOE = {"authorization": render_basic("zoe", "secret")}
ROWS = {"team": "@user.team"}


@pytest.fixture(params=[False, True], ids=["read", "cached"])
async def service(
    mongo_client: Mongo,
    mongo_uri: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Service]:
    monkeypatch.setattr(revocation_watch, "_ANNOUNCE_SECONDS", 0.05)
    cache: Document = {"cache-enabled": request.param, "cache-ttl": 600_000}
    async with guarded(mongo_client, mongo_uri, SETTINGS, {"dbRealmAuthenticator": cache}) as one:
        user = {"_id": "zoe", "password": hashed("secret"), "roles": ["user"], "team": "blue"}
        one.insert("users", user)
        one.insert("notes", {"_id": 1, "team": "blue"}, {"_id": 2, "team": "red"})
        mapped = {"Query": {"mine": one.find("notes", {"team": {"$arg": "@user.team"}})}}
        await one.define("app", SCHEMA, mapped, live=True)
        await allow(one, "path-prefix('/')", "user", mongo={"readFilter": ROWS})
        yield one


def mine(*ids: int) -> Document:
    return {"data": {"mine": [{"_id": id} for id in ids]}}


async def change(service: Service, update: Document | None) -> None:
    """Change the user straight in the database (None: delete her); wait until it is announced."""
    watcher = service.app.plugins.find("tokenRevocationsWatcher")
    await service.there(watcher.follower.wait_open())
    before = watcher._generations.read("users")
    users = service.mongo[service.db].users
    if update is None:
        await asyncio.to_thread(users.delete_one, {"_id": "zoe"})
    else:
        await asyncio.to_thread(users.update_one, {"_id": "zoe"}, {"$set": update})
    await eventually(lambda: watcher._generations.read("users") > before)


async def test_other_properties_give_another_answer(service: Service) -> None:
    async with subscribe(service, "app", MINE, ZOE) as client:
        assert await client.next() == mine(1)
        await change(service, {"team": "red"})
        assert await client.next() == mine(2)


ENDINGS: dict[str, tuple[Document | None, str]] = {
    "without the role": ({"roles": ["guest"]}, "forbidden"),
    "deleted": (None, "unauthenticated"),
    "with another password": ({"password": hashed("other")}, "unauthenticated"),
}


@pytest.mark.parametrize("name", ENDINGS)
async def test_a_user_who_may_no_longer_read_gets_no_more_answers(
    service: Service, name: str
) -> None:
    update, code = ENDINGS[name]
    async with subscribe(service, "app", MINE, ZOE) as client:
        assert await client.next() == mine(1)
        await change(service, update)
        (error,) = (await client.next())["errors"]
        assert error["extensions"]["code"] == code
        assert await client.wait_closed() == (0, "complete")


ROW_FILTERS: dict[str, Document | None] = {
    "other rows": {"team": "red"},
    "without the role": {"roles": ["guest"]},
    "deleted": None,
}


@pytest.mark.parametrize("name", ROW_FILTERS)
async def test_her_change_streams_end(service: Service, name: str) -> None:
    streams: Document = {"streams": [{"uri": "all", "stages": []}]}
    reply = await service.request("PUT", "/notes", headers=ADMIN, json=streams)
    assert reply.status in {200, 201}, reply.text
    async with listen(service, "/notes/_streams/all", ZOE) as client:
        await change(service, ROW_FILTERS[name])
        assert await client.wait_closed()


@pytest.mark.parametrize("way", ["$out", "rename"])
async def test_tokens_end_when_another_collection_replaces_the_users(
    service: Service, way: str
) -> None:
    watcher = service.app.plugins.find("tokenRevocationsWatcher")
    await service.there(watcher.follower.wait_open())
    token = (await service.request("GET", "/whoami", headers=ZOE)).headers["auth-token"]
    holder = {"authorization": render_basic("zoe", token)}
    assert (await service.request("GET", "/whoami", headers=holder)).status == 403  # without a team
    database = service.mongo[service.db]
    if way == "$out":
        await asyncio.to_thread(database.notes.aggregate, [{"$out": "users"}])
    else:
        await asyncio.to_thread(database.notes.rename, "users", dropTarget=True)
    marks = database["_revocations"]
    await eventually(lambda: marks.find_one({"_id": "everyone"}) is not None)
    assert (await service.request("GET", "/whoami", headers=holder)).status == 401
