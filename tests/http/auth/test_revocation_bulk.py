"""Many users at once: one stamp ends their tokens, and nobody else's (decision 32)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from docgraph.auth.authenticators import user_writes
from docgraph.auth.tokens import revocation
from docgraph.auth.tokens.revocation import name_user
from docgraph.exchange import WriteKind
from docgraph.exchange.errors import StoreUnavailable
from docgraph.observe.engine_events import CommandFinished
from docgraph.observe.events import BackgroundFailed
from docgraph.runtime.shared_memory import Generations, create_generations
from docgraph.store import open_store
from docgraph.store.sections import AggregationSecurity, MClient
from tests.http.driver import settle
from tests.http.harness import Mongo, eventually, failing, listening, profiled
from tests.http.realms import hashed
from tests.http.tokens import RANDOM, SIGNED, Worker, open_workers, until_refused

pytestmark = pytest.mark.anyio
CROWD = [f"user{number}" for number in range(300)]


@pytest.fixture(params=[RANDOM, SIGNED], ids=["random", "signed"])
async def workers(
    request: pytest.FixtureRequest, mongo_client: Mongo, mongo_uri: str, database: str
) -> AsyncIterator[Sequence[Worker]]:
    password = hashed("secret")
    mongo_client[database]["users"].insert_many(
        [{"_id": name, "password": password, "team": "crowd"} for name in CROWD]
    )
    async with open_workers(mongo_client, mongo_uri, database, request.param, workers=2) as opened:
        for worker in opened:  # the stream would stamp, too, and be counted
            await worker.app._tasks.stop("token-revocations-watch")
        yield opened


async def take_tokens(worker: Worker) -> dict[str, str]:
    return {name: await worker.token(name) for name in ("ada", CROWD[0], CROWD[-1])}


async def statuses(workers: Sequence[Worker], tokens: dict[str, str]) -> list[list[int]]:
    return [
        [await worker.status(login=f"{name}:{token}") for name, token in tokens.items()]
        for worker in workers
    ]


WRITES: dict[str, tuple[WriteKind, dict[str, Any]]] = {
    "delete": (WriteKind.DELETE, {"filter": {"team": "crowd"}, "many": True}),
    "password": (
        WriteKind.UPDATE,
        {
            "filter": {"team": "crowd"},
            "update": {"$set": {"password": "another"}},
            "many": True,
        },
    ),
    "replace": (
        WriteKind.REPLACE,
        {"documents": tuple({"_id": name, "team": "crowd"} for name in CROWD), "upsert": True},
    ),
}


@pytest.mark.parametrize("name", WRITES)
async def test_a_write_of_many_users_ends_their_tokens_by_one_stamp(
    workers: Sequence[Worker], mongo_client: Mongo, database: str, name: str
) -> None:
    tokens = await take_tokens(workers[0])
    assert await statuses(workers, tokens) == [[200] * 3] * 2
    kind, parts = WRITES[name]
    with listening(CommandFinished) as commands:
        await workers[0].write(kind, **parts)
    stamps = list(mongo_client[database]["_revocations"].find())
    assert [len(stamp["users"]) for stamp in stamps] == [len(CROWD)]
    stamping = [one for one in commands if one.collection == "_revocations"]
    assert len([one for one in stamping if one.command != "find"]) <= 1  # workers look, too
    assert await statuses(workers, tokens) == [[200, 401, 401]] * 2


async def test_of_two_users_both_lose_their_tokens(workers: Sequence[Worker]) -> None:
    tokens = await take_tokens(workers[0])

    pair = {"_id": {"$in": [CROWD[0], CROWD[-1]]}}
    await workers[0].write(WriteKind.DELETE, filter=pair, many=True)

    assert await statuses(workers, tokens) == [[200, 401, 401]] * 2


async def test_who_logs_in_again_after_the_stamp_is_let_in(workers: Sequence[Worker]) -> None:
    old = await workers[0].token(CROWD[5])
    await workers[0].write(
        WriteKind.UPDATE,
        filter={"team": "crowd"},
        update={"$set": {"password": "another"}},
        many=True,
    )
    new = await workers[1].token(CROWD[5], "another")
    for worker in workers:
        assert await worker.status(login=f"{CROWD[5]}:{new}") == 200
        assert await worker.status(login=f"{CROWD[5]}:{old}") == 401


@pytest.mark.parametrize("bound", ["_MAX_AFFECTED", "_MAX_NAMES"])
async def test_of_more_users_than_can_be_named_everyone_is_stamped(
    workers: Sequence[Worker],
    mongo_client: Mongo,
    database: str,
    bound: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokens = await take_tokens(workers[0])
    monkeypatch.setattr(user_writes if bound == "_MAX_AFFECTED" else revocation, bound, 100)
    await workers[0].write(WriteKind.DELETE, filter={"team": "crowd"}, many=True)
    stamps = [stamp["_id"] for stamp in mongo_client[database]["_revocations"].find()]
    assert stamps == ["everyone"]
    assert await statuses(workers, tokens) == [[401] * 3] * 2


async def test_a_write_that_finds_nobody_stamps_nobody(
    workers: Sequence[Worker], mongo_client: Mongo, database: str
) -> None:
    await workers[0].write(WriteKind.DELETE, filter={"team": "nobody"}, many=True)
    assert mongo_client[database]["_revocations"].count_documents({}) == 0


async def test_what_somebody_does_to_many_in_the_database_itself_takes_few_stamps(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """The stream tells of each of them; the stamps are written together."""
    users = mongo_client[database]["users"]
    password = hashed("secret")
    users.insert_many([{"_id": name, "password": password} for name in CROWD])
    async with (
        open_workers(mongo_client, mongo_uri, database, SIGNED) as (one,),
        open_workers(mongo_client, mongo_uri, database, SIGNED) as (two,),
    ):
        tokens = {name: await one.token(name) for name in (CROWD[0], CROWD[-1])}
        await until_refused_by(one, two, users, tokens)
        stamps = mongo_client[database]["_revocations"]

        def are_named() -> bool:
            named = {user for stamp in stamps.find() for user in stamp.get("users", ())}
            named |= {stamp["_id"].removeprefix("user:") for stamp in stamps.find()}
            return named.issuperset(CROWD)

        await eventually(are_named)
        assert stamps.count_documents({}) < len(CROWD) / 3


async def until_refused_by(one: Worker, two: Worker, users: Any, tokens: dict[str, str]) -> None:
    users.delete_many({"_id": {"$in": CROWD}})
    for worker in (one, two):
        for name, token in tokens.items():
            await until_refused(worker, login=f"{name}:{token}")


# --- reading stamps -------------------------------------------------------------------------------


@pytest.fixture
async def revocations(
    mongo_uri: str, database: str, tmp_path: Path
) -> AsyncIterator[revocation.Revocations]:
    """As one worker has them, whose time stands still."""
    create_generations(tmp_path / "generations")
    generations = Generations(tmp_path / "generations")
    store = open_store(MClient(min_pool_size=0), AggregationSecurity(), connection_string=mongo_uri)
    store.connect()
    await store.available()
    opened = revocation.Revocations(store, database, generations, measure=lambda: 100.0)
    yield opened
    await opened.close()
    await settle(store.client)
    await store.close()
    generations.close()


def stamp(mongo_client: Mongo, database: str, *users: str) -> None:
    """What another instance has written."""
    mongo_client[database]["_revocations"].insert_many(
        {"_id": name_user(user), "at": 1e12, "written": datetime.now(UTC)} for user in users
    )


async def test_before_the_first_reading_nobody_can_say_what_is_revoked(
    revocations: revocation.Revocations,
) -> None:
    with pytest.raises(StoreUnavailable):
        revocations.is_revoked("token", "ada", 5.0)
    await revocations.keep_up()
    assert not revocations.is_revoked("token", "ada", 5.0)


async def test_a_database_that_answers_again_is_asked_at_once(
    revocations: revocation.Revocations, mongo_client: Mongo, database: str
) -> None:
    """Only one that is away is spared for seconds: a revoked token must not live on."""
    await revocations.keep_up()
    revocations._generations.bump("tokens")
    with listening(BackgroundFailed) as heard, failing(mongo_client, "find", errorCode=96):
        await revocations.keep_up()
    assert [one.task for one in heard] == ["token-revocations"]

    stamp(mongo_client, database, "ada")
    revocations._generations.bump("tokens")
    await revocations.keep_up()

    assert revocations.is_revoked("token", "ada", 5.0)
    assert not revocations.is_revoked("token", "bob", 5.0)


async def test_all_pages_of_stamps_are_read(
    revocations: revocation.Revocations,
    mongo_client: Mongo,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(revocation, "_PAGE", 2)
    names = [f"user{number}" for number in range(5)]
    stamp(mongo_client, database, *names)

    await revocations.read()

    assert all(revocations.is_revoked("token", name, 5.0) for name in names)


async def test_marks_that_are_removed_while_pages_are_read_hide_no_others(
    revocations: revocation.Revocations,
    mongo_client: Mongo,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The database removes old marks at any moment, and a token that was revoked stays revoked."""
    monkeypatch.setattr(revocation, "_PAGE", 2)
    marks, reads = mongo_client[database]["_revocations"], revocations._store.reads
    moments = [None, None, None, datetime(2026, 1, 1), datetime(2026, 1, 1), datetime(2026, 1, 2)]
    names = [f"user{number}" for number in range(6)]
    for name, written in zip(names, moments, strict=True):
        mark = {"_id": name_user(name), "at": 10.0, "until": datetime(2100, 1, 1)}
        marks.insert_one(mark if written is None else {**mark, "written": written})
    find = reads.find

    async def find_and_remove(*args: Any, **options: Any) -> list[Any]:
        page = await find(*args, **options)
        read = {"_id": {"$in": [one["_id"] for one in page]}}
        await asyncio.to_thread(marks.delete_many, read)
        return page

    monkeypatch.setattr(reads, "find", find_and_remove)
    await revocations.read()

    assert [name for name in names if not revocations.is_revoked("token", name, 5.0)] == []
    assert marks.count_documents({}) == 0


