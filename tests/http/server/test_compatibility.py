"""Options for moved installations, at every door: GraphQL, REST, streams, batches, agents.

Decisions 55 and 61: `acl.order`, `acl.first-role-wins`, `authentication.anonymous-fallback`,
`graphql.serve-by-id` and `graphql.json-mode: rest`. All of them are off by default.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any

import pytest
from bson import Int64, Regex

from docgraph.exchange import Write, WriteKind
from docgraph.exchange.errors import Conflict
from tests.http.access_harness import build_rule, caller, ensure_rules, guarded
from tests.http.batches import entry
from tests.http.harness import Document, Mongo, Service, build_definition, running
from tests.http.hosts import module_application
from tests.http.mcp_harness import AGENTS, use
from tests.http.realms import hashed
from tests.http.stream_harness import Refused, listen
from tests.http.tokens import COOKIES

pytestmark = pytest.mark.anyio

BATCH: Document = {"batch": {"enabled": True}}
SCHEMA = "type Query { notes: [Note] } type Note { _id: String }"
STREAM = {"uri": "all", "stages": []}


async def prepare_notes(service: Service) -> None:
    """Two notes, an app and a stream."""
    service.insert("notes", {"_id": "mine", "owner": "ada"}, {"_id": "other", "owner": "bob"})
    service.mongo[service.db]["_properties"].insert_one(
        {"_id": "_properties.notes", "streams": [STREAM]}
    )
    mappings = {"Query": {"notes": service.find("notes", {}, sort={"_id": 1})}}
    await service.store(build_definition("app", SCHEMA, mappings, uri="v1/notes"))


# --- acl.first-role-wins --------------------------------------------------------------------------

NARROW: Document = {"readFilter": {"owner": "ada"}}
ROLES = {"narrow first": ("narrow", "wide"), "wide first": ("wide", "narrow")}


@module_application
async def by_role(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    option = {"acl": {"first-role-wins": True}}
    async with guarded(mongo_client, mongo_uri, option, AGENTS, BATCH) as service:
        await prepare_notes(service)
        yield service


@module_application
async def by_priority(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri, AGENTS, BATCH) as service:
        await prepare_notes(service)
        yield service


OWN_OF_FILE: Document = {
    "roles": ["admin", "narrow"],
    "predicate": "path-prefix('/notes')",
    "mongo": {"readFilter": {"owner": "ada"}},
}


@module_application
async def file_first(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    option = {"acl": {"order": "file-first"}}
    rules = [OWN_OF_FILE]
    async with guarded(mongo_client, mongo_uri, option, file_rules=rules) as service:
        await prepare_notes(service)
        yield service


async def test_a_filter_of_the_file_binds_the_root_role_and_comes_before_stored_rules(
    file_first: Service,
) -> None:
    everything = build_rule("path-prefix('/notes')", "narrow", "wide", priority=99)
    await ensure_rules(file_first, everything)
    seen = {}
    for role in ("admin", "narrow", "wide"):
        reply = await file_first.request("GET", "/notes", headers=caller("ada", role))
        seen[role] = sorted(one["_id"] for one in reply.json)
    assert seen == {"admin": ["mine"], "narrow": ["mine"], "wide": ["mine", "other"]}
    root = caller("ada", "admin")
    assert (await file_first.request("GET", "/acl", headers=root)).status == 200  # no file rule
    path = "/access/explain?path=/notes&role=narrow"
    explained = (await file_first.request("GET", path, headers=root)).json
    outcomes = {one["rule"]: one["outcome"] for one in explained["rules"]}
    assert outcomes.pop("permissions[0] (file)") == "decides"
    assert set(outcomes.values()) == {"would match, and comes later"}


def build_rules(service: Service, *, narrow: int, wide: int) -> list[Document]:
    """A role that sees its own notes, and one that sees all of them."""
    filters = {"readFilters": {f"{service.db}.notes": {"owner": "ada"}}}
    everywhere = "path-prefix('/notes') or path-prefix('/graphql') or path-prefix('/mcp')"
    everywhere += " or path-prefix('/_batch')"
    rules = [
        build_rule(everywhere, "narrow", priority=narrow, mongo={**NARROW, **filters}),
        build_rule(everywhere, "wide", priority=wide),
    ]
    for name, rule in zip(("narrow", "wide"), rules, strict=True):
        rule["_id"] = name
    return rules


async def list_seen(service: Service, who: dict[str, str]) -> dict[str, list[str]]:
    """The notes that a caller sees, by door."""
    rest = await service.request("GET", "/notes?sort=_id", headers=who)
    query = "{ notes { _id } }"
    graphql = await service.query("v1/notes", query, headers=who)
    agent = await use(service, "run_query", who, app="v1/notes", query=query)
    batches = {
        id: await service.request(
            "POST", "/_batch", json=[entry("GET", f"/notes/{id}")], headers=who
        )
        for id in ("mine", "other")
    }
    assert {reply.status for reply in batches.values()} <= {200, 404}
    found = {
        "rest": rest.json,
        "graphql": graphql.data["notes"],
        "mcp": agent.json["data"]["notes"],
        "batch": [{"_id": id} for id, reply in batches.items() if reply.status == 200],
    }
    return {door: [one["_id"] for one in rows] for door, rows in found.items()}


async def is_heard(service: Service, who: dict[str, str]) -> bool:
    """Whether a change of another's note reaches the caller before one of their own."""
    notes = service.mongo[service.db]["notes"]
    async with listen(service, "/notes/_streams/all", who) as client:
        notes.update_one({"_id": "other"}, {"$inc": {"n": 1}})
        notes.update_one({"_id": "mine"}, {"$inc": {"n": 1}})
        event = await client.next()
    is_other: bool = event["documentKey"]["_id"] == "other"
    return is_other


