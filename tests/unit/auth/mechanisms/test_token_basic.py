"""`tokenBasicAuthMechanism`: tokens in the place of passwords."""

import base64
from typing import ClassVar

import pytest

from docgraph.auth.mechanisms.basic import BasicMechanism, IdentityMechanism, TokenBasicMechanism
from docgraph.auth.mechanisms.digest import DigestMechanism
from docgraph.auth.mechanisms.jwt import JwtMechanism
from docgraph.auth.mechanisms.sections import (
    BasicAuthMechanism,
    DigestAuthMechanism,
    TokenBasicAuthMechanism,
)
from docgraph.exchange import Account, Exchange, Headers, Request
from docgraph.exchange.errors import StoreUnavailable
from docgraph.plugins.kinds import ABSENT, Accepted, AuthMechanism, Plugin, Rejected, TokenManager
from docgraph.plugins.registry import PluginRegistry

pytestmark = pytest.mark.anyio

ADA = Account("ada", ("user",))


class Manager(TokenManager):
    """Knows the token `t0k3n` of `ada`."""

    name: ClassVar[str] = "testTokenManager"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def verify(self, user: str, token: str) -> Account | None:
        self.asked.append(user)
        if user == "down":
            raise StoreUnavailable("the database cannot be reached")
        return ADA if (user, token) == ("ada", "t0k3n") else None

    async def issue(self, account: Account, *, renew: bool = False) -> tuple[str, float]:
        raise NotImplementedError

    async def revoke(self, account: Account) -> None:
        raise NotImplementedError


async def provision(
    *plugins: Plugin,
    basic: BasicAuthMechanism = BasicAuthMechanism(),  # noqa: B008 - frozen
) -> TokenBasicMechanism:
    registry = PluginRegistry()
    registry.fill(plugins)
    mechanism = TokenBasicMechanism(
        TokenBasicAuthMechanism(), registry, basic, DigestAuthMechanism()
    )
    await mechanism.provision()
    return mechanism


def make_exchange(pair: str | None = None, scheme: str = "Basic") -> Exchange:
    headers = Headers()
    if pair is not None:
        text = base64.b64encode(pair.encode()).decode()
        headers = Headers.of(authorization=f"{scheme} {text}")
    return Exchange(Request("GET", b"/", headers=headers), "1")


def make_basic() -> BasicMechanism:
    return BasicMechanism(BasicAuthMechanism(), PluginRegistry())


async def test_user_with_his_token_is_accepted() -> None:
    mechanism = await provision(Manager())
    assert await mechanism.authenticate(make_exchange("ada:t0k3n")) == Accepted(ADA)


@pytest.mark.parametrize("pair", ["ada:other", "bob:t0k3n"])
async def test_what_is_no_token_may_still_be_a_password(pair: str) -> None:
    """A login by password must not count as a failure of this mechanism."""
    mechanism = await provision(Manager(), make_basic())
    assert await mechanism.authenticate(make_exchange(pair)) is ABSENT


@pytest.mark.parametrize(
    ("pair", "reason"), [("ada:other", "wrong-token"), ("no colon", "malformed")]
)
async def test_mismatch_is_a_rejection_where_passwords_are_not_read(pair: str, reason: str) -> None:
    mechanism = await provision(Manager())
    assert await mechanism.authenticate(make_exchange(pair)) == Rejected(reason)


async def test_malformed_credentials_are_left_to_the_basic_mechanism() -> None:
    manager = Manager()
    mechanism = await provision(manager, make_basic())
    assert await mechanism.authenticate(make_exchange("no colon")) is ABSENT
    assert manager.asked == []


@pytest.mark.parametrize("exchange", [make_exchange(), make_exchange("ada:t0k3n", "Bearer")])
async def test_other_requests_are_none_of_its_business(exchange: Exchange) -> None:
    assert await (await provision(Manager())).authenticate(exchange) is ABSENT


async def test_what_the_manager_raises_passes() -> None:
    mechanism = await provision(Manager())
    with pytest.raises(StoreUnavailable):
        await mechanism.authenticate(make_exchange("down:t0k3n"))


async def test_without_a_token_manager_it_never_attempts() -> None:
    """The configuration says so with a warning (test_conflicts.py)."""
    mechanism = await provision()
    assert await mechanism.authenticate(make_exchange("ada:t0k3n")) is ABSENT


async def test_challenge_is_the_one_of_the_basic_mechanism() -> None:
    """Decision 28: the two together offer one Basic challenge."""
    section = BasicAuthMechanism(realm="shop")
    mechanism = await provision(basic=section)
    basic = BasicMechanism(section, PluginRegistry())
    assert mechanism.challenge(make_exchange()) == basic.challenge(make_exchange())


def test_mechanisms_come_in_the_order_of_decision_27() -> None:
    """Decision 27: token-basic, basic, digest, JWT, identity last."""
    mechanisms: list[type[AuthMechanism]] = [
        TokenBasicMechanism,
        BasicMechanism,
        DigestMechanism,
        JwtMechanism,
        IdentityMechanism,
    ]
    priorities = [one.priority for one in mechanisms]
    assert priorities == sorted(set(priorities))
