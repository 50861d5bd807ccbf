"""Memory that runs out in a request is overload (decision 51): 503 everywhere, never 500."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from docgraph.mcp import query_tools
from docgraph.store.driver.fast_path import FastPath
from tests.http.harness import Service, running
from tests.http.hosts import module_application
from tests.http.mcp_harness import AGENTS, ask

pytestmark = pytest.mark.anyio


@module_application
async def service(mongo_client: Any, mongo_uri: str) -> AsyncIterator[Service]:
    every = {"mongo": {"mongo-mounts": [{"what": "*", "where": "/"}]}}
    async with running(mongo_client, mongo_uri, AGENTS, every) as one:
        mongo_client[one.db].create_collection("things")
        mappings = {"Query": {"all": one.find("things", {})}}
        await one.define("things", "type Query { all: [T] } type T { n: Int }", mappings)
        yield one


@pytest.fixture(autouse=True)
def without_memory(monkeypatch: pytest.MonkeyPatch, service: Service) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(FastPath, "read", fail)


async def test_graphql_reports_overload(service: Service) -> None:
    reply = await service.query("things", "{ all { n } }")

    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    assert reply.error["extensions"]["code"] == "overloaded"


@pytest.mark.parametrize("query", ["", "?format=csv", "?count=true"])
async def test_rest_reports_overload(service: Service, query: str) -> None:
    reply = await service.request("GET", f"/{service.db}/things{query}")

    assert reply.status == 503, reply.text
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    assert reply.json["code"] == "overloaded"


async def test_an_agent_learns_of_overload(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the tool runs out of memory itself."""

    def fail(*_: Any) -> None:
        raise MemoryError

    params = {"name": "run_query", "arguments": {"app": "things", "query": "{ all { n } }"}}
    first = await ask(service, "tools/call", params)
    monkeypatch.undo()
    monkeypatch.setattr(query_tools, "encode_data", fail)
    second = await ask(service, "tools/call", params)

    for reply in (first, second):
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
        assert reply.json["error"]["data"]["code"] == "overloaded"
