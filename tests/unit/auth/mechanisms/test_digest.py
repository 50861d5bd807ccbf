"""`digestAuthMechanism`: what is accepted, what is not, and who is told `stale` (decision 36)."""

import hashlib
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.auth.credentials import DigestCredentials
from docgraph.auth.mechanisms.digest import DigestMechanism, compute_response
from docgraph.auth.mechanisms.digest_nonces import Nonces
from docgraph.auth.mechanisms.sections import DigestAuthMechanism
from docgraph.exchange import Account, Exchange, Headers, Request, StartupError
from docgraph.exchange.errors import StoreUnavailable
from docgraph.plugins.kinds import ABSENT, Accepted, Authenticator, Rejected
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Blocking, Tasks, create_instance
from docgraph.runtime.instance import Instance
from docgraph.store.store import Store
from tests.expect import present

pytestmark = pytest.mark.anyio

ADA = Account("ada", ("user",))
HASHES = {"MD5": hashlib.md5, "SHA-256": hashlib.sha256}


class Realm(Authenticator):
    """Knows `ada` with the password `secret`."""

    name: ClassVar[str] = "testRealm"

    def __init__(self) -> None:
        self.gone = False

    async def digest_secret(self, user: str, realm: str, algorithm: str) -> str | None:
        if user == "down":
            raise StoreUnavailable("the database cannot be reached")
        if user != "ada":
            return None
        return HASHES[algorithm](f"ada:{realm}:secret".encode()).hexdigest()

    async def find(self, user: str) -> Account | None:
        return None if self.gone else ADA

    async def verify(self, user: str, password: str) -> Account | None:
        raise NotImplementedError


class PlainRealm(Authenticator):
    """Knows nothing of digests."""

    name: ClassVar[str] = "plainRealm"

    def __init__(self) -> None:
        pass

    async def verify(self, user: str, password: str) -> Account | None:
        raise NotImplementedError


@dataclass
class Client:
    """A client that does digest right, unless told otherwise."""

    mechanism: DigestMechanism
    password: str = "secret"
    user: str = "ada"

    def read_challenge(self, exchange: Exchange | None = None, place: int = 0) -> dict[str, str]:
        value = self.mechanism.challenge(exchange or make_exchange())[place]
        return dict(re.findall(r'(\w+)="?([^",]*)"?', value.removeprefix("Digest ")))

    def answer(
        self,
        target: str = "/x?a=b",
        method: str = "GET",
        *,
        challenge: dict[str, str] | None = None,
        count: int = 1,
        **changes: Any,
    ) -> DigestCredentials:
        challenge = challenge or self.read_challenge()
        given = DigestCredentials(
            username=self.user,
            realm=challenge["realm"],
            nonce=challenge["nonce"],
            uri=target,
            response="",
            cnonce="c0ffee",
            opaque=challenge["opaque"],
            count=count,
            algorithm=challenge["algorithm"],
        )
        given = replace(given, **changes)
        digest = HASHES.get(given.algorithm, hashlib.md5)
        secret = digest(f"{self.user}:{given.realm}:{self.password}".encode()).hexdigest()
        known = replace(given, algorithm="MD5") if given.algorithm not in HASHES else given
        if "response" not in changes:
            given = replace(given, response=compute_response(secret, known, method))
        return given

    async def send(
        self, given: DigestCredentials, target: bytes = b"/x?a=b", method: str = "GET"
    ) -> tuple[Any, ...]:
        exchange = make_exchange(given.render(), target=target, method=method)
        return exchange, await self.mechanism.authenticate(exchange)


def make_exchange(*values: str, target: bytes = b"/x?a=b", method: str = "GET") -> Exchange:
    path, _, query = target.partition(b"?")
    headers = [
        (b"host", b"api.example"),
        *((b"authorization", v.encode("latin-1")) for v in values),
    ]
    return Exchange(Request(method, path, query_string=query, headers=Headers(headers)), "1")


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    with create_instance(tmp_path) as instance:
        yield instance


@pytest.fixture
def other_instance(tmp_path: Path) -> Iterator[Instance]:
    with create_instance(tmp_path) as instance:
        yield instance


@pytest.fixture
async def build(instance: Instance) -> AsyncIterator[Any]:
    """Builds mechanisms of one instance, as its workers would."""
    blocking, built = Blocking(), []

    async def build_mechanism(
        *plugins: Authenticator, on: Instance = instance, **options: Any
    ) -> DigestMechanism:
        registry = PluginRegistry()
        registry.fill(plugins or [Realm()])
        mechanism = DigestMechanism(
            DigestAuthMechanism(**{"enabled": True, "authenticator": "testRealm", **options}),
            registry=registry,
            instance=on,
            store=cast(Store, None),  # only a user who must be stored needs it
            blocking=blocking,
            tasks=Tasks(),
            users=DbRealmAuthenticator(),
        )
        built.append(mechanism)
        await mechanism.provision()
        return mechanism

    yield build_mechanism
    for one in built:
        await one.close()
    await blocking.close()


