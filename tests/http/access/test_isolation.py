"""What is hidden from a caller stays hidden, whichever door it is asked for at (I01, I02, I12).

One test over callers and doors. A door gets a running service and a caller, tries to get at a
hidden field, a filtered row or a password, and gives back everything it was told. Doors that are
not built yet are strict expected failures: when they open, this test speaks.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest
from graphql import get_introspection_query

from docgraph.codec import as_written
from tests.http.access_harness import (
    NOBODY,
    allow,
    caller,
    guarded,
)
from tests.http.harness import Document, Reply, Service, build_definition
from tests.http.hosts import module_application
from tests.http.mcp_harness import AGENTS
from tests.http.mcp_harness import ask as speak
from tests.http.stream_harness import SSE, WEBSOCKET, listen

pytestmark = pytest.mark.anyio

Caller = dict[str, str]
Door = Callable[[Service, Caller], Awaitable[list[Reply]]]

NUMBER = 987_654_321  # the hidden field of a row that callers see
ROW = "mallory-7f3a"  # somewhere in every row that callers do not see
HASH = "$2b$04$abcdefghijklmnopqrstuv"
FIELD = "salary"

PEOPLE = (
    {"_id": "ada", "name": "Ada", "team": "blue", FIELD: NUMBER, "boss": ROW},
    {"_id": ROW, "name": ROW, "team": "red", FIELD: 5, "boss": None},
)
SCHEMA = f"""
type Query {{
  people(name: String): [Person!]!
  found: [Found]
  teams: [Team!]!
  named: [Named]
}}
type Team {{ _id: String people: [Person!]! }}
interface Named {{ name: String }}
type Person implements Named {{
  _id: String
  name: String
  {FIELD}: Int @visible(roles: ["boss"])
  boss: Person
  pay: Pay @visible(roles: ["boss"])
}}
type Pay {{ amount: Int }}
union Found = Person
"""
INTRUDERS = {
    "nobody": NOBODY,
    "reader": caller("rita", "reader"),
    "editor": caller("ed", "editor", "reader"),
}


@module_application
async def service(mongo_client: Any, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri, AGENTS) as one:
        await fill(one)
        yield one


async def fill(one: Service) -> None:
    """Data, an app and rules: callers see the row of team blue, and no salaries."""
    one.insert("people", *PEOPLE)
    one.insert("teams", {"_id": "blue"}, {"_id": "red"})
    one.insert("users", {"_id": "rita", "password": HASH, "roles": ["reader"]})
    one.insert(
        "_properties",
        {
            "_id": "_properties.teams",
            "aggrs": [
                {
                    "uri": "join",
                    "type": "pipeline",
                    "stages": [
                        {
                            "_$lookup": {
                                "from": "people",
                                "localField": "_id",
                                "foreignField": "team",
                                "as": "people",
                            }
                        },
                        {"_$project": {"people.name": 1}},
                    ],
                }
            ],
        },
        {
            "_id": "_properties.people",
            "streams": [
                {"uri": "all", "stages": []},
                {
                    "uri": "copies",
                    "stages": [
                        {
                            "_$set": {
                                "fullDocument::copy": f"$fullDocument.{FIELD}",
                                "operationType": {
                                    "_$ifNull": [f"$fullDocument.{FIELD}", "$operationType"]
                                },
                            }
                        }
                    ],
                },
            ],
            "aggrs": [
                {"uri": "all", "type": "pipeline", "stages": [{"_$sort": {"_id": 1}}]},
                {
                    "uri": "sums",
                    "type": "pipeline",
                    "stages": [{"_$group": {"_id": "$name", "sum": {"_$sum": f"${FIELD}"}}}],
                },
            ],
        },
    )
    person = one.find("people", {})
    lookup = {
        "$lookup": {
            "from": "people", "localField": "_id", "foreignField": "team", "as": "people",
        }
    }  # fmt: skip
    union = [{"$match": {"_id": None}}, {"$unionWith": {"coll": "people"}}]
    await one.define(
        "company",
        SCHEMA,
        {
            "Query": {
                "people": person,
                "found": person,
                "teams": one.stages("teams", lookup),
                "named": one.stages("teams", *union),
            },
            "Person": {
                "boss": one.find("people", {"_id": {"$fk": "boss"}}),
                "pay": one.find("people", {"_id": {"$fk": "_id"}}),
            },
            "Found": {"$typeResolver": {"Person": "field-exists(name)"}},
            "Named": {"$typeResolver": {"Person": "field-exists(name)"}},
        },
    )
    rows = {"team": "blue"}
    everybody = ("$unauthenticated",)
    await allow(
        one,
        "path-prefix('/people')",
        *everybody,
        mongo={"readFilter": rows, "writeFilter": rows, "projectResponse": {FIELD: 0, "boss": 0},
               "readFilters": {f"{one.db}.people": rows}},
    )  # fmt: skip
    others = {"readFilters": {f"{one.db}.people": rows}}
    await allow(one, "path-prefix('/graphql')", *everybody, mongo=others)
    await allow(one, "path-prefix('/teams') and method(GET)", *everybody, mongo=others)
    await allow(one, "path-prefix('/mcp')", *everybody, mongo=others)
    await allow(one, "path-prefix('/_tools')", *everybody)
    await allow(one, "path-prefix('/users')", *everybody, mongo={"writeFilter": {"_id": None}})


# --- doors ----------------------------------------------------------------------------------------


def ask(*queries: str, **variables: Any) -> Door:
    """GraphQL queries."""

    async def knock(service: Service, who: Caller) -> list[Reply]:
        return [
            await service.query("company", query, variables or None, headers=who)
            for query in queries
        ]

    return knock


def get(*paths: str, **parameters: Any) -> Door:
    """GET requests to the REST API."""

    async def knock(service: Service, who: Caller) -> list[Reply]:
        return [
            await service.request("GET", path, headers=who, params=parameters) for path in paths
        ]

    return knock


def send(method: str, path: str, body: Any = None, **headers: str) -> Door:
    """A write, and a look at what can be read afterwards."""

    async def knock(service: Service, who: Caller) -> list[Reply]:
        wrote = await service.request(method, path, headers=who | headers, json=body)
        return [wrote, await service.request("GET", "/people", headers=who)]

    return knock


async def follow(service: Service, who: Caller) -> list[Reply]:
    """All that streams tell while hidden rows and fields are changed."""
    people = service.mongo[service.db]["people"]
    end = {"_id": "end", "team": "blue"}
    told: list[Any] = []
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(listen(service, f"/people/_streams/{uri}", who, by=by))
            for uri in ("all", "copies")
            for by in (SSE, WEBSOCKET)
        ]
        for path, before in ((FIELD, NUMBER), ("boss", ROW)):
            people.update_one({"_id": "ada"}, {"$unset": {path: 1}})
            people.update_one({"_id": "ada"}, {"$set": {path: before}})
        people.update_one({"_id": ROW}, {"$set": {"team": "green"}})
        people.replace_one({"_id": ROW}, PEOPLE[1])
        people.delete_one({"_id": ROW})
        people.insert_one(dict(PEOPLE[1]))
        people.insert_one(end)
        people.delete_one(end)
        for client in clients:
            while True:
                event = await client.next()
                told.append(event)
                if event["operationType"] == "insert" and event["documentKey"]["_id"] == "end":
                    break
    assert len(told) >= 5 * len(clients)
    return [Reply(httpx2.Response(200, json=told))]


def call(tool: str, **arguments: Any) -> Door:
    """An agent's look at its tools, and the use of one."""

    async def knock(service: Service, who: Caller) -> list[Reply]:
        params = {"name": tool, "arguments": arguments}
        replies = [
            await speak(service, "tools/list", None, who),
            await speak(service, "tools/call", params, who),
        ]
        assert [reply.status for reply in replies] == [200, 200]
        return replies

    return knock


