"""`/_tools`: a definition checked, tried and explained; nothing is stored, nobody sees more."""

from __future__ import annotations

import copy
import gc
import json
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from bson import Decimal128

from docgraph.graphql.apps.compiled_app import App
from tests.http.access_harness import ADMIN, NOBODY, allow, caller, guarded, remove_rules
from tests.http.harness import Document, Mongo, Reply, Service, build_definition, eventually
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

AUTHOR = caller("aug", "author")
TOOLS = ("check", "draft", "plan", "matrix")
SCHEMA = """
type Query {
  people: [Person]
  hired(name: String): [Person]
}
type Person {
  _id: String
  name: String
  salary: Int @visible(roles: ["editor"])
  boss: Person
  pay: Pay @visible(roles: ["editor", "payroll"])
}
type Pay { amount: Int }
"""
ASK = "{ people { name boss { name } } }"
NUMBER = 987_654


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        one.insert(
            "people",
            {"_id": "ada", "name": "Ada", "team": "blue", "salary": NUMBER, "boss": "bob"},
            {"_id": "bob", "name": "Bob", "team": "red", "salary": NUMBER, "boss": "bob"},
            {"_id": "cleo", "name": "Cleo", "team": "red", "salary": NUMBER},
        )
        one.insert("pays", {"_id": "ada", "amount": 1})
        one.insert("users", {"_id": "ada", "password": "$2b$hashed", "roles": ["admin"]})
        yield one


@pytest.fixture
async def service(server: Service) -> Service:
    """Nobody but the root role may do anything, and no app is stored."""
    await remove_rules(server)
    for stored in server.definitions.find({}, {"_id": 1}):
        await server.remove(stored["_id"])
    return server


def build(service: Service, **others: Any) -> Document:
    """A definition that works."""
    optional = {"$and": [{"$ifarg": ["name", {"name": {"$arg": "name"}}]}]}
    mappings = {
        "Query": {
            "people": service.find("people", {}, sort={"_id": 1}),
            "hired": service.find("people", {"team": "red", **optional}, sort={"name": 1}),
        },
        "Person": {
            "boss": service.find("people", {"_id": {"$fk": "boss"}}),
            "pay": service.find("pays", {"_id": {"$fk": "_id"}}),
        },
    }
    return {**build_definition("company", SCHEMA, mappings), **others}


async def use(service: Service, tool: str, who: dict[str, str] = ADMIN, **members: Any) -> Reply:
    return await service.request("POST", f"/_tools/{tool}", json=members, headers=who)


async def get(service: Service, tool: str, **members: Any) -> Any:
    reply = await use(service, tool, **members)
    assert reply.status == 200, (reply.status, reply.text)
    return reply.json


def names(reply: Reply) -> list[str]:
    return [person["name"] for person in reply.data["people"]]


# --- who may ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", TOOLS)
async def test_the_tools_are_for_the_root_role_unless_a_rule_says_more(
    service: Service, tool: str
) -> None:
    members: Document = {"definition": build(service)}
    if tool in ("draft", "plan"):
        members["query"] = ASK
    assert (await use(service, tool, NOBODY, **members)).status == 401
    assert (await use(service, tool, AUTHOR, **members)).status == 403
    assert (await use(service, tool, ADMIN, **members)).status == 200

    for path in ("_tools", "graphql", "people", "pays"):
        await allow(service, f"path-prefix('/{path}')", "author")
    assert (await use(service, tool, AUTHOR, **members)).status == 200


async def test_what_is_no_tool_is_not_found_and_methods_are_refused(service: Service) -> None:
    for path in ("/_tools", "/_tools/nothing", "/_tools/check/more", "/_tools/check%2Fmore"):
        assert (await service.request("POST", path, json={}, headers=ADMIN)).status == 404
    for tool in TOOLS:
        reply = await service.request("PUT", f"/_tools/{tool}", json={}, headers=ADMIN)
        assert reply.status == 405
        allowed = "GET, POST, HEAD, OPTIONS" if tool == "matrix" else "POST, OPTIONS"
        assert reply.headers["Allow"] == allowed


async def test_the_path_takes_the_place_of_a_collection_of_that_name(service: Service) -> None:
    assert (await service.request("PUT", "/_tools", headers=ADMIN)).status == 405
    assert "_tools" not in service.mongo[service.db].list_collection_names()


