"""Traces by OTLP (`otel`): a span for each request and each command, read in a real collector."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.collector import CLIENT, ERROR, REMOTE, SERVER, Collector, Span, collecting
from tests.expect import present
from tests.http.harness import (
    Document,
    Mongo,
    Reply,
    Service,
    eventually,
    failing,
    identity,
)
from tests.http.hosts import module_application
from tests.http.rest_harness import Api
from tests.http.stream_harness import listen
from tests.http.trace_harness import new_trace, tracing

pytestmark = pytest.mark.anyio

CANARY = "c4n4ry"
SCHEMA = """
type Query { books(title: String): [Book] }
type Book { title: String author: Author }
type Author { name: String }
"""
ASK = "query Shelf($t: String) { books(title: $t) { title author { name } } }"


class Traced:
    """The application of the module and its collector."""

    def __init__(self, api: Api, collector: Collector) -> None:
        self.api = api
        self.collector = collector

    @property
    def service(self) -> Service:
        service: Service = self.api.service
        return service

    async def ask(self, query: str = ASK, **variables: Any) -> tuple[list[Span], str]:
        """The spans of an operation under a trace of the caller, and the span of the caller."""
        trace, parent = new_trace(), secrets.token_hex(8)
        headers = {"traceparent": f"00-{trace}-{parent}-01"}
        await self.service.query("library", query, variables, headers=headers)
        return await self.find(trace), parent

    async def send(self, method: str, path: str, body: Any = None) -> tuple[list[Span], Reply]:
        trace = new_trace()
        headers = {"traceparent": f"00-{trace}-{secrets.token_hex(8)}-01"}
        reply = await self.api.send(method, path, body, headers)
        return await self.find(trace), reply

    async def find(self, trace: str) -> list[Span]:
        return await eventually(lambda: self.collector.of(trace))


def split(spans: list[Span]) -> tuple[Span, list[Span]]:
    """The span of the request, of which there is one, and those of commands."""
    (request,) = [one for one in spans if one.kind == SERVER]
    return request, [one for one in spans if one.kind == CLIENT]


async def prepare(service: Service) -> None:
    service.insert("books", {"title": CANARY, "by": 1}, {"title": CANARY, "by": 2})
    service.insert("authors", {"_id": 1, "name": f"Ada {CANARY}"}, {"_id": 2, "name": "Bob"})
    await service.define(
        "library",
        SCHEMA,
        {
            "Query": {"books": service.find("books", {"title": {"$arg": "title"}})},
            "Book": {"author": service.find("authors", {"_id": {"$fk": "by"}})},
        },
    )


@module_application
async def traced(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Traced]:
    with collecting() as collector:
        caller = identity("reader", name=f"user-{CANARY}")
        address = collector.address
        async with tracing(mongo_client, mongo_uri, address, caller) as api:
            await prepare(api.service)
            one = Traced(api, collector)
            await one.ask(t=CANARY)  # what is asked of the database once is asked now
            yield one


# --- spans ----------------------------------------------------------------------------------------


async def test_a_request_is_one_span_and_each_of_its_commands_is_one_below(traced: Traced) -> None:
    spans, caller = await traced.ask(t=CANARY)

    request, commands = split(spans)
    assert request.parent == caller
    assert request.flags & REMOTE
    assert request.name == "POST /graphql/{app}"
    assert request.attributes == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "http.route": "/graphql/{app}",
        "url.scheme": "http",
        "network.protocol.version": "1.1",
        "docgraph.service": "graphql",
        "docgraph.app": "library",
        "graphql.operation.name": "Shelf",
        "graphql.operation.type": "query",
    }
    assert [one.parent for one in commands] == [request.id] * 2
    assert {one.name: one.attributes for one in commands} == {
        f"find {collection}": {
            "db.system.name": "mongodb",
            "db.namespace": traced.api.db,
            "db.collection.name": collection,
            "db.operation.name": "find",
            "db.response.returned_rows": 2,
            "docgraph.app": "library",
            "graphql.operation.name": "Shelf",
            "docgraph.field": field,
        }
        for collection, field in (("books", "Query.books"), ("authors", "Book.author"))
    }
    assert all(request.start <= one.start <= one.end <= request.end for one in commands)
    assert {one.status for one in spans} == {0}


async def test_the_speaker_is_named(traced: Traced) -> None:
    spans, _ = await traced.ask(t="")

    resource = spans[0].resource
    assert resource["service.name"] == "docgraph"
    assert resource["service.version"]
    assert len(resource["service.instance.id"]) == 36
    assert "host.name" not in resource


async def test_routes_of_rest_are_templates(traced: Traced) -> None:
    put, made = await traced.send("PUT", f"/things/{CANARY}?wm=upsert", {"secret": CANARY})
    got, _ = await traced.send("GET", f"/things?filter={{'secret':'{CANARY}'}}")
    gone, missing = await traced.send("GET", f"/nothing-{CANARY}-here/{CANARY}/x/y")

    assert (made.status, missing.status) == (201, 404)
    assert [split(one)[0].name for one in (put, got)] == [
        "PUT /{database}/{collection}/{document}",
        "GET /{database}/{collection}",
    ]
    assert {one.name for one in split(put)[1]} >= {"replace things"}
    (find,) = [one for one in split(got)[1] if one.name == "find things"]
    assert find.attributes["db.response.returned_rows"] == 1
    (lost,) = gone
    assert lost.attributes["http.response.status_code"] == 404
    assert lost.attributes["docgraph.error"] == "not-found"
    assert (lost.status, "error.type" in lost.attributes) == (0, False)  # the caller's mistake


async def test_the_commands_of_a_batch_are_below_it_and_its_commit_names_no_collection(
    traced: Traced,
) -> None:
    await traced.api.put("/things", {})
    entries = [{"method": "PUT", "path": "/things/batched?wm=upsert", "body": {"x": 1}}]
    spans, reply = await traced.send("POST", "/_batch", entries)

    request, commands = split(spans)
    assert (reply.status, request.name) == (200, "POST /_batch")
    (commit,) = [one for one in commands if one.name.startswith("commit")]
    assert (commit.name, commit.parent) == ("commitTransaction", request.id)
    assert "db.collection.name" not in commit.attributes


async def test_an_aggregation_of_rest_is_no_operation_of_graphql(traced: Traced) -> None:
    aggregation = {"uri": "all", "type": "pipeline", "stages": []}
    await traced.api.put("/things", {"aggrs": [aggregation]})
    spans, reply = await traced.send("GET", "/things/_aggrs/all")

    (command,) = [one for one in split(spans)[1] if one.name == "aggregate things"]
    assert reply.status == 200
    assert command.attributes["docgraph.aggregation"] == "all"
    assert "graphql.operation.name" not in command.attributes


async def test_no_value_of_a_caller_or_a_document_leaves_the_house(traced: Traced) -> None:
    trace = new_trace()
    headers = {
        "traceparent": f"00-{trace}-{secrets.token_hex(8)}-01",
        "authorization": f"Bearer {CANARY}",
        "cookie": f"session={CANARY}",
        "user-agent": CANARY,
        "x-forwarded-for": CANARY,
        "x-request-id": CANARY,
        "host": f"{CANARY}.test",
    }
    told = f'query Named {{ {CANARY}: books(title: "{CANARY}") {{ title author {{ name }} }} }}'
    await traced.service.query("library", told, {"v": CANARY}, headers=headers)
    await traced.find(trace)
    await traced.ask(t=CANARY)
    await traced.send("GET", f"/things/{CANARY}?keys={{'{CANARY}':1}}")
    await traced.send("PATCH", "/things/*?filter={'a':1}", {CANARY: CANARY})
    await traced.send("PROPFIND", f"/{CANARY}")

    sent = b"".join(traced.collector.raw)
    assert b"Shelf" in sent
    assert CANARY.encode() not in sent


async def test_a_command_that_fails_has_the_code_and_no_text(traced: Traced) -> None:
    with failing(traced.api.mongo, "find", errorCode=96, namespace=f"{traced.api.db}.books"):
        spans, _ = await traced.ask(t=CANARY)

    request, (command,) = split(spans)
    assert (command.status, command.message) == (ERROR, "")
    assert command.attributes["error.type"]
    assert "db.response.returned_rows" not in command.attributes
    assert (request.status, request.message) == (0, "")  # a field that is null is no failed answer


async def test_an_operation_without_a_name_or_with_mistakes_has_a_span_all_the_same(
    traced: Traced,
) -> None:
    nameless, _ = await traced.ask("{ books { title } }")
    wrong, _ = await traced.ask("query Wrong { nothing }")

    assert "graphql.operation.name" not in split(nameless)[0].attributes
    assert split(nameless)[0].attributes["graphql.operation.type"] == "query"
    assert split(wrong)[0].attributes["docgraph.app"] == "library"
    assert "graphql.operation.type" not in split(wrong)[0].attributes


async def test_a_stream_is_the_span_of_the_answer_that_begins_it(traced: Traced, by: str) -> None:
    await traced.api.put("/things", {"streams": [{"uri": "all", "stages": []}]})
    trace = new_trace()
    headers = {"traceparent": f"00-{trace}-{secrets.token_hex(8)}-01"}
    async with listen(traced.service, "/things/_streams/all", headers, by=by) as client:
        spans = await traced.find(trace)  # while it goes on
        request, _ = split(spans)
        await traced.send("PUT", "/things/told?wm=upsert", {"x": 1})
        await client.next()
    await traced.ask()

    assert request.name == "GET /{database}/{collection}/_streams/{stream}"
    assert request.attributes["docgraph.stream"] is True
    assert request.attributes["http.response.status_code"] == (101 if by == "websocket" else 200)
    assert [one for one in traced.collector.of(trace) if one.kind == SERVER] == [request]


# --- the trace of the caller ----------------------------------------------------------------------


@contextmanager
def profiling(traced: Traced) -> Iterator[Callable[[str], Document | None]]:
    """What the database says of a command, by the `traceparent` of its comment.

    It writes that down after it has answered: ask `eventually`, in this block.
    """
    database = traced.api.mongo[traced.api.db]
    database.command({"profile": 2})
    try:
        yield lambda parent: database["system.profile"].find_one(
            {"command.comment.traceparent": {"$regex": f"^{parent}$"}}
        )
    finally:
        database.command({"profile": 0})


async def test_the_database_is_told_the_trace_of_every_command(traced: Traced) -> None:
    names = {"find books", "find authors", "replace things"}
    with profiling(traced) as look_up:
        asked, _ = await traced.ask(t=CANARY)
        written, _ = await traced.send("PUT", "/things/profiled?wm=upsert", {"x": 1})
        known = {
            one.name: present(await eventually(lambda: look_up(f"00-{one.trace}-{one.id}-01")))  # noqa: B023
            for one in (*split(asked)[1], *split(written)[1])
            if one.name in names
        }

    assert known.keys() == names
    comment = known["find books"]["command"]["comment"]
    assert comment.keys() == {"app", "operation", "field", "request", "read", "traceparent"}
    assert known["replace things"]["command"]["comment"].keys() == {"traceparent"}


@pytest.mark.parametrize(
    "header",
    [
        "00-{trace}-00f067aa0ba902b7",
        "00-{trace}-0000000000000000-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "ff-{trace}-00f067aa0ba902b7-01",
        "00-{trace}-00f067aa0ba902b7-01-more",
        "00-{trace}X-00f067aa0ba902b7-01",
        "nonsense",
    ],
)
async def test_a_traceparent_that_is_none_begins_a_trace_here(traced: Traced, header: str) -> None:
    trace, state = new_trace(), f"vendor={secrets.token_hex(8)}"
    headers = {"traceparent": header.format(trace=trace), "tracestate": state}
    known = {one.id for one in traced.collector.spans}
    await traced.service.query("library", "query Fresh { books { title } }", headers=headers)

    def find_new() -> list[Span]:
        spans = [one for one in list(traced.collector.spans) if one.id not in known]
        return [one for one in spans if one.attributes.get("graphql.operation.type")]

    (request,) = await eventually(find_new)
    assert request.trace != trace
    assert (request.parent, request.state) == ("", "")


async def test_the_state_of_other_tracers_is_passed_on(traced: Traced) -> None:
    trace = new_trace()
    headers = {"traceparent": f"cc-{trace}-00f067aa0ba902b7-01-what", "tracestate": "a=1, b@c=2"}
    await traced.service.query("library", "{ books { title } }", headers=headers)

    spans = await traced.find(trace)
    assert {one.state for one in spans} == {"a=1,b@c=2"}


async def test_a_caller_who_does_not_record_is_not_recorded(traced: Traced) -> None:
    trace = new_trace()
    headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-00"}
    with profiling(traced) as look_up:
        await traced.service.query("library", ASK, {"t": CANARY}, headers=headers)
        await eventually(lambda: look_up(f"00-{trace}-.*-00"))  # the database is told all the same
    await traced.ask()  # whatever came before it has been sent

    assert all(one.trace != trace for one in traced.collector.spans)
