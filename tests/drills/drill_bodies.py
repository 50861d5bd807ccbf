"""The worst bodies that the limits allow: how long another client waits, and how much memory.

    make drill-bodies               LONGEST_MS=250

Each body is sent alone while another client asks for `/ping` all the time. No answer to it may take
longer than the bound, and the server may need four times the body or its answer, and 160 MiB. The
bound is for an idle machine: what a busy one adds is shown by the time of a quiet ping.
"""

from __future__ import annotations

import gzip
import http.client
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from pymongo import MongoClient

from tests.drills.server import DrillServer, describe_load, serving

LONGEST = float(os.environ.get("LONGEST_MS", "250")) / 1000
MIB = 1 << 20
SPARE = 160 * MIB
APP = {
    "_id": "bodies",
    "descriptor": {"uri": "bodies"},
    "schema": "type Query { a(x: BsonDocument): [T] } type T { n: Int }",
    "mappings": {"Query": {"a": {"db": "bodies", "collection": "few", "find": {}}}},
}
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
PARTS = "multipart/form-data; boundary=XX"
LINE = 8_000  # bytes of a header, or of a URL

pytestmark = pytest.mark.timeout(300)


def repeat(unit: bytes, times: int) -> bytes:
    return b"[" + b",".join([unit] * times) + b"]"


def parts(count: int, value: bytes) -> bytes:
    head = b'--XX\r\nContent-Disposition: form-data; name="n%d"\r\n\r\n%b\r\n'
    return b"".join(head % (n, value) for n in range(count)) + b"--XX--\r\n"


def define(schema: str) -> bytes:
    return json.dumps(
        {**APP, "_id": "other", "descriptor": {"uri": "o"}, "schema": schema}
    ).encode()


def ask(members: bytes) -> bytes:
    return b'{"query":"{a{n}}",' + members + b"}"


def rule(number: int, predicate: str = "path-prefix('/x') and method(GET)", **mongo: Any) -> Any:
    return {"_id": f"r{number}", "roles": ["x"], "predicate": predicate, "mongo": mongo}


def aggregations(count: int, value: int) -> bytes:
    stages = [{"$match": {"a": value}}]
    entries = [{"type": "pipeline", "uri": f"a{n}", "stages": stages} for n in range(count)]
    return json.dumps({"aggrs": entries}).encode()


def schema(id: str, properties: dict[str, Any]) -> bytes:
    return json.dumps({"_id": id, "properties": properties}).encode()


def multiply(levels: int) -> bytes:
    """A schema with definitions each of which refers twice to the next."""
    steps = [{"$ref": f"#/definitions/d{n}"} for n in range(levels + 1)]
    definitions: dict[str, Any] = {f"d{n}": {"anyOf": [steps[n + 1]] * 2} for n in range(levels)}
    definitions[f"d{levels}"] = {"type": "string"}
    return json.dumps({"_id": "more", "definitions": definitions, "allOf": [steps[0]]}).encode()


# What the documents of collections must follow, in the property of that name.
FAN = {f"d{n}": {"anyOf": [{"$ref": f"#/definitions/d{n + 1}"}] * 2} for n in range(7)}
COSTLY: dict[str, Any] = {
    "fan": {"items": {"$ref": "#/definitions/d0"}},
    "objects": {"items": {"enum": [{"k": n} for n in range(1_000)]}},
    "texts": {"items": {"enum": [f"t{n}" for n in range(250)]}},
    "unique": {"uniqueItems": True},
    "names": {"propertyNames": {"maxLength": 3}},
    "patterns": {"patternProperties": {f"^a{n}.*z$": {} for n in range(100)}},
    "closed": {"additionalProperties": False},
    "contains": {"contains": {"type": "string"}},
}
CHECKED: list[tuple[str, str, int]] = [
    ("fan", "1", 1),
    ("fan", "1", 12_000),
    ("fan", "1", 190_000),
    ("objects", '{"k":-1}', 390),
    ("objects", '{"k":-1}', 2_500),
    ("texts", '"no"', 990),
    ("texts", '"no"', 40_000),
    ("unique", "%d", 190_000),
    ("unique", '{"k":%d}', 99_000),
    ("names", '"key%d":0', 100),
    ("names", '"key%d":0', 2_000),
    ("names", '"key%d":0', 190_000),
    ("patterns", '"k%d":0', 16_000),
    ("patterns", '"k%d":0', 190_000),
    ("closed", '"k%d":0', 190_000),
    ("contains", "1", 190_000),
]