async def test_an_unknown_member_or_one_of_another_type_is_a_bad_request(service: Service) -> None:
    definition = build(service)
    wrong: list[tuple[str, Any, str]] = [
        ("check", {}, "'definition' is missing"),
        ("check", {"definition": "text"}, "'definition' must be an object"),
        ("check", {"definition": definition, "app": "x"}, "unknown member 'app'"),
        ("draft", {"definition": definition}, "'query' is missing"),
        ("draft", {"query": ASK}, "neither 'app' nor 'definition' is given"),
        ("draft", {"query": ASK, "app": "a", "definition": definition}, "'app' and 'definition'"),
        ("plan", {"query": ASK}, "neither 'app' nor 'definition' is given"),
        ("plan", {"query": ASK, "app": "a", "definition": definition}, "'app' and 'definition'"),
        ("plan", {"query": 1, "app": "a"}, "'query' must be a string"),
        ("plan", {"query": ASK, "app": "a", "run": 1}, "'run' must be true or false"),
        ("draft", {"query": ASK, "definition": definition, "roles": "x"}, "'roles' must be"),
        ("draft", {"query": ASK, "definition": definition, "roles": [1]}, "'roles' must be"),
        ("matrix", {"request": {"path": "people"}}, "'request.path' must begin with a slash"),
        ("matrix", {"request": {"path": "/a", "body": {}}}, "'request' has no text 'body'"),
    ]
    for tool, members, message in wrong:
        reply = await use(service, tool, **members)
        assert (reply.status, reply.json["code"]) == (400, "malformed-body"), (members, reply.text)
        assert message in reply.json["message"]


async def test_bodies_that_are_no_json_too_deep_or_too_large_are_refused(service: Service) -> None:
    deep = '{"definition":' + '{"a":' * 101 + "1" + "}" * 102
    many = json.dumps({"definition": {"a": [0] * 200_001}})
    bodies: list[tuple[str, int]] = [
        ("", 400),
        ("[]", 400),
        ("{", 400),
        ('{"definition": {"_id": "a", "_id": "b"}}', 400),
        (deep, 400),
        ('{"definition":' + "[" * 100_000, 400),
        (many, 400),
        (json.dumps({"definition": {"schema": "x" * 2_097_152}}), 413),
    ]
    for body, status in bodies:
        for tool in TOOLS:
            headers = {**ADMIN, "Content-Type": "application/json"}
            reply = await service.request("POST", f"/_tools/{tool}", content=body, headers=headers)
            assert reply.status == status, (body[:60], reply.text)
    other = {**ADMIN, "Content-Type": "text/plain"}
    reply = await service.request("POST", "/_tools/check", content="{}", headers=other)
    assert reply.status == 415


# --- check ------------------------------------------------------------------------------------


async def test_a_definition_that_works_has_no_findings_and_is_new(service: Service) -> None:
    checked = await get(service, "check", definition=build(service))

    assert checked == {
        "valid": True,
        "errors": [],
        "warnings": [],
        "app": "company",
        "change": "new",
        "breaking": 0,
        "effects": [],
    }


async def test_every_mistake_is_told_at_its_line(service: Service) -> None:
    text = f"""
Query:
  people:
    db: {service.db}
    collection: people
    find: {{name: {{$bogus: 1}}}}
  nobody: {{db: x, collection: y}}
Person:
  boss: 5
"""
    checked = await get(service, "check", definition=build(service, mappings=text))

    places = {one["where"]: (one["line"], one["column"]) for one in checked["errors"]}
    assert places == {
        "mappings.Query.people.find.name.$bogus": (6, 19),
        "mappings.Person.boss": (9, 3),
    }
    (warning,) = [one for one in checked["warnings"] if one["where"] == "mappings.Query.nobody"]
    assert (warning["line"], warning["column"]) == (7, 3)
    assert not checked["valid"]

    wrong = SCHEMA.replace("boss: Person", "boss: Nobody")
    checked = await get(service, "check", definition=build(service, schema=wrong))
    (error,) = checked["errors"]
    assert (error["line"], error["column"], error["what"]) == (10, 9, "Unknown type 'Nobody'")


async def test_a_field_without_a_mapping_is_named_and_located_in_the_schema(
    service: Service,
) -> None:
    schema = SCHEMA.replace("people: [Person]", "people: [Person]\n  extra: Int")
    line = next(at for at, one in enumerate(schema.splitlines(), 1) if "extra" in one)
    checked = await get(service, "check", definition=build(service, schema=schema))

    (warning,) = [one for one in checked["warnings"] if one["where"].endswith(".extra")]
    assert warning["field"] == "Query.extra"
    assert (warning["part"], warning["line"], warning["column"]) == ("schema", line, 3)


async def test_a_text_that_cannot_be_read_is_a_finding_among_those_of_the_other_parts(
    service: Service,
) -> None:
    definition = build(service, mappings="Query:\n  people: [\n", descriptor="uri: 5")
    checked = await get(service, "check", definition=definition)

    found = {one["where"]: one.get("line") for one in checked["errors"]}
    assert found == {"mappings": 3, "descriptor.uri": 1}
    assert "change" not in checked