def try_out(tool: str, **members: Any) -> Door:
    """A tool for authors, with the stored app, its definition, and one that shows all of it."""

    async def knock(service: Service, who: Caller) -> list[Reply]:
        stored = service.definitions.find_one({"_id": "company"}, {"_etag": 0, "_uris": 0})
        every = service.stages("people", {"$project": {"all": "$$ROOT"}})
        schema = "type Query { all: [All] } type All { all: BsonDocument }"
        own = build_definition("company", schema, {"Query": {"all": every}})
        asked = {**members, "query": "{ all { all } }"} if "query" in members else members
        bodies: list[Document] = [{**asked, "definition": own}]
        if tool != "check":
            bodies.append({**members, "definition": as_written(stored)})
        if tool in ("plan", "matrix"):
            bodies.append({**members, "app": "company"})
        replies = [
            await service.request("POST", f"/_tools/{tool}", headers=who, json=body)
            for body in bodies
            if tool != "matrix" or "app" in body  # what somebody sends he knows
        ]
        assert {401, 404}.isdisjoint(reply.status for reply in replies)
        return replies

    return knock


async def infer(service: Service, who: Caller) -> list[Reply]:
    """A definition out of whatever the caller may read whole, and out of what he may not."""
    bodies: list[Document] = [{"db": service.db}, {"db": service.db, "collections": ["people"]}]
    return [
        await service.request("POST", "/_tools/infer", headers=who, json=body) for body in bodies
    ]