async def test_a_time_that_is_known_is_not_stamped_again(
    revocations: revocation.Revocations,
) -> None:
    await revocations.stamp("ada", 50.0)

    assert revocations.has_stamp("ada", 50.0)
    assert revocations.has_stamp("ada", 49.0)
    assert not revocations.has_stamp("ada", 50.5)
    assert not revocations.has_stamp("bob", 1.0)


async def test_after_a_quiet_time_only_new_stamps_are_read(
    revocations: revocation.Revocations, mongo_client: Mongo, database: str
) -> None:
    """There may be a hundred thousand old ones."""
    stamp(mongo_client, database, "ada")
    with profiled(mongo_client, database, "_revocations") as seen:
        for _ in range(3):
            await revocations.read()

    filters = [one["command"]["filter"] for one in seen if "find" in one["command"]]
    assert filters[0] == {}
    assert [list(one) for one in filters[1:]] == [["written"], ["written"]]


async def test_a_mark_that_becomes_visible_after_a_later_one_is_read(
    revocations: revocation.Revocations, mongo_client: Mongo, database: str
) -> None:
    """Writes that began earlier can end later; those of hours ago have been read."""
    marks, last = mongo_client[database]["_revocations"], datetime(2026, 1, 1, 12)
    times = {"ada": last, "bob": last - timedelta(seconds=10), "eve": last - timedelta(hours=1)}
    for name, written in times.items():
        marks.insert_one({"_id": name_user(name), "at": 10.0, "written": written})
        await revocations.read()

    assert [name for name in times if revocations.is_revoked("token", name, 5.0)] == ["ada", "bob"]


