"""An installation of RESTHeart 9 with its default configuration, converted and served.

The database has what RESTHeart stores: users with `$2a$` hashes, rules with ties, apps with escaped
keys and faults, aggregations that are not allowed, streams. Each test is a request of a client that
was written for RESTHeart and the answer that it relies on.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from bson import Int64, ObjectId, Regex
from tests.databases import new_name
from tests.http.harness import Document, Mongo, Reply, Service, running
from tests.http.hosts import module_application
from tests.http.realms import hashed
from tests.http.stream_harness import SSE, WEBSOCKET, listen

from docgraph.server.prepare import SECTIONS
from docgraph_migrate.convert import Conversion
from docgraph_migrate.restheart_config import load_restheart
from docgraph_migrate.steps import run_conversion

pytestmark = pytest.mark.anyio

NOTE_SCHEMA = """
type Query { notes(owner: String): [Note] broken: [Note] first: Note }
type Note { _id: String owner: String n: Long pattern: Regex related: [Note] }
"""


def build_apps(db: str) -> list[Document]:
    notes = {"db": db, "collection": "notes", "sort": {"_id": 1}}
    own = {**notes, "find": {"owner": {"_$arg": "owner"}}}
    mappings: Document = {"Query": {"notes": own, "first": {**notes, "find": {}}}}
    broken: Document = {
        "Query": {
            **mappings["Query"],
            "broken": {"db": db, "collection": "notes", "find": {"_$or": 1}},
        }
    }
    return [
        {"_id": "notes", "schema": NOTE_SCHEMA, "mappings": mappings},
        {
            "_id": "second",
            "descriptor": {"name": "second", "uri": "v2/notes", "enabled": True},
            "schema": NOTE_SCHEMA,
            "mappings": mappings,
        },
        {"_id": "broken", "schema": NOTE_SCHEMA, "mappings": broken},
        {
            "_id": "writing",
            "schema": NOTE_SCHEMA + "type Mutation { add: Int }",
            "mappings": mappings,
        },
        {
            "_id": "off",
            "descriptor": {"enabled": False},
            "schema": NOTE_SCHEMA,
            "mappings": mappings,
        },
    ]


def build_aggregation(uri: str, *stages: Document) -> Document:
    return {"uri": uri, "type": "pipeline", "stages": list(stages)}


AGGREGATIONS = [
    build_aggregation("owned", {"_$match": {"owner": {"_$var": "who"}}}, {"_$sort": {"_id": 1}}),
    build_aggregation("out", {"_$out": "stolen"}),
    build_aggregation("merge", {"_$merge": {"into": "stolen"}}),
    build_aggregation("joined", {"_$lookup": {"from": "users", "as": "x", "pipeline": []}}),
    build_aggregation("code", {"_$set": {"x": {"_$function": {"body": "1", "args": []}}}}),
]
RULES: list[Document] = [
    {"_id": "1 public", "roles": ["$unauthenticated"], "predicate": "path('/open')"},
    {
        "_id": "2 own notes",
        "roles": ["user"],
        "predicate": "path-prefix('/notes') or path-prefix('/graphql')",
        "priority": 5,
        "mongo": {"readFilter": {"owner": "@user._id"}},
    },
    {
        "_id": "3 all notes",
        "roles": ["editor"],
        "predicate": "path-prefix('/notes') or path-prefix('/graphql')",
        "priority": 1,
    },
    # Two of the same priority: the one with the highest id decides.
    {
        "_id": "4 tie",
        "roles": ["tied"],
        "predicate": "path('/notes')",
        "mongo": {"readFilter": {"owner": "nobody"}},
    },
    {
        "_id": "5 tie",
        "roles": ["tied"],
        "predicate": "path('/notes')",
        "mongo": {"readFilter": {"owner": "bob"}},
    },
]
USERS = {
    "root": ["admin"],
    "ada": ["user"],
    "bob": ["user", "editor"],
    "eve": ["editor", "user"],
    "tim": ["tied"],
}


def fill(mongo: Mongo, name: str) -> None:
    """Store what RESTHeart would have stored."""
    db = mongo[name]
    db["users"].insert_many(
        {"_id": user, "roles": roles, "password": hashed("secret"), "_etag": ObjectId()}
        for user, roles in USERS.items()
    )
    db["acl"].insert_many(RULES)
    db["gql-apps"].insert_many(build_apps(name))
    db["notes"].insert_many(
        [
            {"_id": "a", "owner": "ada", "n": Int64(1), "pattern": Regex("^x", "i")},
            {"_id": "b", "owner": "bob", "n": Int64(2), "_etag": ObjectId()},
        ]
    )
    db["open"].insert_one({"_id": "o"})
    streams = [{"uri": "all", "stages": []}]
    db["_properties"].insert_many(
        [
            {"_id": "_properties"},
            {"_id": "_properties.notes", "aggrs": AGGREGATIONS, "streams": streams},
            {"_id": "_properties.open"},
        ]
    )


def convert(uri: str, db: str) -> dict[str, dict[str, Any]]:
    """Convert the default file of version 9, with another database and its cookies over http."""
    with TemporaryDirectory() as directory:
        file = Path(directory, "overrides.yml")
        text = f"/mclient/connection-string: '{uri}'\n/authCookieSetter/secure: false\n"
        file.write_text(text)  # the test has no https
        conversion = Conversion(load_restheart(None, [file]), file.parent, SECTIONS)
        run_conversion(conversion)
    conversion.move_to(db)
    return conversion.sections


@module_application
async def moved(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    db = new_name()
    fill(mongo_client, db)
    converted = await asyncio.to_thread(convert, mongo_uri, db)
    closed = {"fullAuthorizer": {"enabled": False}, "bruteForceAttackGuard": {"enabled": False}}
    async with running(mongo_client, mongo_uri, closed, converted, db=db) as service:
        await service.app.store.available()
        yield service


def login(user: str, password: str = "secret") -> dict[str, str]:
    return {"authorization": f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"}


async def ask(service: Service, method: str, path: str, user: str = "root", **more: Any) -> Reply:
    service.client.cookies.clear()
    return await service.request(method, path, headers=login(user), **more)


async def list_ids(service: Service, path: str, user: str) -> list[str]:
    reply = await ask(service, "GET", path, user)
    assert reply.status == 200, reply.text
    return [one["_id"] for one in reply.json]


# --- logins ---------------------------------------------------------------------------------------


async def test_a_challenge_names_the_realm_of_before(moved: Service) -> None:
    reply = await moved.request("GET", "/notes")
    assert reply.status == 401
    assert 'Basic realm="RESTHeart Realm"' in reply.headers["www-authenticate"]


async def test_a_client_logs_in_at_token_and_sends_a_bearer(moved: Service) -> None:
    answer = (await ask(moved, "POST", "/token", "ada")).json
    assert (answer["username"], answer["roles"]) == ("ada", ["user"])
    assert answer["token_type"] == "Bearer"
    bearer = {"authorization": f"Bearer {answer['access_token']}"}
    reply = await moved.request("GET", "/notes", headers=bearer)
    assert [one["_id"] for one in reply.json] == ["a"]
    assert (await moved.request("DELETE", "/token", headers=bearer)).status == 204
    assert (await moved.request("GET", "/notes", headers=bearer)).status == 401


async def test_only_the_token_service_sends_the_token(moved: Service) -> None:
    for path, is_sent in (
        ("/notes", False),
        ("/tokenless", False),
        ("/token", True),
        ("/notes?renew-auth-token", True),
    ):
        reply = await ask(moved, "GET", path)
        assert ("auth-token" in reply.headers) is is_sent, path


async def test_a_browser_logs_in_with_the_cookie_of_before_and_out(moved: Service) -> None:
    reply = await ask(moved, "POST", "/token/cookie", "ada")
    name, _, value = reply.headers["set-cookie"].partition(";")[0].partition("=")
    assert (name, value[:7]) == ("rh_auth", "Bearer_")
    moved.client.cookies.clear()
    cookie = {"cookie": f"{name}={value}"}
    assert (await moved.request("GET", "/notes", headers=cookie)).status == 200
    moved.client.cookies.clear()
    out = await moved.request("POST", "/logout", headers=cookie)
    assert (out.status, out.headers["set-cookie"][:8]) == (200, "rh_auth=")
    moved.client.cookies.clear()
    assert (await moved.request("GET", "/notes", headers=cookie)).status == 401


async def test_wrong_credentials_read_what_is_public_and_write_nothing(moved: Service) -> None:
    wrong = login("ada", "wrong")
    assert (await moved.request("GET", "/open", headers=wrong)).status == 200
    assert (await moved.request("GET", "/notes", headers=wrong)).status == 401
    assert (await moved.request("POST", "/open", json={}, headers=wrong)).status == 401


async def test_a_user_that_is_written_here_has_a_hash_that_both_servers_accept(
    moved: Service,
) -> None:
    user = {"_id": "new", "roles": ["user"], "password": "a longer secret"}
    assert (await ask(moved, "POST", "/users", json=user)).status == 201
    stored = moved.mongo[moved.db]["users"].find_one({"_id": "new"})
    assert stored is not None
    assert stored["password"].startswith("$2a$")
    assert "password" not in (await ask(moved, "GET", "/users/new")).json
    reply = await moved.request("GET", "/roles/new", headers=login("new", "a longer secret"))
    assert reply.json == {"authenticated": True, "roles": ["user"]}
    moved.mongo[moved.db]["users"].delete_one({"_id": "new"})


# --- rules ----------------------------------------------------------------------------------------


async def test_the_first_role_decides_and_of_a_tie_the_highest_id(moved: Service) -> None:
    assert await list_ids(moved, "/notes", "ada") == ["a"]
    assert await list_ids(moved, "/notes", "bob") == ["b"]  # user first: his own
    assert await list_ids(moved, "/notes", "eve") == ["b", "a"]  # editor first: all of them
    assert await list_ids(moved, "/notes", "tim") == ["b"]
    assert await list_ids(moved, "/notes", "root") == ["b", "a"]


async def test_who_has_no_rule_is_403(moved: Service) -> None:
    assert (await ask(moved, "GET", "/users", "ada")).status == 403
    assert (await ask(moved, "DELETE", "/", "ada")).status == 403


# --- REST -----------------------------------------------------------------------------------------


async def test_requests_have_the_statuses_of_before(moved: Service) -> None:
    oid = str(ObjectId())
    for method, path, body, status in (
        ("GET", "/missing", None, 404),
        ("GET", "/notes/missing", None, 404),
        ("GET", "/notes?pagesize=5000", None, 400),
        ("GET", "/notes?page=0", None, 400),
        ("GET", "/notes?filter={", None, 400),
        ("PUT", "/notes/new", {"x": 1}, 404),
        ("PUT", "/notes/new?wm=upsert", {"x": 1}, 201),
        ("PATCH", "/notes/new", {"y": 2}, 200),
        ("DELETE", "/notes/new", None, 204),
        ("POST", "/missing", {"x": 1}, 404),
        ("PUT", "/made", {"descr": "x"}, 201),
        ("DELETE", "/made", None, 409),
    ):
        reply = await ask(moved, method, path, json=body)
        assert (method, path, reply.status) == (method, path, status), reply.text
    wrong = {**login("root"), "if-match": oid}
    assert (await moved.request("DELETE", "/made", headers=wrong)).status == 412
    etag = (await ask(moved, "GET", "/made")).headers["etag"]
    right = {**login("root"), "if-match": etag}
    assert (await moved.request("DELETE", "/made", headers=right)).status == 204


async def test_a_list_is_an_array_with_the_newest_first(moved: Service) -> None:
    reply = await ask(moved, "GET", "/notes")
    assert [one["_id"] for one in reply.json] == ["b", "a"]
    assert reply.json[1]["n"] == 1
    assert reply.json[1]["pattern"] == {"$regularExpression": {"pattern": "^x", "options": "i"}}
    assert (await ask(moved, "GET", "/notes/_size")).json["_size"] == 2
    assert {"notes", "open"} <= set((await ask(moved, "GET", "/")).json)


async def test_stored_aggregations_take_their_variables(moved: Service) -> None:
    path = "/notes/_aggrs/owned"
    reply = await ask(moved, "GET", f'{path}?avars={{"who":"ada"}}')
    assert [one["_id"] for one in reply.json] == ["a"]
    assert (await ask(moved, "GET", path)).status == 400
    assert (await ask(moved, "GET", f'{path}?avars={{"$who":1}}')).status == 400
    assert (await ask(moved, "GET", "/notes/_aggrs/missing")).status == 404


@pytest.mark.parametrize("uri", ["out", "merge", "joined", "code"])
async def test_stored_stages_that_are_forbidden_are_403_and_run_nothing(
    moved: Service, uri: str
) -> None:
    assert (await ask(moved, "GET", f"/notes/_aggrs/{uri}")).status == 403
    assert "stolen" not in moved.mongo[moved.db].list_collection_names()


@pytest.mark.parametrize("by", [SSE, WEBSOCKET])
async def test_streams_have_the_events_of_before(moved: Service, by: str) -> None:
    notes = moved.mongo[moved.db]["notes"]
    async with listen(moved, "/notes/_streams/all", login("root"), by=by) as client:
        notes.insert_one({"_id": f"new {by}"})
        event = await client.next()
    notes.delete_one({"_id": f"new {by}"})
    assert event["operationType"] == "insert"
    assert event["documentKey"] == {"_id": f"new {by}"}
    assert event["fullDocument"] == {"_id": f"new {by}"}


# --- GraphQL --------------------------------------------------------------------------------------


async def query(service: Service, app: str, text: str, **more: Any) -> Reply:
    return await service.query(app, text, headers=login("root"), **more)


async def test_apps_are_served_with_escaped_keys_under_uri_and_id(moved: Service) -> None:
    text = '{ notes(owner: "ada") { _id n pattern } }'
    expected = {
        "_id": "a",
        "n": 1,
        "pattern": {"$regularExpression": {"pattern": "^x", "options": "i"}},
    }
    for app in ("notes", "second", "v2/notes"):
        assert (await query(moved, app, text)).data == {"notes": [expected]}


async def test_an_app_with_one_faulty_mapping_serves_the_others(moved: Service) -> None:
    reply = await query(moved, "broken", "{ first { _id } broken { _id } }")
    assert reply.json["data"] == {"first": {"_id": "a"}, "broken": None}
    assert reply.code == "invalid-definition"


async def test_an_app_with_a_mutation_type_is_served_and_writes_nothing(moved: Service) -> None:
    assert (await query(moved, "writing", "{ first { _id } }")).status == 200
    assert (await query(moved, "writing", "mutation { add }")).status == 400


async def test_requests_to_apps_have_the_statuses_of_before(moved: Service) -> None:
    assert (await query(moved, "missing", "{ first { _id } }")).status == 404
    assert (await query(moved, "off", "{ first { _id } }")).status == 404
    assert (await query(moved, "notes", "{ nope }")).status == 400
    assert (await query(moved, "notes", "{ first {")).status == 400
    assert (await ask(moved, "GET", "/graphql/notes")).status == 405
    assert (await moved.query("notes", "{ first { _id } }")).status == 401
    variables = {"o": "bob"}
    text = "query Q($o: String) { notes(owner: $o) { _id } }"
    assert (await query(moved, "notes", text, variables=variables)).data == {
        "notes": [{"_id": "b"}]
    }


async def test_a_missing_argument_fails_the_field_that_uses_it(moved: Service) -> None:
    reply = await query(moved, "notes", "{ notes { _id } first { _id } }")
    assert reply.json["data"] == {"notes": None, "first": {"_id": "a"}}
