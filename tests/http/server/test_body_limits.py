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

from docgraph.access import author_limits, parse_rule
from docgraph.access.rule_writes import PermissionChecker
from docgraph.codec import escape_keys, pieces, request_body
from docgraph.config.section import PluginConfig
from docgraph.exchange import Resource, ResourceType, Write, WriteKind
from docgraph.exchange.errors import BodyTooLarge
from docgraph.graphql.http import body
from docgraph.rest import pipelines, schema_checks, schema_store
from docgraph.rest.handlers import bulk, documents
from docgraph.runtime import Blocking
from docgraph.server import app as server_app
from tests.databases import new_name
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

    def watch(*args: Any, **options: Any) -> Any:
        threads.append(threading.current_thread().name)
        return real(*args, **options)

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
    db = new_name()
    settings = {"mcp": {"enabled": True}, "dbAclAuthorizer": {"enabled": True, "acl-db": db}}
    async with serving(mongo_client, mongo_uri, settings, db=db) as one:
        for name in ("gql-apps", "_schemas"):
            assert (await one.put(f"/{name}")).status == 201
        definition = app("type Query {a: [T]} type T {n: Int}")
        stored = await one.put("/gql-apps/x", definition, wm="upsert")
        assert stored.status == 201, stored.text
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
    "paths": ("PATCH", "/things/x", lambda: {f"a{n}": 1 for n in range(500)}, {}, 413),
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
    "paths of a batch": (
        "POST",
        "/_batch",
        lambda: [{"method": "GET", "path": "/things/x?filter=" + "x" * 8_000}] * 263,
        {},
        413,
    ),
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

    reply = await api.send(method, path, build(), headers=headers)

    assert reply.status == status, reply.text[:300]


def rule(number: int, **mongo: Any) -> dict[str, Any]:
    predicate = f"path-prefix('/p{number}') and regex('/[a-z]{{1,{number % 50 + 1}}}')"
    return {"_id": f"r{number}", "roles": ["x"], "predicate": predicate, "mongo": mongo}


def schema(id: str, *patterns: str, **others: Any) -> dict[str, Any]:
    properties = {f"p{n}": {"pattern": pattern} for n, pattern in enumerate(patterns)}
    return {"_id": id, "properties": {**properties, **others}}


def multiply(reference: str, levels: int) -> dict[str, Any]:
    """A schema with definitions each of which refers twice to the next."""
    steps = [{"$ref": reference.format(n)} for n in range(levels + 1)]
    definitions: dict[str, Any] = {f"d{n}": {"anyOf": [steps[n + 1]] * 2} for n in range(levels)}
    return {"definitions": {**definitions, f"d{levels}": {"type": "string"}}, "allOf": [steps[0]]}


def aggregation(number: int, stage: Any) -> dict[str, Any]:
    return {"type": "pipeline", "uri": f"a{number}", "stages": [stage]}


HEAVY = [rf"^{n}\p{{L}}{{1,50}}$" for n in range(8)]

DEFINITIONS: dict[str, tuple[str, str, Callable[[], Any], str]] = {
    "pipeline": (
        "PATCH",
        "/things/x",
        lambda: [{"$set": {f"a{n}": 1 for n in range(5_000)}}],
        "the pipeline has more than 5000 values",
    ),
    "values of rules": (
        "POST",
        "/acl",
        lambda: [rule(n, readFilter={"a": {"$in": [1] * 40}}) for n in range(500)],
        "the permission has more than 20000 values",
    ),
    "operators of a rule": (
        "POST",
        "/acl",
        lambda: rule(1, readFilter={"$and": [{f"$x{n}": 1} for n in range(101)]}),
        "more than 100 operators are not known",
    ),
    "operators of an aggregation": (
        "PUT",
        "/things",
        lambda: {
            "aggrs": [aggregation(1, {"$match": {"$and": [{f"$x{n}": 1} for n in range(101)]}})]
        },
        "more than 100 operators are not known",
    ),
    "patterns": (
        "POST",
        "/_schemas",
        lambda: schema("s", *(f"^{n}$" for n in range(101))),
        "the schema and those it refers to have more than 100 patterns",
    ),
    "size of patterns": (
        "POST",
        "/_schemas",
        lambda: schema("s", *HEAVY),
        "the patterns of the schema and of those it refers to are larger than 16 MiB",
    ),
    "references of a schema": (
        "POST",
        "/_schemas",
        lambda: {"_id": "s", **multiply("#/definitions/d{}", 45)},
        "more than 1000 subschemas are evaluated for one value",
    ),
}


@pytest.mark.parametrize("case", DEFINITIONS)
async def test_a_definition_beyond_a_limit_is_refused(api: Api, case: str) -> None:
    method, path, build, message = DEFINITIONS[case]

    reply = await api.send(method, path, build())

    assert reply.status in (400, 413), reply.text[:300]
    assert message in reply.json["message"]


