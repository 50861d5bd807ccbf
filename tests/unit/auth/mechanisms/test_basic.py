"""`basicAuthMechanism`: outcomes, challenge, and what never reaches the authenticator."""

import base64
from typing import Any, ClassVar

import pytest

from docgraph.auth.mechanisms.basic import BasicMechanism
from docgraph.auth.mechanisms.sections import BasicAuthMechanism
from docgraph.exchange import Account, Exchange, Headers, Request, StartupError
from docgraph.exchange.errors import StoreUnavailable
from docgraph.plugins.kinds import ABSENT, Accepted, Authenticator, Plugin, Rejected
from docgraph.plugins.registry import PluginRegistry
from tests.expect import present

pytestmark = pytest.mark.anyio


class Realm(Authenticator):
    """Knows `ada` with the password `secret`, and remembers who was asked for."""

    name: ClassVar[str] = "testRealm"

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def verify(self, user: str, password: str) -> Account | None:
        self.asked.append((user, password))
        if user == "down":
            raise StoreUnavailable("the database cannot be reached")
        return Account("ada", ("user",)) if (user, password) == ("ada", "secret") else None


@pytest.fixture
def realm() -> Realm:
    return Realm()


@pytest.fixture
async def mechanism(realm: Realm) -> BasicMechanism:
    return await provision(BasicAuthMechanism(authenticator="testRealm"), realm)


async def provision(config: BasicAuthMechanism, *plugins: Plugin) -> BasicMechanism:
    registry = PluginRegistry()
    registry.fill(plugins)
    mechanism = BasicMechanism(config, registry)
    await mechanism.provision()
    mechanism.validate()
    return mechanism


def make_exchange(*values: str) -> Exchange:
    headers = Headers([(b"authorization", value.encode("latin-1")) for value in values])
    return Exchange(Request("GET", b"/", headers=headers), "1")


def basic(pair: str) -> str:
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


async def test_known_user_with_the_right_password_is_accepted(mechanism: BasicMechanism) -> None:
    outcome = await mechanism.authenticate(make_exchange(basic("ada:secret")))
    assert outcome == Accepted(Account("ada", ("user",)))


@pytest.mark.parametrize("pair", ["ada:wrong", "bob:secret", ":", "ada:"])
async def test_wrong_pairs_are_rejected_alike(mechanism: BasicMechanism, pair: str) -> None:
    outcome = await mechanism.authenticate(make_exchange(basic(pair)))
    assert outcome == Rejected("wrong-password")


async def test_scheme_is_of_any_case(mechanism: BasicMechanism) -> None:
    value = basic("ada:secret").replace("Basic", "bAsIc")
    assert isinstance(await mechanism.authenticate(make_exchange(value)), Accepted)


async def test_colons_after_the_first_belong_to_the_password(
    mechanism: BasicMechanism, realm: Realm
) -> None:
    await mechanism.authenticate(make_exchange(basic("ada:se:cr:et")))
    assert realm.asked == [("ada", "se:cr:et")]


@pytest.mark.parametrize("values", [(), ("Bearer abc",), ("Digest x=y",), ("Basic",) * 2])
async def test_other_requests_are_none_of_its_business(
    mechanism: BasicMechanism, realm: Realm, values: tuple[str, ...]
) -> None:
    assert await mechanism.authenticate(make_exchange(*values)) is ABSENT
    assert realm.asked == []


@pytest.mark.parametrize("value", ["Basic", "Basic !!!", "Basic YWRh", "Basic /w==", "Basic a b"])
async def test_malformed_credentials_are_rejected_without_any_work(
    mechanism: BasicMechanism, realm: Realm, value: str
) -> None:
    """A02: no password hash is computed for them."""
    assert await mechanism.authenticate(make_exchange(value)) == Rejected("malformed")
    assert realm.asked == []


async def test_lost_database_is_not_a_wrong_password(mechanism: BasicMechanism) -> None:
    with pytest.raises(StoreUnavailable):
        await mechanism.authenticate(make_exchange(basic("down:x")))


async def test_challenge_names_the_configured_realm(realm: Realm) -> None:
    mechanism = await provision(BasicAuthMechanism(authenticator="testRealm", realm="shop"), realm)
    assert mechanism.challenge(make_exchange()) == ('Basic realm="shop", charset="UTF-8"',)


async def test_unknown_authenticator_stops_the_start_and_names_the_option(realm: Realm) -> None:
    with pytest.raises(StartupError) as error:
        await provision(BasicAuthMechanism(authenticator="tsetRealm"), realm)
    assert error.value.message.startswith("/basicAuthMechanism/authenticator: ")
    assert "testRealm" in present(error.value.hint)


async def test_plugin_of_another_kind_is_no_authenticator(mechanism: BasicMechanism) -> None:
    with pytest.raises(StartupError):
        await provision(BasicAuthMechanism(authenticator="basicAuthMechanism"), mechanism)
