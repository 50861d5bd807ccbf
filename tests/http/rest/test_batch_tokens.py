"""A batch ends the tokens of those whom it concerns when it is committed, and only then."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from docgraph.auth.tokens import revocation
from docgraph.observe.engine_events import CommandFinished
from tests.http.batches import entry
from tests.http.harness import Mongo, listening
from tests.http.realms import hashed
from tests.http.tokens import RANDOM, SIGNED, Worker, open_workers

pytestmark = pytest.mark.anyio

CROWD = ("eve", "fay", "gus")


@pytest.fixture(params=[RANDOM, SIGNED], ids=["random", "signed"])
async def workers(
    request: pytest.FixtureRequest, mongo_client: Mongo, mongo_uri: str, database: str
) -> AsyncIterator[Sequence[Worker]]:
    """Two workers that hear of revocations from each other alone."""
    password = hashed("secret")
    mongo_client[database]["users"].insert_many(
        [{"_id": name, "password": password} for name in ("hal", *CROWD)]
    )
    mounted = {"mongo": {"mongo-mounts": [{"what": f"/{database}", "where": "/"}]}}
    settings = (mounted, {"rootRoleGuard": {"enabled": False}}, request.param)
    async with open_workers(mongo_client, mongo_uri, database, *settings, workers=2) as opened:
        for worker in opened:
            await worker.app._tasks.stop("token-revocations-watch")
        yield opened


async def statuses(worker: Worker, tokens: dict[str, str]) -> list[int]:
    return [await worker.status(login=f"{name}:{token}") for name, token in tokens.items()]


async def send(worker: Worker, token: str, *entries: Any) -> int:
    credentials = ("ada", token)
    reply = await worker.send("POST", "/_batch", json=list(entries), auth=credentials)
    return reply.status_code


async def test_tokens_end_with_the_commit_by_one_stamp(workers: Sequence[Worker]) -> None:
    first, second = workers
    tokens = {name: await first.token(name) for name in ("ada", "hal", *CROWD)}
    ending = [
        entry("PATCH", "/users/eve", {"password": "other"}),
        entry("DELETE", "/users/fay"),
        entry("PATCH", "/users/gus", {"team": "red"}),
        entry("PATCH", '/users/*?filter={"team":"red"}', {"password": "other"}),
    ]

    assert await send(first, tokens["ada"], *ending, entry("GET", "/users/nobody")) == 404
    for worker in workers:
        assert await statuses(worker, tokens) == [200] * 5
    with listening(CommandFinished) as commands:
        assert await send(first, tokens["ada"], *ending) == 200
    for worker in (second, first):
        assert await statuses(worker, tokens) == [200, 200, 401, 401, 401]
    stamps = [one for one in commands if one.collection == revocation.COLLECTION]
    assert len([one for one in stamps if one.command in ("insert", "update", "replace")]) == 1


async def test_tokens_come_with_the_batch_and_not_with_its_entries(
    workers: Sequence[Worker],
) -> None:
    worker = workers[0]
    token = await worker.token()
    read = entry("GET", "/users/ada?renew-auth-token&set-auth-cookie")

    reply = await worker.send("POST", "/_batch", json=[read], auth=("ada", token))

    assert reply.headers["auth-token"] == token
    assert not {"auth-token", "set-cookie"} & {name.lower() for name in reply.json()[0]["headers"]}
    assert await worker.status(login=f"ada:{token}") == 200
