"""Tokens and the time of day: one that is wrong, or set while they live."""

from __future__ import annotations

import time
from datetime import UTC
from types import SimpleNamespace

import pytest

from docgraph.auth.tokens.token_managers import RandomTokens
from docgraph.exchange import WriteKind
from docgraph.store import store
from tests.http.harness import Mongo
from tests.http.tokens import RANDOM, SIGNED, Worker, open_workers

pytestmark = pytest.mark.anyio


def find_random(worker: Worker) -> RandomTokens:
    return next(one for one in worker.app.plugins.plugins if isinstance(one, RandomTokens))


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
async def test_a_random_token_lives_as_long_as_it_should_whatever_the_time_of_day(
    mongo_client: Mongo, mongo_uri: str, database: str, jump: float
) -> None:
    async with open_workers(mongo_client, mongo_uri, database, RANDOM) as (worker,):
        token = await worker.token()
        issued, now = find_random(worker)._issued, time.time() + jump
        issued._wall = lambda: now
        reply = await worker.ask("/whoami", login=f"ada:{token}")
        assert (reply.status_code, reply.headers["auth-token"]) == (200, token)
        told = time.strptime(reply.headers["auth-token-valid-until"], "%Y-%m-%dT%H:%M:%SZ")
        assert 0 < time.mktime((*told[:8], 0)) - time.timezone - now <= 15 * 60
        measured = issued._clock
        issued._clock = lambda: measured() + 15 * 60
        assert await worker.status(login=f"ada:{token}") == 401


@pytest.mark.parametrize("manager", [RANDOM, SIGNED], ids=["random", "signed"])
@pytest.mark.parametrize("hours", [-2, 2])
async def test_stamps_have_the_time_of_the_database_where_that_of_the_machine_is_wrong(
    mongo_client: Mongo,
    mongo_uri: str,
    database: str,
    manager: dict[str, object],
    hours: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong = SimpleNamespace(time=lambda: time.time() + hours * 3600)
    monkeypatch.setattr(store, "time", wrong)
    async with open_workers(mongo_client, mongo_uri, database, manager) as (worker,):
        token = await worker.token()
        change = {"$set": {"password": "another"}}
        await worker.write(WriteKind.UPDATE, update=change, filter={"_id": "ada"})
        assert await worker.status(login=f"ada:{token}") == 401
        fresh = await worker.token("ada", "another")
        assert await worker.status(login=f"ada:{fresh}") == 200
    stamp = mongo_client[database]["_revocations"].find_one({"_id": "user:ada"})
    assert stamp is not None
    written = stamp["written"].replace(tzinfo=UTC).timestamp()
    assert abs(stamp["at"] - written) < 60
