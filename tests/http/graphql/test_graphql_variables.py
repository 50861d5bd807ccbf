"""Predefined variables in mappings, and what a caller can and cannot put into them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.http.harness import Document, Mongo, Service, identity, names_of, running
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

PLUGIN = """
from typing import ClassVar
from docgraph import Exchange, VariableResolver

class Tenant(VariableResolver):
    name: ClassVar[str] = "tenantVariable"
    variable: ClassVar[str] = "tenant"

    async def resolve_variable(self, exchange: Exchange, expression: str) -> object:
        value = exchange.request.headers.get("x-tenant")
        if value == "boom":
            raise RuntimeError("boom")
        return {"@tenant": value, "@tenant.upper": value and value.upper()}[expression]
"""
ROWS: list[Document] = [
    {"_id": 1, "owner": "ada", "roles": ["reader"], "n": 1},
    {"_id": 2, "owner": "bob", "roles": ["editor"], "n": 2},
    {"_id": 3, "owner": None, "n": 3},
    {"_id": 4, "n": 4},
]
FIELDS: dict[str, tuple[str, Any]] = {
    # field: arguments, find
    "mine": ("", {"owner": {"$arg": "@user.userid"}}),
    "mineOrNone": ("", {"owner": {"$arg": ["@user.userid", None]}}),
    "mineAnyKind": (
        "",
        {"$or": [{"owner": {"$arg": [f"@user.{key}", None]}} for key in ("_id", "userid", "sub")]},
    ),
    "mineIn": ("", {"owner": {"$in": [{"$arg": ["@user._id", None]}, "bob"]}}),
    "byRole": ("", {"roles": {"$in": {"$arg": "@roles"}}}),
    "ifKnown": ("", {"known": {"$arg": "@authenticated"}}),
    "filtered": ("", {"$arg": "@filter"}),
    "filteredOrAll": ("", {"$arg": ["@filter", {}]}),
    "byParameter": ("", {"owner": {"$arg": "@qparams['who']"}}),
    "byParameterOrAda": ("", {"owner": {"$arg": ["@qparams['who']", "ada"]}}),
    "byMethod": ("", {"owner": {"$arg": "@request.method"}}),
    "byBody": ("", {"owner": {"$arg": "@request.body.operationName"}}),
    "byBodyVariable": ("", {"$arg": "@request.body.variables.where"}),
    "byPermission": ("", {"$arg": "@dbPermissions.readFilter"}),
    "byUnknown": ("", {"owner": {"$arg": "@nothing.at.all"}}),
    "byTenant": ("", {"owner": {"$arg": "@tenant"}}),
    "byTenantUpper": ("", {"owner": {"$arg": "@tenant.upper"}}),
    "byPlainUser": ("(user: String, roles: [String])", {"owner": {"$arg": "@user.userid"}}),
}
SCHEMA = (
    "type Query { "
    + " ".join(f"{name}{arguments}: [Row]" for name, (arguments, _) in FIELDS.items())
    + " some: [Row] whole: [BsonDocument] moments: [Moment] } type Row { id: Int owner: String } "
    "type Moment { now: DateTime again: DateTime short: String long: String other: String }"
)


def settings(directory: Path, *others: Document) -> list[Document]:
    (directory / "tenant.py").write_text(PLUGIN)
    return [{"core": {"plugins-directory": str(directory)}}, *others]


async def prepare_app(service: Service) -> None:
    service.insert("rows", *ROWS)
    queries = {
        name: service.find("rows", find, sort={"_id": 1}) for name, (_, find) in FIELDS.items()
    }
    values = {
        "now": {"$arg": "@now"},
        "again": {"$arg": "@now"},
        "short": {"$arg": "@rnd(4)"},
        "long": {"$arg": "@rnd(128)"},
        "other": {"$arg": "@rnd(128)"},
    }
    queries["some"] = service.find(
        "rows",
        {},
        sort={"_id": {"$arg": ["@qparams['dir']", 1]}},
        skip={"$arg": ["@qparams['skip']", 0]},
        limit={"$arg": "@qparams['n']"},
    )
    queries["whole"] = service.stages(
        "rows", {"$limit": 1}, {"$project": {"request": {"$arg": "@request"}}}
    )
    queries["moments"] = service.stages("rows", {"$limit": 1}, {"$project": values})
    result = await service.define("vars", SCHEMA, {"Query": queries, "Row": {"id": "_id"}})
    unused = [
        f"mappings.Query.byPlainUser: does not use the argument {n}" for n in ("user", "roles")
    ]
    assert [text for text in result.warnings if "nothing" not in text] == unused


@module_application
async def anonymous(
    mongo_client: Mongo, mongo_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Service]:
    plugins = settings(tmp_path_factory.mktemp("plugins"))
    async with running(mongo_client, mongo_uri, *plugins) as service:
        await prepare_app(service)
        yield service


@module_application
async def ada(
    mongo_client: Mongo, mongo_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Service]:
    plugins = settings(tmp_path_factory.mktemp("plugins"), identity("reader", "other"))
    async with running(mongo_client, mongo_uri, *plugins) as service:
        await prepare_app(service)
        yield service


async def ids(service: Service, field: str, **options: Any) -> list[int]:
    reply = await service.query("vars", f"{{ {field} {{ id }} }}", **options)
    return names_of(reply.data[field], "id")


async def unbound(service: Service, field: str, **options: Any) -> str:
    """The message of a field that failed, in an answer that is otherwise fine."""
    reply = await service.query("vars", f"{{ __typename {field} {{ id }} }}", **options)
    assert (reply.status, reply.json["data"]) == (200, {"__typename": "Query", field: None})
    assert reply.code == "variable-not-bound"
    message: str = reply.error["message"]
    return message


# --- who is calling -------------------------------------------------------------------------------


async def test_user_is_the_account_of_the_caller(ada: Service) -> None:
    """Decision 19: identity accounts have `@user.userid`."""
    assert await ids(ada, "mine") == [1]


async def test_user_is_unbound_for_an_anonymous_caller(anonymous: Service) -> None:
    """Decisions 9 and 19."""
    assert await unbound(anonymous, "mine") == "variable not bound: @user.userid"


async def test_a_null_default_matches_nothing_where_a_field_is_null_or_missing(
    anonymous: Service, ada: Service
) -> None:
    """Decision 9."""
    assert await ids(anonymous, "mineOrNone") == []
    assert await ids(anonymous, "mineAnyKind") == []
    assert await ids(anonymous, "mineIn") == [2]
    assert await ids(ada, "mineOrNone") == [1]
    assert await ids(ada, "mineAnyKind") == [1]


async def test_roles_are_empty_for_an_anonymous_caller(anonymous: Service, ada: Service) -> None:
    """Decision 19."""
    assert await ids(anonymous, "byRole") == []
    assert await ids(ada, "byRole") == [1]


async def test_authenticated_says_whether_the_caller_is_known(
    anonymous: Service, ada: Service
) -> None:
    """Decision 19."""
    anonymous.insert("rows", {"_id": 90, "known": False}, {"_id": 91, "known": True})
    ada.insert("rows", {"_id": 90, "known": False}, {"_id": 91, "known": True})
    try:
        assert await ids(anonymous, "ifKnown") == [90]
        assert await ids(ada, "ifKnown") == [91]
    finally:
        for service in (anonymous, ada):
            service.mongo[service.db].rows.delete_many({"_id": {"$gte": 90}})


# --- the request ----------------------------------------------------------------------------------


def filters(*values: Any) -> str:
    return "?" + "&".join(f"filter={quote(json.dumps(value))}" for value in values)


async def test_filter_is_the_parameter_of_the_request(anonymous: Service) -> None:
    """Decision 19."""
    assert await ids(anonymous, "filtered", parameters=filters({"n": {"$gt": 2}})) == [3, 4]
    assert await ids(anonymous, "filteredOrAll", parameters=filters({"owner": "bob"})) == [2]


async def test_a_repeated_filter_is_and(anonymous: Service) -> None:
    """Decision 19."""
    both = filters({"n": {"$gt": 1}}, {"n": {"$lt": 4}})

    assert await ids(anonymous, "filtered", parameters=both) == [2, 3]


async def test_an_absent_filter_is_unbound(anonymous: Service) -> None:
    """Decision 19."""
    assert await unbound(anonymous, "filtered") == "variable not bound: @filter"
    assert await ids(anonymous, "filteredOrAll") == [1, 2, 3, 4]


@pytest.mark.parametrize("text", ["{", "nonsense", "[]", "5", "", '"x"', '{"a":'])
async def test_a_malformed_filter_is_400(anonymous: Service, text: str) -> None:
    """Decision 19."""
    reply = await anonymous.query(
        "vars", "{ filtered { id } }", parameters=f"?filter={quote(text)}"
    )

    assert (reply.status, reply.json["data"]) == (400, None)
    assert "the parameter filter" in reply.error["message"]


@pytest.mark.parametrize(
    "filter_",
    [
        {"$where": "true"},
        {"$and": [{"$or": [{"$where": "true"}]}]},
        {"$expr": {"$function": {"body": "f", "args": [], "lang": "js"}}},
        {"$expr": {"$eq": [1, 1]}},
        {"n": {"$not": {"$where": "1"}}},
        {"$text": 5, "$where": "1"},
    ],
)
async def test_code_in_a_filter_is_refused(anonymous: Service, filter_: Any) -> None:
    """Decision 20a, drill N03."""
    for field, options in (
        ("filtered", {"parameters": filters(filter_)}),
        ("byBodyVariable", {"variables": {"where": filter_}}),
    ):
        reply = await anonymous.query("vars", f"{{ {field} {{ id }} }}", **options)
        assert reply.json["data"] in (None, {field: None})
        assert reply.code in ("security-violation", "bad-request", "invalid-query"), reply.text


async def test_qparams_is_one_parameter_by_name(anonymous: Service) -> None:
    """Decision 19."""
    assert await ids(anonymous, "byParameter", parameters="?who=bob") == [2]
    assert await ids(anonymous, "byParameter", parameters="?who=bob&who=ada") == [2]
    assert await ids(anonymous, "byParameter", parameters="?who=") == []
    assert await ids(anonymous, "byParameterOrAda") == [1]
    assert "variable not bound" in await unbound(anonymous, "byParameter", parameters="?WHO=bob")


async def test_a_parameter_is_a_text_and_never_an_operator(anonymous: Service) -> None:
    """Decision 20a, drill N03."""
    for text in ('{"$ne": null}', '{"$gt": ""}', "$where"):
        assert await ids(anonymous, "byParameter", parameters=f"?who={quote(text)}") == []


async def test_request_shows_method_and_body(anonymous: Service) -> None:
    """Decision 19."""
    anonymous.insert("rows", {"_id": 95, "owner": "POST"}, {"_id": 96, "owner": "Named"})
    try:
        assert await ids(anonymous, "byMethod") == [95]
        reply = await anonymous.query("vars", "query Named { byBody { id } }", operation="Named")
        assert reply.data == {"byBody": [{"id": 96}]}
        assert await ids(anonymous, "byBodyVariable", variables={"where": {"n": 2}}) == [2]
        assert "variable not bound" in await unbound(anonymous, "byBody")
    finally:
        anonymous.mongo[anonymous.db].rows.delete_many({"_id": {"$gte": 90}})


async def test_request_as_a_whole_has_a_body(anonymous: Service) -> None:
    """Decision 19."""
    reply = await anonymous.query("vars", "query Named { whole }", operation="Named")

    request = reply.data["whole"][0]["request"]
    assert request["method"] == "POST"
    assert request["body"] == {"query": "query Named { whole }", "operationName": "Named"}


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [("?n=2", [0, 1]), ("?n=1&skip=2", [2]), ("?n=2&dir=-1", [-1, -2])],
)
async def test_whole_numbers_in_parameters_are_taken_where_a_number_must_stand(
    anonymous: Service, parameters: str, expected: list[int]
) -> None:
    every = [row["_id"] for row in ROWS]
    assert await ids(anonymous, "some", parameters=parameters) == [
        sorted(every)[index] for index in expected
    ]


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("x", "limit must be a whole number"),
        ("1.5", "limit must be a whole number"),
        ("-1", "limit cannot be negative"),
        ("99999", "limit cannot be greater than 1000"),
    ],
)
async def test_other_texts_are_no_limits(anonymous: Service, number: str, message: str) -> None:
    reply = await anonymous.query("vars", "{ some { id } }", parameters=f"?n={number}")

    assert reply.json["errors"][0]["message"] == message


async def test_permissions_and_unknown_variables_are_unbound(anonymous: Service) -> None:
    """Decision 19."""
    message = await unbound(anonymous, "byPermission")
    assert message == "variable not bound: @dbPermissions.readFilter"
    assert await unbound(anonymous, "byUnknown") == "variable not bound: @nothing.at.all"


# --- time and chance ------------------------------------------------------------------------------


async def test_now_is_one_instant_per_request(anonymous: Service) -> None:
    """Decision 19."""
    query = "{ a: moments { now again } b: moments { now } }"

    data = (await anonymous.query("vars", query)).data

    (first,), (second,) = data["a"], data["b"]
    assert first["now"] == first["again"] == second["now"]
    moment = datetime.fromtimestamp(first["now"]["$date"] / 1000, UTC)
    assert abs(datetime.now(UTC) - moment) < timedelta(seconds=10)


async def test_rnd_is_hex_of_so_many_bits_and_never_the_same(anonymous: Service) -> None:
    """Decision 19."""
    (moment,) = (await anonymous.query("vars", "{ moments { short long other } }")).data["moments"]

    assert re.fullmatch("0[0-9a-f]", moment["short"])
    assert re.fullmatch("[0-9a-f]{32}", moment["long"])
    assert moment["long"] != moment["other"]


# --- plugins --------------------------------------------------------------------------------------


async def test_a_variable_of_a_plugin_works_in_mappings(anonymous: Service) -> None:
    """`service.md`: variables registered through the variable-resolver extension point."""
    assert await ids(anonymous, "byTenant", headers={"x-tenant": "bob"}) == [2]
    assert await ids(anonymous, "byTenantUpper", headers={"x-tenant": "bob"}) == []


async def test_a_variable_that_a_plugin_does_not_resolve_is_unbound(anonymous: Service) -> None:
    """Decision 19."""
    assert "not bound: @tenant" in await unbound(anonymous, "byTenant")
    assert "not bound: @tenant" in await unbound(
        anonymous, "byTenant", headers={"x-tenant": "boom"}
    )


# --- spoofing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "variables",
    [
        {"@user": {"userid": "ada"}},
        {"@user.userid": "ada"},
        {"user": {"userid": "ada"}, "roles": ["reader"]},
        {"@roles": ["reader"], "@authenticated": True},
        {"rootDoc": {"owner": "ada"}},
    ],
)
async def test_variables_of_the_request_never_become_predefined_ones(
    anonymous: Service, variables: Document
) -> None:
    """Decision 19, drill N07."""
    assert "not bound" in await unbound(anonymous, "mine", variables=variables)
    assert await ids(anonymous, "byRole", variables=variables) == []


@pytest.mark.parametrize(
    "parameters",
    [
        "?@user=ada",
        "?@user.userid=ada",
        "?user=ada",
        "?@roles=reader",
        "?roles=reader",
        "?userid=ada",
    ],
)
async def test_parameters_never_become_predefined_variables(
    anonymous: Service, parameters: str
) -> None:
    """Decision 19, drill N07."""
    assert "not bound" in await unbound(anonymous, "mine", parameters=parameters)
    assert await ids(anonymous, "byRole", parameters=parameters) == []


async def test_arguments_never_become_predefined_variables(anonymous: Service) -> None:
    """Decision 19, drill N07."""
    reply = await anonymous.query("vars", '{ byPlainUser(user: "ada", roles: ["reader"]) { id } }')
    assert reply.error["message"] == "variable not bound: @user.userid"

    reply = await anonymous.query("vars", '{ mine(x: "ada") { id } }')
    assert reply.status == 400


async def test_body_keys_and_headers_never_become_predefined_variables(
    anonymous: Service,
) -> None:
    """Decision 19, drill N07."""
    body = {"query": "{ mine { id } }", "@user": {"userid": "ada"}, "user": {"userid": "ada"}}
    headers = {"user": "ada", "x-user": "ada", "x-forwarded-user": "ada"}

    reply = await anonymous.request("POST", "/graphql/vars", json=body, headers=headers)

    assert reply.error["message"] == "variable not bound: @user.userid"
