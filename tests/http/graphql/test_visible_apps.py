"""`GET /_tools/apps`: each caller learns which apps there are for him, and of no other."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.http.access_harness import ADMIN, NOBODY, allow, caller, guarded
from tests.http.harness import Mongo, Reply, Service
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

READER = caller("rita", "reader")
SCHEMA = "type Query { things: [Thing] } type Thing { _id: String }"


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        mapping = {"Query": {"things": one.find("things")}}
        await one.define("open", SCHEMA, mapping, description="For <b>all</b>")
        await one.define("readers", SCHEMA, mapping, uri="v1/für alle")
        await one.define("vault", SCHEMA, mapping)
        await one.define("off", SCHEMA, mapping, enabled=False)
        await allow(one, "path-prefix('/graphql/open')", "$unauthenticated")
        await allow(one, "path-prefix('/graphql/v1')", "reader")
        yield one


async def ask(service: Service, who: dict[str, str] = NOBODY, query: str = "") -> Reply:
    reply = await service.request("GET", f"/_tools/apps{query}", headers=who)
    assert reply.status == 200
    return reply


def names(reply: Reply) -> list[str]:
    return [one["app"] for one in reply.json["apps"]]


async def test_callers_see_the_apps_that_they_may_ask(service: Service) -> None:
    assert names(await ask(service)) == ["open"]
    assert names(await ask(service, READER)) == ["open", "v1/für alle"]
    assert names(await ask(service, ADMIN)) == ["open", "v1/für alle", "vault"]


async def test_an_app_has_its_path_and_what_its_author_says_of_it(service: Service) -> None:
    reply = await ask(service, READER)

    assert reply.json == {
        "apps": [
            {"app": "open", "path": "/graphql/open", "description": "For <b>all</b>"},
            {"app": "v1/für alle", "path": "/graphql/v1/f%C3%BCr%20alle"},
        ]
    }
    assert reply.headers["cache-control"] == "no-store"
    answer = await service.request(
        "POST", reply.json["apps"][1]["path"], headers=READER, json={"query": "{ __typename }"}
    )
    assert answer.json == {"data": {"__typename": "Query"}}


async def test_a_long_list_comes_in_pages(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docgraph.server.services.rights._MAX_APPS", 1)
    first = await ask(service, READER)
    second = await ask(service, READER, f"?after={first.json['next']}")

    assert (names(first), names(second)) == (["open"], ["v1/für alle"])
    assert "next" not in second.json


async def test_what_comes_after_names_no_app_of_others(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docgraph.server.services.rights._MAX_CHECKED", 1)

    assert names(await ask(service)) == ["open"]
    assert "next" not in (await ask(service)).json


async def test_wrong_credentials_are_refused(service: Service) -> None:
    reply = await service.request(
        "GET", "/_tools/apps", headers={"Authorization": "Bearer nonsense"}
    )

    assert reply.status == 401


async def test_there_is_nothing_to_write(service: Service) -> None:
    assert (await service.request("POST", "/_tools/apps", headers=ADMIN, json={})).status == 405
    assert (await service.request("GET", "/_tools/apps/open", headers=ADMIN)).status == 405
