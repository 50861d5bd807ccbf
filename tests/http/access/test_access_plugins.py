"""`acl-registry`, vetoers, files, faults and explanations through the whole application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from docgraph.access.acl_registry import ACLRegistry
from docgraph.config.section import PluginConfig
from docgraph.exchange import Request
from docgraph.observe.events import AccessDenied
from docgraph.plugins.kinds import Initializer
from tests.http.access_harness import (
    ADA,
    ADMIN,
    NOBODY,
    allow,
    caller,
    forget_rules,
    guarded,
    restore,
    write_rules,
)
from tests.http.harness import UNREACHABLE, Service, failing, listening
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

RULE = {"role": "user", "predicate": "path-prefix('/books')"}


class Registrar(Initializer):
    """A plugin that opens and closes paths in code."""

    name: ClassVar[str] = "registrar"

    def __init__(self, config: PluginConfig, acl_registry: ACLRegistry) -> None:
        acl_registry.registerVeto(lambda request: "veto" in request.query)
        acl_registry.registerAllow(lambda request: "allow" in request.query)
        acl_registry.registerAllow(self.is_zoe)
        acl_registry.registerAuthenticationRequirement(lambda request: "login" in request.query)

    async def is_zoe(self, request: Request) -> bool:
        return request.account is not None and request.account.name == "zoe"

    async def initialize(self) -> None:
        """Nothing to do."""


@module_application
async def server(mongo_client: Any, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri, file_rules=[RULE], plugins=[Registrar]) as one:
        one.insert("books", {"_id": "1", "secret": 1})
        yield one


@pytest.fixture
def service(server: Service) -> Service:
    """The server without rules in the database, and with one user."""
    forget_rules(server)
    restore(server, "users", {"_id": "eve", "roles": ["user"], "hobbies": ["admin"]})
    return server


async def status(service: Service, path: str, who: dict[str, str], method: str = "GET") -> int:
    return (await service.request(method, path, headers=who)).status


@pytest.mark.parametrize(
    ("query", "nobody", "zoe"),
    [
        ("", 401, 200),
        ("allow", 200, 200),
        ("allow&veto", 403, 403),
        ("allow&login", 401, 200),
        ("allow&login&veto", 401, 403),
        ("login", 401, 200),
    ],
)
async def test_registered_predicates_decide(
    service: Service, query: str, nobody: int, zoe: int
) -> None:
    path = f"/books?{query}"
    assert await status(service, path, NOBODY) == nobody
    assert await status(service, path, caller("zoe")) == zoe


async def test_a_veto_stops_even_the_root_role(service: Service) -> None:
    assert await status(service, "/books?veto", ADMIN) == 403
    assert await status(service, "/ping?veto", NOBODY) == 403


async def test_what_code_approves_has_no_conditions(service: Service) -> None:
    await allow(
        service, "path-prefix('/books')", "user", priority=9, mongo={"readFilter": {"_id": "x"}}
    )
    assert (await service.request("GET", "/books", headers=ADA)).json == []
    assert len((await service.request("GET", "/books?allow", headers=ADA)).json) == 1


async def test_refused_operators_are_vetoed_for_everybody(service: Service) -> None:
    reply = await service.request(
        "GET", "/books", headers=ADMIN, params={"filter": '{"$or": [{"$where": "1"}]}'}
    )
    assert (reply.status, reply.json["message"]) == (403, "permission denied")


async def test_listed_origins_pass(mongo_client: Any, mongo_uri: str) -> None:
    listed = {"originVetoer": {"enabled": True, "whitelist": ["https://a.example"]}}
    async with guarded(mongo_client, mongo_uri, listed) as service:
        for origin, expected in (("https://a.example", 404), ("https://b.example", 403)):
            assert await status(service, "/books", {**ADMIN, "Origin": origin}) == expected


# --- the file -------------------------------------------------------------------------------------


async def test_rules_of_a_file_of_their_own(
    mongo_client: Any, mongo_uri: str, tmp_path: Path
) -> None:
    file = tmp_path / "acl.yml"
    file.write_text(
        "permissions:\n"
        "  - roles: [user]\n"
        "    predicate: path('/books')\n"
        "    mongo:\n"
        '      readFilter: \'{"_id": {"$in": ["1"]}}\'\n'
    )
    own = {"fileAclAuthorizer": {"enabled": True, "conf-file": str(file)}}
    async with guarded(mongo_client, mongo_uri, own) as service:
        service.insert("books", {"_id": "1"}, {"_id": "2"})
        reply = await service.request("GET", "/books", headers=ADA)
        assert [row["_id"] for row in reply.json] == ["1"]


# --- faults ---------------------------------------------------------------------------------------


async def test_rules_that_cannot_be_read_open_nothing_and_are_told_as_a_fault(
    service: Service,
) -> None:
    """Decision 25: a database that cannot be asked is 500, never 401 or 403."""
    await allow(service, "path-prefix('/')", "$unauthenticated")
    with failing(service.mongo, "find", errorCode=UNREACHABLE):
        assert await status(service, "/books", NOBODY) == 500
        assert await status(service, "/ping", NOBODY) == 200
    assert await status(service, "/books", NOBODY) == 200


# --- the root role --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/users", {"_id": "x", "password": "p" * 12, "roles": ["admin"]}),
        ("POST", "/users", [{"_id": "x", "roles": []}, {"_id": "y", "roles": ["admin"]}]),
        ("PUT", "/users/eve", {"password": "p" * 12, "roles": ["user", "admin"]}),
        ("PATCH", "/users/eve", {"roles": ["admin"]}),
        ("PATCH", "/users/eve", {"roles.0": "admin"}),
        ("PATCH", "/users/eve", {"$set": {"roles": ["admin"]}}),
        ("PATCH", "/users/eve", {"$addToSet": {"roles": "admin"}}),
        ("PATCH", "/users/eve", {"$rename": {"hobbies": "roles"}}),
        ("PATCH", "/users/eve", [{"$set": {"roles": {"$concatArrays": ["$roles", "$hobbies"]}}}]),
        ("PATCH", '/users/*?filter={"_id":"eve"}', {"$push": {"roles": "admin"}}),
    ],
)
async def test_nobody_gives_the_root_role_over_the_network(
    service: Service, method: str, path: str, body: Any
) -> None:
    before = list(service.mongo[service.db]["users"].find())
    with listening(AccessDenied) as denied:
        reply = await service.request(method, path, headers=ADMIN, json=body)
    assert (reply.status, reply.json["message"]) == (403, "Forbidden. The request has been logged.")
    assert [one.authorizer for one in denied] == ["rootRoleGuard"]
    assert list(service.mongo[service.db]["users"].find()) == before


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "/users/boss", {"password": "p" * 12}),
        ("PUT", "/users/boss", {"password": "p" * 12, "roles": ["user"]}),
        ("PATCH", "/users/boss", {"roles": []}),
        ("PATCH", "/users/boss", [{"$unset": "roles"}]),
        ("DELETE", "/users/boss", None),
    ],
)
async def test_whoever_has_the_root_role_is_changed_only_by_those_who_have_it(
    service: Service, method: str, path: str, body: Any
) -> None:
    """Else whoever may manage users sets the administrator's password, and has the role."""
    await allow(service, "path-prefix('/users')", "user")
    service.insert("users", {"_id": "boss", "roles": ["admin"], "password": "hash"})
    users = service.mongo[service.db]["users"]
    before = list(users.find())
    arguments = {} if body is None else {"json": body}

    assert (await service.request(method, path, headers=ADA, **arguments)).status == 404
    assert list(users.find()) == before
    own = {"roles": ["user"]} if method == "PUT" else body
    arguments = {} if own is None else {"json": own}
    reply = await service.request(method, "/users/eve", headers=ADA, **arguments)
    assert reply.status in (200, 204)