@pytest.mark.parametrize(
    ("own", "referenced", "message"),
    [
        ([f"^a{n}$" for n in range(51)], [f"^b{n}$" for n in range(50)], "more than 100 patterns"),
        (HEAVY[:3], HEAVY[3:6], "larger than 16 MiB"),
    ],
)
async def test_schemas_count_their_patterns_together(
    api: Api, own: list[str], referenced: list[str], message: str
) -> None:
    stored = [
        await api.post("/_schemas", schema(f"part{n}", *one))
        for n, one in enumerate([own, referenced])
    ]
    whole = {f"r{n}": {"$ref": f"http://schema-store/{api.db}/part{n}"} for n in range(2)}

    reply = await api.post("/_schemas", schema("whole", **whole))

    assert [one.status for one in stored] == [201, 201]
    assert (reply.status, reply.json["code"]) == (400, "invalid-schema")
    assert message in reply.json["message"]
    for n in range(2):
        await api.delete(f"/_schemas/part{n}")


async def test_schemas_count_what_references_multiply_together(api: Api) -> None:
    """One that is stored already makes its collection's writes fail, and is never run."""
    address = f"http://schema-store/{api.db}/many#/definitions/d{{}}"
    many = multiply("#/definitions/d{}", 7)
    stored = await api.post("/_schemas", {"_id": "many", **many})

    few = await api.post("/_schemas", {"_id": "few", "anyOf": [{"$ref": address.format(0)}]})
    more = await api.post("/_schemas", {"_id": "more", "anyOf": [{"$ref": address.format(0)}] * 3})
    api.mongo[api.db]["_schemas"].insert_one(
        {"_id": "old", **escape_keys(multiply("#/definitions/d{}", 45))}
    )
    await api.put("/old", {"jsonSchema": {"schemaId": "old"}})
    unusable = await api.post("/old", {"a": 1})

    assert [stored.status, few.status] == [201, 201]
    assert (more.status, more.json["code"]) == (400, "invalid-schema")
    assert (unusable.status, unusable.json["code"]) == (409, "schema-unusable")
    for reply in (more, unusable):
        assert "more than 1000 subschemas" in reply.json["message"]


async def test_a_document_that_takes_too_long_to_check_is_refused(api: Api) -> None:
    options = [{"k": n} for n in range(4_000)]
    await api.post(
        "/_schemas", {"_id": "options", "properties": {"a": {"items": {"enum": options}}}}
    )
    await api.put("/options", {"jsonSchema": {"schemaId": "options"}})

    few = await api.post("/options", {"a": [{"k": 3_999}] * 10})
    many = await api.post("/options", {"a": [{"k": 3_999}] * 2_500})

    assert (few.status, many.status) == (201, 413), (few.text, many.text)
    assert "evaluations" in many.json["message"]


@pytest.mark.parametrize(
    ("method", "path", "build"),
    [
        ("POST", "/acl", lambda: [rule(n, readFilter={"a": "@user._id"}) for n in range(400)]),
        (
            "PUT",
            "/things",
            lambda: {"aggrs": [aggregation(n, {"$match": {"a": n}}) for n in range(1_200)]},
        ),
        ("POST", "/_schemas", lambda: schema("s", *(f"^[a-z]{{1,50}}{n}$" for n in range(100)))),
        ("PATCH", "/things/x?wm=upsert", lambda: [{"$set": {f"a{n}": 1 for n in range(4_900)}}]),
    ],
)
async def test_definitions_of_usual_sizes_are_stored(
    api: Api, method: str, path: str, build: Callable[[], Any]
) -> None:
    reply = await api.send(method, path, build())

    assert reply.status in (200, 201), reply.text[:300]


async def test_an_error_lists_a_bounded_number_of_mistakes(api: Api) -> None:
    stages = [aggregation(n, {f"$x{n}": 1}) for n in range(1_000)]

    replies = [
        await api.put("/things", {"aggrs": stages}),
        await api.post("/acl", {**rule(1), **{f"x{n}": 1 for n in range(1_000)}}),
    ]

    assert [(one.status, len(one.json["details"])) for one in replies] == [(400, 100)] * 2


CHECKS: dict[str, tuple[Any, str, str, str, Any]] = {
    "rules": (parse_rule, "compile_predicate", "POST", "/acl", lambda: {**rule(1), "_id": "t1"}),
    "filters of rules": (
        parse_rule,
        "inspect_template",
        "POST",
        "/acl",
        lambda: {**rule(1, readFilter={"a": 1}), "_id": "t2"},
    ),
    "aggregations": (
        pipelines,
        "inspect_template",
        "PUT",
        "/things",
        lambda: {"aggrs": [aggregation(1, {"$match": {"other": 1}})]},
    ),
    "cost of aggregations": (
        author_limits,
        "check_pipeline_cost",
        "PUT",
        "/things",
        lambda: {"aggrs": [aggregation(2, {"$match": {"another": 2}})]},
    ),
    "schemas": (schema_store, "compile_schema", "POST", "/_schemas", lambda: schema("t3", "^a$")),
}