@pytest.mark.parametrize("priorities", [(1, 2), (2, 1), (1, 1)])
@pytest.mark.parametrize("roles", ROLES.values(), ids=ROLES)
async def test_the_first_role_with_a_matching_rule_decides(
    by_role: Service, roles: tuple[str, str], priorities: tuple[int, int]
) -> None:
    await ensure_rules(by_role, *build_rules(by_role, narrow=priorities[0], wide=priorities[1]))
    who = caller("ada", *roles)
    is_wide = roles[0] == "wide"
    expected = ["mine", "other"] if is_wide else ["mine"]
    seen = await list_seen(by_role, who)
    assert seen == dict.fromkeys(seen, expected)
    assert await is_heard(by_role, who) is is_wide


@pytest.mark.parametrize("roles", ROLES.values(), ids=ROLES)
async def test_by_default_the_highest_priority_decides(
    by_priority: Service, roles: tuple[str, str]
) -> None:
    """Decision 38."""
    who = caller("ada", *roles)
    for narrow, wide, expected in ((2, 1, ["mine"]), (1, 2, ["mine", "other"])):
        await ensure_rules(by_priority, *build_rules(by_priority, narrow=narrow, wide=wide))
        seen = await list_seen(by_priority, who)
        assert seen == dict.fromkeys(seen, expected)
        assert await is_heard(by_priority, who) is (expected != ["mine"])


async def test_within_a_role_and_for_general_rules_priority_still_decides(
    by_role: Service,
) -> None:
    await ensure_rules(
        by_role,
        build_rule("path('/notes')", "a", priority=1, mongo=NARROW),
        build_rule("path('/notes')", "a", priority=2),
        build_rule("path('/notes')", "b", priority=3, mongo={"readFilter": {"owner": "none"}}),
        build_rule("path('/notes')", "$unauthenticated", priority=9, mongo=NARROW),
    )
    for roles, count in ((("a", "b"), 2), (("b", "a"), 0), (("x", "a"), 2), (("x",), 1), ((), 1)):
        reply = await by_role.request("GET", "/notes", headers=caller("ada", *roles))
        assert (roles, len(reply.json)) == (roles, count)