async def test_parts_as_texts_come_back_as_the_definition_to_store(service: Service) -> None:
    definition = build(service)
    texts = {"mappings": json.dumps(definition["mappings"]), "descriptor": "description: d"}
    checked = await get(service, "check", definition={**definition, **texts})

    assert checked["definition"] == {**definition, "descriptor": {"description": "d"}}
    assert checked["errors"] == []


async def test_parts_are_told_as_texts_that_read_back_as_them(service: Service) -> None:
    descriptor = {"description": "a: b # c", "enabled": False}
    definition = build(service, descriptor=descriptor, note=2**53 + 1)
    odd = {"n": 2**53 + 1, "share": 1.0, "no": "no", "at": {"$date": 1_717_156_800_123}}
    definition["mappings"]["Query"]["hired"]["find"] |= odd
    told = (await get(service, "check", definition=definition, texts=True))["texts"]

    assert sorted(told) == ["descriptor", "mappings"]
    unchecked = await get(service, "check", definition=definition, texts=True, run=False)
    assert unchecked == {"texts": told}
    assert told["descriptor"] == 'description: "a: b # c"\nenabled: false\n'
    checked = await get(service, "check", definition={**definition, **told})
    assert json.dumps(checked["definition"], sort_keys=True) == json.dumps(
        definition, sort_keys=True
    )


async def test_a_part_that_is_no_object_has_no_text(service: Service) -> None:
    definition = build(service, mappings=["people"], descriptor="{enabled: ")
    told = await get(service, "check", definition=definition, texts=True)

    assert (told["valid"], told["texts"]) == (False, {})
    assert "texts" not in await get(service, "check", definition=definition)


async def test_the_differences_to_the_stored_one_are_told_with_those_that_break_clients(
    service: Service,
) -> None:
    definition = build(service)
    await service.store(definition)
    assert (await get(service, "check", definition=definition))["change"] == "same"

    other = {**definition, "schema": SCHEMA.replace("  name: String", "  nick: String")}
    checked = await get(service, "check", definition=other)

    assert (checked["change"], checked["breaking"]) == ("changed", 1)
    assert checked["effects"] == [
        {"severity": "breaking", "what": "Field Person.name was removed."},
        {"severity": "safe", "what": "Field Person.nick was added."},
    ]
    assert "-  name: String\n+  nick: String" in checked["diff"]


async def test_an_address_of_another_app_is_an_error(service: Service) -> None:
    await service.store(build(service))
    other = build(service, _id="other", descriptor={"uri": "/company"})

    (error,) = (await get(service, "check", definition=other))["errors"]

    assert error["where"] == "descriptor.uri"
    assert error["what"] == "the app company is served there, too"


async def test_who_may_not_store_a_definition_learns_nothing_of_what_it_reads(
    service: Service,
) -> None:
    """Whether a collection is there, its indexes, and what is stored of the app."""
    await service.store(build(service))
    await allow(service, "path-prefix('/_tools')", "author")
    for collection in ("people", "not-there"):
        mapping = {"Query": {"people": service.find(collection, {}, sort={"name": 1})}}
        definition = build_definition("company", "type Query { people: [P] } type P { a: Int }")
        reply = await use(service, "check", AUTHOR, definition={**definition, "mappings": mapping})

        (error,) = reply.json["errors"]
        assert f"{service.db}.{collection}" in error["what"]
        assert reply.json == {"valid": False, "errors": [error], "warnings": []}


async def test_nothing_is_stored_and_no_draft_has_an_address(service: Service) -> None:
    definition = build(service)
    for tool in TOOLS:
        members = {"query": ASK} if tool in ("draft", "plan") else {}
        await get(service, tool, definition=definition, **members)

    assert service.definitions.count_documents({}) == 0
    assert (await service.query("company", ASK, headers=ADMIN)).status == 404
    assert (await use(service, "plan", app="company", query=ASK)).status == 404


async def test_no_compiled_draft_outlives_its_answer(service: Service) -> None:
    def count() -> int:
        gc.collect()
        return sum(type(one) is App for one in gc.get_objects())

    before = count()
    for query in (ASK, "{ __schema { types { name } } }", "{ wrong }"):
        await use(service, "draft", definition=build(service), query=query, roles=["admin"])
    await eventually(lambda: count() <= before)