DOORS: dict[str, Any] = {
    "graphql: rows": ask("{ people { _id name } }"),
    "graphql: direct": ask(f"{{ people {{ {FIELD} }} }}"),
    "graphql: alias": ask(f"{{ people {{ name: {FIELD} }} }}"),
    "graphql: named fragment": ask(f"{{ people {{ ...F }} }} fragment F on Person {{ {FIELD} }}"),
    "graphql: inline fragment": ask(f"{{ people {{ ... on Person {{ {FIELD} }} }} }}"),
    "graphql: union": ask(f"{{ found {{ ... on Person {{ {FIELD} name }} }} }}"),
    "graphql: interface": ask(f"{{ named {{ name ... on Person {{ {FIELD} }} }} }}"),
    "graphql: nested": ask(
        "{ people { boss { _id name } } }", f"{{ people {{ boss {{ {FIELD} }} }} }}"
    ),
    "graphql: lookup": ask("{ teams { _id people { name } } }"),
    "graphql: union with": ask("{ named { name } }"),
    "graphql: type behind a hidden field": ask("{ people { pay { amount } } }"),
    "graphql: __schema": ask(get_introspection_query(), "{ __schema { types { name } } }"),
    "graphql: __type": ask(
        '{ __type(name: "Person") { fields(includeDeprecated: true) { name } } }',
        '{ __type(name: "Pay") { name } }',
    ),
    "graphql: operation 2 of 2": ask(
        f"query A {{ people {{ name }} }} query B {{ people {{ {FIELD} }} }}"
    ),
    "graphql: variable": ask(
        f"query Q($x: Boolean!) {{ people {{ {FIELD} @include(if: $x) name }} }}", x=False
    ),
    "graphql: bad argument": ask(f"{{ people {{ {FIELD}(x: 1) }} }}"),
    "graphql: error text": ask("{ people { salry } }", "{ people { sala } }", "{ people { pai } }"),
    "rest: list": get("/people", "/people?count=true", "/people?pagesize=1&page=2"),
    "rest: document": get(f"/people/{ROW}", "/people/ada"),
    "rest: filter": get("/people", filter=json.dumps({"team": "red"})),
    "rest: filter by a hidden field": get("/people", filter=json.dumps({FIELD: {"$gt": 9}})),
    "rest: count by a hidden field": get("/people/_size", filter=json.dumps({FIELD: NUMBER})),
    "rest: sort by a hidden field": get("/people", sort=f"-{FIELD}"),
    "rest: renamed": get("/people", keys=json.dumps({"name": f"${FIELD}"})),
    "rest: expression": get(
        "/people", filter=json.dumps({"$expr": {"$eq": [f"${FIELD}", NUMBER]}})
    ),
    "rest: keyset": get("/people?after=&sort=name", "/people?after="),
    "rest: aggregation": get("/people/_aggrs/all", "/people/_aggrs/sums"),
    "rest: aggregation with a join": get("/teams/_aggrs/join"),
    "rest: representation": send("PATCH", "/people/ada", {"x": 1}, Prefer="return=representation"),
    "rest: representation of a row": send(
        "PATCH", f"/people/{ROW}", {"x": 1}, Prefer="return=representation"
    ),
    "rest: copy by pipeline": send("PATCH", "/people/ada", [{"$set": {"name": f"${FIELD}"}}]),
    "rest: copy by rename": send("PATCH", "/people/ada", {"$rename": {FIELD: "name"}}),
    "rest: moved into the rows": send("PATCH", f"/people/{ROW}", {"team": "blue"}),
    "rest: bulk": send("PATCH", "/people/*?filter=%7B%22team%22%3A%22red%22%7D", {"team": "blue"}),
    "rest: password": get("/users", "/users/rita", "/users/_size"),
    "rest: filter by password": get("/users", filter=json.dumps({"password": {"$gt": ""}})),
    "rest: definitions and rules": get("/gql-apps", "/gql-apps/company", "/acl"),
    "stream": follow,
    "mcp: rows": call("run_query", app="company", query="{ people { _id name boss { _id } } }"),
    "mcp: schema": call("get_schema", app="company"),
    "mcp: search": call("search_schema", words="pay amount name"),
    "mcp: explain": call("explain_query", app="company", query="{ people { name } }"),
    "mcp: error text": call("run_query", app="company", query="{ people { sala } }"),
    "tools: check": try_out("check"),
    "tools: draft": try_out("draft", query="{ people { _id name boss { _id } } }"),
    "tools: draft of a schema": try_out("draft", query=get_introspection_query()),
    "tools: error text": try_out("draft", query="{ people { sala } }"),
    "tools: plan": try_out("plan", query="{ people { _id name boss { _id } } }"),
    "tools: matrix": try_out("matrix"),
    "tools: infer": infer,
}  # fmt: skip


