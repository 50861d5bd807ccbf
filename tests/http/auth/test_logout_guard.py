"""Logging out from an address that the brute force guard refuses (decisions 30, 37)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tests.http.harness import Mongo
from tests.http.tokens import OPTION_SETS, Worker, anew, sharing_workers

pytestmark = pytest.mark.anyio
A_LONG_TIME = 1e6  # seconds
GUARD = {"bruteForceAttackGuard": {"enabled": True, "max-failed-attempts-per-address": 5}}


@pytest.fixture(scope="module", params=[1, 2, 3], ids=["set 1", "set 2", "set 3"])
def shared_workers(
    request: pytest.FixtureRequest, mongo_client: Mongo, mongo_uri: str
) -> Iterator[Sequence[Worker]]:
    with sharing_workers(mongo_client, mongo_uri, OPTION_SETS[request.param], GUARD) as shared:
        yield shared


@pytest.fixture
async def worker(shared_workers: Sequence[Worker]) -> Worker:
    (worker,) = shared_workers
    guard = worker.app.plugins.find("bruteForceAttackGuard")
    # In a test no time passes for the guard, and between two of them so much that it forgets.
    counters = guard._attempts._counters
    now = counters._clock() + A_LONG_TIME
    counters._clock = lambda: now
    await anew(shared_workers)
    guard._known.clear()
    return worker


async def block(worker: Worker) -> None:
    """Use up what the address has, with guesses at users who are not there."""
    for number in range(5):
        assert await worker.status(login=f"nobody{number}:wrong") == 401
    assert await worker.status(login="bob:other") == 429


async def log_in(worker: Worker) -> tuple[str, str]:
    """The token and the cookie of a login."""
    reply = await worker.ask("/whoami?set-auth-cookie", login="ada:secret")
    return reply.headers["auth-token"], reply.headers["set-cookie"].partition(";")[0]


async def test_the_cookie_is_cleared_and_its_token_ends(worker: Worker) -> None:
    _, cookie = await log_in(worker)
    await block(worker)
    reply = await worker.ask("/logout", method="POST", cookie=cookie)
    assert (reply.status_code, "Max-Age=0" in reply.headers["set-cookie"]) == (200, True)
    assert await worker.status(cookie=cookie) == 401


async def test_a_token_in_the_header_ends(worker: Worker) -> None:
    token, cookie = await log_in(worker)
    await block(worker)
    reply = await worker.ask("/logout", method="POST", login=f"ada:{token}")
    assert (reply.status_code, "Max-Age=0" in reply.headers["set-cookie"]) == (200, True)
    assert await worker.status(cookie=cookie) == 401


async def test_the_cookie_counts_beside_a_password_that_nobody_looks_at(worker: Worker) -> None:
    _, cookie = await log_in(worker)
    await block(worker)
    for password in ("wrong", "other"):
        reply = await worker.ask("/logout", method="POST", login=f"ada:{password}", cookie=cookie)
        assert reply.status_code == 200
        assert await worker.status(cookie=cookie) == 401


async def test_logging_out_tells_nobody_whether_a_password_is_right(worker: Worker) -> None:
    await block(worker)
    right, wrong = [
        await worker.ask("/logout", method="POST", login=f"ada:{password}")
        for password in ("secret", "wrong")
    ]
    assert (right.status_code, wrong.status_code) == (200, 200)
    assert right.headers.keys() == wrong.headers.keys()
    for password in ("secret", "wrong"):
        assert await worker.status(login=f"ada:{password}") == 429