async def test_the_tools_go_off_with_graphql(mongo_client: Mongo, mongo_uri: str) -> None:
    async with guarded(mongo_client, mongo_uri, {"graphql": {"enabled": False}}) as off:
        assert (await off.request("GET", "/ping")).status == 200
        reply = await off.request("OPTIONS", "/_tools/check", headers=ADMIN)
        assert "DELETE" in reply.headers["Allow"]  # a document of a collection of that name


# --- draft ------------------------------------------------------------------------------------


async def test_a_draft_answers_as_the_stored_app_would(service: Service) -> None:
    definition = build(service)
    queries = [
        ASK,
        "{ people { nme } }",
        '{ hired(name: "Bob") { _id } __schema { queryType { name } } }',
        "query ($n: String) { hired(name: $n) { name } }",
        "{",
        "mutation { x }",
    ]
    drafted = [await use(service, "draft", definition=definition, query=one) for one in queries]
    await service.store(definition)
    stored = [await service.query("company", one, headers=ADMIN) for one in queries]

    for draft, real in zip(drafted, stored, strict=True):
        assert (draft.status, draft.json) == (real.status, real.json)
        assert draft.headers["Content-Type"] == real.headers["Content-Type"]


async def test_variables_of_a_draft_lose_no_digit(service: Service) -> None:
    digits = "0.1234567890123456789012345"
    service.insert("sums", {"_id": 1, "sum": Decimal128(digits)})
    schema = "type Query { sums(sum: Decimal128): [S] } type S { sum: Decimal128 }"
    mappings = {"Query": {"sums": service.find("sums", {"sum": {"$arg": "sum"}})}}
    definition = build_definition("d", schema, mappings)
    query = "query ($n: Decimal128) { sums(sum: $n) { sum } }"
    body = json.dumps({"definition": definition, "query": query, "variables": {"n": 0.5}})
    headers = {**ADMIN, "Content-Type": "application/json"}
    content = body.replace("0.5", digits)
    reply = await service.request("POST", "/_tools/draft", content=content, headers=headers)
    assert reply.data == {"sums": [{"sum": {"$numberDecimal": digits}}]}


async def test_a_draft_that_cannot_work_is_refused_with_its_findings(service: Service) -> None:
    definition = build(service, mappings="Query:\n  people: {db: 5, collection: c, find: {}}\n")
    for tool in ("draft", "plan", "matrix"):
        members: Document = {} if tool == "matrix" else {"query": ASK}
        reply = await use(service, tool, definition=definition, **members)

        assert (reply.status, reply.json["code"]) == (400, "invalid-definition")
        (detail,) = reply.json["details"]
        assert (detail["where"], detail["line"]) == ("mappings.Query.people.db", 2)


async def test_limits_of_a_draft_hold(service: Service) -> None:
    definition = build(service, descriptor={"limits": {"fetched-documents": 2}})
    reply = await use(service, "draft", definition=definition, query=ASK)
    assert (reply.status, reply.code) == (400, "too-many-documents")


async def test_hidden_properties_stay_hidden_in_drafts(service: Service) -> None:
    one = {"$match": {"_id": "ada"}}
    copies = service.stages("users", one, {"$project": {"copy": "$$ROOT"}})
    schema = "type Query { users: [User] } type User { copy: BsonDocument }"
    definition = build_definition("spy", schema, {"Query": {"users": copies}})

    reply = await use(service, "draft", definition=definition, query="{ users { copy } }")
    assert reply.data == {"users": [{"copy": {"_id": "ada", "roles": ["admin"]}}]}

    named = {**definition, "schema": schema.replace("copy: BsonDocument", "password: String")}
    (error,) = (await get(service, "check", definition=named))["errors"]
    assert error["what"] == "password is never shown"


async def test_a_look_as_a_role_has_its_fields_and_its_rows(service: Service) -> None:
    definition = build(service)
    space = f"{service.db}.people"
    for role, team in (("reader", "blue"), ("editor", "red")):
        rows = {"readFilters": {space: {"team": team}}}
        await allow(service, "path-prefix('/graphql/company')", role, mongo=rows)

    async def look(query: str, *roles: str) -> Reply:
        return await use(service, "draft", definition=definition, query=query, roles=roles)

    own = await use(service, "draft", definition=definition, query=ASK)
    assert names(own) == ["Ada", "Bob", "Cleo"]
    assert names(await look(ASK, "reader")) == ["Ada"]
    assert names(await look(ASK, "editor")) == ["Bob", "Cleo"]
    salaries = "{ people { salary } }"
    assert (await look(salaries, "reader")).code == "invalid-query"
    assert (await look(salaries, "editor")).data == {"people": [{"salary": NUMBER}] * 2}
    shown = await look('{ __type(name: "Person") { fields { name } } }', "reader")
    assert "salary" not in shown.text
    assert "boss" in shown.text

    refused = await look(ASK)
    assert (refused.status, refused.json["code"]) == (403, "forbidden")
    assert refused.json["message"] == "the app would answer 401: no rule matches"
    assert "would answer 403" in (await look(ASK, "stranger")).json["message"]


