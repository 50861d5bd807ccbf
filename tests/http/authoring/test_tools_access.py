"""`/_tools/realm` and `/_tools/rules`, and why a request is denied: for those who grant access."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from docgraph.observe.events import AccessDenied
from tests.http.access_harness import (
    ADMIN,
    NOBODY,
    allow,
    caller,
    forget_rules,
    guarded,
    write_rules,
)
from tests.http.harness import Mongo, Reply, Service, listening
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

KEEPER = caller("kim", "keeper")
FILE_RULE = {"predicate": "path('/status')", "roles": ["$unauthenticated"], "priority": 5}


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri, file_rules=[FILE_RULE]) as one:
        one.insert("books", {"_id": 1, "title": "A"}, {"_id": 2, "title": "B", "secret": True})
        one.insert("shelves", {"_id": 1})
        yield one


@pytest.fixture
def service(server: Service) -> Service:
    """Nobody but the root role may do anything, but for the rule of the file."""
    forget_rules(server)
    return server


async def read(service: Service, tool: str, who: dict[str, str] = ADMIN) -> Reply:
    return await service.request("GET", f"/_tools/{tool}", headers=who)


async def use(service: Service, tool: str, who: dict[str, str] = ADMIN, **members: Any) -> Reply:
    return await service.request("POST", f"/_tools/{tool}", json=members, headers=who)


async def check(service: Service, **rule: Any) -> Any:
    reply = await use(service, "rules", rule={"roles": ["user"], "predicate": "path('/a')", **rule})
    assert reply.status == 200, reply.text
    return reply.json


async def why(service: Service, roles: list[str], **request: str) -> Any:
    reply = await use(service, "matrix", request={"method": "GET", **request}, roles=roles)
    assert reply.status == 200, reply.text
    return reply.json


# --- where users and rules are ----------------------------------------------------------------


async def test_the_realm_is_for_the_root_role_unless_a_rule_says_more(service: Service) -> None:
    assert (await read(service, "realm", NOBODY)).status == 401
    assert (await read(service, "realm", KEEPER)).status == 403
    told = (await read(service, "realm")).json
    assert told["rootRole"] == "admin"
    assert told["rules"] == {"path": "/acl"}
    assert told["users"] == {
        "path": "/users",
        "propId": "_id",
        "propPassword": "password",
        "jsonPathRoles": "$.roles",
        "propRoles": "roles",
        "minimumPasswordStrength": None,
    }
    await allow(service, "path('/_tools/realm') and method(GET)", "keeper")
    assert (await read(service, "realm", KEEPER)).json == told
    assert (await service.request("POST", "/_tools/realm", json={}, headers=ADMIN)).status == 405


async def test_options_and_hints_name_what_a_tool_takes(service: Service) -> None:
    """What a browser asks before it asks from another origin, and what a mistake is told."""
    taken = {
        "realm": "GET, HEAD, OPTIONS",
        "rules": "GET, POST, HEAD, OPTIONS",
        "matrix": "GET, POST, HEAD, OPTIONS",
        "check": "POST, OPTIONS",
    }
    for tool, methods in taken.items():
        reply = await service.request("OPTIONS", f"/_tools/{tool}")
        assert (tool, reply.headers["Allow"]) == (tool, methods)
        assert reply.headers["Access-Control-Allow-Methods"] == methods
    hints = {"rules?rule=x": "it takes none", "matrix?request=x": "there are: app, role, user"}
    for address, hint in hints.items():
        reply = await read(service, address)
        assert (reply.status, reply.json["hint"]) == (400, hint)


async def test_a_realm_that_the_rest_api_does_not_have_has_no_path(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    settings = {
        "mongo": {"mongo-mounts": [{"what": "/elsewhere/books", "where": "/books"}]},
        "dbRealmAuthenticator": {
            "json-path-roles": "$.grants[*].role",
            "prop-id": "mail",
            "enforce-minimum-password-strength": True,
        },
    }
    async with guarded(mongo_client, mongo_uri, settings) as one:
        told = (await read(one, "realm")).json
    assert told["rules"] == {"path": None}
    users = told["users"]
    assert (users["path"], users["propId"], users["propRoles"]) == (None, "mail", None)
    assert (users["jsonPathRoles"], users["minimumPasswordStrength"]) == ("$.grants[*].role", 3)


# --- rules ------------------------------------------------------------------------------------


async def test_all_rules_are_listed_in_their_order_and_those_that_cannot_work_last(
    service: Service,
) -> None:
    mongo = {"readFilter": {"secret": {"$ne": True}}, "allowBulkPatch": True}
    await write_rules(
        service,
        {"_id": "low", "predicate": "path('/low')", "roles": ["user"], "description": "D"},
        {"_id": 7, "predicate": "path('/high')", "roles": ["user"], "priority": 9, "mongo": mongo},
    )
    broken = {"app": "shop"}
    service.insert("acl", {"_id": broken, "predicate": "path(", "role": "user"})
    try:
        await allow(service, "path('/low')", "user", _id="low", description="D")  # all read again
        rules = (await read(service, "rules")).json["rules"]
    finally:
        service.mongo[service.db]["acl"].delete_one({"_id": broken})
    assert [(one["rule"], one["id"], one["source"]) for one in rules] == [
        ("7 (database)", 7, "database"),
        ("low (database)", "low", "database"),
        ("permissions[0] (file)", None, "file"),  # for everybody: behind those for roles
        ('{"app":"shop"} (database)', broken, "database"),
    ]
    assert (rules[0]["mongo"], rules[0]["priority"], rules[0]["errors"]) == (mongo, 9.0, [])
    assert rules[1]["description"] == "D"
    assert all(one["warnings"] == [] for one in rules)
    assert rules[3]["roles"] == ["user"]
    assert rules[3]["errors"][0]["where"] == "predicate"


async def test_rules_that_only_their_place_decides_between_are_pointed_out(
    service: Service,
) -> None:
    """Decision 38."""
    mongo = {"readFilter": {"secret": {"$ne": True}}}
    await write_rules(
        service,
        {"_id": "a", "predicate": "path-prefix('/books')", "roles": ["user"]},
        {"_id": "b", "predicate": "path('/books')", "roles": ["user"], "mongo": mongo},
    )
    rules = (await read(service, "rules")).json["rules"]
    told = {one["rule"]: one["warnings"] for one in rules if one["warnings"]}
    assert list(told) == ["b (database)"]
    [warning] = told["b (database)"]
    assert warning["where"] == "priority"
    assert "is that of a (database), " in warning["what"]


async def test_the_list_of_rules_is_for_the_root_role_whatever_rules_say(service: Service) -> None:
    await allow(service, "path-prefix('/_tools')", "keeper")
    assert (await read(service, "rules", KEEPER)).status == 403
    assert (await use(service, "rules", KEEPER, rule={"roles": ["a"]})).json["valid"] is False


async def test_an_operator_that_the_database_does_not_know_is_refused(service: Service) -> None:
    filters = {
        "readFilter": '{"age":\n {"$gtt": 1}}',
        "writeFilter": {"$orr": [{"a": 1}]},
        "readFilters": {"shop.orders": {"$expr": {"$multiplyy": [2, 3]}}},
    }
    rule = {"_id": "x", "roles": ["user"], "predicate": "true", "mongo": filters}

    found = await check(service, mongo=filters)
    written = await service.request("PUT", "/acl/x?wm=upsert", json=rule, headers=ADMIN)

    assert found["valid"] is False
    told = [f"Wrong permission: {one['where']} {one['what']}" for one in found["errors"]]
    assert (written.status, sorted(written.json["details"])) == (400, sorted(told))
    hints = {one["where"]: one["hint"] for one in found["errors"]}
    assert hints == {
        "mongo.readFilter.age.$gtt": "did you mean $gt?",
        "mongo.writeFilter.$orr": "did you mean $or?",
        "mongo.readFilters.shop.orders.$expr.$multiplyy": "did you mean $multiply?",
    }
    assert "has no operator $gtt" in written.text
    known = {"readFilter": {"$expr": {"$gt": [{"$rand": {}}, 0]}, "a": {"$not": {"$in": [1]}}}}
    assert (await check(service, mongo=known))["valid"] is True


async def test_a_rule_is_checked_as_when_it_is_written_with_line_and_column(
    service: Service,
) -> None:
    rule = {
        "_id": "x",
        "roles": [],
        "predicate": "path-prefix('/a')\n  and methd(GET)",
        "priority": "high",
        "mongo": {
            "readFilter": '{"age": 1,\n "b": }',
            "writeFilter": '{\n  "$where": "1"}',
            "readFilters": '{"shop.orders": {\n  "total": {"$gt": "@nobody.x"}}}',
            "mergeRequest": '{"a": 1,\n "$set": 2}',
        },
        "readFilter": {},
    }
    written = await service.request("PUT", "/acl/x?wm=upsert", json=rule, headers=ADMIN)
    found = (await use(service, "rules", rule=rule)).json
    assert found["valid"] is False
    told = [f"Wrong permission: {one['where']} {one['what']}" for one in found["errors"]]
    assert (written.status, written.json["details"]) == (400, told)
    places = {one["where"]: (one.get("line"), one.get("column")) for one in found["errors"]}
    assert places["predicate"] == (2, 7)
    assert places["mongo.readFilter"] == (2, 7)
    assert places["mongo.mergeRequest.$set"] == (2, 2)
    assert places["roles"] == (None, None)
    assert places["mongo.readFilters.shop.orders"] == (1, 2)
    assert {"priority", "readFilter", "mongo.writeFilter"} <= places.keys()


async def test_a_rule_that_can_work_comes_back_as_it_is_to_be_stored(service: Service) -> None:
    mongo = {
        "readFilter": "{born: {$lt: ISODate('2000-01-01T00:00:00Z')}, n: NumberLong(5)}",
        "readFilters": f'{{"{service.db}.books": {{"secret": {{"$ne": true}}}}}}',
    }
    found = await check(service, _id="typed", mongo=mongo, priority=2)
    assert found["valid"] is True
    stored = await service.request(
        "PUT", "/acl/typed?wm=upsert", json=found["rule"], headers={**ADMIN, "If-None-Match": "*"}
    )
    assert stored.status == 201, stored.text
    (rule,) = (one for one in (await read(service, "rules")).json["rules"] if one["id"] == "typed")
    assert rule["errors"] == []
    assert rule["mongo"]["readFilter"]["n"] == {"$numberLong": "5"}
    assert rule["mongo"]["readFilters"] == {f"{service.db}.books": {"secret": {"$ne": True}}}


async def test_a_check_without_a_rule_or_with_a_hostile_one_is_answered(service: Service) -> None:
    assert (await use(service, "rules")).json["message"] == "'rule' is missing"
    assert (await use(service, "rules", rule=[])).status == 400
    rules: list[Any] = [{"$oid": 1}, {"mongo": {"$date": "x"}}, {"mongo": "x"}, {"predicate": {}}]
    for hostile in rules:
        reply = await use(service, "rules", rule=hostile)
        assert (reply.status, reply.json["valid"]) == (200, False), hostile
        assert reply.json["errors"]


# --- why ------------------------------------------------------------------------------------------


async def test_the_conditions_that_fail_are_named(service: Service) -> None:
    predicate = (
        "path-template('/books/{id}') and (method(PUT) or not method(GET)) "
        "and equals(@user.team, ${id})"
    )
    await allow(service, predicate, "user")
    told = await why(service, ["user"], path="/books/1")
    rule = told["rules"][0]
    assert (told["allowed"], rule["outcome"]) == (False, "does not match")
    assert rule["failed"] == [
        {"condition": "method(PUT)", "column": 35, "truth": False},
        {"condition": "not method(GET)", "column": 54, "truth": True},
        {"condition": "equals(@user.team, ${id})", "column": 71, "truth": None},
    ]
    assert (await why(service, ["user"], path="/books/1", method="PUT"))["rules"][0][
        "failed"
    ] == rule["failed"][2:]


async def test_what_has_no_arguments_and_what_is_never_true_can_be_to_blame(
    service: Service,
) -> None:
    await allow(service, "not path-prefix[/books] or secure and false", "user")
    failed = (await why(service, ["user"], path="/books"))["rules"][0]["failed"]
    assert [(one["condition"], one["truth"]) for one in failed] == [
        ("not path-prefix[/books]", True),
        ("secure", False),
        ("false", False),
    ]


async def test_rules_that_would_match_for_other_roles_are_named(service: Service) -> None:
    await allow(service, "path-prefix('/books')", "editor", _id="edit")
    await allow(service, "path-prefix('/books') and method(PUT)", "writer")
    told = await why(service, ["user"], path="/books")
    assert [(one["rule"], one["roles"]) for one in told["others"]] == [
        ("edit (database)", ["editor"])
    ]
    assert (await why(service, ["editor"], path="/books"))["others"] == []


async def test_a_rule_of_other_roles_without_the_flag_that_a_request_needs_is_not_named(
    service: Service,
) -> None:
    await allow(service, "path-prefix('/books')", "editor", _id="edit")
    flags = {"allowManagementRequests": True}
    await allow(service, "path-prefix('/books')", "owner", _id="own", mongo=flags)

    told = await why(service, ["user"], path="/books", method="DELETE")

    assert [one["rule"] for one in told["others"]] == ["own (database)"]


async def test_a_body_is_judged_as_the_request_would_be(service: Service) -> None:
    await allow(service, "path-prefix('/shelves') and bson-request-whitelist(title)", "user")
    for body, is_allowed in (('{"title": "x"}', True), ('{"title": "x", "price": 1}', False)):
        told = await why(service, ["user"], method="POST", path="/shelves", body=body)
        assert told["allowed"] is is_allowed
        headers = {**caller("somebody", "user"), "Content-Type": "application/json"}
        done = await service.request("POST", "/shelves", content=body, headers=headers)
        assert (done.status < 400) is is_allowed, done.text
    assert told["rules"][0]["failed"][0]["condition"] == "bson-request-whitelist(title)"


# --- looking as somebody else -----------------------------------------------------------------


async def test_the_root_role_sees_a_stored_app_as_others_see_it(service: Service) -> None:
    schema = (
        "type Query { books: [Book] } "
        'type Book { title: String secret: Boolean @visible(roles: ["admin"]) }'
    )
    mappings = {"Query": {"books": service.find("books", {}, sort={"_id": 1})}}
    await service.define("library", schema, mappings)
    filters = {"readFilters": {f"{service.db}.books": {"secret": {"$ne": True}}}}
    await allow(service, "path-prefix('/graphql/library')", "reader", mongo=filters)

    async def ask(query: str, who: dict[str, str] = ADMIN, **others: Any) -> Reply:
        return await use(service, "draft", who, app="library", query=query, **others)

    own = await ask("{ books { title secret } }")
    assert [one["title"] for one in own.data["books"]] == ["A", "B"]
    theirs = await ask("{ books { title } }", roles=["reader"])
    assert [one["title"] for one in theirs.data["books"]] == ["A"]
    assert (await ask("{ books { secret } }", roles=["reader"])).status == 400
    fields = '{ __type(name: "Book") { fields { name } } }'
    seen = (await ask(fields, roles=["reader"])).data["__type"]["fields"]
    assert [one["name"] for one in seen] == ["title"]
    with listening(AccessDenied) as denied:
        refused = await ask("{ books { title } }", roles=["stranger"])
    assert (refused.status, "would answer 403" in refused.json["message"]) == (403, True)
    assert denied == []  # a question of an administrator is no attempt of the stranger

    await allow(service, "path-prefix('/_tools')", "reader", "other")
    with listening(AccessDenied) as denied:
        assert (await ask("{ books { title } }", caller("otto", "other"))).status == 404
    assert [one.reason for one in denied] == ["no rule matches"]
    reader = caller("rita", "reader")
    assert (await ask("{ books { title } }", reader, roles=["admin"])).status == 403
    assert [one["title"] for one in (await ask("{ books { title } }", reader)).data["books"]] == [
        "A"
    ]