@pytest.fixture
async def client(build: Callable[..., Any]) -> Client:
    return Client(await build())


async def test_right_digest_is_accepted(client: Client) -> None:
    _, outcome = await client.send(client.answer())
    assert outcome == Accepted(ADA)


async def test_success_is_confirmed_to_the_client(client: Client) -> None:
    """RFC 7616 3.5: `rspauth` proves that the server knows the secret."""
    given = client.answer()
    exchange, _ = await client.send(given)
    [(name, value)] = exchange.headers
    secret = hashlib.md5(b"ada:docgraph:secret").hexdigest()  # noqa: S324
    rspauth = compute_response(secret, given, "")
    assert name == "Authentication-Info"
    assert value == f'rspauth="{rspauth}", cnonce="c0ffee", nc=00000001, qop=auth'


async def test_ageing_nonce_brings_the_next_one(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Nonces, "is_ageing", lambda self, nonce: True)
    exchange, _ = await client.send(client.answer())
    following = present(re.search(r'nextnonce="([^"]+)"', exchange.headers[0][1]))[1]
    challenge = client.read_challenge() | {"nonce": following}
    _, outcome = await client.send(client.answer(challenge=challenge))
    assert isinstance(outcome, Accepted)


async def test_refused_answers_are_not_confirmed(client: Client) -> None:
    exchange, _ = await client.send(client.answer(opaque="x"))
    assert exchange.headers == []


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "HEAD"])
async def test_digest_covers_the_method(client: Client, method: str) -> None:
    _, outcome = await client.send(client.answer(method=method), method=method)
    assert isinstance(outcome, Accepted)
    _, outcome = await client.send(client.answer(method="PATCH"), method=method)
    assert outcome == Rejected("wrong-password")


@pytest.mark.parametrize(
    ("uri", "target", "accepted"),
    [
        ("/x?a=b", b"/x?a=b", True),
        ("/x", b"/x", True),
        ("/x?", b"/x", True),
        ("/%78", b"/%78", True),
        ("http://api.example/x?a=b", b"/x?a=b", True),
        ("https://API.example/x", b"/x", True),
        ("/x", b"/x?a=b", False),
        ("/x?a=b", b"/x", False),
        ("/X", b"/x", False),
        ("/%78", b"/x", False),
        ("x", b"/x", False),
        ("http://other.example/x", b"/x", False),
        ("http://api.example/y", b"/x", False),
        ("ftp://api.example/x", b"/x", False),
        ("http://[/x", b"/x", False),
        ("", b"/x", False),
        ("*", b"/x", False),
    ],
)
async def test_uri_is_the_request_target(
    client: Client, uri: str, target: bytes, accepted: bool
) -> None:
    _, outcome = await client.send(client.answer(uri), target)
    assert outcome == (Accepted(ADA) if accepted else Rejected("wrong-uri"))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"realm": "other"}, "wrong-realm"),
        ({"opaque": "0" * 32}, "wrong-opaque"),
        ({"algorithm": "SHA-256"}, "wrong-algorithm"),
        ({"algorithm": "MD5-sess"}, "wrong-algorithm"),
        ({"response": "0" * 32}, "wrong-password"),
        ({"response": ""}, "wrong-password"),
        ({"response": "é"}, "wrong-password"),
    ],
)
async def test_answers_to_another_question_are_rejected(
    client: Client, changes: dict[str, Any], reason: str
) -> None:
    """A05."""
    exchange, outcome = await client.send(client.answer(**changes))
    assert outcome == Rejected(reason)
    assert "stale" not in client.read_challenge(exchange)


@pytest.mark.parametrize("change", [{"password": "wrong"}, {"user": "bob"}])
async def test_wrong_password_and_unknown_user_are_rejected_alike(
    client: Client, change: dict[str, Any]
) -> None:
    client = replace(client, **change)
    _, outcome = await client.send(client.answer())
    assert outcome == Rejected("wrong-password")


async def test_user_who_is_gone_in_the_meantime_is_rejected(build: Callable[..., Any]) -> None:
    realm = Realm()
    client = Client(await build(realm))
    realm.gone = True
    _, outcome = await client.send(client.answer())
    assert outcome == Rejected("unknown-user")


async def test_lost_database_is_not_a_wrong_password(client: Client) -> None:
    client = replace(client, user="down")
    with pytest.raises(StoreUnavailable):
        await client.send(client.answer())


@pytest.mark.parametrize("value", ["Digest", "Digest x", "Digest nc=1, nc=1"])
async def test_malformed_answers_are_rejected(client: Client, value: str) -> None:
    assert await client.mechanism.authenticate(make_exchange(value)) == Rejected("malformed")


