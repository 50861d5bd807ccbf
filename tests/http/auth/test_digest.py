"""Digest authentication by real clients, and over instances that share a key (decision 36)."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

import httpx2
import pytest

from docgraph.auth.credentials import DigestCredentials
from docgraph.auth.mechanisms.digest import compute_response
from docgraph.auth.mechanisms.digest_nonces import COLLECTION, StoredCounts
from tests.databases import drop
from tests.http.harness import Mongo, Service, eventually, failing
from tests.http.hosts import module_application
from tests.http.login import listening_on, read_page, serving
from tests.programs import require, run_program

pytestmark = pytest.mark.anyio

PAGE = read_page("digest-authentication")
KEY = "one key for all instances of this test"
DIGEST = {
    "digestAuthMechanism": {
        "enabled": True,
        "authenticator": "fileRealmAuthenticator",
        "algorithms": ["MD5", "SHA-256"],
    }
}


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with serving(mongo_client, mongo_uri, DIGEST) as service:
        yield service


@asynccontextmanager
async def sharing(mongo: Mongo, uri: str, db: str, key: str = KEY) -> AsyncIterator[Service]:
    """An instance that shares its key and its users with others."""
    shared = {"digestAuthMechanism": {"key": key}, "dbRealmAuthenticator": {"users-db": db}}
    async with serving(mongo, uri, DIGEST, shared, db=db, drop=False) as service:
        yield service


@module_application
async def instances(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[tuple[Service, Service]]:
    db = "test_digest_instances"
    async with (
        sharing(mongo_client, mongo_uri, db) as first,
        sharing(mongo_client, mongo_uri, db) as second,
    ):
        yield first, second
    drop(mongo_client, db)


async def ask(service: Service, path: str = "/whoami") -> dict[str, str]:
    """The parameters of the MD5 challenge."""
    reply = await service.request("GET", path)
    assert reply.status == 401
    challenge = reply.headers.get_list("www-authenticate")[0]
    assert challenge.startswith("Digest ")
    return dict(re.findall(r'(\w+)="?([^",]*)"?', challenge))


def answer(challenge: dict[str, str], count: int = 1, uri: str = "/whoami") -> str:
    given = DigestCredentials(
        username="ada",
        realm=challenge["realm"],
        nonce=challenge["nonce"],
        uri=uri,
        response="",
        cnonce="c0ffee",
        opaque=challenge["opaque"],
        count=count,
    )
    secret = hashlib.md5(f"ada:{given.realm}:secret".encode()).hexdigest()  # noqa: S324
    response = compute_response(secret, given, "GET")
    return given.render().replace('response=""', f'response="{response}"')


async def send(service: Service, authorization: str) -> int:
    headers = {"authorization": authorization}
    return (await service.request("GET", "/whoami", headers=headers)).status


async def test_client_library_logs_in_and_goes_on(service: Service) -> None:
    login = httpx2.DigestAuth("ada", "secret")
    for path in ("/whoami", "/whoami?a=b&c=%20", "/whoami"):
        reply = await service.request("GET", path, auth=login)
        assert (reply.status, reply.json["name"]) == (200, "ada")
        assert "rspauth=" in reply.headers["authentication-info"]


async def test_configuration_of_the_page_works(mongo_client: Mongo, mongo_uri: str) -> None:
    async with serving(mongo_client, mongo_uri, PAGE) as service:
        login = httpx2.DigestAuth("ada", "secret")
        assert (await service.request("GET", "/whoami", auth=login)).status == 200


@pytest.mark.parametrize(("user", "password"), [("ada", "wrong"), ("bob", "secret")])
async def test_client_library_is_refused(service: Service, user: str, password: str) -> None:
    reply = await service.request("GET", "/whoami", auth=httpx2.DigestAuth(user, password))
    assert reply.status == 401
    assert "stale" not in reply.headers["www-authenticate"]
    assert "authentication-info" not in reply.headers


@module_application
async def address(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[str]:
    async with (
        serving(mongo_client, mongo_uri, DIGEST) as service,
        listening_on(service) as address,
    ):
        yield address


@pytest.mark.parametrize(
    ("user", "status"), [("ada:secret", b"200"), ("zoë:pässwörd:€", b"200"), ("ada:wrong", b"401")]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_curl_logs_in(address: str, user: str, status: bytes, method: str) -> None:
    require("curl")
    arguments = ["-s", "--digest", "-u", user, "-X", method, "-o", "/dev/null"]
    done = await run_program("curl", *arguments, "-w", "%{http_code}", f"{address}/whoami?x=1")
    assert done.stdout == status


async def test_challenges_stand_in_lines_of_their_own(mongo_client: Mongo, mongo_uri: str) -> None:
    """A03, decision 28: one per mechanism and algorithm, Digest first."""
    both = {"basicAuthMechanism": {"enabled": True, "authenticator": "fileRealmAuthenticator"}}
    async with serving(mongo_client, mongo_uri, DIGEST, both) as service:
        reply = await service.request("GET", "/whoami")
    offered = reply.headers.get_list("www-authenticate")
    assert [one.split()[0] for one in offered] == ["Digest", "Digest", "Basic"]
    assert [re.findall("algorithm=([^,]+)", one) for one in offered[:2]] == [["MD5"], ["SHA-256"]]


async def test_no_challenge_invites_a_password_that_cannot_work(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    """Tokens are sent as passwords of Basic, which accepts no password while its own is off."""
    tokens = {
        "basicAuthMechanism": {"enabled": False},
        "tokenBasicAuthMechanism": {"enabled": True},
    }
    async with serving(mongo_client, mongo_uri, DIGEST, tokens) as service:
        reply = await service.request("GET", "/whoami")
    schemes = {one.split()[0] for one in reply.headers.get_list("www-authenticate")}
    assert schemes == {"Digest"}


async def test_replay_is_refused_with_stale_and_a_new_nonce(service: Service) -> None:
    """A04."""
    authorization = answer(await ask(service))
    assert await send(service, authorization) == 200
    reply = await service.request("GET", "/whoami", headers={"authorization": authorization})
    assert reply.status == 401
    assert "stale=true" in reply.headers.get_list("www-authenticate")[0]


async def test_nonce_of_one_instance_is_good_at_the_other(
    instances: tuple[Service, Service],
) -> None:
    """A06, decision 36."""
    first, second = instances
    challenge = await ask(first)
    assert await send(second, answer(challenge, 1)) == 200
    assert await send(first, answer(challenge, 2)) == 200


async def test_count_is_accepted_once_over_all_instances(
    instances: tuple[Service, Service], mongo_client: Mongo
) -> None:
    """Decision 36."""
    first, second = instances
    challenge = await ask(first)
    assert await send(first, answer(challenge, 5)) == 200
    assert await send(second, answer(challenge, 5)) == 401
    assert await send(second, answer(challenge, 4)) == 401
    assert await send(second, answer(challenge, 6)) == 200
    assert await send(first, answer(challenge, 6)) == 401
    assert mongo_client[first.db][COLLECTION].count_documents({}) >= 1


async def test_one_of_many_at_the_same_moment_wins(instances: tuple[Service, Service]) -> None:
    """Decision 36: the first use of a nonce, from two instances at once."""
    first, second = instances
    for _ in range(5):
        authorization = answer(await ask(first))
        statuses = await asyncio.gather(*(send(one, authorization) for one in (first, second) * 10))
        assert statuses.count(200) == 1
        assert statuses.count(401) == 19


async def test_higher_count_wins_over_a_lower_one_at_the_same_moment(
    instances: tuple[Service, Service],
) -> None:
    first, second = instances
    for _ in range(5):
        challenge = await ask(first)
        low, high = await asyncio.gather(
            send(first, answer(challenge, 1)), send(second, answer(challenge, 2))
        )
        assert high == 200
        assert low in (200, 401)


async def test_lost_database_is_500_and_never_401(
    instances: tuple[Service, Service], mongo_client: Mongo
) -> None:
    """Decision 25: nobody can say whether the count was used."""
    first, _ = instances
    authorization = answer(await ask(first))
    with failing(mongo_client, "update", errorCode=8000):
        assert await send(first, authorization) == 500
    assert await send(first, answer(await ask(first))) == 200


async def test_instance_with_another_key_costs_one_round(
    instances: tuple[Service, Service], mongo_client: Mongo, mongo_uri: str
) -> None:
    """A06: `stale=true` once, never a loop."""
    first, _ = instances
    login = httpx2.DigestAuth("ada", "secret")
    async with sharing(mongo_client, mongo_uri, first.db, "another") as other:
        await first.request("GET", "/whoami", auth=login)
        assert (await other.request("GET", "/whoami", auth=login)).status == 200


async def test_used_nonces_are_swept_away(instances: tuple[Service, Service]) -> None:
    first, _ = instances
    collection = first.mongo[first.db][COLLECTION]
    collection.delete_many({"_id": {"$in": ["old", "live"]}})  # of the run with the other protocol
    collection.insert_one({"_id": "old", "count": 1, "end": datetime(2020, 1, 1)})
    collection.insert_one({"_id": "live", "count": 1, "end": datetime(2999, 1, 1)})
    sweeping = asyncio.create_task(first.there(StoredCounts(first.app.store, first.db).sweep()))
    await eventually(lambda: collection.find_one({"_id": "old"}) is None)
    sweeping.cancel()
    assert collection.find_one({"_id": "live"})


BAD_ANSWERS = [
    ("uri", 'uri="/whoami"', 'uri="/other"'),
    ("uri with query", 'uri="/whoami"', 'uri="/whoami?x"'),
    ("realm", 'realm="docgraph"', 'realm="other"'),
    ("opaque", 'opaque="', 'opaque="0'),
    ("no opaque", "opaque=", "xopaque="),
    ("no qop", "qop=auth, ", ""),
    ("auth-int", "qop=auth", "qop=auth-int"),
    ("empty qop", "qop=auth", 'qop=""'),
    ("MD5-sess", "algorithm=MD5", "algorithm=MD5-sess"),
    ("other algorithm", "algorithm=MD5", "algorithm=SHA-256"),
    ("unknown algorithm", "algorithm=MD5", "algorithm=SHA-512-256"),
    ("lower case algorithm", "algorithm=MD5", "algorithm=md5"),
    ("no cnonce", 'cnonce="c0ffee", ', ""),
    ("other cnonce", 'cnonce="c0ffee"', 'cnonce="c0ffe1"'),
    ("quoted nc", "nc=00000001", 'nc="00000001"'),
    ("short nc", "nc=00000001", "nc=1"),
    ("long nc", "nc=00000001", "nc=000000001"),
    ("other nc", "nc=00000001", "nc=00000002"),
    ("negative nc", "nc=00000001", "nc=-0000001"),
    ("no nc", ", nc=00000001", ""),
    ("two usernames", "Digest ", 'Digest username="bob", '),
    ("two ncs", "Digest ", "Digest nc=00000001, "),
    ("two responses", "Digest ", 'Digest response="x", '),
    ("other user", 'username="ada"', 'username="bob"'),
    ("no user", 'username="ada"', 'username=""'),
    ("extended user", 'username="ada"', "username*=UTF-8''ada"),
    ("userhash", "Digest ", "Digest userhash=true, "),
    ("other nonce", 'nonce="', 'nonce="A'),
    ("no nonce", "nonce=", "xnonce="),
    ("no response", "response=", "xresponse="),
    ("response cut", 'response="', 'response="" x="'),
    ("upper case response", 'response="', 'response="F'),
    ("semicolons", ", ", "; "),
    ("other scheme", "Digest ", "Basic "),
    ("no scheme", "Digest ", ""),
    ("tab", "Digest ", "Digest\t"),
]


@pytest.mark.parametrize(
    ("old", "new"), [row[1:] for row in BAD_ANSWERS], ids=[row[0] for row in BAD_ANSWERS]
)
async def test_bad_answers_are_401_without_stale(service: Service, old: str, new: str) -> None:
    """A05."""
    good = answer(await ask(service))
    assert old in good
    reply = await service.request(
        "GET", "/whoami", headers={"authorization": good.replace(old, new)}
    )
    assert reply.status == 401
    assert "stale" not in reply.headers["www-authenticate"]


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT"])
async def test_answer_for_another_method_is_401(service: Service, method: str) -> None:
    """A05."""
    good = answer(await ask(service))
    reply = await service.request(method, "/whoami", headers={"authorization": good})
    assert reply.status == 401