async def test_only_the_root_role_looks_as_others(service: Service) -> None:
    for path in ("_tools", "graphql", "people", "pays"):
        await allow(service, f"path-prefix('/{path}')", "author")
    await service.store(build(service))
    others: list[Document] = [{"roles": ["editor"]}, {"roles": []}, {"user": "ada"}]
    for tool in ("draft", "plan"):
        for other in others:
            members = {"definition": build(service), "query": ASK, **other}
            reply = await use(service, tool, AUTHOR, **members)
            assert (reply.status, reply.json["message"]) == (403, "permission denied")
    question = {"request": {"path": "/people"}}
    assert (await use(service, "matrix", AUTHOR, **question)).status == 403


async def test_a_draft_of_somebody_else_shows_what_he_may_read_and_no_more(
    service: Service,
) -> None:
    """Without the root role a draft is one that might be stored, at an address that is open."""
    await allow(service, "path-prefix('/_tools')", "author")
    definition = build(service)

    async def draft(query: str = ASK) -> Reply:
        return await use(service, "draft", AUTHOR, definition=definition, query=query)

    assert (await draft()).json["code"] == "security-violation"
    for path in ("people", "pays"):
        await allow(service, f"path-prefix('/{path}')", "author")
    assert (await draft()).status == 403  # nobody lets him in at the address
    rows = {"readFilters": {f"{service.db}.people": {"team": "blue"}}}
    await allow(service, "path-prefix('/graphql')", "author", mongo=rows)
    assert names(await draft()) == ["Ada"]
    assert (await draft("{ people { salary } }")).code == "invalid-query"


async def test_an_app_that_is_switched_off_is_not_run_as_a_draft(service: Service) -> None:
    """Who knows its definition might leave it stored, but nobody is shown what it maps."""
    for path in ("_tools", "graphql"):
        await allow(service, f"path-prefix('/{path}')", "author")
    for enabled in (True, False):
        definition = build(service, descriptor={"enabled": enabled})
        await service.store(definition)
        reply = await use(service, "draft", AUTHOR, definition=definition, query=ASK)
        assert reply.status == (200 if enabled else 403)


async def test_row_filters_of_the_rule_for_the_tools_hold_in_drafts(service: Service) -> None:
    rows = {"readFilters": {f"{service.db}.people": {"team": "red"}}}
    await allow(service, "path-prefix('/_tools')", "author", mongo=rows)
    for path in ("graphql", "people", "pays"):
        await allow(service, f"path-prefix('/{path}')", "author")
    members = {"definition": build(service), "query": ASK}
    assert names(await use(service, "draft", AUTHOR, **members)) == ["Bob", "Cleo"]


# --- plan -------------------------------------------------------------------------------------


async def test_a_plan_tells_commands_in_order_with_parents_documents_and_time(
    service: Service,
) -> None:
    await service.store(build(service))
    plan = await get(service, "plan", app="company", query=ASK)

    space = f"{service.db}.people"
    shown = ("field", "kind", "collection", "parents", "documents")
    assert [{key: one[key] for key in shown} for one in plan["commands"]] == [
        dict(zip(shown, ("Query.people", "find", space, 1, 3), strict=True)),
        dict(zip(shown, ("Person.boss", "find", space, 3, 1), strict=True)),
    ]
    first, second = plan["commands"]
    assert 0 <= first["startedMs"] < second["startedMs"]
    assert min(first["ms"], second["ms"]) > 0
    assert (plan["documents"], plan["errors"]) == (4, [])
    assert "boss: find" in plan["plan"]
    assert plan["fetches"][1]["indexes"] == ["_id_"]


async def test_a_scan_is_warned_of_with_the_index_that_would_help(service: Service) -> None:
    definition = build(service)
    plan = await get(service, "plan", definition=definition, query="{ hired { _id } }")

    (fetch,) = plan["fetches"]
    assert fetch["access"] == "scan"
    assert fetch["createIndex"] == (
        f'db.getSiblingDB("{service.db}").getCollection("people").createIndex'
        '({"team": 1, "name": 1, "_id": 1})'
    )
    (warning,) = plan["warnings"]
    assert warning.startswith(f"Query.hired scans {service.db}.people")