def within(name: str, unit: str, times: int) -> bytes:
    parts = ",".join(unit % n if "%" in unit else unit for n in range(times))
    content = f"{{{parts}}}" if unit.endswith(":0") else f"[{parts}]"
    return f'{{"{name}":{content}}}'.encode()


def types(count: int) -> str:
    return "type Query { a: T0 } " + " ".join(f"type T{n} {{ a: Int }}" for n in range(count))


Body = Callable[[], bytes]
WORST: dict[str, tuple[str, str, Body, dict[str, str]]] = {
    "JSON arrays": ("POST", "/many", lambda: b'{"a":' + repeat(b"[]", 999_998) + b"}", {}),
    "JSON objects": ("POST", "/many", lambda: b'{"a":' + repeat(b"{}", 999_998) + b"}", {}),
    "JSON beyond": ("POST", "/many", lambda: repeat(b"[]", 5_500_000), {}),
    "JSON keys": (
        "PUT",
        "/many/k?wm=upsert",
        lambda: json.dumps({f"k{n}": 0 for n in range(700_000)}).encode(),
        {},
    ),
    "JSON text": ("POST", "/many", lambda: b'{"a":"' + b"x" * (15 * MIB) + b'"}', {}),
    "JSON levels": ("POST", "/many", lambda: b'{"a":' * 200_000 + b"1" + b"}" * 200_000, {}),
    "JSON of people": ("POST", "/many", lambda: b"{a:" + repeat(b"{}", 340_000) + b"}", {}),
    "extended JSON": (
        "POST",
        "/many",
        lambda: b'{"a":' + repeat(b'{"$oid":"64b64b64b64b64b64b64b64b"}', 450_000) + b"}",
        {},
    ),
    "binary": (
        "POST",
        "/many",
        lambda: b'{"a":{"$binary":{"base64":"' + b"AAAA" * (3 * MIB) + b'","subType":"00"}}}',
        {},
    ),
    "documents": ("POST", "/many", lambda: repeat(b'{"a":0}', 10_000), {}),
    "dotted keys": (
        "POST",
        "/many",
        lambda: json.dumps({f"a{n}.b": 1 for n in range(99_000)}).encode(),
        {},
    ),
    "positions": (
        "POST",
        "/many",
        lambda: json.dumps({f"a{n}.9999": 1 for n in range(3_500)}).encode(),
        {},
    ),
    "paths": (
        "PATCH",
        "/many/p?wm=upsert",
        lambda: json.dumps({f"a{n}": 1 for n in range(20_000)}).encode(),
        {},
    ),
    "gzip": (
        "POST",
        "/many",
        lambda: gzip.compress(b'{"a":"' + b"x" * (15 * MIB) + b'"}'),
        {"Content-Encoding": "gzip"},
    ),
    "form": ("POST", "/many", lambda: b"a=" + b"%41" * 690_000, {"Content-Type": FORM}),
    "form of people": (
        "POST",
        "/many",
        lambda: b"a={a:" + repeat(b"{}", 340_000) + b"}",
        {"Content-Type": FORM},
    ),
    "multipart": ("POST", "/many", lambda: parts(1000, b"x" * 2_000), {"Content-Type": PARTS}),
    "multipart lines": (
        "POST",
        "/many",
        lambda: parts(1, b"\r\n--X" * 400_000),
        {"Content-Type": PARTS},
    ),
    "pipeline": (
        "PATCH",
        "/many/q?wm=upsert",
        lambda: json.dumps([{"$set": {f"a{n}": 1 for n in range(4_990)}}]).encode(),
        {},
    ),
    "batch of filters": (
        "POST",
        "/_batch",
        lambda: repeat(
            b'{"method":"GET","path":"/many/x?filter={$and:[%b]}"}'
            % b",".join([b"{a:{$gt:1}}"] * 600),
            280,
        ),
        {},
    ),
    "batch of documents": (
        "POST",
        "/_batch",
        lambda: repeat(
            b'{"method":"POST","path":"/many","body":{%b}}'
            % b",".join(b'"k%d":0' % n for n in range(990)),
            1_000,
        ),
        {},
    ),
    "rules": ("POST", "/acl", lambda: json.dumps([rule(n) for n in range(1_500)]).encode(), {}),
    "patterns of a rule": (
        "POST",
        "/acl",
        lambda: json.dumps(
            rule(-1, " and ".join(f"regex('/{n}[a-z]{{1,200}}(b|c)+')" for n in range(390)))
        ).encode(),
        {},
    ),
    "variables of a rule": (
        "POST",
        "/acl",
        lambda: json.dumps(rule(-2, readFilter={"a": {"$in": ["@user._id"] * 19_900}})).encode(),
        {},
    ),
    "aggregations": ("PUT", "/few", lambda: aggregations(2_700, 1), {}),
    "other aggregations": ("PUT", "/few", lambda: aggregations(2_700, 2), {}),
    "JSON Schema": (
        "POST",
        "/_schemas",
        lambda: schema("many", {f"p{n}": {"type": "string"} for n in range(9_900)}),
        {},
    ),
    "patterns of a JSON Schema": (
        "POST",
        "/_schemas",
        lambda: schema("heavy", {f"p{n}": {"pattern": rf"^{n}\p{{L}}{{1,50}}$"} for n in range(4)}),
        {},
    ),
    "small patterns of a JSON Schema": (
        "POST",
        "/_schemas",
        lambda: schema("light", {f"p{n}": {"pattern": f"^{n}.{{1,20}}$"} for n in range(100)}),
        {},
    ),
    "checked document": (
        "PUT",
        "/checked/k?wm=upsert",
        lambda: json.dumps({f"k{n}": 0 for n in range(199_000)}).encode(),
        {},
    ),
    "references of a JSON Schema": ("POST", "/_schemas", lambda: multiply(45), {}),
    **{
        f"checked {name} {unit} {times}": (
            "POST",
            f"/costly-{name}",
            partial(within, name, unit, times),
            {},
        )
        for name, unit, times in CHECKED
    },
    "document of many keys": ("GET", "/many/k", lambda: b"", {}),
    "its extended JSON": ("GET", "/many/k?jsonMode=EXTENDED", lambda: b"", {}),
    "its list": ("GET", "/many?filter={_id:'k'}", lambda: b"", {}),
    "metadata": ("PUT", "/many", lambda: json.dumps({"x": [1] * 19_990}).encode(), {}),
    "GraphQL variables": (
        "POST",
        "/graphql/bodies",
        lambda: ask(b'"variables":{"x":{"a":' + repeat(repeat(b"1", 900), 20) + b"}}"),
        {},
    ),
    "GraphQL members": (
        "POST",
        "/graphql/bodies",
        lambda: ask(b'"z":' + repeat(b"[]", 340_000)),
        {},
    ),
    "GraphQL query": (
        "POST",
        "/graphql/bodies",
        lambda: b'{"query":"{a{' + b"n " * 1_200 + b'}}"}',
        {},
    ),
    "SDL": ("PUT", "/gql-apps/other?wm=upsert", lambda: define(types(14_000)), {}),
    "SDL of a tool": (
        "POST",
        "/_tools/check",
        lambda: b'{"definition":' + define(types(14_000)) + b"}",
        {},
    ),
    "MCP": (
        "POST",
        "/mcp",
        lambda: (
            b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"z":'
            + repeat(b"[]", 19_990)
            + b"}}"
        ),
        {"Accept": "application/json, text/event-stream"},
    ),
    "search of a schema": (
        "POST",
        "/mcp",
        lambda: json.dumps(
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {
                    "name": "search_schema",
                    "arguments": {"app": "bodies", "words": "ab " * 340_000},
                },
            }
        ).encode(),
        {"Accept": "application/json, text/event-stream"},
    ),
    "query string": (
        "GET",
        "/few?" + "&".join(f"filter=%7Ba:{n}%7D" for n in range(199)),
        lambda: b"",
        {},
    ),
    "filter": (
        "GET",
        "/few?filter=" + "[" * 90 + "{a:{b:1}}," * 400 + "]" * 90,
        lambda: b"",
        {},
    ),
    "cookies": ("GET", "/few", lambda: b"", {"Cookie": "a=b; " * (LINE // 5)}),
    "accept": ("GET", "/few", lambda: b"", {"Accept": "text/html;q=0.1," * (LINE // 16)}),
    "basic": ("GET", "/few", lambda: b"", {"Authorization": "Basic " + "QUFB" * (LINE // 4)}),
    "digest": ("GET", "/few", lambda: b"", {"Authorization": "Digest " + 'a="b",' * (LINE // 6)}),
    "bearer": ("GET", "/few", lambda: b"", {"Authorization": "Bearer " + "e30." * (LINE // 4)}),
}


@pytest.fixture(scope="module")
def server(mongo_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrillServer]:
    options = {
        "mclient__connection_string": mongo_uri,
        "graphql__db": "bodies",
        "mongo__mongo_mounts": json.dumps([{"what": "/bodies", "where": "/"}]),
        "mcp__enabled": "true",
        "dbAclAuthorizer__acl_db": "bodies",
    }
    with (
        MongoClient[dict[str, Any]](mongo_uri) as mongo,
        serving(Path(tmp_path_factory.mktemp("server")), **options) as server,
    ):
        mongo.drop_database("bodies")
        for name in ("many", "few", "gql-apps", "_schemas", "acl"):
            assert server.ask("PUT", f"/{name}")[0] in (200, 201)
        numbers = {
            "_id": "numbers",
            "additionalProperties": {"type": ["integer", "string", "object"]},
        }
        assert server.ask("POST", "/_schemas", numbers)[0] == 201
        checked = {"jsonSchema": {"schemaId": "numbers"}}
        assert server.ask("PUT", "/checked", checked)[0] == 201
        definitions = {**FAN, "d7": {"type": "string"}}
        for name, one in COSTLY.items():
            costly: dict[str, Any] = {
                "_id": name,
                "$schema": "http://json-schema.org/draft-07/schema#",
            }
            costly |= {"definitions": definitions, "properties": {name: one}}
            assert server.ask("POST", "/_schemas", costly)[0] == 201
            setting = {"jsonSchema": {"schemaId": name}}
            assert server.ask("PUT", f"/costly-{name}", setting)[0] == 201
        assert server.ask("PUT", "/gql-apps/bodies?wm=upsert", APP)[0] == 201
        yield server
        mongo.drop_database("bodies")


class Pings(threading.Thread):
    """Asks for `/ping` without a pause, and remembers the longest wait."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self._ended = threading.Event()
        self.longest = 0.0

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        while not self._ended.wait(0.002):
            begun = time.monotonic()
            connection.request("GET", "/ping")
            connection.getresponse().read()
            self.longest = max(self.longest, time.monotonic() - begun)
        connection.close()

    def end(self) -> float:
        self._ended.set()
        self.join()
        return self.longest


def send(
    port: int, method: str, path: str, body: bytes, headers: dict[str, str]
) -> tuple[int, int]:
    """The status, and how many bytes the answer has."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request(method, path, body or None, {"Content-Type": JSON, **headers})
        response = connection.getresponse()
        return response.status, len(response.read())
    except (BrokenPipeError, ConnectionResetError):  # refused before all of it was sent
        return 413, 0
    finally:
        connection.close()


@pytest.mark.parametrize("name", WORST)
def test_l27_nobody_else_waits_for_the_worst_body(server: DrillServer, name: str) -> None:
    method, path, build, headers = WORST[name]
    body, process = build(), psutil.Process(server.process.pid)
    pings = Pings(server.port)
    pings.start()
    time.sleep(0.5)
    quiet, pings.longest = pings.longest, 0.0
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")  # the peak begins anew
    base = process.memory_info().rss

    status, answered = send(server.port, method, path, body, headers)

    longest = pings.end()
    peak = find_peak(process.pid) - base
    print(
        f"\n{name}: {len(body) / MIB:.1f} MiB, {status}; ping {longest * 1000:.0f} ms "
        f"(quiet {quiet * 1000:.0f} ms), +{peak / MIB:.0f} MiB; {describe_load()}"
    )
    assert status < 500
    assert peak < 4 * max(inflated_size(body, headers), answered) + SPARE
    assert longest < LONGEST


def inflated_size(body: bytes, headers: dict[str, str]) -> int:
    return len(gzip.decompress(body)) if "Content-Encoding" in headers else len(body)


def find_peak(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024
