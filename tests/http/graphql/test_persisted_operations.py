"""Stored operations over HTTP: by name, by the hash of their text, and nothing else for some."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from docgraph.exchange import Request
from docgraph.graphql.http.body import RequestedOperation
from docgraph.observe.events import RequestFinished
from tests.http.access_harness import ADMIN, NOBODY, allow, caller, guarded
from tests.http.harness import Document, Mongo, Reply, Service, listening
from tests.http.hosts import module_application
from tests.http.mcp_harness import AGENTS, list_tools, use

pytestmark = pytest.mark.anyio

SCHEMA = """
type Query {
  films(year: Int): [Film]
  film(title: String!): Film
}
type Film { title: String year: Int budget: Int @visible(roles: ["accountant"]) }
"""
BY_YEAR = "query ByYear($year: Int) { films(year: $year) { title } }"
BUDGETS = "{ films { title budget } }"
SHAPE = '{ __type(name: "Film") { name } }'
LINES = "{\n  films {\n    year\n  }\n}\n"
OPERATIONS = [
    {"name": "byYear", "description": "Films of a year.", "query": BY_YEAR},
    {"name": "budgets", "query": BUDGETS},
    {"name": "shape", "query": SHAPE},
    {"name": "years", "query": LINES},
]
SCHEMA_URI = "docgraph://apps/films/schema"
FREE = caller("ada", "editor")
BOUND = caller("cleo", "customer")
PEOPLE = ("editor", "customer", "staff", "$unauthenticated")


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    settings: Document = {
        "graphql": {"operations-only": ["customer", "partner", "$unauthenticated"]}
    }
    async with guarded(mongo_client, mongo_uri, settings, AGENTS) as one:
        one.insert(
            "films",
            {"_id": 1, "title": "Metropolis", "year": 1927, "budget": 5},
            {"_id": 2, "title": "Nosferatu", "year": 1922, "budget": 1},
        )
        mappings = {
            "Query": {
                "films": one.find("films", {"$ifarg": ["year", {"year": {"$arg": "year"}}]}),
                "film": one.find("films", {"title": {"$arg": "title"}}),
            }
        }
        await one.define("films", SCHEMA, mappings, operations=OPERATIONS)
        for path in ("/graphql/films", "/mcp", "/_tools", "/films"):
            await allow(one, f"path-prefix('{path}')", *PEOPLE)
        await one.define("picky", SCHEMA, mappings, operations=OPERATIONS)
        by_name = "equals(@request.body.operation, 'byYear')"
        text = "equals(@request.body.query, '{ films { year } }')"
        await allow(one, f"path('/graphql/picky') and ({by_name} or {text})", "picky")
        yield one


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def by_apollo(hash: str, version: int = 1) -> Document:
    return {"extensions": {"persistedQuery": {"version": version, "sha256Hash": hash}}}


async def send(
    service: Service, who: dict[str, str] = FREE, app: str = "films", **body: Any
) -> Reply:
    return await service.request("POST", f"/graphql/{app}", json=body, headers=who)


# --- by name --------------------------------------------------------------------------------------


async def test_a_stored_operation_runs_by_its_name_with_variables(service: Service) -> None:
    """Decision 23."""
    reply = await send(service, operation="byYear", variables={"year": 1927})
    assert reply.data == {"films": [{"title": "Metropolis"}]}
    assert len((await send(service, operation="byYear", variables=None)).data["films"]) == 2
    assert len((await send(service, operation="byYear", operationName="ByYear")).data["films"]) == 2


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"operation": "nothing"}, "unknown-operation"),
        ({"operation": ""}, "unknown-operation"),
        ({"operation": "byYear", "operationName": "Other"}, "unknown-operation"),
        ({"operation": "byYear", "variables": {"year": "x"}}, "bad-variable"),
        ({"operation": "byYear", "variables": []}, "malformed-body"),
        ({"operation": 7}, "malformed-body"),
        ({"operation": "byYear", "query": BY_YEAR}, "malformed-body"),
        ({"operation": "byYear", "documentId": digest(BY_YEAR)}, "malformed-body"),
        ({"operation": None}, "bad-request"),
    ],
)
async def test_what_names_no_operation_or_names_two_is_refused(
    service: Service, body: Document, code: str
) -> None:
    """Decision 23."""
    reply = await send(service, **body)
    assert (reply.status, reply.code) == (400, code)


async def test_operations_of_an_app_that_is_not_there_are_not_found(service: Service) -> None:
    reply = await send(service, ADMIN, app="nowhere", operation="byYear")
    assert (reply.status, reply.code) == (404, "not-found")


async def test_an_operation_with_hidden_fields_is_there_for_those_who_see_them(
    service: Service,
) -> None:
    """What is wrong with its text would name what is hidden."""
    unknown = await send(service, operation="nothing")
    hidden = await send(service, operation="budgets")
    assert (hidden.status, hidden.text) == (unknown.status, unknown.text)
    by_hash = await send(service, documentId=digest(BUDGETS))
    assert by_hash.code == "PERSISTED_QUERY_NOT_FOUND"
    assert "budget" not in by_hash.text

    accountant = caller("acc", "editor", "accountant")
    assert (await send(service, accountant, operation="budgets")).data["films"][0]["budget"] == 5


async def test_wrong_operations_are_refused_when_the_definition_is_written(
    service: Service,
) -> None:
    definition = {
        "_id": "wrong",
        "schema": "type Query { a: Int }",
        "mappings": {"Query": {"a": service.find("films", {})}},
        "descriptor": {"operations": [{"name": "b", "query": "{ b }"}]},
    }
    reply = await service.request("PUT", "/gql-apps/wrong", json=definition, headers=ADMIN)
    assert reply.status == 400
    assert "descriptor.operations.0.query" in reply.text


# --- by hash --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        by_apollo(digest(BY_YEAR)),
        by_apollo(digest(BY_YEAR).upper()),
        {**by_apollo(digest(BY_YEAR)), "query": BY_YEAR},
        {**by_apollo(digest(BY_YEAR)), "query": None, "operationName": "ByYear"},
        {"documentId": digest(BY_YEAR)},
        {"documentId": f"sha256:{digest(BY_YEAR)}"},
        {"doc_id": digest(BY_YEAR)},
        {"doc_id": digest(BY_YEAR), **by_apollo(digest(BY_YEAR))},
    ],
)
@pytest.mark.parametrize("who", [FREE, BOUND, NOBODY], ids=["free", "bound", "nobody"])
async def test_clients_find_a_stored_operation_by_the_hash_of_its_text(
    service: Service, body: Document, who: dict[str, str]
) -> None:
    reply = await send(service, who, **body, variables={"year": 1922})
    assert reply.data == {"films": [{"title": "Nosferatu"}]}


async def test_a_line_break_at_the_end_makes_no_other_text(service: Service) -> None:
    for text in (LINES, LINES.strip(), BY_YEAR, f"{BY_YEAR}\n"):
        assert len((await send(service, documentId=digest(text))).data["films"]) == 2


@pytest.mark.parametrize("body", [by_apollo(digest("{ a }")), {"documentId": digest("{ a }")}])
async def test_an_unknown_hash_is_answered_as_apollo_clients_expect(
    service: Service, body: Document
) -> None:
    reply = await send(service, **body)
    assert reply.status == 400
    assert reply.error["message"] == "PersistedQueryNotFound"
    assert reply.code == "PERSISTED_QUERY_NOT_FOUND"


async def test_a_text_that_comes_with_its_hash_is_run_and_not_registered(service: Service) -> None:
    text = "{ films { year } }"
    reply = await send(service, query=text, **by_apollo(digest(text)))
    assert len(reply.data["films"]) == 2
    assert (await send(service, **by_apollo(digest(text)))).code == "PERSISTED_QUERY_NOT_FOUND"


@pytest.mark.parametrize(
    "body",
    [
        {"query": "{ films { year } }", **by_apollo(digest(BY_YEAR))},
        {"query": "{ films { year } }", "documentId": digest(BY_YEAR)},
        {"query": 7, "documentId": digest(BY_YEAR)},
        {"documentId": 7},
        {"documentId": digest("a"), "doc_id": digest("b")},
        by_apollo(digest(BY_YEAR), version=2),
        {"extensions": {"persistedQuery": "x"}},
        {"extensions": {"persistedQuery": {"version": 1, "sha256Hash": None}}},
    ],
)
async def test_a_hash_that_cannot_be_meant_is_refused(service: Service, body: Document) -> None:
    reply = await send(service, **body)
    assert (reply.status, reply.code) == (400, "malformed-body")


# --- nothing else ---------------------------------------------------------------------------------

TEXTS = ("{ films { year } }", "{ __typename }", "{ __schema { types { name } } }", "not a query")


@pytest.mark.parametrize(
    "who",
    [BOUND, NOBODY, caller("p", "partner", "customer"), caller("no roles")],
    ids=["customer", "nobody", "partner", "no roles"],
)
async def test_callers_all_of_whose_roles_are_listed_run_nothing_else(
    service: Service, who: dict[str, str]
) -> None:
    """`graphql.operations-only`; introspection is something else, too."""
    assert len((await send(service, who, operation="byYear")).data["films"]) == 2
    for text in TEXTS:
        reply = await send(service, who, query=text)
        assert (reply.status, reply.code) == (403, "operations-only"), text
    hashed = await send(service, who, query=TEXTS[0], **by_apollo(digest(TEXTS[0])))
    assert hashed.code == "operations-only"
    plain = {**who, "Content-Type": "application/graphql"}
    reply = await service.request("POST", "/graphql/films", content=TEXTS[0], headers=plain)
    assert reply.code == "operations-only"


async def test_the_text_of_a_stored_operation_is_that_operation(service: Service) -> None:
    assert len((await send(service, BOUND, query=BY_YEAR)).data["films"]) == 2
    assert (await send(service, BOUND, query=f"{BY_YEAR} ")).code == "operations-only"


async def test_a_stored_operation_may_ask_for_the_schema(service: Service) -> None:
    assert (await send(service, BOUND, operation="shape")).data == {"__type": {"name": "Film"}}


@pytest.mark.parametrize(
    "who",
    [FREE, ADMIN, caller("m", "customer", "staff")],
    ids=["editor", "root", "customer and staff"],
)
async def test_one_role_that_is_not_listed_sets_free(service: Service, who: dict[str, str]) -> None:
    assert len((await send(service, who, query=TEXTS[0])).data["films"]) == 2


async def test_agents_of_bound_callers_have_the_operations_and_no_other_door(
    service: Service,
) -> None:
    assert set(await list_tools(service, BOUND)) == {
        "list_apps",
        "films__byYear",
        "films__shape",
        "films__years",
    }
    found = (await use(service, "films__byYear", BOUND, year=1927)).json
    assert found["data"] == {"films": [{"title": "Metropolis"}]}
    for tool in ("run_query", "validate_query", "explain_query"):
        refused = await use(service, tool, BOUND, app="films", query=TEXTS[0])
        assert refused.errors[0]["extensions"]["code"] == "operations-only", tool
    refused = await use(service, "get_schema", BOUND, app="films")
    assert refused.errors[0]["extensions"]["code"] == "operations-only"
    assert (await use(service, "search_schema", BOUND, words="title")).json["hits"] == []
    assert "error" in await ask_mcp(service, BOUND, "resources/read", uri=SCHEMA_URI)
    assert "result" in await ask_mcp(service, FREE, "resources/read", uri=SCHEMA_URI)
    for who, is_there in ((BOUND, False), (FREE, True)):
        listed = (await ask_mcp(service, who, "resources/list"))["result"]["resources"]
        assert (SCHEMA_URI in {one["uri"] for one in listed}) is is_there
    assert "run_query" in await list_tools(service, FREE)


async def ask_mcp(service: Service, who: dict[str, str], method: str, **params: str) -> Document:
    """What an agent is answered."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"Accept": "application/json, text/event-stream", **who}
    reply = await service.request("POST", "/mcp", json=body, headers=headers)
    found: Document = reply.json
    return found


