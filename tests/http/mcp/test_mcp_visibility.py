"""Agents see what their callers see, and nothing else: fields, apps, rows, names of the storage."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from graphql import build_client_schema, build_schema, get_introspection_query

from docgraph.observe.events import AccessDenied
from tests.http.access_harness import ADMIN, NOBODY, allow, caller, guarded, remove_rules
from tests.http.harness import Document, Mongo, Service, listening
from tests.http.hosts import module_application
from tests.http.mcp_harness import AGENTS, ask, list_tools, result, use

pytestmark = pytest.mark.anyio

READER = caller("rita", "reader")
EDITOR = caller("eddy", "editor")
STRANGER = caller("stan", "stranger")
CALLERS = {"nobody": NOBODY, "reader": READER, "editor": EDITOR, "admin": ADMIN}

SCHEMA = """
type Query {
  people(salary: Int @visible(roles: ["editor"])): [Person]
  drafts: [Draft] @visible(roles: ["editor"])
  found: [Found]
}
type Person implements Named {
  _id: String
  name: String
  salary: Int @visible(roles: ["editor"])
  boss: Person
  pay: Pay @visible(roles: ["editor"])
}
type Pay { amount: Int }
type Draft { text: String }
interface Named { name: String }
union Found = Person
"""
HIDDEN = "salary"
OPERATIONS = [
    {"name": "names", "query": "{ people { name } }"},
    {"name": "salaries", "description": "Who has what", "query": "{ people { name salary } }"},
    {"name": "filtered", "query": "{ people(salary: 1) { name } }"},
    {"name": "folded", "query": "{ found { ...F } } fragment F on Person { boss { salary } }"},
]
NUMBER = 987_654


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri, AGENTS) as one:
        one.insert(
            "people",
            {"_id": "ada", "name": "Ada", "team": "blue", "salary": NUMBER, "boss": "bob"},
            {"_id": "bob", "name": "Bob", "team": "red", "salary": NUMBER + 1},
        )
        await one.define("company", SCHEMA, _mappings(one), operations=OPERATIONS)
        secret = {"Query": {"treasure": one.find("people")}}
        await one.define(
            "vault",
            "type Query { treasure: [Coin] } type Coin { _id: String }",
            secret,
            description="Where the treasure is",
            operations=[{"name": "coins", "query": "{ treasure { _id } }"}],
        )
        everybody = ("$unauthenticated",)
        await allow(one, "path-prefix('/mcp')", *everybody, _id="agents")
        await allow(one, "path-prefix('/graphql/company')", *everybody, _id="company")
        yield one


def _mappings(one: Service) -> Document:
    people = one.find("people", {}, sort={"_id": 1})
    return {
        "Query": {"people": people, "drafts": one.find("drafts"), "found": people},
        "Person": {
            "boss": one.find("people", {"_id": {"$fk": "boss"}}),
            "pay": one.find("pays", {"_id": {"$fk": "_id"}}),
        },
        "Found": {"$typeResolver": {"Person": "field-exists(name)"}},
        "Named": {"$typeResolver": {"Person": "field-exists(name)"}},
    }


# --- the schema is that of introspection ----------------------------------------------------------


@pytest.mark.parametrize("who", CALLERS)
async def test_the_schema_of_a_caller_is_that_of_his_introspection(
    service: Service, who: str
) -> None:
    """Drill I08."""
    headers = CALLERS[who]
    asked = await service.query("company", get_introspection_query(), headers=headers)
    introspected = build_client_schema(asked.data)

    told = build_schema((await use(service, "get_schema", headers, app="company")).text)

    assert _coordinates(told) == _coordinates(introspected)
    uri = {"uri": "docgraph://apps/company/schema"}
    read = (await result(service, "resources/read", uri, headers))["contents"][0]["text"]
    assert _coordinates(build_schema(read)) == _coordinates(introspected)


def _coordinates(schema: Any) -> set[str]:
    found = set()
    for name, type_ in schema.type_map.items():
        if not name.startswith("__"):
            found.add(name)
            for field, own in getattr(type_, "fields", {}).items():
                found |= {f"{name}.{field}"}
                found |= {f"{name}.{field}({argument}:)" for argument in getattr(own, "args", ())}
    return found


@pytest.mark.parametrize("who", CALLERS)
async def test_an_operation_is_a_tool_for_those_who_see_all_of_its_fields(
    service: Service, who: str
) -> None:
    """Drill I08: a tool is there exactly when the endpoint would answer its query."""
    headers = CALLERS[who]

    tools = await list_tools(service, headers)

    for operation in OPERATIONS:
        reply = await service.query("company", operation["query"], headers=headers)
        is_there = f"company__{operation['name']}" in tools
        assert is_there is (reply.status == 200), operation["name"]


async def test_a_hidden_operation_is_as_unknown_as_one_that_never_was(service: Service) -> None:
    hidden = await ask(service, "tools/call", {"name": "company__salaries"}, READER)
    never = await ask(service, "tools/call", {"name": "company__salariez"}, READER)

    assert hidden.text.replace("salaries", "") == never.text.replace("salariez", "")
    assert hidden.json["error"]["code"] == -32602


# --- a hidden field, asked for in every way -------------------------------------------------------

WAYS = {
    "direct": "{ people { salary } }",
    "alias": "{ people { name: salary } }",
    "named fragment": "{ people { ...F } } fragment F on Person { salary }",
    "inline fragment": "{ people { ... on Person { salary } } }",
    "nested": "{ people { boss { salary } } }",
    "union": "{ found { ... on Person { salary } } }",
    "operation 2 of 2": "query A { people { name } } query B { people { salary } }",
    "condition": "query($x: Boolean!) { people { salary @include(if: $x) } }",
    "bad argument": "{ people { salary(x: 1) } }",
    "argument": "{ people(salary: 1) { name } }",
    "argument by variable": "query($x: Int) { people(salary: $x) { name } }",
    "type behind it": "{ people { pay { amount } } }",
    "__type": '{ __type(name: "Person") { fields(includeDeprecated: true) { name } } }',
    "__type of what is behind": '{ __type(name: "Pay") { name } }',
    "__schema": "{ __schema { types { name fields { name } } } }",
    "near miss": "{ people { salry sala pai } }",
}


@pytest.mark.parametrize("tool", ["run_query", "validate_query", "explain_query"])
@pytest.mark.parametrize("way", WAYS)
async def test_no_way_of_asking_leads_to_a_hidden_field(
    service: Service, tool: str, way: str
) -> None:
    """Drill I01, for agents: the words are those for a name that never existed."""
    arguments: Document = {"app": "company", "query": WAYS[way]}
    if way == "operation 2 of 2":
        arguments["operation"] = "B"
    if way == "condition":
        arguments["variables"] = {"x": True}

    for who in (NOBODY, READER):
        told = await use(service, tool, who, **arguments)
        assert str(NUMBER) not in told.text
        assert "Did you mean" not in told.text
        never = {**arguments, "query": WAYS[way].replace(HIDDEN, "zalary").replace("pay ", "pax ")}
        other = await use(service, tool, who, **never)
        assert other.text.replace("zalary", HIDDEN).replace("pax", "pay") == told.text
        assert (HIDDEN in told.text) <= (HIDDEN in WAYS[way])  # only what he said himself


async def test_search_and_types_do_not_know_hidden_names(service: Service) -> None:
    told = await use(service, "search_schema", READER, words="salary pay draft amount")
    assert told.json == {"hits": [], "total": 0}
    for name in ("Pay", "Draft"):
        refused = await use(service, "get_schema", READER, app="company", types=[name])
        assert refused.message == f"Unknown type '{name}'."

    shown = await use(service, "search_schema", EDITOR, words="salary")
    assert shown.json["hits"][0]["is"] == "Person.salary: Int"


# --- apps that are not for the caller -------------------------------------------------------------


async def test_an_app_is_there_only_for_callers_whom_its_own_rules_admit(service: Service) -> None:
    """Who may speak to the endpoint of agents has no right to an app by that."""
    apps = [one["app"] for one in (await use(service, "list_apps", READER)).json["apps"]]
    assert apps == ["company"]
    listed = [one["app"] for one in (await use(service, "list_apps", ADMIN)).json["apps"]]
    assert listed == ["company", "vault"]

    assert "vault__coins" not in await list_tools(service, READER)
    found = await result(service, "resources/list", None, READER)
    assert "vault" not in json.dumps(found)
    hits = await use(service, "search_schema", READER, words="treasure coin")
    assert hits.json["total"] == 0


async def test_hints_name_only_what_the_caller_sees(service: Service) -> None:
    misspelled = {"app": "company", "query": "{ people { salarry } }"}
    for who, is_shown in ((READER, False), (EDITOR, True)):
        (error, *_) = (await use(service, "run_query", who, **misspelled)).errors
        assert ("'salary'" in error["extensions"]["hint"]) is is_shown
    (error,) = (await use(service, "get_schema", READER, app="vaulr")).errors
    assert "vault" not in json.dumps(error)


async def test_a_denied_use_of_an_app_is_logged_and_listing_apps_is_not(service: Service) -> None:
    with listening(AccessDenied) as denied:
        await use(service, "list_apps", READER)
        await use(service, "search_schema", READER, words="treasure coin")
        await list_tools(service, READER)
    assert denied == []

    with listening(AccessDenied) as denied:
        await use(service, "run_query", READER, app="vault", query="{ treasure { _id } }")
    assert [one.reason for one in denied] == ["no rule matches"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("get_schema", {}),
        ("search_schema", {"words": "treasure"}),
        ("validate_query", {"query": "{ treasure { _id } }"}),
        ("explain_query", {"query": "{ treasure { _id } }"}),
        ("run_query", {"query": "{ treasure { _id } }"}),
    ],
)
@pytest.mark.parametrize(
    "name", ["vault", "/vault/", "company/../vault", "../graphql/vault", "%76ault", "vault%00", "."]
)
async def test_another_app_is_as_unknown_as_one_that_never_was(
    service: Service, tool: str, arguments: Document, name: str
) -> None:
    never = await use(service, tool, READER, app="nosuchapp", **arguments)

    told = await use(service, tool, READER, app=name, **arguments)

    assert told.is_error
    errors = [one.errors[0] for one in (told, never)]
    hints = [error["extensions"].pop("hint") for error in errors]  # of the name that was sent
    assert "vault" not in "".join(hints)
    assert errors[0] == errors[1]


async def test_a_resource_of_another_app_is_as_unknown_as_one_that_never_was(
    service: Service,
) -> None:
    texts = set()
    for name in ("vault", "nosuchapp", "company/../vault", "company%2F..%2Fvault"):
        for kind in ("schema", "description", "other"):
            uri = f"docgraph://apps/{name}/{kind}"
            reply = await ask(service, "resources/read", {"uri": uri}, READER)
            texts.add(reply.text.replace(uri, ""))
    assert len(texts) == 1
    assert '"code":-32002,"message":"Resource not found"' in texts.pop()


async def test_callers_without_permission_for_the_endpoint_get_403(service: Service) -> None:
    await remove_rules(service, _id="agents")
    await allow(service, "path-prefix('/mcp')", "reader", "editor", _id="agents")
    try:
        assert (await ask(service, "tools/list", None, NOBODY)).status == 401
        refused = await ask(service, "tools/list", None, STRANGER)
        error = refused.json["error"]
        assert (refused.status, error["data"]) == (403, {"code": "forbidden"})
        assert (await ask(service, "tools/list", None, READER)).status == 200
    finally:
        await allow(service, "path-prefix('/mcp')", "$unauthenticated", _id="agents")


# --- rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["agents", "company", "both"])
async def test_row_filters_of_both_rules_hold(service: Service, place: str) -> None:
    """Decision 40: of the rule for the endpoint, of that for the app, and of both together."""
    blue = {"readFilters": {f"{service.db}.people": {"team": "blue"}}}
    paths = {"agents": "/mcp", "company": "/graphql/company"}
    for id, path in paths.items():
        own = blue if place == id else {"readFilters": {f"{service.db}.people": {"name": "Ada"}}}
        conditions = {"mongo": own} if place in (id, "both") else {}
        predicate = f"path-prefix('{path}')"
        await allow(service, predicate, "$unauthenticated", _id=id, **conditions)
    try:
        query = "{ people { _id boss { _id } } }"
        told = await use(service, "run_query", READER, app="company", query=query)
        assert told.json["data"] == {"people": [{"_id": "ada", "boss": None}]}
    finally:
        for id, path in paths.items():
            await allow(service, f"path-prefix('{path}')", "$unauthenticated", _id=id)


# --- names of the storage -------------------------------------------------------------------------


async def test_collections_indexes_and_counts_are_told_to_the_root_role_only(
    service: Service,
) -> None:
    query = "{ people { name boss { name } } }"

    told = await use(service, "explain_query", READER, app="company", query=query)
    shown = await use(service, "explain_query", ADMIN, app="company", query=query)

    for text in (service.db, "collection", 'index":', "documents", "byCounts", "plan", "_id_"):
        assert text not in told.text
    assert [one["field"] for one in told.json["fetches"]] == ["Query.people", "Person.boss"]
    fetches = {one["field"]: one for one in shown.json["fetches"]}
    assert fetches["Query.people"]["collection"] == f"{service.db}.people"
    assert fetches["Query.people"]["documents"] == 2
    assert fetches["Person.boss"]["indexes"] == ["_id_"]
    assert f"{service.db}.people" in shown.json["plan"]


async def test_the_roles_of_graphql_explain_are_told_instead(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    settings = {**AGENTS, "graphql": {"explain": ["editor"]}}
    async with guarded(mongo_client, mongo_uri, settings) as one:
        await one.define("company", SCHEMA, _mappings(one))
        await allow(one, "path-prefix('/mcp')", "editor")
        await allow(one, "path-prefix('/graphql')", "editor")
        asked = {"app": "company", "query": "{ people { name } }"}
        assert "collection" in (await use(one, "explain_query", EDITOR, **asked)).text
        assert "collection" not in (await use(one, "explain_query", ADMIN, **asked)).text


async def test_callers_without_introspection_read_no_schema(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    settings = {**AGENTS, "graphql": {"introspection": ["editor"]}}
    async with guarded(mongo_client, mongo_uri, settings) as one:
        await one.define("company", SCHEMA, _mappings(one), operations=OPERATIONS)
        await allow(one, "path-prefix('/mcp')", "$unauthenticated")
        await allow(one, "path-prefix('/graphql')", "$unauthenticated")
        reply = await one.query("company", "{ __schema { queryType { name } } }", headers=READER)
        refused = await use(one, "get_schema", READER, app="company")
        assert refused.errors == reply.errors
        searched = await use(one, "search_schema", READER, app="company", words="people")
        assert searched.errors == reply.errors
        everywhere = await use(one, "search_schema", READER, words="people")
        assert everywhere.json["hits"] == []
        uri = {"uri": "docgraph://apps/company/schema"}
        assert "error" in (await ask(one, "resources/read", uri, READER)).json
        assert "company__names" in await list_tools(one, READER)
        assert not (await use(one, "get_schema", EDITOR, app="company")).is_error


# --- changes --------------------------------------------------------------------------------------


async def test_changes_of_definitions_and_rules_show_at_the_next_call(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    async with guarded(mongo_client, mongo_uri, AGENTS) as one:
        await allow(one, "path-prefix('/mcp')", "reader")
        assert (await use(one, "list_apps", READER)).json["apps"] == []
        await one.define("company", SCHEMA, _mappings(one))
        assert (await use(one, "list_apps", READER)).json["apps"] == []
        await allow(one, "path-prefix('/graphql')", "reader", _id="apps")
        assert len((await use(one, "list_apps", READER)).json["apps"]) == 1
        await one.define("company", SCHEMA, _mappings(one), operations=OPERATIONS[:1])
        assert "company__names" in await list_tools(one, READER)
        await remove_rules(one, _id="apps")
        assert "company__names" not in await list_tools(one, READER)
        await allow(one, "path-prefix('/graphql')", "reader", _id="apps")
        await one.remove("company")
        assert (await use(one, "list_apps", READER)).json["apps"] == []


async def test_what_is_cached_for_one_caller_is_not_shown_to_another(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    """Callers who see the same schema, but may not all read it, and not all by free queries."""
    operations = [
        {"name": "names", "query": "{ people { name } }"},
        {"name": "shape", "query": "{ people { name } __schema { queryType { name } } }"},
    ]
    settings = {"graphql": {"introspection": ["editor", "bound"], "operations-only": ["bound"]}}
    schema = "type Query { people: [Person] } type Person { name: String }"
    seen: dict[str, list[set[str]]] = {}
    async with guarded(mongo_client, mongo_uri, AGENTS, settings) as one:
        await allow(one, "path-prefix('/')", "reader", "editor", "bound", _id="all")
        mappings = {"Query": {"people": one.find("people")}}
        await one.define("one", schema, mappings, operations=operations)
        for role in ("editor", "reader", "bound", "editor", "bound", "reader"):
            tools = await list_tools(one, caller(role, role))
            shown = {name for name in tools if name.startswith("one__")}
            seen.setdefault(role, []).append(shown)
        await remove_rules(one, _id="all")
        await allow(one, "path('/mcp')", "reader", "editor", _id="agents")
        left = await list_tools(one, EDITOR)

    both = {"one__names", "one__shape"}
    assert seen == {
        "editor": [both, both],
        "bound": [both, both],
        "reader": [{"one__names"}, {"one__names"}],
    }
    assert not [name for name in left if name.startswith("one__")]
