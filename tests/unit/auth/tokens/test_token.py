"""Which answers carry a token, and what a token manager that fails does to them: nothing."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from docgraph.auth.tokens.sections import AuthTokenService
from docgraph.auth.tokens.token import (
    AuthToken,
    LastToken,
    TokenAccount,
    TokenHeaders,
    find_end,
    give_token,
    record_cookie,
    wants_cookie,
    withdraw_token,
)
from docgraph.config.section import PluginConfig
from docgraph.exchange import Account, Exchange, Request
from docgraph.exchange.errors import StoreUnavailable
from docgraph.observe.events import InterceptorFailed
from docgraph.plugins.kinds import TokenManager
from docgraph.plugins.registry import PluginRegistry
from tests.http.harness import listening

pytestmark = pytest.mark.anyio

ADA = Account("ada", ("user",))
RENEW, SET = b"renew-auth-token", b"set-auth-cookie"


class Manager(TokenManager):
    """Gives a token, or raises."""

    name: ClassVar[str] = "manager"
    renewable: ClassVar[bool] = True

    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome
        self.renewals: list[bool] = []

    async def issue(self, account: Account, *, renew: bool = False) -> tuple[str, float]:
        self.renewals.append(renew)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        token: tuple[str, float] = self.outcome
        return token

    async def verify(self, user: str, token: str) -> Account | None:
        raise NotImplementedError

    async def revoke(self, account: Account) -> None:
        raise NotImplementedError


def make_exchange(query: bytes = b"", account: Account | None = ADA) -> Exchange:
    return Exchange(Request("GET", b"/", query_string=query), "1", account=account)


async def handle(manager: Manager | None, exchange: Exchange) -> dict[str, str]:
    """The headers of the answer."""
    headers = TokenHeaders(PluginConfig(), PluginRegistry(), AuthTokenService())
    headers._manager, headers._uri = manager, "/tokens"
    assert await headers.handle(exchange) is None
    return {name.lower(): value for name, value in exchange.headers}


async def test_a_known_caller_gets_the_token_its_place_and_its_end() -> None:
    manager = Manager(("secret", 1_800_000_000.0))
    found = await handle(manager, make_exchange())

    assert found["auth-token"] == "secret"
    assert found["auth-token-location"] == "/tokens/ada"
    assert found["auth-token-valid-until"] == "2027-01-15T08:00:00Z"
    assert manager.renewals == [False]


@pytest.mark.parametrize(
    ("query", "renewed"), [(RENEW, True), (b"x=" + RENEW, False), (b"", False)]
)
async def test_a_token_is_renewed_on_request_only(query: bytes, renewed: bool) -> None:
    manager = Manager(("secret", 1.0))
    await handle(manager, make_exchange(query))

    assert manager.renewals == [renewed]


@pytest.mark.parametrize("account", [None, ADA])
async def test_without_a_caller_or_a_manager_there_is_no_token(account: Account | None) -> None:
    manager = None if account else Manager(("secret", 1.0))

    assert await handle(manager, make_exchange(account=account)) == {}


async def test_a_manager_that_fails_costs_the_token_and_not_the_answer() -> None:
    with listening(InterceptorFailed) as heard:
        assert await handle(Manager(RuntimeError("fault")), make_exchange()) == {}

    assert len(heard) == 1


async def test_without_the_database_only_a_renewal_fails() -> None:
    away = Manager(StoreUnavailable("away"))

    assert await handle(away, make_exchange()) == {}
    with pytest.raises(StoreUnavailable):
        await handle(away, make_exchange(RENEW))


# --- cookies ------------------------------------------------------------------------------------

BY_COOKIE = TokenAccount("ada", (), {}, "database", token_text="old", token_expires_at=5.0)
YOUNGER = AuthToken("new", 9.0)


@pytest.mark.parametrize(
    ("token", "renewed", "query", "expected"),
    [
        (YOUNGER, False, b"", False),
        (YOUNGER, True, b"", True),
        (YOUNGER, False, SET, True),
        (LastToken("old", 5.0), True, b"", False),
        (LastToken("old", 5.0), False, SET, False),
    ],
)
def test_a_cookie_is_set_on_request_and_where_its_token_was_renewed(
    token: AuthToken, renewed: bool, query: bytes, expected: bool
) -> None:
    """The last token of a session is not set again: that would prolong its life."""
    exchange = make_exchange(query, BY_COOKIE)
    record_cookie(exchange)
    give_token(exchange, token, "/tokens", renewed=renewed)

    assert wants_cookie(exchange) is expected
    assert find_end(exchange, token) == (token.expires_at if expected else 5.0)


def test_who_came_by_cookie_is_not_told_the_token() -> None:
    exchange = make_exchange(account=BY_COOKIE)
    record_cookie(exchange)
    give_token(exchange, YOUNGER, "/tokens")

    assert [name.lower() for name, _ in exchange.headers] == ["auth-token-valid-until"]


def test_a_token_that_is_over_is_withdrawn_and_other_headers_stay() -> None:
    exchange = make_exchange()
    exchange.headers.append(("x-other", "1"))
    give_token(exchange, YOUNGER, "/tokens")
    give_token(exchange, AuthToken("another", 9.0), "/tokens")
    assert [value for name, value in exchange.headers if name.lower() == "auth-token"] == [
        "another"
    ]

    withdraw_token(exchange)

    assert exchange.headers == [("x-other", "1")]