@pytest.mark.parametrize("case", CHECKS)
async def test_definitions_are_checked_in_a_thread_whatever_their_size(
    api: Api, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """Rules are read again by the next request, which finds that they have changed."""
    module, name, method, path, build = CHECKS[case]
    threads = watch_threads(monkeypatch, module, name)

    reply = await api.send(method, path, build())
    await api.get("/things")

    assert reply.status in (200, 201), reply.text[:300]
    assert threads
    assert all(one.startswith(POOL) for one in threads), threads


async def test_documents_are_checked_by_their_schema_in_a_thread_when_they_may_be_large(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.post("/_schemas", {"_id": "numbers", "additionalProperties": {"type": "integer"}})
    await api.put("/checked", {"jsonSchema": {"schemaId": "numbers"}})
    threads = watch_threads(monkeypatch, schema_checks, "_check_documents")
    many = {f"a{n}": 1 for n in range(30_000)}
    too_many = await api.put("/checked/x", {"a": [1] * 200_000}, wm="upsert")
    threads.clear()

    large = await api.put("/checked/x", {**many, "b": "x", "c": "x"}, wm="upsert")
    small = await api.put("/checked/x", {"b": "x", "c": "x"}, wm="upsert")
    patched = await api.patch("/checked/x", {"b": "x"}, wm="upsert")
    several = await api.post("/checked", [{"b": 1}, {"b": "x"}])

    assert [one.status for one in (large, small, patched, several)] == [400] * 4
    assert too_many.status == 413
    assert "the document has more than 200000 values" in too_many.json["message"]
    assert [one.startswith(POOL) for one in threads] == [True, False, True, True]
    # Of a large document only the first violation is looked for.
    assert [len(one.json["details"]) for one in (large, small)] == [1, 4]


# A fifth of what is taken: memory grows as the body does.
LIMIT = pieces.MAX_VALUES // 5
TAKEN: dict[str, Callable[[], bytes]] = {
    "arrays": lambda: b'{"a":' + repeat("[]", LIMIT - 2) + b"}",
    "documents": lambda: repeat('{"a":1}', 2_000),
    "keys": lambda: json.dumps({f"k{n}": 0 for n in range(40_000)}).encode(),
    "text": lambda: b'{"a":"' + b"\\u00e9" * 400_000 + b'"}',
    "notation of the shell": lambda: b"{a:" + repeat("ObjectId()", 4_000) + b"}",
}


@pytest.mark.parametrize("case", TAKEN)
async def test_a_body_at_its_limit_takes_little_memory(
    api: Api, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr(pieces, "MAX_VALUES", LIMIT)
    body = TAKEN[case]()
    tracemalloc.start()
    try:
        reply = await api.post("/things", body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert reply.status in (200, 201), reply.text[:300]
    assert peak < 4 * len(body) + (32 << 20)


@pytest.mark.parametrize(
    "case",
    [
        (server_app, "decode", "/things", b'{"a":"%b"}' % (b"x" * 40_000), {}),
        (request_body, "decode", "/things", b"a=%b" % (b"x" * 40_000), FORM),
        (bulk, "prepare_document", "/things", b'[{"a":"%b"}]' % (b"x" * 40_000), {}),
        (body, "parse_body", "/graphql/limits", b'{"query":"%b"}' % (b"x" * 40_000), {}),
    ],
)
@pytest.mark.parametrize("is_large", [True, False])
async def test_large_bodies_are_parsed_in_a_thread(
    api: Api,
    monkeypatch: pytest.MonkeyPatch,
    case: tuple[Any, str, str, bytes, dict[str, str]],
    is_large: bool,
) -> None:
    module, name, path, body, headers = case
    threads = watch_threads(monkeypatch, module, name)

    await api.send("POST", path, body if is_large else body.replace(b"x" * 39_000, b""), headers)

    assert threads[-1].startswith(POOL) is is_large


async def test_an_update_is_built_in_a_thread_when_it_is_large(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = watch_threads(monkeypatch, documents, "build_update")

    reply = await api.patch("/things/large", {"a": "x" * 40_000}, wm="upsert")

    assert reply.status == 201
    assert threads[0].startswith(POOL)


async def test_a_permission_has_a_bounded_number_of_values() -> None:
    """It is refused before anybody looks at it, so the checker needs nothing else."""
    nothing: Any = None
    checker = PermissionChecker(PluginConfig(), nothing, nothing, nothing, Blocking(1))
    rule = {"roles": ["x"], "predicate": "true", "mongo": {"readFilter": {"a": [1] * 20_000}}}
    resource = Resource(ResourceType.DOCUMENT, "docgraph", "acl", "x")

    with pytest.raises(BodyTooLarge, match="the permission has more than 20000 values"):
        await checker.before_write(None, resource, Write(WriteKind.INSERT, (rule,)))