@pytest.mark.parametrize("tool", ["draft", "plan", "matrix", "infer"])
async def test_the_tools_for_authors_are_no_door_either(service: Service, tool: str) -> None:
    definition = service.definitions.find_one({"_id": "films"}, {"_uris": 0, "_etag": 0})
    members: Document = {"definition": definition, "query": BY_YEAR}
    if tool == "plan":
        members = {"app": "films", "query": BY_YEAR}
    elif tool == "matrix":
        members = {"app": "films"}
    elif tool == "infer":
        members = {"collections": ["films"]}
    reply = await service.request("POST", f"/_tools/{tool}", json=members, headers=BOUND)
    assert reply.status == 403
    assert "operations-only" in reply.text


async def test_an_administrator_who_looks_as_a_bound_role_sees_what_it_would_be_told(
    service: Service,
) -> None:
    members = {"app": "films", "query": TEXTS[0], "roles": ["customer"]}
    reply = await service.request("POST", "/_tools/plan", json=members, headers=ADMIN)
    assert reply.status == 403
    assert "operations-only" in reply.text


# --- rules, log, description ------------------------------------------------------------------


async def test_rules_see_the_text_and_the_name_however_an_operation_is_named(
    service: Service,
) -> None:
    picky = caller("pia", "picky")
    for body in ({"operation": "byYear"}, {"documentId": digest(BY_YEAR)}):
        assert (await send(service, picky, "picky", **body)).status == 200
    assert (await send(service, picky, "picky", query="{ films { year } }")).status == 200
    for body in (
        {"query": BY_YEAR},
        {"operation": "years"},
        {"documentId": digest(LINES)},
        {"operation": "nothing"},
        {"documentId": digest("nothing")},
    ):
        assert (await send(service, picky, "picky", **body)).status == 403, body


