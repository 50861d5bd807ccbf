"""Streams end with the session that opened them: its token, its cookie, its user."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import jwt
import pytest

from tests.http.harness import Mongo
from tests.http.realms import open_realm, render_basic
from tests.http.stream_harness import SSE, WEBSOCKET, listen
from tests.http.tokens import KEY

pytestmark = pytest.mark.anyio

PATH = "/notes/_streams/all"
LOGIN = {"authorization": render_basic("ada", "right")}
Leave = Callable[[Any, dict[str, str]], Awaitable[Any]]


async def revoke(realm: Any, who: dict[str, str]) -> None:
    reply = await realm.service.request("DELETE", "/tokens/ada", headers=LOGIN)
    assert reply.status == 204


async def log_out(realm: Any, who: dict[str, str]) -> None:
    reply = await realm.service.request("POST", "/logout", headers=who)
    assert reply.status == 200


async def delete_user(realm: Any, who: dict[str, str]) -> None:
    reply = await realm.service.request("DELETE", "/users/ada", headers=LOGIN)
    assert reply.status == 204


@pytest.mark.parametrize(
    ("leave", "credentials", "by"),
    [
        (revoke, "token", SSE),
        (revoke, "cookie", WEBSOCKET),
        (log_out, "cookie", SSE),
        (delete_user, "password", WEBSOCKET),
        (delete_user, "token", SSE),
    ],
)
async def test_a_stream_ends_with_its_session(
    mongo_client: Mongo, mongo_uri: str, database: str, leave: Leave, credentials: str, by: str
) -> None:
    settings = {
        "mongo": {"mongo-mounts": [{"what": f"/{database}", "where": "/"}]},
        "fullAuthorizer": {"enabled": True, "authentication-required": True},
        "authCookieSetter": {"enabled": True, "secure": False},
        "authCookieHandler": {"enabled": True},
        "authCookieRemover": {"enabled": True},
    }
    async with open_realm(mongo_client, mongo_uri, database, settings) as realm:
        await realm.insert({"_id": "ada", "password": "right", "roles": []})
        body = {"streams": [{"uri": "all", "stages": []}]}
        reply = await realm.service.request(
            "PUT", "/notes?set-auth-cookie", headers=LOGIN, json=body
        )
        ways = {
            "password": LOGIN,
            "token": {"authorization": render_basic("ada", reply.headers["auth-token"])},
            "cookie": {"cookie": reply.headers["set-cookie"].partition(";")[0]},
        }
        who = ways[credentials]
        async with listen(realm.service, PATH, who, by=by) as client:
            await leave(realm, who)
            assert await client.wait_closed() == (1008, "the credentials are no longer valid")


@pytest.mark.parametrize(
    ("by", "manager"),
    [(SSE, None), (WEBSOCKET, None), (WEBSOCKET, "rndTokenManager"), (SSE, "jwtTokenManager")],
)
async def test_a_stream_ends_when_its_token_expires(
    mongo_client: Mongo, mongo_uri: str, database: str, by: str, manager: str | None
) -> None:
    """Long before its permissions are checked again.

    Decision 57: a token of ours that descends from a foreign one ends a stream no later.
    """
    settings = {
        "mongo": {"mongo-mounts": [{"what": f"/{database}", "where": "/"}]},
        "fullAuthorizer": {"enabled": True, "authentication-required": True},
        "jwtAuthenticationMechanism": {"enabled": True, "key": KEY, "leeway": 0},
    }
    if manager == "jwtTokenManager":
        settings["rndTokenManager"] = {"enabled": False}
        settings[manager] = {"enabled": True, "key": KEY[::-1]}
    async with open_realm(mongo_client, mongo_uri, database, settings) as realm:
        await realm.insert({"_id": "ada", "password": "right", "roles": []})
        body = {"streams": [{"uri": "all", "stages": []}]}
        await realm.service.request("PUT", "/notes", headers=LOGIN, json=body)
        renewals = realm.service.app.plugins.find("events")._renewals
        ends = int(time.time()) + 600
        token = jwt.encode({"sub": "ada", "exp": ends}, KEY, algorithm="HS256")
        who = {"authorization": f"Bearer {token}"}
        if manager:
            reply = await realm.service.request("GET", "/tokens", headers=who)
            who = {"authorization": render_basic("ada", reply.headers["auth-token"])}
        async with listen(realm.service, PATH, who, by=by) as client:
            (session,) = renewals.sessions
            assert ends - 1 <= session.expires_at <= ends
            plugins = realm.service.app.plugins
            plugins.find("jwtAuthenticationMechanism")._verifier._clock = lambda: float(ends)
            if manager == "jwtTokenManager":
                plugins.find(manager)._verifier._clock = lambda: float(ends)
            else:
                plugins.find("rndTokenManager")._issued._wall = lambda: float(ends)
            renewals._wall = lambda: float(ends)
            assert await client.wait_closed() == (1008, "the credentials are no longer valid")
