"""The tools of agents: what they tell, how much of it, and what they refuse."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from docgraph.observe.events import RequestFailed, ToolCalled
from tests.http.harness import (
    UNREACHABLE,
    Document,
    Mongo,
    Service,
    failing,
    identity,
    listening,
    profiled,
    running,
    until,
)
from tests.http.hosts import module_application
from tests.http.mcp_harness import AGENTS, Used, ask, list_tools, result, use

pytestmark = pytest.mark.anyio

SCHEMA = """
"Everything about films."
type Query {
  "Films, by title."
  films(genre: String, limit: Int = 100, skip: Int = 0): [Film]
  film(id: Int!): Film
  price(at: Decimal128): [Price]
  byFilter(filter: BsonDocument): [Film]
  in(genre: Genre): [Film]
}
"A motion picture."
type Film { _id: Int title: String text: String genre: Genre actors: [Actor] }
type Actor { _id: Int "The name on the poster." name: String }
type Price { at: Decimal128 }
enum Genre { DRAMA COMEDY }
"""
TEXT = "x" * 300


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    settings = {"graphql": {"max-limit": 20_000}, **identity("admin")}
    async with running(mongo_client, mongo_uri, AGENTS, settings) as one:
        one.insert("films", *map(_film, range(1000)))
        one.insert("actors", *({"_id": n, "film": n % 10, "name": f"A{n}"} for n in range(50)))
        one.mongo[one.db]["films"].create_index("title")
        await one.define("films", SCHEMA, _mappings(one), description="Films and actors")
        yield one


def _film(number: int) -> Document:
    genre = "DRAMA" if number % 2 else "COMEDY"
    return {"_id": number, "title": f"Film {number:04}", "text": TEXT, "genre": genre}


def _mappings(one: Service) -> Document:
    window = {"limit": {"$arg": "limit"}, "skip": {"$arg": "skip"}, "sort": {"title": 1}}
    by_genre = {"genre": {"$arg": ["genre", "DRAMA"]}}
    return {
        "Query": {
            "films": one.find("films", by_genre, **window),
            "film": one.find("films", {"_id": {"$arg": "id"}}),
            "price": one.find("prices", {"at": {"$arg": "at"}}),
            "in": one.find("films", {"genre": {"$arg": "genre"}}),
            "byFilter": one.find("films", {"$arg": "filter"}),
        },
        "Film": {"actors": one.find("actors", {"film": {"$fk": "_id"}})},
    }


async def run(one: Service, query: str, **others: Any) -> Used:
    return await use(one, "run_query", app="films", query=query, **others)


# --- what there is --------------------------------------------------------------------------------


async def test_apps_come_with_their_descriptions(service: Service) -> None:
    told = await use(service, "list_apps")

    assert told.json == {"apps": [{"app": "films", "description": "Films and actors"}]}


async def test_a_schema_begins_with_what_can_be_asked(service: Service) -> None:
    told = await use(service, "get_schema", app="films")

    assert told.text.startswith('"""Everything about films."""\ntype Query {')


async def test_single_types_are_told_by_name(service: Service) -> None:
    told = await use(service, "get_schema", app="films", types=["Actor", "Genre"])

    assert told.text.startswith("type Actor {")
    assert "enum Genre" in told.text
    assert "type Film" not in told.text


async def test_a_schema_that_is_too_long_comes_as_query_and_names(
    service: Service,
) -> None:
    types = "\n".join(f'"About T{n}." type T{n} {{ {"f" * 200}{n}: Int }}' for n in range(200))
    fields = " ".join(f"t{n}: T{n}" for n in range(200))
    await service.define("wide", f"type Query {{ {fields} }} {types}")

    told = (await use(service, "get_schema", app="wide")).text

    assert len(told.encode()) <= 32_768
    assert "t199: T199" in told
    assert "# T199 (object): About T199." in told
    await service.remove("wide")


async def test_a_search_finds_fields_by_name_and_by_description(service: Service) -> None:
    by_name = (await use(service, "search_schema", app="films", words="film genre")).json
    assert by_name["hits"][0]["is"].startswith("Film.genre")
    assert any(one["is"].startswith("Query.films(genre: String") for one in by_name["hits"][:3])
    by_text = (await use(service, "search_schema", words="poster")).json
    assert by_text["hits"] == [
        {"app": "films", "is": "Actor.name: String", "description": "The name on the poster."}
    ]


async def test_descriptions_and_schemas_are_resources(service: Service) -> None:
    listed = (await result(service, "resources/list"))["resources"]
    assert [one["uri"] for one in listed] == [
        "docgraph://apps/films/description",
        "docgraph://apps/films/schema",
    ]
    about = await result(service, "resources/read", {"uri": listed[0]["uri"]})
    assert about["contents"][0]["text"] == "Films and actors"


# --- queries --------------------------------------------------------------------------------------


async def test_a_query_is_answered_as_by_the_endpoint(service: Service) -> None:
    query = "query($id: Int!) { film(id: $id) { title genre actors { name } } }"

    told = await run(service, query, variables={"id": 3})

    reply = await service.query("films", query, {"id": 3})
    assert told.json["data"] == reply.data


@pytest.mark.parametrize(
    ("query", "variables"),
    [
        ("{ nope }", {}),
        ("{ film }", {}),
        ("{", {}),
        ("mutation { x }", {}),
        ("query($id: Int!) { film(id: $id) { title } }", {"id": "x"}),
        ("query($id: Int!) { film(id: $id) { title } }", {}),
        ("query($f: BsonDocument) { byFilter(filter: $f) { _id } }", {"f": {"$where": "1"}}),
        ("{ films(limit: 30000) { _id } }", {}),
        ("{ films(limit: -1) { _id } }", {}),
    ],
)
async def test_errors_have_the_words_of_the_endpoint(
    service: Service, query: str, variables: Document
) -> None:
    reply = await service.query("films", query, variables)

    told = await run(service, query, variables=variables)

    found = told.errors if told.is_error else told.json["errors"]
    found[0]["extensions"].pop("hint", None)
    assert found == reply.errors


async def test_mappings_see_the_query_and_no_parameters_of_the_request(service: Service) -> None:
    """Decision 19: `@filter` and `@qparams` are unbound for agents."""
    variables = {"roles": "@roles", "filter": "@filter", "page": "@qparams['page']"}
    fields = {
        name: service.stages("films", {"$limit": 1}, {"$project": {"v": {"$arg": variable}}})
        for name, variable in variables.items()
    }
    schema = "type Query { roles: V filter: V page: V } type V { v: [String] }"
    await service.define("variables", schema, {"Query": fields})
    try:
        query = "{ roles { v } filter { v } page { v } }"
        params = {"name": "run_query", "arguments": {"app": "variables", "query": query}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"Accept": "application/json"}
        path = "/mcp?filter=%7B%7D&page=1"
        reply = await service.request("POST", path, json=body, headers=headers)
    finally:
        await service.remove("variables")

    told = Used(reply.json["result"]).json
    assert told["data"] == {"roles": {"v": ["admin"]}, "filter": None, "page": None}
    assert [error["message"] for error in told["errors"]] == [
        "variable not bound: @filter",
        "variable not bound: @qparams['page']",
    ]


async def test_digits_of_variables_are_not_lost(service: Service) -> None:
    exact = "1234567890.123456789012345678901234"
    body = (
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_query","arguments":'
        '{"app":"films","query":"query($a: Decimal128) { price(at: $a) { at } }",'
        f'"variables":{{"a":{exact}}}}}}}}}'
    )
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    with profiled(service.mongo, service.db, "prices") as seen:
        reply = await service.request("POST", "/mcp", content=body, headers=headers)

    assert reply.status == 200
    assert str(seen[0]["command"]["filter"]["at"]) == exact


async def test_validating_runs_nothing(service: Service) -> None:
    with profiled(service.mongo, service.db, "films") as seen:
        valid = await use(service, "validate_query", app="films", query="{ films { title } }")
        wrong = await use(service, "validate_query", app="films", query="{ films { x } }")

    assert valid.json == {"valid": True}
    assert wrong.json["valid"] is False
    assert wrong.json["errors"][0]["message"] == "Cannot query field 'x' on type 'Film'."
    assert not [one for one in seen if one["command"].get("find")]


# --- what it costs --------------------------------------------------------------------------------


async def test_explaining_runs_nothing_and_names_the_scan_and_the_missing_index(
    service: Service,
) -> None:
    query = '{ films(genre: "DRAMA") { title actors { name } } film(id: 1) { title } }'

    with profiled(service.mongo, service.db, "films") as seen:
        told = (await use(service, "explain_query", app="films", query=query)).json

    # A few documents show which properties are arrays; nothing of the query is read.
    finds = [one["command"] for one in seen if one["command"].get("find")]
    assert all((find["filter"], find["limit"]) == ({}, 20) for find in finds)
    fetches = {one["field"]: one for one in told["fetches"]}
    actors = fetches["Film.actors"]
    assert actors["access"] == "scan"
    assert actors["missingIndex"] == {"film": 1}
    assert (actors["documents"], actors["examined"]) == (50, 50)
    assert fetches["Query.film"]["indexes"] == ["_id_"]
    assert told["estimatedDocuments"]["byLimits"] == 100 + 100 * 100 + 1
    assert told["estimatedDocuments"]["byCounts"] == 100 + 100 * 50 + 1


async def test_explaining_refuses_nothing_that_is_valid(service: Service) -> None:
    query = "{ films(limit: 20000) { actors { _id } } }"

    told = (await use(service, "explain_query", app="films", query=query)).json

    assert told["estimatedDocuments"]["byLimits"] > told["budget"]["maxDocuments"]


async def test_a_query_above_the_budget_is_refused_with_the_cheaper_way(
    mongo_client: Mongo, mongo_uri: str, service: Service
) -> None:
    settings = {"mcp": {"max-documents": 100}, "graphql": {"max-limit": 1000}}
    async with running(mongo_client, mongo_uri, AGENTS, settings, db=service.db, drop=False) as one:
        told = await run(one, "{ films(limit: 200) { _id } }")
        fits = await run(one, "{ films(limit: 100) { _id } }")

    (error,) = told.errors
    assert error["message"] == "the query needs more than 100 documents"
    assert error["extensions"]["code"] == "too-many-documents"
    assert "explain_query" in error["extensions"]["hint"]
    assert len(fits.json["data"]["films"]) == 100


@pytest.mark.parametrize(
    ("query", "outcome"),
    [
        ("{ films(limit: 200) { _id } }", "it needs more than 100 documents"),
        ("{ films(limit: 60) { _id } other: films(limit: 60) { _id } }", "it needs more than 100"),
        ("{ films(limit: 2000) { _id } }", "Query.films: limit cannot be greater than 1000"),
        ("{ films(limit: 100) { _id } }", ""),
        ("{ film(id: 1) { _id actors { _id } } }", ""),
    ],
)
async def test_explaining_foretells_whether_running_is_refused(
    mongo_client: Mongo, mongo_uri: str, service: Service, query: str, outcome: str
) -> None:
    settings = {"mcp": {"max-documents": 100}, "graphql": {"max-limit": 1000}}
    async with running(mongo_client, mongo_uri, AGENTS, settings, db=service.db, drop=False) as one:
        told = (await use(one, "explain_query", app="films", query=query)).json
        ran = await run(one, query)

    assert told["wouldBeRefused"] is ran.is_error is bool(outcome)
    assert told.get("because", "").startswith(outcome)


async def test_an_order_without_an_index_is_no_scan(service: Service) -> None:
    service.mongo[service.db]["ranked"].insert_many([{"kind": n % 2, "n": n} for n in range(20)])
    service.mongo[service.db]["ranked"].create_index("kind")
    mapping = service.find("ranked", {"kind": 1}, sort={"n": 1})
    schema = "type Query { ranked: [Ranked] } type Ranked { n: Int }"
    await service.define("ranked", schema, {"Query": {"ranked": mapping}})
    try:
        told = await use(service, "explain_query", app="ranked", query="{ ranked { n } }")
        (fetch,) = told.json["fetches"]
        assert fetch["access"] == "index"
        assert "no index serves" not in fetch["advice"]
        assert "sorted in memory" in fetch["advice"]
    finally:
        await service.remove("ranked")


async def test_a_list_that_stopped_at_its_limit_says_so(service: Service) -> None:
    told = (await run(service, "{ some: films(limit: 3) { _id } film(id: 1) { _id } }")).json

    assert told["limits"] == [{"path": ["some"], "limit": 3, "argument": "limit"}]
    assert "do not count them" in told["limitsHint"]


async def test_a_list_below_its_limit_says_nothing(service: Service) -> None:
    told = (await run(service, "{ films(limit: 900) { _id } }")).json

    assert "limits" not in told


# --- how much of it -------------------------------------------------------------------------------


async def test_a_long_result_is_cut_and_a_cursor_goes_on(service: Service) -> None:
    query = "{ films(limit: 500) { title text } other: films(limit: 3) { _id } }"
    titles: list[str] = []
    others: list[int] = []
    arguments: Document = {}
    for _ in range(10):
        told = await run(service, query, **arguments)
        assert len(told.text.encode()) <= 65_536
        content = told.json
        titles += [film["title"] for film in content["data"]["films"]]
        others += [film["_id"] for film in content["data"]["other"]]
        if "cursor" not in content:
            break
        (cut, *_) = content["cut"]
        assert cut["total"] in (500, 3)
        arguments = {"cursor": content["cursor"]}

    assert titles == [f"Film {number:04}" for number in range(1, 1000, 2)]
    assert others == [1, 3, 5]


async def test_the_first_part_says_what_was_cut(service: Service) -> None:
    content = (await run(service, "{ films(limit: 500) { title text } }")).json

    returned = len(content["data"]["films"])
    assert content["cut"] == [{"path": "films", "from": 0, "returned": returned, "total": 500}]
    assert 100 < returned < 500


@pytest.mark.parametrize("cursor", ["", "x", "e30", "🙂", "A" * 5000, "eyJxIjoxLCJvIjp7fX0"])
async def test_a_cursor_of_nobody_is_refused(service: Service, cursor: str) -> None:
    told = await run(service, "{ films { _id } }", cursor=cursor)

    assert told.message == "the cursor is not one of this query"


async def test_a_cursor_is_good_for_its_own_query_only(service: Service) -> None:
    content = (await run(service, "{ films(limit: 500) { title text } }")).json

    told = await run(service, "{ films(limit: 400) { title text } }", cursor=content["cursor"])

    assert told.message == "the cursor is not one of this query"


async def test_a_text_that_has_no_room_is_shortened_with_a_way_out(service: Service) -> None:
    service.mongo[service.db]["films"].insert_one({"_id": -1, "title": "", "text": "y" * 70_000})
    try:
        told = await run(service, "{ film(id: -1) { _id text } }")
        assert len(told.text) <= 65_536
        assert told.json["data"]["film"]["_id"] == -1
        (cut,) = told.json["cut"]
        assert (cut["path"], cut["total"], cut["of"]) == ("film.text", 70_000, "characters")
        assert told.json["hint"].startswith("parts are missing: ask for fewer fields")
        assert "cursor" not in told.json
    finally:
        service.mongo[service.db]["films"].delete_one({"_id": -1})


@pytest.mark.parametrize("number", [2, 16, 20])
async def test_many_large_lists_are_cut_and_a_cursor_leads_through_all(
    service: Service, number: int
) -> None:
    """However many lists there are, what accompanies the data has room."""
    fields = " ".join(f"list{n}: films(limit: 20) {{ title text }}" for n in range(number))
    arguments: Document = {}
    found = 0
    for _ in range(100):
        told = await run(service, f"{{ {fields} }}", **arguments)
        assert len(told.text.encode()) <= 65_536
        found += sum(len(films) for films in told.json["data"].values())
        if "cursor" not in told.json:
            break
        assert len(told.json["cut"]) <= 10
        arguments = {"cursor": told.json["cursor"]}

    assert found == 20 * number


async def test_a_result_of_64_mib_is_a_bounded_error(service: Service) -> None:
    """Drill P07."""
    big = [{"_id": n, "text": "z" * 8_000_000} for n in range(8)]
    service.insert("big", *big)
    schema = "type Query { big: [Big] } type Big { text: String }"
    await service.define("big", schema, {"Query": {"big": service.find("big")}})
    try:
        told = await use(service, "run_query", app="big", query="{ big { text } }")
        assert len(told.text) < 2_000
        assert told.errors[0]["extensions"]["code"] == "answer-too-large"
    finally:
        await service.remove("big")
        service.mongo[service.db]["big"].drop()


# --- arguments ------------------------------------------------------------------------------------

PAYLOADS: list[Any] = [
    {"$where": "sleep(1000)"}, {"$ne": None}, {"$gt": ""}, ["x"], 7, True, "' || '1'=='1",
    {"$function": {"body": "x", "args": [], "lang": "js"}}, "\x00", "${7*7}", "../../etc/passwd",
    {"$expr": {"$function": {}}}, "$where", "a" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("name", ["app", "query", "words", "cursor", "operation", "types"])
@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda one: repr(one)[:40])
async def test_payloads_as_arguments_are_refused_or_found_nowhere(
    service: Service, name: str, payload: Any
) -> None:
    """Drill P05."""
    tool = {"words": "search_schema", "types": "get_schema"}.get(name, "run_query")
    given: Document = {
        "search_schema": {"words": "film"},
        "get_schema": {"app": "films"},
        "run_query": {"app": "films", "query": "{ film(id: 1) { _id } }"},
    }[tool]

    told = await use(service, tool, **{**given, name: payload})

    assert told.is_error or name == "words" or told.json
    for text in ("Traceback", "pymongo", "mongod", service.db):
        assert text not in told.text


@pytest.mark.parametrize(
    "operator", ["$where", "$function", "$accumulator", "$expr"], ids=lambda one: one[1:]
)
async def test_operators_that_run_code_are_refused_in_variables(
    service: Service, operator: str
) -> None:
    """Drill P05: the same refusals as at the endpoint."""
    query = "query($f: BsonDocument) { byFilter(filter: $f) { _id } }"
    variables = {"f": {operator: {"$eq": [1, 1]}}}
    reply = await service.query("films", query, variables)

    told = await run(service, query, variables=variables)

    assert (told.errors if told.is_error else told.json["errors"]) == reply.errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "the argument 'app' is missing"),
        ({"app": "films"}, "the argument 'query' is missing"),
        ({"app": 1, "query": "{ a }"}, "the argument 'app' must be a string"),
        ({"app": "films", "query": "{ a }", "x": 1}, "unknown argument 'x'"),
        ({"app": "films", "query": "{ a }", "variables": []}, "'variables' must be an object"),
    ],
)
async def test_wrong_arguments_are_told_to_the_agent(
    service: Service, arguments: Document, message: str
) -> None:
    told = await use(service, "run_query", **arguments)

    assert message in told.message


# --- operations -----------------------------------------------------------------------------------

OPERATIONS = [
    {
        "name": "byGenre",
        "description": "Films of a genre",
        "query": "query($genre: Genre!, $limit: Int = 5) "
        "{ films(genre: DRAMA, limit: $limit) { title genre } }",
    }
]


async def test_arguments_and_result_of_an_operation_are_typed(service: Service) -> None:
    query = "query($id: Int!, $text: String) { film(id: $id) { _id title genre actors { name } } }"
    query = query.replace(", $text: String", "")
    await service.define(
        "typed", SCHEMA, _mappings(service), operations=[{"name": "one", "query": query}]
    )
    try:
        tool = (await list_tools(service))["typed__one"]
    finally:
        await service.remove("typed")

    assert tool["inputSchema"]["properties"]["id"] == {"type": "integer"}
    assert tool["inputSchema"]["required"] == ["id"]
    data = tool["outputSchema"]["properties"]["data"]["anyOf"][0]
    film = data["properties"]["film"]["anyOf"][0]
    assert film["properties"]["title"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert film["properties"]["genre"]["anyOf"][0]["enum"] == ["DRAMA", "COMEDY"]
    actors = film["properties"]["actors"]["anyOf"][0]
    assert actors["type"] == "array"
    assert actors["items"]["anyOf"][0]["properties"].keys() == {"name"}


async def test_above_40_tools_the_list_offers_a_search_instead(service: Service) -> None:
    operations = [
        {
            "name": f"op{number}",
            "description": f"Operation about topic{number}",
            "query": "query($id: Int!) { film(id: $id) { title } }",
        }
        for number in range(40)
    ]
    await service.define("many", SCHEMA, _mappings(service), operations=operations)
    try:
        tools = await list_tools(service)
        assert len(tools) == 8
        found = (await use(service, "search_operations", words="topic7")).json
        assert found["operations"][0]["name"] == "many__op7"
        assert found["operations"][0]["arguments"]["id"] == {"type": "integer"}
        ran = await use(service, "run_operation", name="many__op7", arguments={"id": 7})
        assert ran.json["data"] == {"film": {"title": "Film 0007"}}
        assert (await use(service, "many__op7", id=7)).json == ran.json
        unknown = await use(service, "run_operation", name="many__op77")
        assert unknown.message == "unknown operation"
    finally:
        await service.remove("many")


async def test_long_lists_of_operations_are_cut_by_their_size_too(service: Service) -> None:
    operations = [
        {"name": f"op{n}", "description": "d" * 4_000, "query": "{ films { title } }"}
        for n in range(10)
    ]
    await service.define("long", SCHEMA, _mappings(service), operations=operations)
    try:
        assert "search_operations" in await list_tools(service)
    finally:
        await service.remove("long")


async def test_a_long_result_of_an_operation_goes_on_too(service: Service) -> None:
    query = "{ films(limit: 500) { title text } }"
    operations = [{"name": "all", "query": query}]
    await service.define("paged", SCHEMA, _mappings(service), operations=operations)
    try:
        first = await use(service, "paged__all")
        assert first.result["structuredContent"] == first.json
        second = await use(service, "paged__all", _cursor=first.json["cursor"])
        assert second.json["data"]["films"][0] != first.json["data"]["films"][0]
        wrong = await use(service, "paged__all", x=1)
        assert wrong.message == "unknown argument 'x'"
    finally:
        await service.remove("paged")


async def test_apps_come_in_pages(mongo_client: Mongo, mongo_uri: str) -> None:
    async with running(mongo_client, mongo_uri, AGENTS) as one:
        schema, mapping = "type Query { a: Int }", {"Query": {"a": one.find("a")}}
        await one.smuggle(
            *({"_id": f"app{n:03}", "schema": schema, "mappings": mapping} for n in range(130))
        )
        first = (await use(one, "list_apps")).json
        second = (await use(one, "list_apps", after=first["next"])).json
        names = [app["app"] for app in (*first["apps"], *second["apps"])]
        assert names == [f"app{n:03}" for n in range(130)]
        assert "next" not in second
        found = await result(one, "resources/list")
        rest = await result(one, "resources/list", {"cursor": found["nextCursor"]})
        assert len(found["resources"]) + len(rest["resources"]) == 260


# --- what fails -----------------------------------------------------------------------------------


async def test_a_fault_of_ours_is_told_by_its_id_alone(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> None:
        raise RuntimeError("the secret of the house")

    monkeypatch.setattr(service.app.plugins.find("graphql"), "run", fail)
    with listening(RequestFailed) as seen:
        params = {"name": "run_query", "arguments": {"app": "films", "query": "{ films { _id } }"}}
        reply = await ask(service, "tools/call", params)

    assert reply.status == 500
    assert "secret" not in reply.text
    assert reply.json["error"]["data"]["id"] == seen[0].id


async def test_a_database_that_fails_is_told_as_by_the_endpoint(service: Service) -> None:
    query = "{ films { title } }"
    with failing(service.mongo, "find", errorCode=UNREACHABLE):
        reply = await service.query("films", query)
        told = await run(service, query)

    assert told.message == reply.error["message"]
    assert told.errors[0]["extensions"]["id"]


async def test_the_time_limit_holds_for_agents(mongo_client: Mongo, mongo_uri: str) -> None:
    settings = {"graphql": {"query-time-limit": 500}}
    async with running(mongo_client, mongo_uri, AGENTS, settings) as one:
        await one.define("films", SCHEMA, _mappings(one))
        params = {"name": "run_query", "arguments": {"app": "films", "query": "{ films { _id } }"}}

        async def status() -> int:
            return (await ask(one, "tools/call", params)).status

        await until(status, 200)  # rules and definitions are known from now on
        with failing(
            mongo_client,
            "find",
            namespace=f"{one.db}.films",  # rules and users are still read
            blockConnection=True,
            blockTimeMS=5_000,
        ):
            reply = await one.query("films", "{ films { title } }")
            told = await run(one, "{ films { title } }")

    assert reply.status == 408
    assert told.message == reply.error["message"]


# --- what is observed -----------------------------------------------------------------------------


async def test_calls_are_told_with_tool_app_and_account(service: Service) -> None:
    with listening(ToolCalled) as seen:
        await run(service, "{ film(id: 1) { title } }")
        await run(service, "{ nope }")
        await use(service, "get_schema", app="nosuchapp")
        await ask(service, "tools/call", {"name": "nosuchtool"})

    first, second, third = seen
    assert (first.tool, first.app, first.account, first.ok) == ("run_query", "films", "ada", True)
    assert (second.ok, second.error) == (False, "invalid-query")
    assert (third.app, third.error) == ("", "not-found")


# --- hints ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "variables", "hint"),
    [
        ("{ filmz { title } }", {}, "did you mean 'film' or 'films'? get_schema shows Query"),
        ("{ films { titel } }", {}, "did you mean 'title'? get_schema shows Film"),
        ("{ films { zzz } }", {}, "there are: _id, title, text, genre, actors"),
        ("{ films(genra: 1) { title } }", {}, "did you mean 'genre'? get_schema shows Query"),
        ("{ in(genre: DRAMMA) { title } }", {}, "did you mean 'DRAMA'? get_schema shows Genre"),
        ('{ in(genre: "DRAMA") { title } }', {}, "did you mean 'DRAMA'? get_schema shows Genre"),
        (
            "query($g: Genre) { in(genre: $g) { title } }",
            {"g": "Horror"},
            "there are: DRAMA, COMEDY",
        ),
        ("{ films { title", {}, None),
    ],
)
async def test_an_unknown_name_in_a_query_gets_the_nearest_ones(
    service: Service, query: str, variables: Document, hint: str | None
) -> None:
    arguments = {"app": "films", "query": query, "variables": variables}
    for tool in ("run_query", "explain_query"):
        (error, *_) = (await use(service, tool, **arguments)).errors
        assert error["extensions"].get("hint") == hint
    (error, *_) = (await use(service, "validate_query", **arguments)).json["errors"]
    assert error["extensions"].get("hint") == hint


async def test_an_unknown_app_gets_the_nearest_ones_that_the_caller_may_query(
    service: Service,
) -> None:
    for tool in ("get_schema", "run_query", "search_schema"):
        others = {"query": "{ x }"} if tool == "run_query" else {}
        others |= {"words": "x"} if tool == "search_schema" else {}
        (error,) = (await use(service, tool, app="fims", **others)).errors
        hint = "did you mean 'films'? list_apps shows the apps that you may query"
        assert (error["extensions"]["code"], error["extensions"]["hint"]) == ("not-found", hint)
