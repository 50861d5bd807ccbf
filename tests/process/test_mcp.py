"""Agents and the real command: `docgraph mcp` on its streams, and a server with two workers."""

from __future__ import annotations

import asyncio
import json
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from pymongo import MongoClient

from tests.http.harness import failing
from tests.process.commands import ROOT, run, start
from tests.process.harness import Server, run_server

if TYPE_CHECKING:
    # The tests load the library when they need it: that takes most of a second.
    from mcp import Client

Mongo = MongoClient[dict[str, Any]]

BLOG = {
    "_id": "blog",
    "schema": "type Query { posts: [Post] } type Post { title: String secret: String "
    '@visible(roles: ["editor"]) }',
    "descriptor": {"operations": [{"name": "titles", "query": "{ posts { title } }"}]},
}
RULES = [
    {"_id": "agents", "roles": ["reader"], "predicate": "path-prefix('/mcp')"},
    {"_id": "apps", "roles": ["reader"], "predicate": "path-prefix('/graphql')"},
]
PASSWORD = "correct horse battery"


@pytest.fixture
def db(mongo_client: Mongo, database: str) -> str:
    own = mongo_client[database]
    mapping = {"Query": {"posts": {"db": database, "collection": "posts"}}}
    own["gql-apps"].insert_one({**BLOG, "mappings": mapping})
    own["posts"].insert_one({"title": "Hello", "secret": "treasure"})
    own["acl"].insert_many(RULES)
    own["users"].insert_many(
        [
            {"_id": "rita", "password": PASSWORD, "roles": ["reader"]},
            {"_id": "stan", "password": PASSWORD, "roles": ["stranger"]},
        ]
    )
    return database


def settings(uri: str, db: str) -> dict[str, Any]:
    return {
        "mclient": {"connection-string": uri},
        "graphql": {"db": db},
        "dbRealmAuthenticator": {"users-db": db, "bcrypt-hashed-password": False},
        "dbAclAuthorizer": {"acl-db": db},
        "mongo": {"enabled": False},
    }


def options(uri: str, db: str) -> list[str]:
    return [
        f"--set=/{section}/{name}={json.dumps(value)}"
        for section, own in settings(uri, db).items()
        for name, value in own.items()
    ]


# --- docgraph mcp ---------------------------------------------------------------------------------


def local_agent(user: str, uri: str, db: str) -> Client:
    from mcp import Client, StdioServerParameters

    command = ["-m", "docgraph", "mcp", "--user", user, *options(uri, db)]
    return Client(StdioServerParameters(command=sys.executable, args=command, cwd=str(ROOT)))


def test_a_local_agent_acts_as_the_named_user(mongo_uri: str, db: str) -> None:
    async def session() -> None:
        async with local_agent("rita", mongo_uri, db) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            assert "blog__titles" in tools
            used = await client.call_tool("blog__titles", {})
            assert used.structured_content == {"data": {"posts": [{"title": "Hello"}]}}
            asked = {"app": "blog", "query": "{ posts { secret } }"}
            hidden = await client.call_tool("run_query", asked)
            assert hidden.is_error
            assert "Cannot query field 'secret'" in hidden.content[0].text  # type: ignore[union-attr]

    asyncio.run(session())


