"""Many users at once: one stamp ends their tokens, and nobody else's (decision 32)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from docgraph.auth.tokens import revocation
from docgraph.auth.users import changes
from docgraph.exchange import WriteKind
from docgraph.observe.events import CommandFinished
from tests.http.harness import Mongo, eventually, listening
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
    assert len([one for one in commands if one.collection == "_revocations"]) <= 1
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


@pytest.mark.parametrize("bound", ["_MOST_AFFECTED", "_MOST_NAMES"])
async def test_of_more_users_than_can_be_named_everyone_is_stamped(
    workers: Sequence[Worker],
    mongo_client: Mongo,
    database: str,
    bound: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokens = await take_tokens(workers[0])
    monkeypatch.setattr(changes if bound == "_MOST_AFFECTED" else revocation, bound, 100)
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
