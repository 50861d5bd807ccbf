"""API keys: verification, owners, ends and networks (decision 72)."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from docgraph.auth.credentials import ApiKeyText
from docgraph.auth.mechanisms.api_key import admits
from docgraph.auth.mechanisms.sections import ApiKeyMechanism
from docgraph.observe.engine_events import CommandFinished
from docgraph.observe.events import BodyAwaited
from tests.connections import Peer
from tests.http.api_keys import (
    UNKNOWN_ID,
    add_user,
    later,
    make,
    mechanism_of,
    open_keys,
    status,
    use,
)
from tests.http.harness import Mongo, eventually, listening, until
from tests.http.realms import hashed, render_basic
from tests.http.tokens import COOKIES, JWT, SIGNED, Worker

pytestmark = pytest.mark.anyio


@pytest.fixture
async def worker(mongo_client: Mongo, mongo_uri: str, database: str) -> AsyncIterator[Worker]:
    async with open_keys(mongo_client, mongo_uri, database) as worker:
        yield worker


def keys_of(worker: Worker) -> Any:
    """The stored keys, behind the back of the server."""
    return worker.users.database["_apiKeys"]


async def test_a_key_has_its_name_its_roles_and_chosen_properties_of_its_owner(
    worker: Worker,
) -> None:
    """Decision 72: what is not inherited is not bound."""
    text = await make(worker, inherits=["team", "missing"])
    shown = await use(worker, text)
    assert shown.json() == {
        "name": "key:ada/nightly",
        "roles": ["editor"],
        "kind": "key",
        "properties": {"team": "blue", "roles": ["editor"]},
    }
    assert (await worker.ask("/whoami", x_api_key=text)).json() == shown.json()


@pytest.mark.parametrize("login", ["ada", "root"])
async def test_a_login_that_ends_while_the_body_arrives_makes_no_key(
    worker: Worker, login: str
) -> None:
    """A key that was ordered with an old password would outlive it (decision 72)."""
    body = msgspec.json.encode({"name": "slow", "notAfter": later(), "owner": "", "roles": []})
    head = f"POST /keys HTTP/1.1\r\nhost: test\r\ncontent-length: {len(body)}\r\n"
    fields = f"content-type: application/json\r\nauthorization: {render_basic(login, 'secret')}\r\n"

    async def order_slowly() -> int:
        peer = Peer(worker.client._transport.state)  # type: ignore[attr-defined]
        with listening(BodyAwaited) as awaited:
            peer.send(f"{head}{fields}\r\n".encode() + body[:-1])
            await eventually(lambda: awaited)
        await asyncio.to_thread(worker.users.delete_one, {"_id": login})
        await until(lambda: find_status(worker, login), 401)
        peer.send(body[-1:])
        return (await peer.read("POST")).status

    assert await worker.there(order_slowly()) == 401
    assert not list(keys_of(worker).find())


async def find_status(worker: Worker, login: str) -> int:
    """The status of another request with the password, in the loop of the application."""
    reply = await worker.client.get("/whoami", auth=(login, "secret"))
    return reply.status_code


async def test_the_text_is_stored_nowhere_and_shown_once(worker: Worker) -> None:
    text = await make(worker)
    secret = ApiKeyText.parse(text).secret
    database = worker.users.database
    stored = str([list(database[name].find()) for name in database.list_collection_names()])
    listed = await worker.ask("/keys", login="root:secret")
    assert "nightly" in stored
    assert "nightly" in listed.text
    for place in (stored, listed.text):
        assert secret not in place
    assert "hash" not in listed.json()["keys"][0]


async def test_nothing_that_outlives_a_key_is_issued_for_it(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """Decision 72: no token, no cookie."""
    async with open_keys(mongo_client, mongo_uri, database, SIGNED, JWT, COOKIES) as worker:
        text = await make(worker)
        for path in ("/whoami?set-auth-cookie", "/whoami?renew-auth-token", "/nowhere"):
            reply = await use(worker, text, path)
            assert not [name for name in reply.headers if "auth" in name or "cookie" in name]
        for method in ("GET", "POST", "DELETE"):
            headers = {"authorization": f"Bearer {text}"}
            assert (await worker.send(method, "/tokens", headers=headers)).status_code == 403
        signed = (await worker.ask("/whoami", login="ada:secret")).headers["auth-token"]
        assert await status(worker, signed) == 200  # both mechanisms read bearers


def variants(text: str) -> dict[str, str]:
    """Texts that are not this key, each one step away from it."""
    key = ApiKeyText.parse(text)
    other = "0" * 64
    wrong = text[:-1] + ("0" if text[-1] != "0" else "1")
    return {
        "another checksum": wrong,
        "another secret": ApiKeyText(key.id, other).render(),
        "another id": ApiKeyText(UNKNOWN_ID, key.secret).render(),
        "capitals": text.upper().replace("DGK", "dgk"),
        "prefix alone": "dgk_",
        "shorter": text[:-1],
        "longer": f"{text}0",
        "very long": f"dgk_{'0' * 6000}",
    }


async def test_every_wrong_key_gets_the_same_answer(worker: Worker) -> None:
    text = await make(worker)
    expired, revoked = await make(worker, name="old"), await make(worker, name="gone")
    start = keys_of(worker).find_one()["createdAt"]
    keys_of(worker).update_one({"name": "old"}, {"$set": {"notAfter": start}})
    keys_of(worker).delete_one({"name": "gone"})
    foreign = await make(worker, name="far", networks=["203.0.113.0/24"])
    tried = {**variants(text), "expired": expired, "revoked": revoked, "network": foreign}
    answers = set()
    for sent in tried.values():
        reply = await use(worker, sent)
        kept = {k: v for k, v in reply.headers.items() if k not in ("date", "x-request-id")}
        answers.add((reply.status_code, reply.text, str(kept)))
    ((code, _, headers),) = answers
    assert code == 401
    assert "invalid_token" in headers
    assert await status(worker, text) == 200


async def test_an_unknown_key_takes_the_steps_of_a_wrong_secret(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, not timed: the same commands, hashes and comparisons."""
    key = ApiKeyText.parse(await make(worker))
    compared: list[int] = []
    original = hmac.compare_digest

    def compare(left: bytes, right: bytes) -> bool:
        compared.append(len(left) + len(right))
        return original(left, right)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    steps = []
    for text in (ApiKeyText(key.id).render(), ApiKeyText(UNKNOWN_ID).render()):
        compared.clear()
        with listening(CommandFinished) as commands:
            assert await status(worker, text) == 401
        read = [(one.collection, one.command) for one in commands if one.collection == "_apiKeys"]
        steps.append((list(compared), read))
    assert steps[0] == steps[1] == ([64, 64], [("_apiKeys", "find")])


