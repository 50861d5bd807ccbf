"""The predefined variables (decision 19)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest
import time_machine

from docgraph.codec.decode import decode
from docgraph.config.section import PluginConfig
from docgraph.exchange import Account, Connection, Exchange, Headers, Permission, Request
from docgraph.exchange.errors import RequestError, StartupError
from docgraph.plugins.kinds import VariableResolver
from docgraph.variables import UNBOUND, CallerDocument, Resolvers, TrustedDocument, Variables
from docgraph.variables.paths import parse_reference

pytestmark = pytest.mark.anyio


def make_exchange(
    query: bytes = b"", account: Account | None = None, permission: Permission | None = None
) -> Exchange:
    request = Request(
        "POST",
        b"/graphql/blog",
        query_string=query,
        headers=Headers.of(host="api.example:8080"),
        connection=Connection(client=("10.0.0.1", 4000), server=("10.0.0.2", 8080)),
    )
    return Exchange(request, "id", account=account, permission=permission)


async def resolve(name: str, exchange: Exchange | None = None, *plugins: VariableResolver) -> Any:
    resolvers = Resolvers(decode, plugins)
    variables = await Variables.resolve([name], exchange or make_exchange(), resolvers)
    return variables.lookup(name)


ACCOUNT = Account("bob", ("editor", "reader"), {"_id": "bob", "tags": [{"k": 1}], "none": None})


async def test_an_anonymous_caller_has_no_user_no_roles_and_is_not_authenticated() -> None:
    assert await resolve("@user") is UNBOUND
    assert await resolve("@user._id") is UNBOUND
    assert await resolve("@roles") == []
    assert await resolve("@authenticated") is False


async def test_a_known_caller_is_what_the_account_says() -> None:
    exchange = make_exchange(account=ACCOUNT)

    assert await resolve("@user._id", exchange) == "bob"
    assert await resolve("@user", exchange) == dict(ACCOUNT.properties)
    assert await resolve("@user.tags[0].k", exchange) == 1
    assert await resolve("@user['tags'].0.k", exchange) == 1
    assert await resolve("@user.none", exchange) is None
    assert await resolve("@user.sub", exchange) is UNBOUND
    assert await resolve("@roles", exchange) == ["editor", "reader"]
    assert await resolve("@roles.1", exchange) == "reader"
    assert await resolve("@authenticated", exchange) is True


async def test_now_is_one_instant_for_all_names_of_a_request() -> None:
    names = ["@now", "@request.dateTime", "@request.epochTimeStamp"]
    moment = datetime(2024, 5, 31, 12, 0, 0, 123_456, tzinfo=UTC)
    with time_machine.travel(moment, tick=False):
        variables = await Variables.resolve(names, make_exchange(), Resolvers(decode))

    assert variables.lookup("@now") == datetime(2024, 5, 31, 12, 0, 0, 123_000)
    assert variables.lookup("@now") is variables.lookup("@now")
    assert variables.lookup("@request.dateTime") == "2024-05-31T12:00:00.123+00:00"
    assert variables.lookup("@request.epochTimeStamp") == int(moment.timestamp())


@pytest.mark.parametrize(("bits", "length"), [(1, 2), (8, 2), (9, 4), (64, 16), (4096, 1024)])
async def test_random_texts_are_hexadecimal_and_fresh_at_each_occurrence(
    bits: int, length: int
) -> None:
    name = f"@rnd({bits})"
    variables = await Variables.resolve([name], make_exchange(), Resolvers(decode))

    values = {variables.lookup(name) for _ in range(64)}

    assert all(len(value) == length and int(value, 16) < 2**bits for value in values)
    assert len(values) > 1


@pytest.mark.parametrize("name", ["@rnd", "@rnd()", "@rnd(0)", "@rnd(4097)", "@rnd(-1)", "@rnd(x)"])
async def test_random_bits_are_between_1_and_4096(name: str) -> None:
    with pytest.raises(ValueError, match="1 to 4096"):
        parse_reference(name)


async def test_the_request_is_what_the_server_saw() -> None:
    exchange = make_exchange(b"a=1", ACCOUNT)

    assert await resolve("@request.method", exchange) == "POST"
    assert await resolve("@request.relativePath", exchange) == "/graphql/blog"
    assert await resolve("@request.queryString", exchange) == "a=1"
    assert await resolve("@request.remoteIp", exchange) == "10.0.0.1"
    assert await resolve("@request.localIp", exchange) == "10.0.0.2"
    assert await resolve("@request.localPort", exchange) == 8080
    assert await resolve("@request.localServerName", exchange) == "api.example"
    assert await resolve("@request.protocol", exchange) == "HTTP/1.1"
    assert await resolve("@request.userName", exchange) == "bob"
    assert await resolve("@request.userName") is UNBOUND
    assert await resolve("@request.nothing", exchange) is UNBOUND


async def test_the_body_is_a_callers_document() -> None:
    exchange = make_exchange()
    exchange.request.parser = lambda body, content_type: {"query": "{a}", "variables": {"$x": 1}}

    assert await resolve("@request.body.query", exchange) == "{a}"
    assert isinstance(await resolve("@request.body", exchange), CallerDocument)
    assert isinstance(await resolve("@request.body.variables", exchange), CallerDocument)
    assert await resolve("@request.body.nothing", exchange) is UNBOUND


async def test_a_query_parameter_is_its_first_value() -> None:
    exchange = make_exchange(b"x=1&x=2&a.b=c&e=")

    assert await resolve("@qparams['x']", exchange) == "1"
    assert await resolve('@qparams["a.b"]', exchange) == "c"
    assert await resolve("@qparams['e']", exchange) == ""
    assert await resolve("@qparams['y']", exchange) is UNBOUND
    assert await resolve("@qparams", exchange) is UNBOUND


async def test_the_filter_parameter_is_a_callers_document() -> None:
    filter_ = await resolve("@filter", make_exchange(b'filter={"a":{"$gt":1}}'))

    assert filter_ == {"a": {"$gt": 1}}
    assert isinstance(filter_, CallerDocument)
    assert await resolve("@filter.a", make_exchange(b'filter={"a":{"$gt":1}}')) == {"$gt": 1}


async def test_a_repeated_filter_is_a_conjunction_and_an_absent_one_unbound() -> None:
    exchange = make_exchange(b'filter={"a":1}&filter={"b":2}')

    assert await resolve("@filter", exchange) == {"$and": [{"a": 1}, {"b": 2}]}
    assert await resolve("@filter") is UNBOUND


@pytest.mark.parametrize("text", [b"{", b"[]", b"1", b"", b"{a:"])
async def test_a_malformed_filter_is_a_bad_request(text: bytes) -> None:
    with pytest.raises(RequestError, match="the parameter filter") as error:
        await resolve("@filter", make_exchange(b"filter=" + text))

    assert error.value.status == 400


async def test_permissions_are_those_that_admitted_the_request() -> None:
    permission = Permission("rule", {"owner": "bob"}, properties={"allowBulkPatch": True})
    exchange = make_exchange(permission=permission)

    read_filter = await resolve("@dbPermissions.readFilter", exchange)

    assert read_filter == {"owner": "bob"}
    assert isinstance(read_filter, TrustedDocument)
    assert await resolve("@dbPermissions.allowBulkPatch", exchange) is True
    assert await resolve("@dbPermissions.writeFilter", exchange) is UNBOUND


async def test_without_a_permission_or_filter_it_is_unbound() -> None:
    assert await resolve("@dbPermissions.readFilter") is UNBOUND
    exchange = make_exchange(permission=Permission("rule"))
    assert await resolve("@dbPermissions.readFilter", exchange) is UNBOUND


async def test_a_variable_nobody_knows_is_unbound() -> None:
    assert await resolve("@nobody.x") is UNBOUND


class Tenant(VariableResolver):
    name: ClassVar[str] = "tenantResolver"
    variable: ClassVar[str] = "tenant"

    async def resolve_variable(self, exchange: Exchange, expression: str) -> Any:
        match expression:
            case "@tenant.id":
                return 7
            case "@tenant(x)":
                return "called"
            case "@tenant.fails":
                raise RuntimeError("boom")
            case _:
                return None


async def test_a_plugin_resolves_the_whole_expression() -> None:
    assert await resolve("@tenant.id", None, Tenant(PluginConfig())) == 7
    assert await resolve("@tenant(x)", None, Tenant(PluginConfig())) == "called"
    assert await resolve("@tenant.other", None, Tenant(PluginConfig())) is UNBOUND


async def test_a_plugin_that_fails_leaves_its_variable_unbound() -> None:
    assert await resolve("@tenant.fails", None, Tenant(PluginConfig())) is UNBOUND


async def test_a_plugin_cannot_take_over_a_variable() -> None:
    class Usurper(Tenant):
        name: ClassVar[str] = "usurper"
        variable: ClassVar[str] = "user"

    with pytest.raises(StartupError, match="@user exists already"):
        Resolvers(decode, [Usurper(PluginConfig())])
    with pytest.raises(StartupError, match="@tenant exists already"):
        Resolvers(decode, [Tenant(PluginConfig()), Tenant(PluginConfig())])
    assert "tenant" in Resolvers(decode, [Tenant(PluginConfig())]).variables
