"""The endpoint of agents as a protocol: revisions, headers, hosts and origins, rates, bad input."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.http.harness import Mongo, Reply, Service, running
from tests.http.hosts import module_application
from tests.http.mcp_harness import AGENTS, HANDSHAKE, MODERN, ask, result, use, with_client

if TYPE_CHECKING:
    from mcp import Client

pytestmark = pytest.mark.anyio

OPERATION = {
    "name": "byId",
    "description": "One film",
    "query": "query($id: Int!) { film(id: $id) { _id title } }",
}


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    settings = {"mcp": {"allowed-origins": ["https://agent.example"]}}
    async with running(mongo_client, mongo_uri, AGENTS, settings) as one:
        one.insert("films", *({"_id": number, "title": f"Film {number}"} for number in range(3)))
        await one.define(
            "films",
            "type Query { film(id: Int!): Film } type Film { _id: Int title: String }",
            {"Query": {"film": one.find("films", {"_id": {"$arg": "id"}})}},
            operations=[OPERATION],
        )
        yield one


# --- clients and revisions ------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "legacy", MODERN])
async def test_the_client_of_the_library_finds_and_uses_the_tools(
    service: Service, mode: str
) -> None:
    async def work(client: Client) -> tuple[set[str], Any, list[str]]:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        used = await client.call_tool("films__byId", {"id": 1})
        resources = [str(one.uri) for one in (await client.list_resources()).resources]
        return tools, used, resources

    tools, used, resources = await with_client(service, work, mode=mode)

    assert {"list_apps", "get_schema", "search_schema", "run_query", "films__byId"} <= tools
    assert used.structured_content == {"data": {"film": {"_id": 1, "title": "Film 1"}}}
    assert resources == ["docgraph://apps/films/description", "docgraph://apps/films/schema"]


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
async def test_a_handshake_agrees_on_the_revision_and_opens_no_session(
    service: Service, version: str
) -> None:
    info = {"name": "tests", "version": "1"}
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": info}

    reply = await ask(service, "initialize", params)

    assert reply.json["result"]["protocolVersion"] == version
    assert reply.json["result"]["serverInfo"]["name"] == "docgraph"
    assert "mcp-session-id" not in reply.headers


@pytest.mark.parametrize(
    "wrong",
    [
        {"protocolVersion": 1},
        {"capabilities": 3},
        {"capabilities": {"roots": "x"}},
        {"clientInfo": {"name": 3}},
        {"clientInfo": None},
        {"_meta": {"progressToken": []}},
    ],
)
async def test_wrong_parameters_of_a_handshake_are_rejected_in_our_words(
    service: Service, wrong: dict[str, Any]
) -> None:
    info = {"name": "tests", "version": "1"}
    params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": info, **wrong}

    reply = await ask(service, "initialize", params)

    error = {"code": -32602, "message": "Invalid request parameters", "data": ""}
    assert reply.json == {"jsonrpc": "2.0", "id": 1, "error": error}


@pytest.mark.parametrize("mode", ["legacy", MODERN])
async def test_progress_reaches_a_client_that_wants_it(service: Service, mode: str) -> None:
    seen: list[tuple[float, str | None]] = []

    async def record(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, message))

    async def work(client: Client) -> Any:
        return await client.call_tool("films__byId", {"id": 1}, progress_callback=record)

    used = await with_client(service, work, mode=mode)

    assert used.structured_content == {"data": {"film": {"_id": 1, "title": "Film 1"}}}
    assert seen == [(0, "running films__byId"), (1, "done")]


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/json", "application/json"),
        ("application/json, text/event-stream", "text/event-stream"),
    ],
)
async def test_only_those_who_accept_a_stream_get_notifications(
    service: Service, accept: str, kind: str
) -> None:
    params = {"name": "list_apps", "_meta": {"progressToken": "p"}}

    reply = await ask(service, "tools/call", params, Accept=accept)
    plain = await ask(service, "tools/call", {"name": "list_apps"}, Accept=accept)

    assert reply.headers["content-type"].startswith(kind)
    assert plain.headers["content-type"].startswith("application/json")


async def test_the_stateless_revision_needs_no_handshake(service: Service) -> None:
    reply = await ask(service, "tools/list", version=MODERN)

    assert reply.status == 200
    assert reply.json["result"]["cacheScope"] == "private"


async def test_all_tools_are_marked_as_reading_only(service: Service) -> None:
    for tool in (await result(service, "tools/list"))["tools"]:
        assert tool["annotations"]["readOnlyHint"] is True
        assert tool["annotations"]["destructiveHint"] is False


async def test_a_notification_is_accepted_without_an_answer(service: Service) -> None:
    message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    headers = {"Accept": "application/json, text/event-stream"}

    reply = await service.request("POST", "/mcp", json=message, headers=headers)

    assert (reply.status, reply.text) == (202, "")


# --- P04: what the headers say --------------------------------------------------------------------


async def test_an_unknown_revision_is_400(service: Service) -> None:
    reply = await ask(service, "tools/list", **{"MCP-Protocol-Version": "2031-01-01"})

    assert reply.status == 400
    assert reply.json["error"]["code"] in (-32022, -32020, -32602, -32600)


@pytest.mark.parametrize(
    "headers", [{"Mcp-Method": "tools/list"}, {"Mcp-Name": "get_schema"}], ids=["method", "name"]
)
async def test_headers_that_contradict_the_body_are_400(
    service: Service, headers: dict[str, str]
) -> None:
    """Drill P04: error -32020."""
    params = {"name": "list_apps", "arguments": {}}

    reply = await ask(service, "tools/call", params, version=MODERN, **headers)

    assert reply.status == 400
    assert reply.json["error"]["code"] == -32020


async def test_blanks_around_the_value_of_a_header_do_not_count(service: Service) -> None:
    """RFC 9110 5.5."""
    params = {"name": "list_apps", "arguments": {}}

    reply = await ask(
        service, "tools/call", params, version=MODERN, **{"Mcp-Name": " list_apps \t"}
    )

    assert reply.status == 200


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH"])
async def test_other_methods_are_405(service: Service, method: str) -> None:
    reply = await service.request(method, "/mcp", headers={"Accept": "text/event-stream"})

    assert reply.status == 405
    assert "POST" in reply.headers["allow"]


# --- P02: hosts and origins -----------------------------------------------------------------------


async def _knock(service: Service, **headers: str) -> Reply:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    sent = {"Accept": "application/json, text/event-stream", **headers}
    return await service.request("POST", "/mcp", json=message, headers=sent)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "test.evil.example", "localhost.evil.example", "127.0.0.1.evil.example",
     "evil.example:80", "test@evil.example", "evil.example@test", "test:http", "test:99999",
     "[::2]", "[::1", "10.0.0.1", "local host", "localhost:80:80", ""],
)  # fmt: skip
async def test_a_host_that_is_not_listed_is_403(service: Service, host: str) -> None:
    """Drill P02."""
    reply = await _knock(service, Host=host)

    assert reply.status in (403, 400)  # the server itself refuses what is no host at all
    assert "tools" not in reply.text


@pytest.mark.parametrize("host", ["test", "localhost", "LOCALHOST:8080", "127.0.0.1", "[::1]:80"])
async def test_hosts_of_this_machine_and_listed_ones_are_let_in(
    service: Service, host: str
) -> None:
    assert (await _knock(service, Host=host)).status == 200


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "http://evil.test", "null", "http://test:81",
     "http://test.evil.example", "https://agent.example.evil.example", "http://agent.example",
     "https://agent.example:444", "file://", "https://agent.example/", "*", "x"],
)  # fmt: skip
async def test_an_origin_that_is_not_listed_is_403(service: Service, origin: str) -> None:
    """Drill P02; a listed origin has to be the same as a whole."""
    reply = await _knock(service, Origin=origin)

    assert reply.status == 403
    assert reply.json["error"]["data"]["hint"]


@pytest.mark.parametrize("origin", ["https://agent.example", "https://AGENT.example:443"])
async def test_a_listed_origin_is_let_in(service: Service, origin: str) -> None:
    assert (await _knock(service, Origin=origin)).status == 200


async def test_a_page_of_another_site_is_refused_without_an_origin_too(service: Service) -> None:
    assert (await _knock(service, **{"Sec-Fetch-Site": "cross-site"})).status == 403


async def test_a_preflight_names_the_headers_of_the_protocol(service: Service) -> None:
    reply = await service.request("OPTIONS", "/mcp", headers={"Origin": "https://agent.example"})

    accepted = reply.headers["access-control-allow-headers"].lower()
    for name in ("mcp-protocol-version", "mcp-method", "mcp-name", "authorization"):
        assert name in accepted


# --- P03: bad input -------------------------------------------------------------------------------

BROKEN: list[bytes] = [
    b"", b"{", b"[]", b"null", b"1", b'"x"', b"[1]", b"{}", b"\xff\xfe", b"\x00", b"nan",
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
    b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":7}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}',
    b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"result":{}}',
    b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":["\\udc00"]}}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":tru}}',
    b'{"jsonrpc":"2.0","id":1' + b"0" * 400 + b',"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"[" * 5000 + b"]" * 5000 + b"}}",
]  # fmt: skip


@pytest.mark.parametrize("body", BROKEN)
async def test_what_is_no_message_is_400_in_our_words(service: Service, body: bytes) -> None:
    headers = {"Accept": "application/json", "Content-Type": "application/json"}

    reply = await service.request("POST", "/mcp", content=body, headers=headers)

    assert reply.status == 400
    assert reply.json["error"]["code"] in (-32700, -32600)
    for word in ("pydantic", "orjson", "expected", "surrogate", "unexpected", "char "):
        assert word not in reply.text.lower()


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "text/json"],
)
async def test_types_that_any_page_may_send_are_refused(
    service: Service, content_type: str
) -> None:
    """Drill H05."""
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    headers = {"Accept": "*/*", **({"Content-Type": content_type} if content_type else {})}

    reply = await service.request("POST", "/mcp", content=body, headers=headers)

    assert reply.status == 415


@pytest.mark.parametrize(
    "content_type", ["APPLICATION/JSON", "application/json;charset=UTF-8", "Application/Json"]
)
async def test_the_type_of_json_may_be_written_in_any_case(
    service: Service, content_type: str
) -> None:
    """RFC 9110 8.3.1."""
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    headers = {"Accept": "APPLICATION/JSON", "Content-Type": content_type}

    reply = await service.request("POST", "/mcp", content=body, headers=headers)

    assert (reply.status, reply.json["result"]) == (200, {})


async def test_a_body_above_the_limit_is_413(service: Service) -> None:
    reply = await ask(service, "tools/list", {"x": "y" * 1_100_000})

    assert reply.status == 413


async def test_fuzzed_messages_never_break_the_server(service: Service, run_seed: int) -> None:
    """Drill P03: an error of the protocol or 4xx, never 5xx."""
    chance = random.Random(run_seed)
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    for _ in range(400):
        body, version = _fuzz(chance), chance.choice(["2025-06-18", HANDSHAKE, MODERN, "x"])
        sent = {**headers, "MCP-Protocol-Version": version}
        reply = await service.request("POST", "/mcp", content=body, headers=sent)
        assert reply.status < 500, (reply.status, body)
        assert "traceback" not in reply.text.lower()
        assert "pydantic" not in reply.text.lower()


_WORDS: list[Any] = [
    "tools/call", "tools/list", "resources/read", "resources/list", "initialize", "ping", "",
    "run_query", "films__byId", "get_schema", "docgraph://apps/films/schema", "docgraph://apps/",
    "docgraph://apps/%ff/schema", "../../etc/passwd", "films", "{ film(id: 1) { title } }", None,
    0, -1, 1e400, 2**70, True, [], {}, ["x"], {"$where": "1"}, "\ud800", "\x00", "𝕏" * 50,
    "subscriptions/listen", "server/discover", "completion/complete", "logging/setLevel",
]  # fmt: skip


def _fuzz(chance: random.Random) -> bytes:
    """A message that is nearly one, with parts that are of the wrong kind, missing or cut."""
    arguments = {
        chance.choice(["app", "query", "variables", "words", "types", "id", "cursor", "x"]): (
            chance.choice(_WORDS)
        )
        for _ in range(chance.randrange(4))
    }
    params: dict[str, Any] = {
        "name": chance.choice(_WORDS),
        "uri": chance.choice(_WORDS),
        "arguments": chance.choice([arguments, chance.choice(_WORDS)]),
        "protocolVersion": chance.choice(_WORDS),
        "cursor": chance.choice(_WORDS),
        "_meta": chance.choice([{}, None, {"progressToken": chance.choice(_WORDS)}]),
    }
    message = {
        "jsonrpc": "2.0",
        "id": chance.choice([1, "a", chance.choice(_WORDS)]),
        "method": chance.choice(["tools/call", "resources/read", chance.choice(_WORDS)]),
        "params": {key: one for key, one in params.items() if chance.random() < 0.7},
    }
    text = json.dumps(message).encode()
    if chance.random() < 0.2:
        place = chance.randrange(len(text))
        text = text[:place] + bytes([chance.randrange(256)]) + text[place + 1 :]
    return text


# --- P07: rates -----------------------------------------------------------------------------------


async def test_a_caller_who_hurries_is_told_to_wait(mongo_client: Mongo, mongo_uri: str) -> None:
    """Drill P07: 429, which says when to come back."""
    settings = {"mcp": {"enabled": True, "allowed-hosts": ["test"], "calls-per-second": 1}}
    async with running(mongo_client, mongo_uri, settings) as one:
        replies = await asyncio.gather(*(ask(one, "ping") for _ in range(50)))

    assert {reply.status for reply in replies} == {200, 429}
    refused = next(reply for reply in replies if reply.status == 429)
    assert refused.headers["retry-after"] == "1"
    assert refused.json["error"]["data"]["code"] == "too-many-requests"


async def test_callers_at_the_same_time_get_their_own_answers(service: Service) -> None:
    used = await asyncio.gather(*(use(service, "films__byId", id=n % 3) for n in range(30)))

    assert [one.json["data"]["film"]["_id"] for one in used] == [n % 3 for n in range(30)]