async def test_a_first_role_without_a_matching_rule_leaves_it_to_the_next(
    by_role: Service,
) -> None:
    await ensure_rules(
        by_role,
        build_rule("path('/elsewhere')", "a", priority=9),
        build_rule("path('/notes')", "b", priority=1, mongo=NARROW),
    )
    reply = await by_role.request("GET", "/notes", headers=caller("ada", "a", "b"))
    assert [one["_id"] for one in reply.json] == ["mine"]


# --- authentication.anonymous-fallback ------------------------------------------------------------

PUBLIC = "path-prefix('/notes') or path-prefix('/graphql') or path-prefix('/mcp')"
REALM: Document = {
    "fullAuthorizer": {"enabled": False},
    "basicAuthMechanism": {"enabled": True},
    "fileRealmAuthenticator": {
        "enabled": True,
        "users": [{"userid": "ada", "password": "secret", "roles": ["user"]}],
    },
}
WRONG = {
    "password": {"authorization": f"Basic {b64encode(b'ada:wrong').decode()}"},
    "user": {"authorization": f"Basic {b64encode(b'eve:secret').decode()}"},
    "scheme": {"authorization": "Bearer abc"},
    "nonsense": {"authorization": "???"},
}
RIGHT = {"authorization": f"Basic {b64encode(b'ada:secret').decode()}"}
BASIC: Document = {
    "basicAuthMechanism": {"enabled": True, "authenticator": "fileRealmAuthenticator"},
    "bruteForceAttackGuard": {"enabled": False},
}


