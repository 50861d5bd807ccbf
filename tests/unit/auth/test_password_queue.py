"""Password checks take turns by user and address, and a rejection says how long it will take."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import copy_context

import pytest

from docgraph.auth import password_queue as module
from docgraph.auth.password_queue import PasswordQueue, find_login, reject_login, set_login
from docgraph.exchange import Exchange, Request
from docgraph.exchange.errors import Overloaded

pytestmark = pytest.mark.anyio


class Checks:
    """Checks that end one by one, when the test says so."""

    def __init__(self, seconds: float = 2.0) -> None:
        self.now = 0.0
        self.queue = PasswordQueue(1, seconds, clock=lambda: self.now)
        self.begun: list[str] = []
        self._may_end = asyncio.Semaphore(0)
        self.tasks: list[asyncio.Task[None]] = []

    async def add(self, *checks: tuple[str, str]) -> None:
        """Add checks: user and address."""
        for user, address in checks:
            name = f"{user}{len(self.tasks)}"
            self.tasks.append(asyncio.create_task(self._run(name, (user, address))))
        await asyncio.sleep(0)

    async def _run(self, name: str, shares: Sequence[str]) -> None:
        async def check() -> None:
            self.begun.append(name)
            await self._may_end.acquire()

        await self.queue.run(name.encode(), shares, check)

    async def finish(self) -> list[object]:
        for _ in self.tasks:
            self._may_end.release()
        return await asyncio.gather(*self.tasks, return_exceptions=True)


async def test_an_address_with_many_logins_does_not_hold_up_others() -> None:
    checks = Checks()
    await checks.add(*((f"herd{number}-", "A") for number in range(5)), ("ada", "B"), ("bob", "C"))
    await checks.finish()
    assert checks.begun[:4] == ["herd0-0", "herd1-1", "ada5", "bob6"]


async def test_a_user_whose_password_is_guessed_does_not_hold_up_others() -> None:
    checks = Checks()
    await checks.add(*(("victim", f"A{number}") for number in range(5)), ("ada", "B"))
    await checks.finish()
    assert checks.begun[:3] == ["victim0", "victim1", "ada5"]


async def test_no_check_waits_forever() -> None:
    checks = Checks()
    await checks.add(*(("many", "A") for _ in range(4)))
    for number in range(20):
        await checks.add((f"new{number}-", f"B{number}"))
        checks._may_end.release()
        await asyncio.sleep(0.001)
    assert [one for one in checks.begun if one.startswith("many")] == [
        "many0",
        "many1",
        "many2",
        "many3",
    ]
    await checks.finish()


async def test_a_rejection_has_the_expected_wait() -> None:
    checks = Checks(seconds=2.0)
    await checks.add(*((f"u{number}-", f"A{number}") for number in range(5)))
    keys = [f"u{number}-{number}".encode() for number in range(5)]
    waits = [checks.queue.foresee(key, lambda _: False) for key in keys]
    assert waits == [2, 4, 6, 8, 10]  # the first one is running
    assert dict(reject_login(3.2).headers)["Retry-After"] == "4"
    await checks.finish()


async def test_the_forecast_follows_the_pace() -> None:
    """The check that runs is half done; checks that other workers have made quicken the pace."""
    checks = Checks(seconds=2.0)
    await checks.add(*((f"u{number}-", f"A{number}") for number in range(6)))
    checks.now = 5.0
    for _ in range(2):
        checks._may_end.release()
    await asyncio.gather(*checks.tasks[:2])
    assert checks.queue.foresee(b"u5-5", lambda _: False) == 3 * (5 / 2.5) + 2
    assert checks.queue.foresee(b"u5-5", {b"u3-3", b"u4-4"}.__contains__) == 1 * (5 / 4.5) + 2
    await checks.finish()


async def test_when_it_is_full_the_greediest_gives_up_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "QUEUE", 3)
    checks = Checks()
    await checks.add(*((f"herd{number}-", "A") for number in range(4)))
    await checks.add(("ada", "B"), ("herd4-", "A"))
    results = await checks.finish()
    refused = [number for number, one in enumerate(results) if isinstance(one, Overloaded)]
    assert refused == [3, 5]
    assert "ada4" in checks.begun


async def test_what_a_login_starts_does_not_hold_its_request() -> None:
    """A connection to the database that is opened meanwhile has the context of the request."""
    login = Exchange(Request("GET", b"/"), "1")
    set_login(login)
    context = copy_context()
    assert context.run(find_login) is login
    del login
    assert context.run(find_login) is None
