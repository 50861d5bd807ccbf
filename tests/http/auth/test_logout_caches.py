"""A logout ends what it ends, on every worker, and leaves what is remembered of others alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from docgraph.auth.mechanisms.jwt import TokenVerifier
from docgraph.auth.tokens.table import TokenTable
from tests.http.harness import Mongo
from tests.http.realms import hashed
from tests.http.tokens import RANDOM, SIGNED, Worker, open_workers

pytestmark = pytest.mark.anyio
MANAGERS = {"random": RANDOM, "signed": SIGNED}


@pytest.fixture
async def workers(
    request: pytest.FixtureRequest,
    mongo_client: Mongo,
    mongo_uri: str,
    database: str,
) -> AsyncIterator[Sequence[Worker]]:
    mongo_client[database]["users"].insert_one({"_id": "bob", "password": hashed("other")})
    section = MANAGERS[request.param]
    async with open_workers(mongo_client, mongo_uri, database, section, workers=2) as opened:
        yield opened


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is read, issued and verified anew because it is not remembered."""
    seen: list[str] = []

    def count(kind: Any, name: str) -> None:
        original = getattr(kind, name)

        def counted(self: Any, *args: Any, **options: Any) -> Any:
            seen.append(name)
            return original(self, *args, **options)

        monkeypatch.setattr(kind, name, counted)

    for name in ("find", "find_latest", "put", "replace"):
        count(TokenTable, name)
    count(TokenVerifier, "_check")
    return seen


@pytest.mark.parametrize("workers", list(MANAGERS), indirect=True)
@pytest.mark.parametrize("way", ["DELETE", "POST"])
async def test_a_logout_costs_nobody_else_the_remembered_token(
    workers: Sequence[Worker], costs: list[str], way: str
) -> None:
    """Decisions 32 and 44: what one worker ends, the others refuse at their next request."""
    adas, bobs = await workers[0].token(), await workers[0].token("bob", "other")
    for worker in workers:
        for login in (f"ada:{adas}", f"bob:{bobs}"):
            assert await worker.status(login=login) == 200
    ended = await workers[0].ask("/tokens/ada", method=way, login=f"ada:{adas}")
    assert ended.status_code < 300
    costs.clear()

    replies = [await worker.ask("/whoami", login=f"bob:{bobs}") for worker in workers]

    assert [reply.headers["auth-token"] for reply in replies] == [bobs, bobs]
    assert costs == []
    if way == "DELETE":
        statuses = [await worker.status(login=f"ada:{adas}") for worker in workers]
        assert statuses == [401, 401]


@pytest.mark.parametrize("workers", ["random"], indirect=True)
async def test_the_end_of_a_random_token_lets_no_worker_ask_the_database(
    workers: Sequence[Worker],
) -> None:
    """They are known to one instance, whose workers share a table: there is no stamp to be read."""
    adas = await workers[0].token()
    assert await workers[1].status(login=f"ada:{adas}") == 200
    assert await workers[0].status("/tokens/ada", method="DELETE", login=f"ada:{adas}") == 204

    revocations = [worker.app.plugins.values["token-revocations"] for worker in workers]
    assert [one.is_behind for one in revocations] == [False, False]
    assert [await worker.status(login=f"ada:{adas}") for worker in workers] == [401, 401]