async def test_the_text_that_was_judged_is_the_text_that_is_run(service: Service) -> None:
    """A definition that changes between the two changes nothing for the request."""
    mappings = {"Query": {"films": service.find("films", {}), "film": service.find("films", {})}}

    async def store(query: str) -> None:
        operations = [{"name": "one", "query": query}]
        await service.define("changing", SCHEMA, mappings, operations=operations)

    await store("{ films { title } }")
    asked, body = (
        RequestedOperation(service.apps, "changing", Request.offload),
        b'{"operation": "one"}',
    )
    content = await service.there(asked.read_content(body, "application/json"))
    await store("{ films { year } }")
    request = await service.there(asked.find(body, "application/json"))
    assert content["query"] == request.query == "{ films { title } }"


async def test_the_log_and_the_description_name_operations(service: Service) -> None:
    with listening(RequestFinished) as finished:
        await send(service, operation="byYear")
        await send(service, documentId=digest(LINES))
        await send(service, query=BY_YEAR)
        await send(service, operation="nothing")
    assert [one.operation for one in finished] == ["byYear", "years", "", ""]

    document = (await service.request("GET", "/openapi.json", headers=ADMIN)).json
    body = document["paths"]["/graphql/films"]["post"]["requestBody"]
    examples = body["content"]["application/json"]["examples"]
    assert examples["byYear"]["summary"] == "Films of a year."
    assert examples["years"]["value"] == {"operation": "years", "variables": {}}
