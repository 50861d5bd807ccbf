"""Bodies at their limits: what is refused, how much memory the rest takes, and where it is parsed.

How long other clients wait meanwhile is measured by `make drill-bodies`.
"""

from __future__ import annotations

import gzip
import json
import threading
import tracemalloc
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from docgraph.access.writes import PermissionChecker
from docgraph.codec import form_data
from docgraph.config.section import PluginConfig
from docgraph.exchange import Resource, ResourceType, Write, WriteKind
from docgraph.exchange.errors import BodyTooLarge
from docgraph.graphql.http import persisted
from docgraph.rest.handlers import bulk, documents
from docgraph.server import content
from tests.http.hosts import module_application
from tests.http.rest_harness import Api, serving

pytestmark = pytest.mark.anyio

POOL = "docgraph-blocking"
FORM = {"content-type": "application/x-www-form-urlencoded"}
PARTS = {"content-type": "multipart/form-data; boundary=XX"}


def repeat(unit: str, times: int) -> bytes:
    return b"[" + b",".join([unit.encode()] * times) + b"]"


def watch_threads(patch: pytest.MonkeyPatch, module: Any, name: str) -> list[str]:
    """The names of the threads that call the function from now on."""
    threads: list[str] = []
    real = getattr(module, name)

    def watch(*args: Any) -> Any:
        threads.append(threading.current_thread().name)
        return real(*args)

    patch.setattr(module, name, watch)
    return threads


def part(name: str) -> bytes:
    return b'--XX\r\nContent-Disposition: form-data; name="%b"\r\n\r\n1\r\n' % name.encode()


def app(schema: str, **mapping: Any) -> dict[str, Any]:
    find = {"db": "x", "collection": "things", "find": {}, **mapping}
    return {
        "descriptor": {"uri": "limits"},
        "schema": schema,
        "mappings": {"Query": {"a": find}},
    }


@module_application
async def api(mongo_client: Any, mongo_uri: str) -> AsyncIterator[Api]:
    async with serving(mongo_client, mongo_uri, {"mcp": {"enabled": True}}) as one:
        assert (await one.put("/gql-apps")).status == 201
        yield one


REFUSED: dict[str, tuple[str, str, Callable[[], Any], dict[str, str], int]] = {
    "positions": ("POST", "/things", lambda: {f"a{n}.9999": 1 for n in range(3500)}, {}, 413),
    "positions of many": ("POST", "/things", lambda: [{"a.9999": 1}] * 20, {}, 413),
    "positions of PUT": ("PUT", "/things/x", lambda: {f"a{n}.9999": 1 for n in range(20)}, {}, 413),
    "steps": ("POST", "/things", lambda: {".".join("a" * 500_000): 1}, {}, 400),
    "arrays": ("POST", "/things", lambda: repeat("[]", 5_500_000), {}, 413),
    "objects": ("POST", "/things", lambda: repeat("{}", 1_000_001), {}, 413),
    "arrays in gzip": (
        "POST",
        "/things",
        lambda: gzip.compress(repeat("[]", 1_000_001), 1),
        {"content-encoding": "gzip"},
        413,
    ),
    "documents": ("POST", "/things", lambda: repeat('{"a":1}', 10_001), {}, 413),
    "levels": ("POST", "/things", lambda: b'{"a":' * 200_000 + b"1" + b"}" * 200_000, {}, 400),
    "digits": ("POST", "/things", lambda: b'{"a":' + b"9" * 1_000_000 + b"}", {}, 400),
    "form": ("POST", "/things", lambda: b"a=" + b"%41" * 1_000_000, FORM, 413),
    "fields": ("POST", "/things", lambda: b"&".join(b"a=1" for _ in range(1001)), FORM, 400),
    "parts": ("POST", "/things", lambda: part("a") * 1001 + b"--XX--", PARTS, 400),
    "lines": ("POST", "/things", lambda: part("a") + b"\r\n" * 1_100_000 + b"--XX--", PARTS, 413),
    "paths": ("PATCH", "/things/x", lambda: {f"a{n}": 1 for n in range(20_001)}, {}, 413),
    "pipeline": ("PATCH", "/things/x", lambda: repeat('{"$set":{"a":1}}', 7_000), {}, 413),
    "metadata": ("PUT", "/things", lambda: {"x": [1] * 20_000}, {}, 413),
    "changed metadata": ("PATCH", "/things", lambda: {"x": [1] * 20_000}, {}, 413),
    "index": (
        "PUT",
        "/things/_indexes/i",
        lambda: {"keys": {f"a{n}": 1 for n in range(20_000)}},
        {},
        413,
    ),
    "schema": ("POST", "/_schemas", lambda: {"_id": "s", "enum": [1] * 20_000}, {}, 413),
    "batch": ("POST", "/_batch", lambda: repeat("{}", 1_000_001), {}, 413),
    "tokens of SDL": (
        "POST",
        "/gql-apps",
        lambda: app("type Query {a:Int} " + "".join(f"type T{n}{{a:Int}}" for n in range(15_000))),
        {},
        400,
    ),
    "definition": (
        "POST",
        "/gql-apps",
        lambda: app("type Query {a:Int}", find={"a": {"$in": [1] * 100_000}}),
        {},
        413,
    ),
    "tool": (
        "POST",
        "/_tools/check",
        lambda: b'{"definition":{"schema":"' + b"x" * (2 << 20) + b'"}}',
        {},
        413,
    ),
    "values of a tool": (
        "POST",
        "/_tools/check",
        lambda: b'{"definition":' + repeat("[]", 600_000) + b"}",
        {},
        400,
    ),
    "query": ("POST", "/graphql/limits", lambda: {"query": " " * (1 << 20)}, {}, 413),
    "message": (
        "POST",
        "/mcp",
        lambda: (
            b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":' + repeat("[]", 20_000) + b"}}"
        ),
        {"accept": "application/json, text/event-stream", "host": "localhost"},
        413,
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_body_beyond_a_limit_is_refused(api: Api, case: str) -> None:
    method, path, build, headers, status = REFUSED[case]
    await api.put("/_schemas")

    reply = await api.send(method, path, build(), headers=headers)

    assert reply.status == status, reply.text[:300]