@pytest.mark.parametrize("values", [(), ("Basic YTpi",), ("Digest x", "Digest x")])
async def test_other_requests_are_none_of_its_business(
    client: Client, values: tuple[str, ...]
) -> None:
    assert await client.mechanism.authenticate(make_exchange(*values)) is ABSENT


async def test_replay_is_never_accepted_and_told_as_stale(client: Client) -> None:
    """A04: the same nonce and count 100 times."""
    given = client.answer()
    await client.send(given)
    for _ in range(100):
        exchange, outcome = await client.send(given)
        assert outcome == Rejected("stale-nonce")
        assert client.read_challenge(exchange)["stale"] == "true"


async def test_lower_counts_are_refused_and_a_jump_is_accepted_once(client: Client) -> None:
    """A04."""
    challenge = client.read_challenge()
    outcomes = [
        (await client.send(client.answer(challenge=challenge, count=count)))[1]
        for count in (1, 2, 1000, 3, 999, 1000, 1001)
    ]
    accepted = [isinstance(outcome, Accepted) for outcome in outcomes]
    assert accepted == [True, True, True, False, False, False, True]


@pytest.mark.parametrize("nonce", ["", "forged", "A" * 52])
async def test_forged_nonce_is_stale_for_those_who_know_the_password(
    client: Client, nonce: str
) -> None:
    """A06: it may be the nonce of another instance; one more round makes it right."""
    challenge = client.read_challenge() | {"nonce": nonce}
    exchange, outcome = await client.send(client.answer(challenge=challenge))
    assert outcome == Rejected("stale-nonce")
    assert client.read_challenge(exchange)["stale"] == "true"


async def test_stale_is_never_told_to_those_who_do_not_know_the_password(client: Client) -> None:
    """A05: `stale=true` only when the digest was right."""
    client = replace(client, password="wrong")
    challenge = client.read_challenge() | {"nonce": "forged"}
    exchange, outcome = await client.send(client.answer(challenge=challenge))
    assert outcome == Rejected("wrong-password")
    assert "stale" not in client.read_challenge(exchange)


async def test_old_nonce_is_stale(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    challenge = client.read_challenge()
    monkeypatch.setattr(client.mechanism._nonces, "_clock", lambda: 4e9)
    exchange, outcome = await client.send(client.answer(challenge=challenge))
    assert outcome == Rejected("stale-nonce")
    _, outcome = await client.send(client.answer(challenge=client.read_challenge(exchange)))
    assert isinstance(outcome, Accepted)


async def test_workers_of_an_instance_share_nonces_and_counts(
    build: Callable[..., Any], instance: Instance
) -> None:
    """Decision 36, A06."""
    first = Client(await build(on=instance.for_worker(1)))
    second = Client(await build(on=instance.for_worker(2)))
    given = first.answer()
    assert isinstance((await second.send(given))[1], Accepted)
    assert (await first.send(given))[1] == Rejected("stale-nonce")


async def test_instance_without_the_key_costs_one_more_round(
    build: Callable[..., Any], other_instance: Instance
) -> None:
    """A06: never a loop."""
    here, there = Client(await build()), Client(await build(on=other_instance))
    exchange, outcome = await there.send(here.answer())
    assert outcome == Rejected("stale-nonce")
    given = there.answer(challenge=there.read_challenge(exchange))
    assert isinstance((await there.send(given))[1], Accepted)


async def test_every_configured_algorithm_is_offered_in_its_order(
    build: Callable[..., Any],
) -> None:
    client = Client(await build(algorithms=("SHA-256", "MD5")))
    offered = client.mechanism.challenge(make_exchange())
    assert [present(re.search(r"algorithm=([^,]+)", one))[1] for one in offered] == [
        "SHA-256",
        "MD5",
    ]
    for place in (0, 1):
        challenge = client.read_challenge(place=place)
        _, outcome = await client.send(client.answer(challenge=challenge))
        assert isinstance(outcome, Accepted)


async def test_one_md5_challenge_by_default(client: Client) -> None:
    """Decision 36 and the challenge of the specification."""
    [challenge] = client.mechanism.challenge(make_exchange())
    assert re.fullmatch(
        r'Digest realm="docgraph", domain="/", nonce="[\w-]{52}", opaque="[0-9a-f]{32}", '
        r'algorithm=MD5, qop="auth", charset=UTF-8',
        challenge,
    )


async def test_authenticator_without_secrets_for_digest_stops_the_start(
    build: Callable[..., Any],
) -> None:
    with pytest.raises(StartupError, match="/digestAuthMechanism/authenticator: 'plainRealm'"):
        await build(PlainRealm(), authenticator="plainRealm")


async def test_unknown_authenticator_stops_the_start(build: Callable[..., Any]) -> None:
    with pytest.raises(StartupError, match="/digestAuthMechanism/authenticator: "):
        await build(authenticator="nobody")