async def test_the_plan_of_a_relation_is_that_of_its_keys_and_conditions(
    service: Service,
) -> None:
    mappings = {
        "Query": {"people": service.find("people", {}, sort={"_id": 1})},
        "P": {
            "boss": service.find("people", {"_id": {"$fk": "boss"}, "team": "red"}),
            "mates": service.find("people", {"team": {"$fk": "team"}, "name": "Bob"}),
        },
    }
    schema = "type Query { people: [P] } type P { _id: String boss: P mates: [P] }"
    definition = build_definition("a", schema, mappings)
    query = "{ people { boss { _id } mates { _id } } }"
    plan = await get(service, "plan", definition=definition, query=query, run=False)

    access = {one["field"]: (one["access"], one.get("missingIndex")) for one in plan["fetches"]}
    assert access["P.boss"] == ("index", None)
    assert access["P.mates"] == ("scan", {"name": 1, "team": 1})


async def test_an_index_that_only_orders_what_is_looked_through_is_a_scan(
    service: Service,
) -> None:
    mappings = {"Query": {"people": service.find("people", {"team": "red"}, sort={"_id": 1})}}
    definition = build_definition(
        "a", "type Query { people: [P] } type P { _id: String }", mappings
    )
    plan = await get(service, "plan", definition=definition, query="{ people { _id } }")

    (fetch,) = plan["fetches"]
    assert (fetch["indexes"], fetch["access"]) == (["_id_"], "scan")
    assert fetch["missingIndex"] == {"team": 1, "_id": 1}


async def test_a_plan_has_the_conditions_and_the_order_of_the_caller(service: Service) -> None:
    lists = {"filter": {"fields": {"team": ["eq"]}}, "orderBy": {"fields": ["team"]}}
    mappings = {"Query": {"people": {**service.find("people"), **lists}}}
    schema = "type Query { people: [P] } type P { _id: String team: String }"
    definition = build_definition("a", schema, mappings)
    text = 'query ($t: String = "red") { people(where: {team: {eq: $t}}) { _id } }'
    plan = await get(service, "plan", definition=definition, query=text)

    (fetch,) = plan["fetches"]
    assert (fetch["access"], fetch["missingIndex"]) == ("scan", {"team": 1})
    assert "where { team: { eq: $t } }" in plan["plan"]
    text = "{ people(orderBy: [{team: DESC}]) { _id } }"
    plan = await get(service, "plan", definition=definition, query=text)
    (fetch,) = plan["fetches"]
    assert fetch["sortsInMemory"]
    assert "orderBy [{ team: DESC }]" in plan["plan"]


async def test_a_plan_tells_the_limits_of_its_app(service: Service) -> None:
    definition = build(service, descriptor={"limits": {"fetched-documents": 77}})
    plan = await get(service, "plan", definition=definition, query=ASK)

    assert plan["limits"] == {
        "estimatedDocuments": 2_000_000,
        "fetchedDocuments": 77,
        "responseBytes": 16 << 20,
    }


async def test_a_plan_without_a_run_asks_for_no_document(service: Service) -> None:
    plan = await get(service, "plan", definition=build(service), query=ASK, run=False)
    assert "commands" not in plan
    assert "boss: find" in plan["plan"]


async def test_a_plan_that_is_refused_while_it_runs_tells_why(service: Service) -> None:
    definition = build(service, descriptor={"limits": {"fetched-documents": 2}})
    plan = await get(service, "plan", definition=definition, query=ASK)
    assert plan["errors"][0]["extensions"]["code"] == "too-many-documents"
    assert "boss: find" in plan["plan"]


async def test_a_plan_tells_others_no_names_of_the_storage_and_runs_nothing(
    service: Service,
) -> None:
    await service.store(build(service))
    for path in ("_tools", "graphql"):
        await allow(service, f"path-prefix('/{path}')", "author")
    reply = await use(service, "plan", AUTHOR, app="company", query=ASK)

    assert set(reply.json) == {"estimatedDocuments", "wouldBeRefused", "fetches"}
    assert service.db not in reply.text
    assert (await use(service, "plan", AUTHOR, app="company", query="{ people { salary } }")).code


async def test_an_app_that_is_not_for_the_caller_has_never_been(service: Service) -> None:
    await service.store(build(service))
    await allow(service, "path-prefix('/_tools')", "author")
    for tool, members in (("plan", {"query": ASK}), ("matrix", {})):
        there = await use(service, tool, AUTHOR, app="company", **members)
        missing = await use(service, tool, AUTHOR, app="nothing", **members)
        assert (there.status, there.json) == (missing.status, missing.json)
        assert there.status == 404


# --- matrix -----------------------------------------------------------------------------------


