"""What one query may cost, and how hostile ones are decided: early, fast, with a clear error."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from graphql import get_introspection_query

from docgraph.graphql.execute import introspect
from docgraph.observe.engine_events import CommandFinished
from docgraph.runtime import allocations
from tests.http.harness import Mongo, Reply, Service, listening, running
from tests.http.hosts import module_application

pytestmark = [pytest.mark.anyio, pytest.mark.json]

SCHEMA = """
type Query { nodes(limit: Int): [Node] node(text: String, list: [Int], where: BsonDocument): Node }
type Node { name: String self: Node nodes(limit: Int): [Node] }
"""


PLENTY = 5.0  # seconds; without the limits it would be minutes


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri) as service:
        service.insert("nodes", *({"name": f"n{n}", "group": n % 2} for n in range(120)))
        await define(service, "graph")
        yield service


async def define(service: Service, id: str, **descriptor: Any) -> None:
    related = service.find(
        "nodes", {"group": {"$fk": "group"}}, sort={"name": 1}, limit={"$arg": ["limit", 0]}
    )
    await service.define(
        id,
        SCHEMA,
        {
            "Query": {
                "nodes": service.find("nodes", {}, limit={"$arg": ["limit", 0]}),
                "node": service.find("nodes", {"name": {"$arg": ["text", "n1"]}}),
            },
            "Node": {
                "self": service.find("nodes", {"name": {"$fk": "name"}}),
                "nodes": related,
            },
        },
        **descriptor,
    )


async def timed(service: Service, query: str, app: str = "graph") -> Reply:
    """Ask, and be answered without an explosion of work; what it costs is a matter of bench/."""
    started = time.thread_time()
    reply = await service.query(app, query)
    assert time.thread_time() - started < PLENTY
    return reply


def nest(depth: int) -> str:
    return "{ node " + "{ self " * (depth - 2) + "{ name }" + " }" * (depth - 1)


# --- depth ----------------------------------------------------------------------------------------


async def test_a_query_of_fifteen_levels_passes(service: Service) -> None:
    """Decision 26."""
    assert (await service.query("graph", nest(15))).status == 200


@pytest.mark.parametrize("depth", [16, 100, 1_000, 10_000])
async def test_deeper_queries_are_refused_fast(service: Service, depth: int) -> None:
    """Decision 26, drill G06."""
    reply = await timed(service, nest(depth))

    assert (reply.status, reply.json["data"]) == (400, None)
    assert reply.code in ("limit-exceeded", "invalid-syntax")


@pytest.mark.parametrize("depth", [100, 1_000, 10_000])
@pytest.mark.parametrize("kind", ["list", "object", "type"])
async def test_deep_values_and_types_are_refused_fast(
    service: Service, kind: str, depth: int
) -> None:
    """Drill G06."""
    query = {
        "list": "{ node(list: " + "[" * depth + "]" * depth + ") { name } }",
        "object": "{ node(where: " + "{a: " * depth + "1" + "}" * depth + ") { name } }",
        "type": "query ($v: " + "[" * depth + "Int" + "]" * depth + ") { node { name } }",
    }[kind]

    reply = await timed(service, query)

    assert reply.status == 400


async def test_fragments_count_where_they_are_spread(service: Service) -> None:
    """Decision 26: depth is measured with fragments written out."""
    parts = [f"fragment F{n} on Node {{ self {{ ...F{n + 1} }} }}" for n in range(20)]
    query = "{ node { ...F0 } } " + " ".join(parts) + " fragment F20 on Node { name }"

    reply = await service.query("graph", query)

    assert (reply.status, reply.code) == (400, "limit-exceeded")
    assert reply.error["message"] == "the query has more than 15 levels"


# --- counts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [51, 101, 1_000])
@pytest.mark.parametrize("field", ["name", "__typename", "self { name }"])
async def test_aliases_are_counted_typename_included(
    service: Service, field: str, count: int
) -> None:
    """Decision 26, drills G02 and G07."""
    query = "{ node { " + " ".join(f"a{n}: {field}" for n in range(count)) + " } }"

    reply = await timed(service, query)

    assert reply.status == 400
    assert reply.code in ("limit-exceeded", "invalid-syntax")


async def test_fifty_aliases_pass(service: Service) -> None:
    """Decision 26."""
    query = "{ node { " + " ".join(f"a{n}: name" for n in range(50)) + " } }"

    assert (await service.query("graph", query)).status == 200


@pytest.mark.parametrize("count", [51, 1_000, 10_000])
@pytest.mark.parametrize("name", ["@include(if: true)", "@aa", "@skip"])
async def test_directives_are_counted_and_answered_with_one_error(
    service: Service, name: str, count: int
) -> None:
    """Decision 26, drill G08."""
    reply = await timed(service, "{ __typename " + f"{name} " * count + "}")

    assert reply.status == 400
    assert len(reply.errors) == 1
    assert len(reply.response.content) < 8192


async def test_root_fields_are_counted_fragments_included(service: Service) -> None:
    """Decision 26."""
    fields = " ".join(f"a{n}: __typename" for n in range(11))
    others = fields.replace("a", "b")
    query = f"{{ {fields} ...F }} fragment F on Query {{ {others} }}"

    reply = await service.query("graph", query)

    assert (reply.status, reply.error["message"]) == (
        400,
        "the query has more than 20 fields of Query",
    )


async def test_tokens_and_text_are_bounded(service: Service) -> None:
    """Decision 26; `reliability.md` section 4: 64 KiB of text."""
    many = await service.query("graph", "{ __typename " + "name " * 2500 + "}")
    long = await service.query("graph", "{ __typename } #" + "x" * 70_000)

    assert (many.status, many.code) == (400, "invalid-syntax")
    assert (long.status, long.code) == (400, "invalid-syntax")


# --- fragments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 10, 45])
async def test_fragment_cycles_are_refused_fast(service: Service, length: int) -> None:
    """Drill G09."""
    parts = [f"fragment F{n} on Node {{ name ...F{(n + 1) % length} }}" for n in range(length)]

    reply = await timed(service, "{ node { ...F0 } } " + " ".join(parts))

    assert (reply.status, reply.json["data"]) == (400, None)


@pytest.mark.parametrize(
    "query",
    [
        "{ node { ...Nothing } }",
        "{ node { name } } fragment Unused on Node { name }",
        "{ node { name } } " + " ".join(f"fragment F{n} on Node {{ name }}" for n in range(100)),
    ],
)
async def test_undefined_unused_and_too_many_fragments_are_refused(
    service: Service, query: str
) -> None:
    """Drill G09."""
    assert (await timed(service, query)).status == 400


@pytest.mark.parametrize("levels", [10, 20, 30])
async def test_doubling_fragments_are_decided_fast(service: Service, levels: int) -> None:
    """Drill G10: 2^30 fields are not written out to be counted."""
    parts = [f"fragment F{n} on Node {{ ...F{n + 1} ...F{n + 1} }}" for n in range(levels)]
    query = "{ node { ...F0 } } " + " ".join(parts) + f" fragment F{levels} on Node {{ name }}"

    reply = await timed(service, query)

    assert reply.status in (200, 400)


# --- introspection --------------------------------------------------------------------------------


async def test_the_introspection_query_of_graphiql_passes(service: Service) -> None:
    """Decision 26."""
    query = get_introspection_query(
        descriptions=True,
        specified_by_url=True,
        directive_is_repeatable=True,
        schema_description=True,
        input_value_deprecation=True,
    )

    reply = await service.query("graph", query, operation="IntrospectionQuery")

    assert {"Query", "Node"} <= {type_["name"] for type_ in reply.data["__schema"]["types"]}


async def test_circular_introspection_is_refused(service: Service) -> None:
    """Drill G11."""
    circle = "{ __schema { types { " + "fields { type { " * 10 + "name" + " } }" * 10 + " } } }"

    assert (await timed(service, circle)).status == 400


async def test_many_introspections_at_once_are_answered(service: Service) -> None:
    """Drill G11, at 1 %."""
    started = time.thread_time()
    query = get_introspection_query()
    replies = await asyncio.gather(*(service.query("graph", query) for _ in range(20)))

    assert {reply.status for reply in replies} == {200}
    assert time.thread_time() - started < PLENTY


async def test_introspection_is_worked_out_once_and_outside_of_the_event_loop(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of thousands of types takes seconds; others are answered meanwhile."""
    types = " ".join(f"type T{n} {{ a(x: Int): Int }}" for n in range(60))
    fields = " ".join(f"t{n}: T{n}" for n in range(60))
    await service.define("wide", f"type Query {{ {fields} }} {types}")
    threads: list[int] = []
    compute = introspect._compute

    def watched(*args: Any) -> Any:
        threads.append(threading.get_ident())
        return compute(*args)

    monkeypatch.setattr(introspect, "_compute", watched)
    query = get_introspection_query()

    replies = await asyncio.gather(*(service.query("wide", query) for _ in range(5)))
    again = await service.query("wide", query)

    assert len(threads) == 1
    assert threads[0] != threading.get_ident()
    assert {reply.text for reply in replies} == {again.text}
    assert len(again.data["__schema"]["types"]) > 60


