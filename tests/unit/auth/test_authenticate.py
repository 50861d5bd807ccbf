"""How the outcomes of several mechanisms become one (decisions 27, 28)."""

from typing import Any, ClassVar

import pytest

from docgraph.auth.authenticate import AuthenticateStage, Authentication
from docgraph.exchange import Account, Exchange, Headers, Request
from docgraph.plugins.kinds import ABSENT, Absent, Accepted, AuthMechanism, Rejected

pytestmark = pytest.mark.anyio


def make_mechanism(outcome: Absent | Accepted | Rejected, *challenges: str) -> Any:
    class Mechanism(AuthMechanism):
        name: ClassVar[str] = "test"

        def __init__(self) -> None:
            pass

        async def authenticate(self, exchange: Exchange) -> Absent | Accepted | Rejected:
            return outcome

        def challenge(self, exchange: Exchange) -> tuple[str, ...]:
            return challenges

    return Mechanism()


def make_exchange(query: bytes = b"", **headers: Any) -> Exchange:
    return Exchange(Request("GET", b"/", query_string=query, headers=Headers.of(**headers)), "1")


ADA, BOB = Accepted(Account("ada")), Accepted(Account("bob"))
NO = Rejected("wrong-password")


@pytest.mark.parametrize(
    ("outcomes", "name"),
    [
        ([ADA, BOB], "ada"),
        ([ABSENT, BOB], "bob"),
        ([NO, BOB], "bob"),
        ([ABSENT], None),
        ([], None),
    ],
)
async def test_the_first_mechanism_that_accepts_wins_and_a_rejection_lets_the_next_try(
    outcomes: list[Any], name: str | None
) -> None:
    """Decision 27."""
    found = await AuthenticateStage([make_mechanism(one) for one in outcomes]).authenticate(
        make_exchange()
    )
    assert (found.account.name if found.account else None) == name


async def test_credentials_that_nobody_accepts_are_refused() -> None:
    """Decision 27: also when no enabled mechanism knows the scheme."""
    authenticator = AuthenticateStage([make_mechanism(ABSENT)])
    found = await authenticator.authenticate(make_exchange(authorization="Foo bar"))
    assert found == Authentication(None, refused=True)


async def test_no_credentials_are_not_refused() -> None:
    found = await AuthenticateStage([make_mechanism(ABSENT)]).authenticate(make_exchange())
    assert not found.refused


async def test_every_mechanism_offers_its_challenge_once() -> None:
    """Decision 28: Basic for basic and token-basic is one header."""
    authenticator = AuthenticateStage(
        [make_mechanism(ABSENT, "Basic"), make_mechanism(ABSENT, "Basic", "Digest")]
    )
    error = authenticator.challenge(make_exchange())
    assert error.status == 401
    assert error.headers == (("WWW-Authenticate", "Basic"), ("WWW-Authenticate", "Digest"))


@pytest.mark.parametrize(
    "exchange",
    [make_exchange(b"noauthchallenge"), make_exchange(no_auth_challenge="")],
    ids=["parameter", "header"],
)
async def test_the_challenge_can_be_left_out(exchange: Exchange) -> None:
    error = AuthenticateStage([make_mechanism(ABSENT, "Basic")]).challenge(exchange)
    assert (error.status, error.headers) == (401, ())


async def test_a_mechanism_of_another_scheme_is_not_called_unless_it_extends_one() -> None:
    """A class that extends a mechanism may read other credentials."""
    basic = make_mechanism(Accepted(Account("ada")))
    type(basic).authorization_scheme = "basic"
    extended = type("Extended", (type(basic),), {})()

    assert await AuthenticateStage([basic]).authenticate(make_exchange()) == Authentication()
    accepted = Authentication(Account("ada"))
    given = make_exchange(authorization="Basic abc")
    assert await AuthenticateStage([basic]).authenticate(given) == accepted
    assert await AuthenticateStage([extended]).authenticate(make_exchange()) == accepted