@module_application
async def public(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    option = {"authentication": {"anonymous-fallback": True}}
    async with guarded(mongo_client, mongo_uri, REALM, BASIC, option, AGENTS, BATCH) as service:
        await prepare_notes(service)
        anonymous = build_rule(f"{PUBLIC} or path-prefix('/_batch')", "$unauthenticated")
        await ensure_rules(service, anonymous, build_rule("path('/closed')", "user"))
        service.insert("closed", {"_id": 1})
        yield service


@pytest.mark.parametrize("kind", WRONG)
async def test_wrong_credentials_read_what_is_public(public: Service, kind: str) -> None:
    for method in ("GET", "HEAD"):
        assert (await public.request(method, "/notes", headers=WRONG[kind])).status == 200
    reply = await public.query("v1/notes", "{ notes { _id } }", headers=WRONG[kind])
    assert len(reply.data["notes"]) == 2
    async with listen(public, "/notes/_streams/all", WRONG[kind]) as client:
        public.mongo[public.db]["notes"].update_one({"_id": "mine"}, {"$inc": {"n": 1}})
        assert (await client.next())["documentKey"]["_id"] == "mine"


@pytest.mark.parametrize("kind", WRONG)
async def test_wrong_credentials_open_nothing_else(public: Service, kind: str) -> None:
    """Writes, batches, agents, tokens and all that is not public stay 401."""
    headers = WRONG[kind]
    for method, path in (
        ("GET", "/closed"),
        ("GET", "/tokens"),
        ("GET", "/roles/ada"),
        ("GET", "/_tools/rights"),
        ("GET", "/whoami"),
        ("DELETE", "/notes/mine"),
        ("PUT", "/notes/new?wm=upsert"),
        ("PATCH", "/notes/mine"),
        ("POST", "/notes"),
        ("POST", "/_batch"),
        ("POST", "/mcp"),
    ):
        reply = await public.request(method, path, json={}, headers=headers)
        assert (path, method, reply.status) == (path, method, 401)
    assert public.mongo[public.db]["notes"].count_documents({}) == 2


async def test_right_credentials_are_still_those_of_their_user(public: Service) -> None:
    assert (await public.request("GET", "/closed", headers=RIGHT)).status == 200
    assert (await public.request("GET", "/closed")).status == 401


@pytest.mark.parametrize("kind", WRONG)
async def test_by_default_wrong_credentials_are_401(by_priority: Service, kind: str) -> None:
    """Decision 27."""
    await ensure_rules(by_priority, build_rule(PUBLIC, "$unauthenticated"))
    assert (await by_priority.request("GET", "/notes")).status == 200
    assert (await by_priority.request("GET", "/notes", headers=WRONG[kind])).status == 401
    reply = await by_priority.query("v1/notes", "{ notes { _id } }", headers=WRONG[kind])
    assert reply.status == 401
    with pytest.raises(Refused, match="401"):
        async with listen(by_priority, "/notes/_streams/all", WRONG[kind]):
            pass


async def test_the_brute_force_guard_counts_wrong_credentials_of_public_reads(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    """A guess is a guess, whatever it reads; then even the public read is 429."""
    option = {"authentication": {"anonymous-fallback": True}}
    # A window of a day: however slow the machine is, guesses do not leave it one after another.
    limits = {"max-failed-attempts": 3, "window-ms": 86_400_000, "long-window-ms": 86_400_000}
    guard = {"bruteForceAttackGuard": {"enabled": True, **limits}}
    async with guarded(mongo_client, mongo_uri, REALM, BASIC, option, guard) as service:
        await prepare_notes(service)
        await ensure_rules(service, build_rule(PUBLIC, "$unauthenticated"))
        statuses: list[int] = []
        while 429 not in statuses and len(statuses) < 20:
            guess = b64encode(f"ada:guess {len(statuses)}".encode()).decode()
            headers = {"authorization": f"Basic {guess}"}
            statuses.append((await service.request("GET", "/notes", headers=headers)).status)
        assert statuses[-1] == 429
        assert {*statuses[:-1]} == {200}
        assert (await service.request("GET", "/notes")).status == 200


async def test_an_open_stream_never_becomes_one_of_an_anonymous_caller(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    """Anonymous callers may open the stream, but not keep that of a user who is gone."""
    option = {"authentication": {"anonymous-fallback": True}}
    basic = {**BASIC, "basicAuthMechanism": {"enabled": True}}
    async with guarded(mongo_client, mongo_uri, basic, option) as service:
        await prepare_notes(service)
        await ensure_rules(service, build_rule(PUBLIC, "$unauthenticated"))
        users = service.mongo[service.db]["users"]
        users.insert_one({"_id": "ada", "roles": ["user"], "password": hashed("secret")})
        async with listen(service, "/notes/_streams/all", RIGHT) as client:
            await service.write("users", Write(WriteKind.DELETE, filter={"_id": "ada"}))
            await client.wait_closed()
        async with listen(service, "/notes/_streams/all", RIGHT) as client:
            service.mongo[service.db]["notes"].update_one({"_id": "mine"}, {"$inc": {"n": 1}})
            assert (await client.next())["documentKey"]["_id"] == "mine"


async def test_wrong_credentials_beside_a_valid_cookie_are_not_those_of_the_cookie(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    option = {"authentication": {"anonymous-fallback": True}}
    tokens = {"tokenBasicAuthMechanism": {"enabled": True}, "rndTokenManager": {"enabled": True}}
    async with guarded(mongo_client, mongo_uri, REALM, BASIC, tokens, COOKIES, option) as service:
        await prepare_notes(service)
        service.insert("closed", {"_id": 1})
        await ensure_rules(service, build_rule("path('/closed')", "user"))
        login = await service.request("GET", "/closed?set-auth-cookie", headers=RIGHT)
        cookie = {"cookie": login.headers["set-cookie"].partition(";")[0]}
        service.client.cookies.clear()
        assert (await service.request("GET", "/closed", headers=cookie)).status == 200
        both = {**cookie, **WRONG["password"]}
        assert (await service.request("GET", "/closed", headers=both)).status == 401


# --- graphql.serve-by-id --------------------------------------------------------------------------


@module_application
async def by_id(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    option = {"graphql": {"serve-by-id": True}}
    async with running(mongo_client, mongo_uri, option, AGENTS) as service:
        await prepare_notes(service)
        yield service


async def test_an_app_is_served_at_its_uri_and_under_its_id(by_id: Service) -> None:
    query = "{ notes { _id } }"
    for name in ("v1/notes", "app"):
        assert len((await by_id.query(name, query)).data["notes"]) == 2
        assert (
            len((await use(by_id, "run_query", app=name, query=query)).json["data"]["notes"]) == 2
        )
    assert (await by_id.query("other", query)).status == 404
    apps = (await use(by_id, "list_apps")).text
    assert apps.count("v1/notes") == 1  # the list has it once


async def test_another_app_cannot_take_the_id_or_the_uri(by_id: Service) -> None:
    mappings = {"Query": {"notes": by_id.find("notes", {})}}
    for id, descriptor in (("v1", {"uri": "app"}), ("new", {"uri": "v1/notes"})):
        with pytest.raises(Conflict):
            await by_id.store(build_definition(id, SCHEMA, mappings, **descriptor))


async def test_a_disabled_and_a_deleted_app_is_served_nowhere(by_id: Service) -> None:
    mappings = {"Query": {"notes": by_id.find("notes", {})}}
    await by_id.store(build_definition("gone", SCHEMA, mappings, uri="v2"))
    assert (await by_id.query("gone", "{ notes { _id } }")).status == 200
    await by_id.store(build_definition("gone", SCHEMA, mappings, uri="v2", enabled=False))
    for name in ("gone", "v2"):
        assert (await by_id.query(name, "{ notes { _id } }")).status == 404
    await by_id.remove("gone")
    for name in ("gone", "v2"):
        assert (await by_id.query(name, "{ notes { _id } }")).status == 404


async def test_rules_see_the_path_that_was_requested(mongo_client: Mongo, mongo_uri: str) -> None:
    """A rule for the uri does not open the id."""
    option = {"graphql": {"serve-by-id": True}}
    async with guarded(mongo_client, mongo_uri, option) as service:
        await prepare_notes(service)
        await ensure_rules(service, build_rule("path('/graphql/v1/notes')", "user"))
        who = caller("ada", "user")
        assert (await service.query("v1/notes", "{ notes { _id } }", headers=who)).status == 200
        assert (await service.query("app", "{ notes { _id } }", headers=who)).status == 403


# --- graphql.json-mode: rest ----------------------------------------------------------------------

VALUES: Document = {
    "_id": 1,
    "long": Int64(9_007_199_254_740_993),
    "pattern": Regex("^a", "i"),
    "inner": {"long": Int64(5), "pattern": Regex("b"), "number": 1.5},
}
FORMS: Document = {
    "long": 9_007_199_254_740_993,
    "pattern": {"$regularExpression": {"pattern": "^a", "options": "i"}},
    "inner": {
        "long": 5,
        "pattern": {"$regularExpression": {"pattern": "b", "options": ""}},
        "number": 1.5,
    },
}


@pytest.mark.parametrize("place", ["option", "descriptor"])
async def test_values_are_written_as_in_the_rest_api(
    mongo_client: Mongo, mongo_uri: str, place: str
) -> None:
    option: Any = {"graphql": {"json-mode": "rest"}} if place == "option" else {}
    descriptor: Any = {"json-mode": "rest"} if place == "descriptor" else {}
    async with running(mongo_client, mongo_uri, option) as service:
        service.insert("values", VALUES)
        schema = "type Query { values(p: Regex, n: Long): [V] }"
        schema += " type V { long: Long pattern: Regex inner: BsonDocument }"
        mappings = {"Query": {"values": service.find("values", {})}}
        await service.store(build_definition("app", schema, mappings, **descriptor))
        query = "query ($p: Regex, $n: Long) { values(p: $p, n: $n) { long pattern inner } }"
        # What is given out is taken in.
        variables = {"p": FORMS["pattern"], "n": FORMS["long"]}
        assert (await service.query("app", query, variables)).data == {"values": [FORMS]}