async def test_an_administrator_sets_the_password_of_another(service: Service) -> None:
    service.insert("users", {"_id": "boss", "roles": ["admin"], "password": "hash"})
    body = {"password": "p" * 12}

    reply = await service.request("PATCH", "/users/boss", headers=ADMIN, json=body)

    assert reply.status == 200


# --- why ------------------------------------------------------------------------------------------


async def explain(service: Service, who: dict[str, str] = ADMIN, /, **asked: Any) -> Any:
    reply = await service.request("GET", "/access/explain", headers=who, params=asked)
    assert reply.status == 200, reply.text
    return reply.json


async def test_only_the_root_role_gets_explanations(service: Service) -> None:
    await allow(service, "path-prefix('/')", "user")
    assert await status(service, "/access/explain?path=/books", ADA) == 403
    assert await status(service, "/access/explain?path=/books", NOBODY) == 401
    assert await status(service, "/access/explain", ADMIN) == 400
    assert await status(service, "/access/explain?path=books", ADMIN) == 400
    assert await status(service, "/access/explain?path=/x&user=ghost", ADMIN) == 404


async def test_without_a_root_role_nobody_gets_explanations(
    mongo_client: Any, mongo_uri: str
) -> None:
    """Rules of the database name the root role; other authorizers have none."""
    without = {"dbAclAuthorizer": {"enabled": False}, "fullAuthorizer": {"enabled": True}}
    async with guarded(mongo_client, mongo_uri, without) as one:
        assert await status(one, "/access/explain?path=/books", ADMIN) == 403