async def test_the_matrix_crosses_fields_and_roles(service: Service) -> None:
    await service.store(build(service))
    posted = await get(service, "matrix", app="company")
    got = await service.request("GET", "/_tools/matrix?app=company", headers=ADMIN)

    assert posted == got.json
    assert posted["roles"] == ["(nobody)", "editor", "payroll"]
    seen = {row["field"]: list(row["seenBy"].values()) for row in posted["fields"]}
    assert seen["Person.name"] == [True, True, True]
    assert seen["Person.salary"] == [False, True, False]
    assert seen["Pay.amount"] == [False, True, True]
    some = await service.request("GET", "/_tools/matrix?app=company&role=payroll", headers=ADMIN)
    assert some.json["roles"] == ["(nobody)", "payroll"]
    wrong = await service.request("GET", "/_tools/matrix?definition=x", headers=ADMIN)
    assert wrong.status == 400


async def test_the_matrix_tells_which_roles_may_ask_at_all_and_their_rows(
    service: Service,
) -> None:
    rows = {f"{service.db}.people": {"team": "red"}}
    predicate = "path-prefix('/graphql/company')"
    await allow(service, predicate, "editor", mongo={"readFilters": rows}, _id="editors")
    await allow(service, predicate, "clerk", _id="clerks")
    await allow(service, "path-prefix('/people')", "stranger", _id="strangers")
    for members in ({"definition": build(service)}, {"app": "company"}):
        nobody, editor, payroll, clerk = (await get(service, "matrix", **members))["access"]
        assert (clerk["role"], clerk["allowed"]) == ("clerk", True)
        assert (nobody["role"], nobody["allowed"]) == ("(nobody)", False)
        assert (editor["role"], editor["allowed"], editor["readFilters"]) == ("editor", True, rows)
        assert "editors" in editor["reason"]
        assert (payroll["role"], payroll["allowed"]) == ("payroll", False)
        await service.store(build(service))


async def test_the_matrix_of_others_has_only_what_they_see(service: Service) -> None:
    await service.store(build(service))
    for path in ("_tools", "graphql"):
        await allow(service, f"path-prefix('/{path}')", "author", "payroll")
    reply = await use(service, "matrix", AUTHOR, app="company", roles=["editor"])
    assert reply.json["roles"] == ["(nobody)"]
    assert "access" not in reply.json
    for hidden in ("salary", "Pay", "editor", "payroll"):
        assert hidden not in reply.text

    payroll = await use(service, "matrix", caller("pat", "payroll"), app="company")
    assert payroll.json["roles"] == ["(nobody)", "payroll"]
    assert "salary" not in payroll.text
    assert "Pay.amount" in payroll.text


async def test_conditions_on_hidden_fields_are_named_in_the_editor_and_the_matrix(
    service: Service,
) -> None:
    """Decision 59: authors and administrators see them, other callers do not."""
    definition = build(service)
    place = {"db": service.db, "collection": "people"}
    definition["mappings"]["Query"]["hired"] = {**place, "find": {"salary": {"$arg": "name"}}}

    checked = await get(service, "check", definition=definition)
    assert [(one["where"], one["what"]) for one in checked["warnings"]] == [
        (
            "mappings.Query.hired.find",
            "uses salary with the argument name for callers who do not see Person.salary",
        )
    ]
    await service.store(definition)
    await allow(service, "path-prefix('/_tools')", "author")
    await allow(service, "path-prefix('/graphql')", "author")
    for who, has_row in ((ADMIN, True), (AUTHOR, False)):
        reply = await use(service, "matrix", who, app="company")
        fields = [row["field"] for row in reply.json["fields"]]
        label = "Person.salary by Query.hired.find with the argument name"
        assert (label in fields) is has_row
        assert ("salary" in reply.text) is has_row


async def test_the_matrix_for_a_user_has_his_roles_and_whether_he_may_ask(
    service: Service,
) -> None:
    await service.store(build(service))
    for path in ("_tools", "graphql"):
        await allow(service, f"path-prefix('/{path}')", "author")
    own = {"password": "$2b$hashed", "roles": ["payroll", "author"]}
    service.insert("users", {"_id": "pat", **own})

    for members in ({"app": "company"}, {"definition": build(service)}):
        found = await get(service, "matrix", **members, user="pat")
        assert found["roles"] == ["(nobody)", "author", "payroll"]
        assert (found["user"]["name"], found["user"]["allowed"]) == ("pat", True)
    unknown = await use(service, "matrix", app="company", user="nobody")
    assert (unknown.status, unknown.json["message"]) == (
        404,
        "no authenticator knows the user 'nobody'",
    )
    assert (await use(service, "matrix", AUTHOR, app="company", user="pat")).status == 403


