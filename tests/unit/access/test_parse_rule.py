"""Permission documents: what is understood, what is wrong and where."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from docgraph.access.language import RequestView
from docgraph.access.parse_rule import (
    describe_flaw,
    describe_flaws,
    find_unknown,
    read_rule,
    warn_of_unknown,
)
from docgraph.access.rule import Rule, RuleOrigin, Unresolved, find_flag, resolve_conditions
from docgraph.codec.bson_types import ObjectId
from docgraph.exchange import Account, DataRequest, Permission, Resource, ResourceType
from tests.unit.access.harness import ADA, KNOWLEDGE, RESOLVERS, make_exchange

pytestmark = pytest.mark.anyio

GOOD: dict[str, Any] = {"predicate": "path('/a')", "roles": ["user"]}
BOOKS = Resource(ResourceType.COLLECTION, "db", "books")


def read(source: RuleOrigin = RuleOrigin.DATABASE, position: int = 0, **changes: Any) -> Rule:
    rule = read_rule(GOOD | changes, source, KNOWLEDGE, position=position)
    assert isinstance(rule, Rule), rule
    return rule


def flaws(**changes: Any) -> list[str]:
    found = read_rule(GOOD | changes, RuleOrigin.DATABASE, KNOWLEDGE)
    assert isinstance(found, list)
    return [describe_flaw(flaw) for flaw in found]


async def resolve(mongo: Any, *how: Any, resource: Any = BOOKS, **request: Any) -> Permission:
    exchange = make_exchange(*how, **request)
    exchange.parsed = None if resource is None else DataRequest(None, resource)
    view = RequestView(exchange, RESOLVERS)
    return await resolve_conditions(read(mongo=mongo).conditions, "r", view)


def test_role_may_stand_for_roles() -> None:
    rule = read_rule({"predicate": "true", "role": "user"}, RuleOrigin.FILE, KNOWLEDGE)
    assert isinstance(rule, Rule)
    assert rule.roles == {"user"}


def test_a_rule_is_named_by_its_id_as_people_write_it() -> None:
    assert str(read(_id={"app": "shop", "n": 1})) == '{"app":"shop","n":1} (database)'


@pytest.mark.parametrize("extra", [{"_etag": 1}, {"description": "x"}, {"mongo": None}])
def test_what_has_no_meaning_for_rules_is_left_alone(extra: Any) -> None:
    read(**extra)


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        ({"role": "x"}, ["Wrong permission: role cannot be used together with roles"]),
        ({"roles": "user"}, ["Wrong permission: roles must be a list of roles that is not empty"]),
        ({"roles": [1]}, ["Wrong permission: roles must hold texts only"]),
        ({"priority": "high"}, ["Wrong permission: priority must be a number"]),
        ({"priority": True}, ["Wrong permission: priority must be a number"]),
        ({"priority": float("nan")}, ["Wrong permission: priority must be a number"]),
        ({"prioritty": 1}, ["Wrong permission: prioritty is not a key of a permission"]),
        ({"mongo": []}, ["Wrong permission: mongo must be an object or null"]),
        (
            {"mongo": {"allowManagementRequests": "yes", "readFilter": 5}},
            [
                "Wrong permission: mongo.readFilter must be an object",
                "Wrong permission: mongo.allowManagementRequests must be a boolean",
            ],
        ),
        (
            {"mongo": {"readFilters": {"books": {}}}},
            [
                "Wrong permission: mongo.readFilters.books is not '<db>.<collection>': "
                "invalid collection name"
            ],
        ),
        (
            {"mongo": {"mergeRequest": {"$set": {}}}},
            ["Wrong permission: mongo.mergeRequest.$set must be a property or a path of one"],
        ),
        *(
            (
                {"mongo": {"projectResponse": {path: 0}}},
                [
                    f"Wrong permission: mongo.projectResponse.{path} must be a property "
                    "or a path of one"
                ],
            )
            for path in ("$x", "a..b", ".a", "")
        ),
        (
            {"mongo": {"projectResponse": {"a": 2}}},
            ["Wrong permission: mongo.projectResponse.a must be 0 or 1"],
        ),
    ],
)
def test_every_mistake_is_told_with_its_place(changes: Any, messages: list[str]) -> None:
    assert flaws(**changes) == messages


@pytest.mark.parametrize(
    "filter",
    [
        {"a": "@usr._id"},
        {"a": {"$var": "argument"}},
        {"$where": "1"},
        {"a": {"$function": {}}},
        {"a": "@dbPermissions.readFilter"},
        [],
        '"text"',
    ],
)
@pytest.mark.parametrize("key", ["readFilter", "writeFilter"])
def test_filters_that_cannot_work_are_refused(key: str, filter: Any) -> None:
    assert flaws(mongo={key: filter})[0].startswith(f"Wrong permission: mongo.{key} ")


def test_a_filter_that_is_written_as_text_is_not_longer_than_the_bound() -> None:
    text = '{"a": "%s"}' % ("x" * (64 * 1024))
    assert flaws(mongo={"readFilter": text}) == [
        "Wrong permission: mongo.readFilter has more than 65536 characters"
    ]


def test_an_operator_that_is_not_known_is_named_with_its_place() -> None:
    unknown = read(mongo={"readFilter": {"n": {"$gtt": 1}}})

    (mistake,), (warning,) = find_unknown(unknown), warn_of_unknown(unknown)

    assert mistake.where == warning.where == "mongo.readFilter.n.$gtt"
    assert mistake.what == "is not known: MongoDB has no operator $gtt"
    assert warning.what == "docgraph does not know the operator $gtt"
    assert mistake.hint == warning.hint == "did you mean $gt?"
    assert find_unknown(read()) == warn_of_unknown(read()) == []


def test_a_missing_predicate_is_no_permission_for_everything() -> None:
    for predicate in (None, "", "  ", 5, True):
        assert "predicate must be a text" in flaws(predicate=predicate)[0]


def test_rules_are_ordered_by_number_then_source_and_the_last_one_wins() -> None:
    """Decision 38: of equal numbers the highest `_id`, in a file the last that is listed."""
    rules = {
        "five": read(priority=5),
        "ten": read(priority=10.5),
        "file 2": read(RuleOrigin.FILE, position=2, priority=5, _id="z"),
        "file 10": read(RuleOrigin.FILE, position=10, priority=5, _id="a"),
        "none": read(),
        "negative": read(priority=-1),
        "text a": read(priority=3, _id="a"),
        "text b": read(priority=3, _id="b"),
        "number": read(priority=3, _id=7),
        "larger number": read(priority=3, _id=7.5),
        "oid": read(priority=3, _id=ObjectId("0" * 24)),
        "later oid": read(priority=3, _id=ObjectId()),
        "date": read(priority=3, _id=datetime(2026, 1, 1, tzinfo=UTC)),
        "object": read(priority=3, _id={"a": 1}),
        "true": read(priority=3, _id=True),
    }
    ordered = sorted(rules, key=lambda name: rules[name].rank, reverse=True)
    assert ordered == [
        "ten", "five", "file 10", "file 2", "date", "true", "later oid", "oid", "object", "text b",
        "text a", "larger number", "number", "negative", "none",
    ]  # fmt: skip


NEAREST = {
    "predicat": "did you mean predicate?",
    "read-filter": "did you mean mongo.readFilter?",
    "READFILTER": "did you mean mongo.readFilter?",
    "mongo.readFiltre": "did you mean mongo.readFilter?",
    "mongo.read_filters": "did you mean mongo.readFilters?",
    "mongo.allowBulkpatch": "did you mean mongo.allowBulkPatch?",
    "mongo.priorty": "did you mean priority?",
    "zzz": "known are predicate, roles, role, priority, mongo, description",
}


@pytest.mark.parametrize("key", NEAREST)
def test_an_unknown_key_disables_a_rule_and_the_nearest_one_is_named(key: str) -> None:
    block, _, name = key.rpartition(".")
    document = GOOD | ({"mongo": {name: 1}} if block else {name: 1})

    read = read_rule(document, RuleOrigin.DATABASE, KNOWLEDGE)

    assert isinstance(read, list)
    [flaw] = read
    assert (flaw.where, flaw.hint) == (key, NEAREST[key])
    assert describe_flaws([flaw, flaw]).endswith(f" ({NEAREST[key]}), and 1 more")


# --- conditions -----------------------------------------------------------------------------------


async def test_variables_are_replaced_where_the_whole_text_is_one() -> None:
    oid = ObjectId()
    account = Account("ada", ("a",), {"_id": oid, "tags": ["x"], "n": 5})
    filter = {
        "owner": "@user._id",
        "n": {"$gte": "@user.n"},
        "tag": {"$in": "@user.tags"},
        "note": "by @user._id",
        "at": "@@home",
        "$or": [{"role": {"$in": "@roles"}}, {"open": True}],
    }
    permission = await resolve({"readFilter": filter}, account=account)
    assert permission.read_filters == {
        "db.books": {
            "owner": oid,
            "n": {"$gte": 5},
            "tag": {"$in": ["x"]},
            "note": "by @user._id",
            "at": "@home",
            "$or": [{"role": {"$in": ["a"]}}, {"open": True}],
        }
    }


async def test_a_property_of_the_user_is_compared_and_never_run() -> None:
    account = Account("eve", (), {"x": {"$ne": None}})
    permission = await resolve({"readFilter": {"x": "@user.x"}}, account=account)
    assert permission.read_filters["db.books"] == {"x": {"$eq": {"$ne": None}}}


@pytest.mark.parametrize("filter", [{"a": "@user.none"}, {"a": {"$ne": "@user.gone"}}])
async def test_what_has_no_value_denies(filter: Any) -> None:
    for mongo in ({"readFilter": filter}, {"readFilters": {"db.x": filter}}):
        with pytest.raises(Unresolved, match=r"which (has no value|this user does not have)"):
            await resolve(mongo)
    for key in ("writeFilter", "mergeRequest"):
        with pytest.raises(Unresolved, match=rf"\b{key}\b"):
            await resolve({key: filter}, "PATCH")
        await resolve({key: filter}, "GET")


async def test_who_writes_reads_nothing_back_where_the_read_filter_has_no_value() -> None:
    permission = await resolve({"readFilter": {"a": "@user.none"}}, "PATCH")
    assert permission.read_filters == {"db.books": {"_id": {"$in": []}}}


async def test_both_kinds_of_read_filter_apply_to_one_collection() -> None:
    mongo = {"readFilter": {"a": 1}, "readFilters": {"db.books": {"b": 2}, "db.x": {"c": 3}}}
    permission = await resolve(mongo)
    both = {"$and": [{"b": 2}, {"a": 1}]}
    assert permission.read_filters == {"db.books": both, "db.x": {"c": 3}}


async def test_graphql_gets_the_named_filters_and_the_plain_one_as_a_variable() -> None:
    """Decision 40."""
    mongo = {"readFilter": {"a": 1}, "readFilters": {"db.x": {"c": 3}}}
    permission = await resolve(mongo, "POST", "/graphql/a", resource=None, service="graphql")
    assert permission.read_filters == {"db.x": {"c": 3}}
    assert permission.read_filter == {"a": 1}


async def test_filters_may_be_json_text_with_types() -> None:
    text = '{"a": {"_$eq": {"$oid": "666666666666666666666666"}}, "b::c": 1}'
    permission = await resolve({"readFilter": text})
    assert permission.read_filter == {"a": {"$eq": ObjectId("6" * 24)}, "b.c": 1}


async def test_the_block_is_there_for_variables() -> None:
    mongo = {"allowBulkPatch": True, "projectResponse": {"a": 0}, "writeFilter": {"o": "@user._id"}}
    permission = await resolve(mongo, "PATCH")
    assert permission.properties == {
        "allowManagementRequests": False,
        "allowBulkPatch": True,
        "allowBulkDelete": False,
        "allowWriteMode": False,
        "writeFilter": {"o": "ada"},
        "projectResponse": {"a": 0},
    }


async def test_the_resource_is_there_for_filters() -> None:
    permission = await resolve({"readFilter": {"c": "@request.collection", "d": "@request.db"}})
    assert permission.read_filter == {"c": "books", "d": "db"}


@pytest.mark.parametrize(
    ("type", "method", "query", "flag"),
    [
        (ResourceType.DATABASE, "GET", "", None),
        (ResourceType.DATABASE, "PUT", "", "allowManagementRequests"),
        (ResourceType.COLLECTION, "GET", "", None),
        (ResourceType.COLLECTION, "HEAD", "", None),
        (ResourceType.COLLECTION, "POST", "", None),
        (ResourceType.COLLECTION, "PATCH", "", "allowManagementRequests"),
        (ResourceType.INDEXES, "GET", "", "allowManagementRequests"),
        (ResourceType.METADATA, "GET", "", "allowManagementRequests"),
        (ResourceType.SCHEMA, "PUT", "", "allowManagementRequests"),
        (ResourceType.DOCUMENT, "DELETE", "", None),
        (ResourceType.DOCUMENT, "PUT", "wm=insert", "allowWriteMode"),
        (ResourceType.DOCUMENT, "GET", "wm=insert", None),
        (ResourceType.COLLECTION, "POST", "writeMode=upsert", "allowWriteMode"),
        (ResourceType.BULK, "PATCH", "", "allowBulkPatch"),
        (ResourceType.BULK, "DELETE", "", "allowBulkDelete"),
        (ResourceType.AGGREGATION, "GET", "", None),
        (ResourceType.SIZE, "GET", "", None),
        (ResourceType.DATABASE, "OPTIONS", "", None),
        (ResourceType.INDEXES, "OPTIONS", "", None),
        (ResourceType.DOCUMENT, "OPTIONS", "wm=insert", None),
    ],
)
def test_which_flag_a_request_needs(
    type: ResourceType, method: str, query: str, flag: str | None
) -> None:
    exchange = make_exchange(method, f"/x?{query}", account=ADA)
    exchange.parsed = DataRequest(None, Resource(type, "db", "c"))
    assert find_flag(RequestView(exchange, RESOLVERS)) == flag