async def test_a_name_that_introspection_does_not_know_is_null(service: Service) -> None:
    query = "query ($name: String!) { __type(name: $name) { name } }"

    for name, expected in (("Nope", None), ("Node", {"name": "Node"}), ("Nope", None)):
        assert (await service.query("graph", query, {"name": name})).data == {"__type": expected}


async def test_an_introspection_that_would_be_too_long_is_not_built(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fields that share a type copy it in the text: a short query could need gigabytes."""
    fields = " ".join(f"f{number}: Node" for number in range(50))
    await service.define("copies", f"type Query {{ {fields} }} type Node {{ {fields} }}")
    lengths: list[int] = []
    dump = orjson.dumps

    def watched(value: Any, *options: Any) -> bytes:
        lengths.append(len(dump(value, *options)))
        return dump(value, *options)

    monkeypatch.setattr(allocations, "dumps", watched)
    inner = " ".join(f"a{number}: fields {{ ...F }}" for number in range(20))
    outer = " ".join(f"a{number}: fields {{ type {{ ...T }} }}" for number in range(20))
    query = f"{{ __schema {{ types {{ {outer} }} }} }} fragment T on __Type {{ {inner} }}"
    query += " fragment F on __Field { name description }"

    reply = await service.query("copies", query)

    assert reply.error["extensions"]["code"] == "response-too-large"
    assert max(lengths, default=0) < 1 << 20


@pytest.mark.parametrize(
    "query",
    [
        '{ __type(name: "Node") { fields(includeDeprecated: $d) { name } } }',
        '{ __type(name: "Node") { name @skip(if: $d) } }',
        "{ __schema { queryType { name @include(if: $d) } } node { name } }",
    ],
)
async def test_a_variable_of_introspection_that_is_null_is_an_error_of_its_caller(
    service: Service, query: str
) -> None:
    reply = await service.query("graph", f"query ($d: Boolean = true) {query}", {"d": None})

    assert reply.status in (200, 400), reply.text
    assert "internal-error" not in reply.text
    assert reply.json["errors"]


@pytest.mark.parametrize("field", ["name ", "self { name } ", "... on Node { name } "])
async def test_repeated_fields_are_refused_before_they_are_all_compared(
    service: Service, field: str
) -> None:
    """Comparing each with each is the business of a rule that has a bound."""
    some = await timed(service, "{ node { " + field * 40 + "} }")
    many = await timed(service, "{ node { " + field * 400 + "} }")

    assert some.data == {
        "node": {"name": "n1"} if "self" not in field else {"self": {"name": "n1"}}
    }
    assert (many.status, many.code) == (400, "limit-exceeded")


# --- documents and bytes --------------------------------------------------------------------------


async def test_nested_lists_are_refused_before_a_document_is_fetched(service: Service) -> None:
    """Decision 26, drill G18: no size of a collection is told, either."""
    query = "{ nodes(limit: 1000) { name } }"
    for _ in range(3):
        query = f"{{ nodes(limit: 1000) {query} }}"
    with listening(CommandFinished) as commands:
        reply = await timed(service, query)

    assert (reply.status, reply.json["data"]) == (400, None)
    assert reply.code == "too-many-estimated-documents"
    assert not re.search(r"\d", reply.json["errors"][0]["message"])
    mine = [one for one in commands if one.db == service.db and one.collection == "nodes"]
    assert not [one for one in mine if one.command == "find"]


async def test_documents_really_fetched_are_bounded(service: Service) -> None:
    """Decision 26."""
    await define(service, "small", limits={"fetched-documents": 100})

    few = await service.query("small", "{ nodes(limit: 90) { name } }")
    many = await service.query(
        "small", "{ a: nodes(limit: 90) { name } b: nodes(limit: 90) { name } }"
    )

    assert few.status == 200
    assert (many.status, many.json["data"]) == (400, None)
    assert many.code == "too-many-documents"


async def test_the_size_of_the_response_is_bounded(service: Service) -> None:
    """Decision 26, drill G19 at small size."""
    await define(service, "terse", limits={"response-bytes": 1000})

    few = await service.query("terse", "{ nodes(limit: 10) { name } }")
    many = await service.query("terse", "{ nodes(limit: 120) { name } }")

    assert few.status == 200
    assert (many.status, many.code) == (400, "response-too-large")


@pytest.mark.parametrize(
    ("limits", "good", "bad"),
    [
        ({"depth": 2}, "{ node { name } }", "{ node { self { name } } }"),
        ({"aliases": 1}, "{ a: __typename }", "{ a: __typename b: __typename }"),
        ({"root-fields": 1}, "{ node { name } }", "{ node { name } __typename }"),
        ({"tokens": 6}, "{ node { name } }", "{ node { name self { name } } }"),
        (
            {"directives": 1},
            "{ __typename @skip(if: false) }",
            "{ __typename @skip(if: false) @include(if: true) }",
        ),
        (
            {"estimated-documents": 50},
            "{ nodes(limit: 50) { name } }",
            "{ nodes(limit: 51) { name } }",
        ),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
async def test_an_app_has_limits_of_its_own(
    service: Service, limits: dict[str, int], good: str, bad: str
) -> None:
    """Decision 26: `descriptor.limits`."""
    name = f"own-{next(iter(limits))}"
    await define(service, name, limits=limits)

    fine, refused = await service.query(name, good), await service.query(name, bad)

    assert fine.status == 200, fine.text
    assert refused.status == 400, refused.text
    assert (await service.query("graph", bad)).status == 200


async def test_limits_of_the_configuration_hold_for_all_apps(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    """Decision 26."""
    limits = {"graphql": {"limits": {"depth": 2}}}
    async with running(mongo_client, mongo_uri, limits) as service:
        await define(service, "a")
        await define(service, "b", limits={"depth": 5})
        assert (await service.query("a", nest(3))).status == 400
        assert (await service.query("b", nest(3))).status == 200


# --- variables ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "value", "status"),
    [
        ("$v: String", "x" * 900_000, 200),
        ("$v: [Int]", [1] * 1_000, 200),
        ("$v: [Int]", [1] * 1_001, 400),
        ("$v: [Int]", [1] * 100_000, 400),
        ("$v: BsonDocument", {}, 200),
    ],
)
async def test_variables_are_bounded(
    service: Service, declared: str, value: Any, status: int
) -> None:
    """Drill G17, N10."""
    argument = {"S": "text", "[": "list", "B": "where"}[declared[4]]
    query = f"query ({declared}) {{ node({argument}: $v) {{ name }} }}"

    started = time.thread_time()
    reply = await service.query("graph", query, {"v": value})

    assert reply.status == status, reply.text[:300]
    assert time.thread_time() - started < PLENTY


async def test_deep_variables_are_refused(service: Service) -> None:
    """Drill G17."""
    for depth, status in ((60, 200), (70, 400), (900, 400), (10_000, 400)):
        value = "[" * depth + "1" + "]" * depth
        body = (
            '{"query": "query ($v: BsonDocument) { node(where: $v) { name } }", "variables": '
            f'{{"v": {{"a": {value}}}}}}}'
        )
        reply = await service.send("graph", body, "application/json")
        assert reply.status == status, (depth, reply.text[:300])