async def test_very_many_roles_have_to_be_named(service: Service) -> None:
    listed = ", ".join(f'"role{number}"' for number in range(65))
    schema = f"type Query {{ a: Int b: Int @visible(roles: [{listed}]) }}"
    definition = build_definition("wide", schema)
    reply = await use(service, "matrix", definition=definition)
    assert (reply.status, reply.json["message"]) == (400, "the app names 65 roles")
    some = await get(service, "matrix", definition=definition, roles=["role1"])
    assert some["roles"] == ["(nobody)", "role1"]


async def test_why_a_request_is_denied_is_told_with_the_rule_that_decides(
    service: Service,
) -> None:
    await allow(service, "path-prefix('/people') and method('GET')", "reader", _id="readers")
    question = {"request": {"method": "get", "path": "/people"}}

    allowed = await get(service, "matrix", **question, roles=["reader"])
    denied = await get(service, "matrix", **question, roles=["stranger"])

    assert (allowed["allowed"], allowed["rules"][0]["outcome"]) == (True, "decides")
    assert "readers" in allowed["rules"][0]["rule"]
    assert (denied["allowed"], denied["status"]) == (False, 403)
    service.insert("users", {"_id": "robin", "roles": ["reader"], "team": "red"})
    known = await get(service, "matrix", **question, user="robin")
    assert (known["allowed"], known["rules"]) == (True, allowed["rules"])
    for asked, matrix in (("role=reader", allowed), ("user=robin", known)):
        path = f"/access/explain?path=/people&method=GET&{asked}"
        explained = await service.request("GET", path, headers=ADMIN)
        assert matrix == explained.json
    assert known["bindings"]  # of `@user`


async def test_a_path_that_the_service_refuses_is_explained_all_the_same(
    service: Service,
) -> None:
    question = {"request": {"method": "POST", "path": "/graphql"}}
    assert (await get(service, "matrix", **question))["status"] == 401
    explained = await service.request("GET", "/access/explain?path=/graphql", headers=ADMIN)
    assert explained.json["service"] == "graphql"


# --- strange requests -------------------------------------------------------------------------

STRANGE: list[Any] = [
    None, True, -1, 1e308, 2**70, "", "\0", "💥" * 50, "$where", "../..", "a.b", [], {}, [[]],
    {"$oid": "x"}, {"$oid": "5f0000000000000000000000"}, {"$numberDecimal": "NaN"},
    {"$regularExpression": {"pattern": "(", "options": "zz"}}, {"$date": "never"},
    {"$arg": "x"}, {"$fk": {"$fk": []}}, {"": {"": ""}}, {"a" * 2_000: 1}, {"__proto__": {}},
    {"$minKey": 1}, {"$binary": {"base64": "?", "subType": "zz"}}, {"_$x": 1, "a::b": 2},
    "&a [*a]", "a: &b {c: *b}", "- - - -\n\t", "%YAML 9.9", "!!python/object:os.system x",
    "type Query { a: Int }", "{ a }", "query { ...F } fragment F on Q { ...F }", "{" * 200,
]  # fmt: skip


def change(value: Any, chance: random.Random) -> Any:
    """A copy in which something, somewhere, is something strange."""
    changed = copy.deepcopy(value)
    holder, depth = changed, chance.randint(0, 5)
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            return changed
        key = chance.choice(keys)
        if depth == 0 or not isinstance(holder[key], dict | list):
            holder[key] = chance.choice(STRANGE)
            return changed
        holder, depth = holder[key], depth - 1


async def test_strange_requests_are_never_our_fault(service: Service) -> None:
    chance = random.Random(17)  # the same strangeness each time
    definition = build(service, descriptor={"uri": "a", "limits": {"fields": 9}})
    asking: Document = {"definition": definition, "query": ASK, "variables": {}}
    bases: dict[str, Document] = {
        "check": {"definition": definition},
        "draft": {**asking, "roles": ["admin"]},
        "plan": {**asking, "operationName": None},
        "matrix": {"definition": definition, "roles": ["editor"]},
    }
    question = {"request": {"method": "GET", "path": "/a", "query": "x=1"}, "user": "ada"}
    await allow(service, "path-prefix('/')", "author")
    for number in range(320):
        tool = TOOLS[number % 4]
        base = question if tool == "matrix" and number % 8 == 7 else bases[tool]
        members = change(base, chance)
        if chance.random() < 0.3:
            members = change(members, chance)
        reply = await use(service, tool, chance.choice((ADMIN, AUTHOR)), **members)
        assert reply.status < 500, (tool, members, reply.text)
        if reply.status >= 400 and reply.text:
            assert "code" in reply.text, reply.text
    assert service.definitions.count_documents({}) == 0