async def test_a_stamp_of_another_worker_is_not_passed_over_by_one_of_our_own(
    revocations: revocation.Revocations, mongo_client: Mongo, database: str
) -> None:
    """Our own needs no reading; one that came in between does."""
    await revocations.keep_up()
    await revocations.stamp("eve", 50.0)
    behind = [revocations.is_behind]
    stamp(mongo_client, database, "ada")
    revocations._generations.bump("tokens")
    await revocations.stamp_at({"bob": 60.0})
    behind.append(revocations.is_behind)
    await revocations.keep_up()
    behind.append(revocations.is_behind)

    assert behind == [False, True, False]
    assert revocations.is_revoked("token", "ada", 5.0)
    assert revocations.has_stamp("bob", 60.0)


async def test_a_hash_of_the_same_password_lets_no_session_be_authorized_again(
    revocations: revocation.Revocations, mongo_client: Mongo, database: str
) -> None:
    """A change of `tokens` does that to the sessions of all users; a logout changes it."""
    await revocations.keep_up()
    before = revocations._generations.read("tokens")
    await revocations.announce_rehash("$2b$06$fresh")
    assert revocations._generations.read("tokens") == before
    await revocations.stamp("eve", 50.0)
    assert revocations._generations.read("tokens") == before + 1

    assert revocations.is_rehash("$2b$06$fresh")
    assert not revocations.is_rehash("$2b$06$other")
    names = [one["_id"] for one in mongo_client[database]["_revocations"].find(sort=[("_id", 1)])]
    assert names == [revocation.name_rehash("$2b$06$fresh"), "user:eve"]


async def test_a_first_reading_that_failed_is_repeated(
    revocations: revocation.Revocations, mongo_client: Mongo
) -> None:
    with failing(mongo_client, "find", errorCode=96):
        await revocations.keep_up()
    assert revocations.is_behind

    await revocations.keep_up()

    assert not revocations.is_revoked("token", "ada", 5.0)
