"""`GET /_tools/rights`: each caller learns which methods the rules permit, as requests would."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.http.access_harness import ADMIN, NOBODY, allow, caller, guarded
from tests.http.harness import Mongo, Reply, Service
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

READER = caller("rita", "reader")
WRITER = caller("will", "writer")
ALL = ["GET", "POST", "PUT", "PATCH", "DELETE"]


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        await allow(one, "path-prefix('/things') and method(GET)", "reader")
        await allow(one, "path-prefix('/notes') and method(GET)", "$unauthenticated")
        await allow(
            one, "path('/things') and method(POST) and bson-request-contains(text)", "writer"
        )
        await allow(one, "path-template('/users/{id}') and equals(@user._id, ${id})", "reader")
        yield one


async def ask(service: Service, who: dict[str, str], *paths: str) -> Reply:
    return await service.request(
        "GET", "/_tools/rights", headers=who, params=[("path", one) for one in paths]
    )


async def rights(service: Service, who: dict[str, str], path: str) -> Any:
    reply = await ask(service, who, path)
    assert reply.status == 200
    (found,) = reply.json["rights"]
    return found


async def test_callers_learn_who_they_are_and_what_they_may_do(service: Service) -> None:
    reply = await ask(service, READER, "/things", "/things/_indexes/by_name", "/notes")

    assert reply.status == 200
    assert reply.headers["cache-control"] == "no-store"
    services = reply.json.pop("services")
    assert "mongo" in services
    assert "tools" not in services
    assert reply.json == {
        "user": "rita",
        "roles": ["reader"],
        "rights": [
            {"path": "/things", "allowed": ["GET"], "conditional": [], "partial": []},
            {"path": "/things/_indexes/by_name", "allowed": [], "conditional": [], "partial": []},
            {"path": "/notes", "allowed": ["GET"], "conditional": [], "partial": []},
        ],
    }


async def test_a_rule_that_hides_properties_is_reported_for_its_methods_only(
    service: Service,
) -> None:
    hiding = {"projectResponse": {"secret": 0}}
    await allow(service, "path-prefix('/veiled') and method(GET)", "veiled", mongo=hiding)
    await allow(service, "path-prefix('/veiled') and method(PATCH)", "veiled")
    found = await rights(service, caller("vera", "veiled"), "/veiled/1")

    assert found["allowed"] == ["GET", "PATCH"]
    assert found["partial"] == ["GET"]
    assert (await rights(service, ADMIN, "/veiled/1"))["partial"] == []


async def test_anonymous_callers_need_no_rule(service: Service) -> None:
    reply = await ask(service, NOBODY, "/things", "/notes")

    assert reply.json["user"] is None
    assert [one["allowed"] for one in reply.json["rights"]] == [[], ["GET"]]


async def test_services_are_those_that_a_rule_leads_to(service: Service) -> None:
    writer = (await ask(service, caller("gina", "grapher"))).json["services"]
    await allow(service, "path-prefix('/graphql/blog')", "grapher")
    grapher = (await ask(service, caller("gina", "grapher"))).json["services"]

    assert "graphql" not in writer
    assert set(grapher) - set(writer) == {"graphql"}
    assert "visibleApps" in writer  # it needs no rule


async def test_the_root_role_may_do_everything(service: Service) -> None:
    assert (await rights(service, ADMIN, "/things"))["allowed"] == ALL


async def test_a_rule_about_the_body_is_conditional(service: Service) -> None:
    found = await rights(service, WRITER, "/things")

    assert found["allowed"] == []
    assert found["conditional"] == ["POST"]


async def test_rules_about_the_path_decide_by_the_path(service: Service) -> None:
    assert (await rights(service, READER, "/users/rita"))["allowed"] == ALL
    assert (await rights(service, READER, "/users/will"))["allowed"] == []


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("who", [NOBODY, READER, WRITER], ids=["nobody", "reader", "writer"])
async def test_the_answer_is_that_of_the_request_itself(
    service: Service, who: dict[str, str], method: str
) -> None:
    path = "/things/none"
    found = await rights(service, who, path)
    reply = await service.request(method, path, headers=who)

    assert (reply.status not in (401, 403)) is (method in found["allowed"])


async def test_too_many_paths_and_no_paths(service: Service) -> None:
    many = await ask(service, NOBODY, *(f"/things/{number}" for number in range(41)))
    wrong = await ask(service, NOBODY, "things")

    assert (many.status, wrong.status) == (400, 400)
    assert (await ask(service, READER)).json["rights"] == []