async def test_an_explanation_has_every_answer_the_rule_and_the_filters(service: Service) -> None:
    await write_rules(
        service,
        {
            "_id": "own",
            "predicate": "path-prefix('/books')",
            "roles": ["user"],
            "priority": 3,
            "mongo": {"readFilter": {"owner": {"$in": "@roles"}}, "writeFilter": {"open": True}},
        },
    )
    told = await explain(service, path="/books", role="user")
    assert (told["allowed"], told["status"], told["service"]) == (True, 200, "mongo")
    assert told["reason"] == "the rule own (database) matches"
    assert {one["authorizer"]: one["allowed"] for one in told["allowers"]} == {
        "ACLRegistryAllower": False,
        "dbAclAuthorizer": True,
        "fileAclAuthorizer": False,
        "streamLists": False,
    }
    assert {one["authorizer"] for one in told["vetoers"]} == {
        "ACLRegistryVetoer",
        "filterOperatorsBlacklist",
    }
    assert [(one["rule"], one["outcome"]) for one in told["rules"]] == [
        ("own (database)", "decides"),
        ("permissions[0] (file)", "would match, and comes later"),
    ]
    assert told["conditions"]["readFilters"] == {
        f"{service.db}.books": {"owner": {"$in": ["user"]}}
    }
    told = await explain(service, path="/books/1", method="PATCH", role="user")
    assert told["conditions"]["writeFilter"] == {"open": True}


@pytest.mark.parametrize(
    ("asked", "status", "reason"),
    [
        ({"path": "/books"}, 401, "no rule matches"),
        ({"path": "/x", "role": "user"}, 403, "no rule matches"),
        ({"path": "/books", "query": "veto", "role": "admin"}, 403, "veto predicate"),
        ({"path": "/books", "query": "login"}, 401, "must be authenticated"),
        ({"path": "/x", "role": "admin"}, 200, "the role admin may do everything"),
        ({"path": "/ping"}, 200, "needs no allower"),
    ],
)
async def test_explanations_agree_with_what_happens(
    service: Service, asked: Any, status: int, reason: str
) -> None:
    told = await explain(service, **asked)
    assert told["status"] == status
    assert reason in told["reason"]
    who = caller("somebody", asked["role"]) if "role" in asked else NOBODY
    reply = await service.request("GET", f"{asked['path']}?{asked.get('query', '')}", headers=who)
    assert reply.status == status or (status == 200 and reply.status == 404)