def _doors() -> list[Any]:
    return [
        pytest.param(name, *door.values, marks=door.marks, id=name)
        if hasattr(door, "marks")
        else pytest.param(name, door, id=name)
        for name, door in DOORS.items()
    ]


@pytest.mark.parametrize("who", INTRUDERS)
@pytest.mark.parametrize(("name", "door"), _doors())
async def test_no_door_leads_to_what_is_hidden(
    service: Service, who: str, name: str, door: Door
) -> None:
    """Decisions 20, 34, 40: no field, row, password or hidden name, in data or in errors."""
    replies = await door(service, INTRUDERS[who])
    asked = name.startswith("graphql") and "error text" not in name and "__" not in name
    for reply in replies:
        text = reply.text
        assert reply.status < 500, text
        assert str(NUMBER) not in text
        assert ROW not in text or reply.status == 404  # a 404 repeats the id that was asked for
        assert HASH not in text
        assert "Did you mean" not in text
        # Who names a hidden field is told what he said, and nothing else.
        assert FIELD not in text or asked
        assert "Pay" not in json_names(reply)


def json_names(reply: Reply) -> set[str]:
    """Every value of a `name` in the answer: what introspection shows."""
    found: set[str] = set()
    pending = [reply.json] if reply.text else []
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            found |= {value["name"]} if isinstance(value.get("name"), str) else set()
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return found


@pytest.mark.parametrize("who", INTRUDERS)
@pytest.mark.parametrize(
    "query",
    [
        "{ people { %s } }",
        "{ people { x: %s } }",
        "{ people { ...F } } fragment F on Person { %s }",
        "{ people { ... on Person { %s } } }",
        "{ people { %s(x: 1) } }",
        "{ people { %s { y } } }",
        "{ found { ... on Person { %s } } }",
    ],
)
async def test_a_hidden_field_is_told_like_one_that_never_was(
    service: Service, who: str, query: str
) -> None:
    """I01: byte for byte, but for the name."""
    hidden, never = [
        await service.query("company", query % name, headers=INTRUDERS[who])
        for name in (FIELD, "nevers")
    ]
    assert hidden.status == never.status == 400
    assert hidden.text.replace(FIELD, "nevers") == never.text


async def test_who_may_see_it_does(service: Service) -> None:
    """The locks are not simply welded shut."""
    boss = caller("bo", "boss")
    reply = await service.query("company", f"{{ people {{ {FIELD} }} }}", headers=boss)
    assert reply.data == {"people": [{FIELD: NUMBER}]}
    root = await service.request("GET", "/people", headers=caller("root", "admin"))
    assert {row["_id"] for row in root.json} == {"ada", ROW}