@pytest.mark.usefixtures("preloaded")
def test_a_local_agent_of_a_user_without_the_right_is_refused(mongo_uri: str, db: str) -> None:
    client = {"name": "test", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    with start("mcp", "--user", "stan", *options(mongo_uri, db)) as agent:
        agent.stdin.write("".join(f"{json.dumps(one)}\n" for one in messages))
        agent.stdin.flush()
        replies = map(json.loads, agent.stdout)
        answer = next(reply for reply in replies if reply.get("id") == 2)

    assert "this user may not use /mcp" in answer["error"]["message"]


@pytest.mark.usefixtures("preloaded")
def test_an_unknown_user_is_one_clear_line(mongo_uri: str, db: str) -> None:
    done = run("mcp", "--user", "nobody", *options(mongo_uri, db), input="")

    assert done.returncode == 1
    assert "there is no user 'nobody'" in done.stderr
    assert done.stdout == ""


_HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def converse(mongo_uri: str, db: str, *messages: Any) -> list[dict[str, Any]]:
    """What a local agent is told by the end, for lines that are messages or raw text."""
    lines = [one if isinstance(one, str) else json.dumps(one) for one in messages]
    done = run("mcp", "--user", "rita", *options(mongo_uri, db), input="\n".join([*lines, ""]))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def request(id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


@pytest.mark.usefixtures("preloaded")
def test_progress_and_log_messages_reach_a_local_agent_that_wants_them(
    mongo_uri: str, db: str
) -> None:
    told = converse(
        mongo_uri,
        db,
        request(1, "initialize", **_HELLO),
        request(2, "logging/setLevel", level="info"),
        request(3, "tools/call", name="blog__titles", _meta={"progressToken": "p"}),
    )

    assert {one["id"] for one in told if "id" in one} == {1, 2, 3}
    progress = [one["params"] for one in told if one.get("method") == "notifications/progress"]
    assert [(one["progressToken"], one["progress"]) for one in progress] == [("p", 0), ("p", 1)]
    (message,) = [one["params"] for one in told if one.get("method") == "notifications/message"]
    assert (message["level"], message["data"]["tool"]) == ("info", "blog__titles")


@pytest.mark.usefixtures("preloaded")
def test_a_local_agent_without_a_handshake_is_rejected_and_broken_lines_are_answered(
    mongo_uri: str, db: str
) -> None:
    told = converse(
        mongo_uri,
        db,
        "{",
        "[]",
        "",
        request(1, "tools/list"),
        request(2, "ping"),
        request(3, "initialize", **_HELLO),
        request(4, "prompts/list"),
    )

    errors = [one["error"]["code"] for one in told if one.get("id") is None]
    assert errors == [-32700, -32600]
    answers = {one["id"]: one for one in told if one.get("id") is not None}
    assert answers[1]["error"]["code"] == -32602
    assert answers[2]["result"] == {}
    assert answers[3]["result"]["protocolVersion"] == "2025-11-25"
    assert [one["name"] for one in answers[4]["result"]["prompts"]] == ["blog"]


@pytest.mark.usefixtures("preloaded")
def test_two_requests_with_one_id_are_both_answered(
    mongo_uri: str, mongo_client: Mongo, db: str
) -> None:
    """The second waits for the first, which is not forgotten at the end of the input."""
    hello = request(1, "initialize", **_HELLO)
    slow = {"mode": {"times": 1}, "blockConnection": True, "blockTimeMS": 500}

    with failing(mongo_client, "find", namespace=f"{db}.posts", **slow):
        told = converse(
            mongo_uri, db, hello, request(2, "tools/call", name="blog__titles"), request(2, "ping")
        )

    assert [one["id"] for one in told] == [1, 2, 2]


# --- a server -------------------------------------------------------------------------------------


@contextmanager
def serving(uri: str, db: str, **mcp: Any) -> Iterator[Server]:
    agents = {"enabled": True, **mcp}
    core = {"workers": 2}
    own = settings(uri, db)
    sections = {**own, "fullAuthorizer": {"enabled": False}, "mcp": agents, "core": core}
    with run_server({**sections, "logging": {"level": "info", "format": "json"}}) as server:
        yield server


def credentials(user: str) -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(f'{user}:{PASSWORD}'.encode()).decode()}"}


@pytest.mark.usefixtures("preloaded")
def test_a_client_over_the_network_works_with_any_worker(mongo_uri: str, db: str) -> None:
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async def session(server: Server) -> None:
        url = f"http://127.0.0.1:{server.port}/mcp"
        async with httpx2.AsyncClient(headers=credentials("rita"), timeout=60) as http:
            for mode in ("legacy", "2026-07-28"):
                transport = streamable_http_client(url, http_client=http)
                async with Client(transport, mode=mode) as client:
                    for _ in range(5):
                        used = await client.call_tool("blog__titles", {})
                        assert used.structured_content == {"data": {"posts": [{"title": "Hello"}]}}

    with serving(mongo_uri, db, **{"calls-per-second": 1000}) as server:
        asyncio.run(session(server))
        called = server.named("tool-called")

    assert {(one["tool"], one["app"], one["account"]) for one in called} == {
        ("blog__titles", "blog", "rita")
    }


@pytest.mark.usefixtures("preloaded")
def test_the_share_of_a_caller_is_counted_over_all_workers(mongo_uri: str, db: str) -> None:
    """Drill P07."""

    async def flood(server: Server) -> list[int]:
        url = f"http://127.0.0.1:{server.port}/mcp"
        message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        headers = {**credentials("rita"), "Accept": "application/json"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            replies = await asyncio.gather(*(http.post(url, json=message) for _ in range(60)))
        return [reply.status_code for reply in replies]

    with serving(mongo_uri, db, **{"calls-per-second": 1}) as server:
        statuses = asyncio.run(flood(server))

    assert set(statuses) == {200, 429}


@pytest.mark.usefixtures("preloaded")
def test_a_server_without_agents_never_loads_the_library(mongo_uri: str, db: str) -> None:
    code = (
        "import sys, docgraph.server.builtin, docgraph.cli.serve, docgraph.server.process.host;"
        "print([name for name in sys.modules if name.split('.')[0] in ('mcp', 'mcp_types')])"
    )

    done = run(code=code)

    assert done.stdout.strip() == "[]"