async def test_a_filter_that_lacks_a_property_of_the_user_is_told_from_no_rule(
    service: Service,
) -> None:
    """Decision 68: operators learn it from the log and the explanation, the caller does not."""
    mongo = {"readFilter": {"tenant": "@user.tenant"}}
    await allow(service, "path('/books')", "tenant", _id="own", mongo=mongo, priority=1)
    reason = "the rule own (database) matches, but mongo.readFilter needs @user.tenant, "
    reason += "which this user does not have"
    replies = []
    with listening(AccessDenied) as denied:
        for path in ("/books", "/nowhere"):
            replies.append(await service.request("GET", path, headers=caller("tim", "tenant")))

    assert [one.reason for one in denied] == [reason, "no rule matches"]
    assert {one.authorizer for one in denied} == {"dbAclAuthorizer"}
    assert {(one.status, one.text) for one in replies} == {(403, replies[0].text)}
    told = await explain(service, path="/books", role="tenant")
    assert (told["status"], told["reason"]) == (403, reason)
    (rule,) = told["rules"]
    assert rule["outcome"] == f"decides, and denies: {reason.partition(' but ')[2]}"


async def test_a_rule_with_an_operator_that_the_database_rejects_is_not_stored(
    service: Service,
) -> None:
    """One that docgraph does not know may be newer than docgraph: the database decides."""
    rule = {"_id": "odd", "predicate": "true", "roles": ["user"]}
    filters = {"$nonsense": 400, "$bitsAnySet": 201}
    for operator, status in filters.items():
        body = {**rule, "mongo": {"readFilter": {"a": {operator: 1}}}}
        reply = await service.request("POST", "/acl", headers=ADMIN, json=body)
        assert reply.status == status, reply.text


async def test_a_flag_that_is_missing_is_named(service: Service) -> None:
    told = await explain(service, path="/books/*", method="DELETE", role="user")
    assert told["rules"][0]["outcome"] == "does not match: the request needs mongo.allowBulkDelete"


async def test_rules_for_other_roles_count_with_the_flag_that_the_request_needs(
    service: Service,
) -> None:
    """A rule that would not permit it either is no help."""
    mongo = {"allowBulkDelete": True}
    await allow(service, "path-prefix('/books')", "editor", _id="editor", mongo=mongo)
    await allow(service, "path-prefix('/books')", "reader", _id="reader")

    told = await explain(service, path="/books/*", method="DELETE", role="user")

    assert told["status"] == 403
    others = [one["rule"] for one in told["others"]]
    assert "editor (database)" in others
    assert "reader (database)" not in others


@pytest.mark.parametrize("uri", ["library", "v1/library"])
async def test_rows_filtered_in_rest_and_open_in_graphql_are_pointed_out(
    service: Service, uri: str
) -> None:
    """Decision 40."""
    schema = "type Query { books: [Book] } type Book { _id: String }"
    mappings = {"Query": {"books": service.find("books", {})}}
    await service.define("library", schema, mappings, uri=uri)
    await allow(
        service, "path-prefix('/books')", "user", priority=9, mongo={"readFilter": {"_id": "1"}}
    )
    await allow(service, "path-prefix('/graphql')", "user", _id="open")
    for asked in ({"path": "/books"}, {"path": f"/graphql/{uri}", "method": "POST"}):
        (note,) = (await explain(service, role="user", **asked))["notes"]
        assert f"the rows of {service.db}.books are filtered in REST" in note
        assert f"not in the GraphQL app {uri}, which the rule open (database) opens" in note
    mongo = {"readFilters": {f"{service.db}.books": {"_id": "1"}}}
    await allow(service, "path-prefix('/graphql')", "user", _id="open", mongo=mongo)
    for asked in ({"path": "/books"}, {"path": f"/graphql/{uri}", "method": "POST"}):
        assert (await explain(service, role="user", **asked))["notes"] == []