TAKEN: dict[str, Callable[[], bytes]] = {
    "arrays": lambda: b'{"a":' + repeat("[]", 999_998) + b"}",
    "documents": lambda: repeat('{"a":1}', 10_000),
    "keys": lambda: json.dumps({f"k{n}": 0 for n in range(200_000)}).encode(),
    "text": lambda: b'{"a":"' + b"\\u00e9" * 2_000_000 + b'"}',
    "notation of the shell": lambda: b"{a:" + repeat("ObjectId()", 20_000) + b"}",
}


@pytest.mark.parametrize("case", TAKEN)
async def test_a_body_at_its_limit_takes_little_memory(api: Api, case: str) -> None:
    body = TAKEN[case]()
    tracemalloc.start()
    try:
        reply = await api.post("/things", body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert reply.status in (200, 201), reply.text[:300]
    assert peak < 4 * len(body) + (160 << 20)


@pytest.mark.parametrize(
    ("module", "name", "path", "body", "headers"),
    [
        (content, "decode", "/things", b'{"a":"%b"}' % (b"x" * 40_000), {}),
        (form_data, "decode", "/things", b"a=%b" % (b"x" * 40_000), FORM),
        (bulk, "prepare_document", "/things", b'[{"a":"%b"}]' % (b"x" * 40_000), {}),
        (persisted, "parse_body", "/graphql/limits", b'{"query":"%b"}' % (b"x" * 40_000), {}),
    ],
)
@pytest.mark.parametrize("is_large", [True, False])
async def test_large_bodies_are_parsed_in_a_thread(  # noqa: PLR0917
    api: Api,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    name: str,
    path: str,
    body: bytes,
    headers: dict[str, str],
    is_large: bool,
) -> None:
    threads = watch_threads(monkeypatch, module, name)
    await api.put("/gql-apps/x", app("type Query {a: [T]} type T {n: Int}"), wm="upsert")

    await api.send("POST", path, body if is_large else body.replace(b"x" * 39_000, b""), headers)

    assert threads[-1].startswith(POOL) is is_large


async def test_an_update_is_built_in_a_thread_when_it_is_large(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = watch_threads(monkeypatch, documents, "build_update")

    reply = await api.patch("/things/x", {"a": "x" * 40_000}, wm="upsert")

    assert reply.status == 201
    assert threads[0].startswith(POOL)


async def test_a_permission_has_a_bounded_number_of_values() -> None:
    """It is refused before anybody looks at it, so the checker needs nothing else."""
    nothing: Any = None
    checker = PermissionChecker(PluginConfig(), nothing, nothing, nothing)
    rule = {"roles": ["x"], "predicate": "true", "mongo": {"readFilter": {"a": [1] * 20_000}}}
    resource = Resource(ResourceType.DOCUMENT, "docgraph", "acl", "x")

    with pytest.raises(BodyTooLarge, match="the permission has more than 20000 values"):
        await checker.before_write(None, resource, Write(WriteKind.INSERT, (rule,)))