async def test_a_mistyped_key_is_rejected_without_a_lookup(worker: Worker) -> None:
    text = await make(worker)
    with listening(CommandFinished) as commands:
        assert await status(worker, text[:-1] + chr(ord(text[-1]) ^ 1)) == 401
    assert [one for one in commands if one.collection == "_apiKeys"] == []


@pytest.mark.parametrize(
    "headers",
    [
        [("authorization", "Bearer {key}"), ("authorization", "Bearer {key}")],
        [("authorization", "Bearer {key}"), ("x-api-key", "{key}")],
        [("authorization", "Basic YWRhOnNlY3JldA=="), ("x-api-key", "{key}")],
        [("x-api-key", "{key}"), ("x-api-key", "{key}")],
        [("x-api-key", "{key}"), ("x-api-key", "")],
        [("x-api-key", "")],
        [("x-api-key", "Bearer {key}")],
        [("x-api-key", "{key}\xe9")],
        [("x-api-key", "eyJhbGciOiJub25lIn0.e30.")],
        [("authorization", "Bearer\t{key}")],
        [("authorization", "Basic {key}")],
        [("authorization", "{key}")],
        [("authorization", "Bearer {key},{key}")],
        [("authorization", "Bearer dgk_\xe9\xff")],
        [("authorization", "Bearer " + "dgk_" * 1500)],
    ],
)
async def test_hostile_headers_are_401(worker: Worker, headers: list[tuple[str, str]]) -> None:
    text = await make(worker)
    sent = [(name, value.format(key=text).encode("latin-1")) for name, value in headers]
    assert (await worker.send("GET", "/whoami", headers=sent)).status_code == 401


