"""Whether the database answers: looked at soon after the start, and never given up."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import pytest
from pymongo.errors import AutoReconnect

from docgraph.exchange.errors import StoreError
from docgraph.observe import Event
from docgraph.observe.events import BackgroundFailed, DatabaseFound, DatabaseRefused
from docgraph.store.driver import availability as looking
from docgraph.store.driver.availability import Availability
from docgraph.store.driver.client import DriverClient, build_client
from docgraph.store.driver.connection_status import ConnectionStatus, Refused
from docgraph.store.driver.waiting import Waits
from docgraph.store.sections import MClient
from tests.http.driver import settle
from tests.http.harness import Mongo, failing

pytestmark = pytest.mark.anyio

CONTACT = ConnectionStatus("db:1", "ann", "docgraph.yml:3")


@pytest.fixture
async def own_client(mongo_uri: str) -> AsyncIterator[DriverClient]:
    """A client that has not connected yet."""
    client = build_client(MClient(min_pool_size=0), mongo_uri)
    yield client
    await settle(client)
    await client.close()


async def test_the_first_looks_come_soon_and_the_pauses_grow(own_client: DriverClient) -> None:
    pauses: list[float] = []
    enough = asyncio.Event()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 8:
            enough.set()
        await asyncio.sleep(0.001)

    availability = Availability(own_client, sleep=sleep)
    availability.start()
    async with asyncio.timeout(60):
        await enough.wait()
        await availability.wait()
    await availability.stop()

    assert pauses[:8] == pytest.approx([0.01, 0.02, 0.04, 0.08, 0.16, 0.2, 0.2, 0.2])


async def test_an_unexpected_error_is_told_and_it_is_looked_again(
    own_client: DriverClient, monkeypatch: pytest.MonkeyPatch, events: list[Event]
) -> None:
    connect, attempts = own_client.aconnect, 0

    async def fail_first() -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise ValueError("nobody thought of this")
        await connect()

    monkeypatch.setattr(own_client, "aconnect", fail_first)
    availability = Availability(own_client)
    availability.start()
    async with asyncio.timeout(60):
        await availability.wait()
    await availability.stop()

    told = [one for one in events if isinstance(one, BackgroundFailed | DatabaseFound)]
    assert [type(one) for one in told] == [BackgroundFailed, DatabaseFound]
    assert isinstance(told[1], DatabaseFound)
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", told[1].version)


async def test_a_server_that_cannot_tell_our_rights_is_as_good_as_any(
    own_client: DriverClient, mongo_client: Mongo, events: list[Event]
) -> None:
    command_not_found = 59
    availability = Availability(own_client)
    with failing(mongo_client, "connectionStatus", errorCode=command_not_found):
        availability.start()
        async with asyncio.timeout(60):
            await availability.wait()
    await availability.stop()

    assert availability.fault is None
    assert [type(one) for one in events if isinstance(one, DatabaseFound)] == [DatabaseFound]


async def test_no_task_is_left_when_it_is_stopped(own_client: DriverClient) -> None:
    before = {task.get_name() for task in asyncio.all_tasks()}
    availability = Availability(own_client)
    availability.start()
    availability.start()
    await asyncio.sleep(0)
    assert {task.get_name() for task in asyncio.all_tasks()} - before

    await availability.stop()

    assert "database-availability" not in {task.get_name() for task in asyncio.all_tasks()}


async def test_a_refusal_that_a_command_noticed_first_is_explained(
    own_client: DriverClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands end with the explanation: there is no log of theirs to look into."""
    waits = Waits()
    availability = Availability(own_client, waits, CONTACT)  # has not looked itself yet
    refusal = Refused(CONTACT, "wrong user, password or authSource", "correct it")

    async def log_in(*_: object) -> Refused:
        return refusal

    monkeypatch.setattr(looking, "log_in", log_in)
    waits.is_refused = True

    assert await availability.explains(StoreError("the database refuses the login of docgraph"))

    assert availability.fault == refusal
    await availability.stop()


async def test_servers_that_refuse_our_login_are_away_after_a_second(
    own_client: DriverClient, monkeypatch: pytest.MonkeyPatch, events: list[Event]
) -> None:
    """The driver's monitors do not log in: to them such a server is as good as any."""
    now = 0.0
    waits = Waits()
    availability = Availability(own_client, waits, CONTACT, clock=lambda: now)
    fault: Refused | None = None

    async def log_in(*_: object) -> Refused | None:
        return fault

    def is_away() -> bool:
        return waits.is_away

    monkeypatch.setattr(looking, "log_in", log_in)
    availability.start()
    async with asyncio.timeout(60):
        await availability.wait()
        fault = Refused(CONTACT, "wrong password", "correct it")
        waits.is_refused = True
        while availability._gone_at is None:  # noqa: ASYNC110 - the state of another task
            await asyncio.sleep(0.01)
        assert not is_away()
        now = 1.0
        while not is_away():  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
        fault = None
        while is_away():  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
    await availability.stop()

    told = [one for one in events if isinstance(one, DatabaseFound | DatabaseRefused)]
    assert [type(one) for one in told][:2] == [DatabaseFound, DatabaseRefused]
    assert told[1] == DatabaseRefused(
        "wrong password", "ann", "db:1", "docgraph.yml:3", "correct it"
    )


async def test_a_database_that_answers_between_two_looks_is_not_away(
    own_client: DriverClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands whose connections are cut make the driver doubt a server that is there."""
    now, answers = 0.0, True
    seen: list[bool] = []
    waits = Waits()

    async def log_in(*_: object) -> None:
        if not answers:
            raise AutoReconnect("cut")

    async def read_version(_: object) -> str:
        return "7.0.1"

    async def sleep(_: float) -> None:
        nonlocal now
        now += 0.6
        await asyncio.sleep(0.001)
        seen.append(waits.is_away)

    def is_away() -> bool:
        return waits.is_away

    monkeypatch.setattr(looking, "_has_lost_all", lambda _: True)
    monkeypatch.setattr(looking, "log_in", log_in)
    monkeypatch.setattr(looking, "read_version", read_version)
    availability = Availability(own_client, waits, clock=lambda: now, sleep=sleep)
    availability.start()
    async with asyncio.timeout(60):
        while len(seen) < 20:  # noqa: ASYNC110 - the state of another task
            await asyncio.sleep(0.001)
        assert not any(seen)
        answers = False
        while not is_away():  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.001)
        answers = True
        while is_away():  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.001)
    await availability.stop()