async def test_the_header_counts_only_if_it_is_named(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    off = {"apiKeyMechanism": {"header": None}}
    async with open_keys(mongo_client, mongo_uri, database, off) as worker:
        text = await make(worker)
        assert (await worker.ask("/whoami", x_api_key=text)).status_code == 401
        assert await status(worker, text) == 200


# --- owners ---------------------------------------------------------------------------------------


async def test_a_key_loses_the_roles_that_its_owner_loses(worker: Worker) -> None:
    text = await make(worker, roles=["user", "editor"])
    assert (await use(worker, text)).json()["roles"] == ["user", "editor"]
    worker.users.update_one({"_id": "ada"}, {"$set": {"roles": ["user"]}})

    async def roles() -> Any:
        return (await use(worker, text)).json()["roles"]

    await until(roles, ["user"])


async def test_a_deleted_owner_takes_the_keys_along_also_when_the_name_is_used_again(
    worker: Worker,
) -> None:
    add_user(worker, "joe", "editor")
    text = await make(worker, "joe")
    worker.users.delete_one({"_id": "joe"})
    await until(lambda: status(worker, text), 401)
    add_user(worker, "joe", "editor")
    await asyncio.sleep(0.5)
    assert await status(worker, text) == 401
    shown = (await worker.ask("/keys/joe/nightly", login="root:secret")).json()
    assert shown["active"] is False


async def test_a_new_password_of_the_owner_ends_older_keys_and_no_newer_ones(
    worker: Worker,
) -> None:
    """Decision 72: as it ends tokens."""
    text = await make(worker)
    change = {"$set": {"password": hashed("secret")}}
    worker.users.update_one({"_id": "ada"}, change)
    await until(lambda: status(worker, text), 401)
    assert await status(worker, await make(worker, name="weekly")) == 200


async def test_an_owner_of_a_file_has_keys_until_the_realm_is_off(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    users = [{"userid": "joe", "password": "secret", "roles": ["editor"]}]
    realm = {"fileRealmAuthenticator": {"enabled": True, "users": users}}
    basic = {"basicAuthMechanism": {"authenticator": "fileRealmAuthenticator"}}
    async with open_keys(mongo_client, mongo_uri, database, realm, basic) as worker:
        text = await make(worker, "joe")
        assert await status(worker, text) == 200
    async with open_keys(mongo_client, mongo_uri, database) as worker:
        add_user(worker, "joe", "editor")  # the name alone is not the owner
        assert await status(worker, text) == 401


# --- ends and networks ----------------------------------------------------------------------------


async def test_a_key_ends_in_its_second(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    text = await make(worker)
    end = keys_of(worker).find_one()["notAfter"].timestamp() - time.timezone
    for offset, expected in ((-0.01, 200), (0.0, 401), (-0.01, 200)):
        monkeypatch.setattr(time, "time", lambda offset=offset: end + offset)
        assert await status(worker, text) == expected


@pytest.mark.parametrize(
    ("networks", "expected"),
    [
        ([], 200),
        (["127.0.0.0/8"], 200),
        (["10.0.0.0/8", "127.0.0.1/32"], 200),
        (["10.0.0.0/8"], 401),
        (["::1/128"], 401),
    ],
)
async def test_a_key_is_valid_in_its_networks(
    worker: Worker, networks: list[str], expected: int
) -> None:
    assert await status(worker, await make(worker, networks=networks)) == expected


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        (("10.1.2.3", 1), True),
        (("::ffff:10.1.2.3", 1), True),
        (("fe80::1%eth0", 1), True),
        (("11.1.2.3", 1), False),
        (("", 0), False),
        (None, False),
    ],
)
def test_addresses_in_all_their_forms(client: Any, expected: bool) -> None:
    assert admits(("10.0.0.0/8", "fe80::/10"), client) is expected


@pytest.mark.parametrize(
    ("network", "inside", "outside"),
    [
        ("::ffff:10.0.0.0/104", "10.1.2.3", "11.1.2.3"),
        ("::ffff:10.0.0.0/104", "::ffff:10.1.2.3", "::ffff:11.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3", "10.1.2.4"),
        ("10.0.0.0/8", "::ffff:a01:203", "::a01:203"),
        ("::/0", "10.1.2.3", ""),
        ("2001:db8::/32", "2001:db8::1", "10.1.2.3"),
    ],
)
def test_networks_in_all_their_forms(network: str, inside: str, outside: str) -> None:
    assert admits((network,), (inside, 1))
    assert not admits((network,), (outside, 1))


# --- what is stored about a use -------------------------------------------------------------------


async def test_uses_are_recorded_once_a_minute_in_the_background(worker: Worker) -> None:
    text = await make(worker)
    mechanism = mechanism_of(worker)
    with listening(CommandFinished) as commands:
        for _ in range(3):
            assert await status(worker, text) == 200
        assert [one for one in commands if one.command == "update"] == []
        await worker.there(mechanism.keys.record_uses(mechanism._used))
        first = keys_of(worker).find_one()["lastUsedAt"]
        await worker.there(mechanism.keys.record_uses(mechanism._used))
    assert keys_of(worker).find_one()["lastUsedAt"] == first
    assert mechanism._used == {ApiKeyText.parse(text).id}


async def test_a_verified_key_needs_no_command_and_wrong_ones_fill_no_cache(worker: Worker) -> None:
    text = await make(worker)
    await status(worker, text)
    with listening(CommandFinished) as commands:
        for _ in range(5):
            assert await status(worker, text) == 200
    assert commands == []
    for _ in range(20):
        await status(worker, ApiKeyText(UNKNOWN_ID).render())
    assert len(mechanism_of(worker)._cache._entries) == 1


async def test_documents_of_another_form_are_no_keys(worker: Worker) -> None:
    text = await make(worker)
    stored = keys_of(worker).find_one()
    for name, value in (("roles", "editor"), ("hash", "x"), ("owner", 7), ("notAfter", "2999")):
        keys_of(worker).replace_one({"_id": stored["_id"]}, {**stored, name: value})
        await worker.there(asyncio.sleep(0))
        mechanism_of(worker)._cache.clear()
        assert await status(worker, text) == 401, name
        assert (await worker.ask("/keys", login="root:secret")).json() == {"keys": []}
    keys_of(worker).replace_one({"_id": stored["_id"]}, {**stored, "networks": ["here"]})
    assert await status(worker, text) == 401


# --- the guard against guessing -------------------------------------------------------------------


async def test_wrong_keys_are_counted_by_address_and_right_ones_pass(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    guard = {
        "bruteForceAttackGuard": {
            "enabled": True,
            "max-failed-attempts-per-address": 6,
            "window-ms": 60_000,
        }
    }
    async with open_keys(mongo_client, mongo_uri, database, guard) as worker:
        text = await make(worker)
        assert await status(worker, text) == 200
        guesses = [ApiKeyText(f"{number:016x}").render() for number in range(9)]
        codes = [await status(worker, guess) for guess in guesses]
        assert codes == [401] * 6 + [429] * 3
        assert await status(worker, text) == 200
        assert await worker.status(login="ada:wrong") == 429


async def test_a_key_is_one_caller_for_limits(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """`caller-limits` can name a key; two keys of a user are counted apart."""
    named = {"name": "nightly", "per": "user", "key": "ada/nightly", "requests-per-second": 0.001}
    limits = {"caller-limits": {"enabled": True, "limits": [named]}}
    async with open_keys(mongo_client, mongo_uri, database, limits) as worker:
        one, other = await make(worker), await make(worker, name="weekly")
        assert [await status(worker, one) for _ in range(3)] == [200, 429, 429]
        assert [await status(worker, other) for _ in range(3)] == [200, 200, 200]
        assert [await worker.status(login="ada:secret") for _ in range(2)] == [200, 200]


def test_the_header_cannot_be_one_that_means_something_else() -> None:
    for name in ("Authorization", "Cookie", "Host", "X-", "X-A b", ""):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"header": name}, ApiKeyMechanism)
    assert msgspec.convert({"header": "X-API-Key"}, ApiKeyMechanism).header == "X-API-Key"
