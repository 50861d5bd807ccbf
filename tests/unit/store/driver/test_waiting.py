"""How long commands wait for a server, and what ends it."""

from __future__ import annotations

import asyncio

import pytest
from pymongo.hello import Hello
from pymongo.server_description import ServerDescription
from pymongo.topology_description import TOPOLOGY_TYPE, TopologyDescription

from docgraph.exchange.deadline import Deadline, Patience
from docgraph.store.driver.waiting import Election, WaitingCommand, Waits

pytestmark = pytest.mark.anyio


CLIENT = object()


class Command:
    """A command without end, at a moment of the event loop that the test says."""

    def __init__(self, waits: Waits, patience: Patience | None = None) -> None:
        self.has_server = False
        self._waits, self._deadline = waits, Deadline(patience=patience)
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        with WaitingCommand(self._waits, CLIENT, None, lambda: self.has_server, self._deadline):
            await asyncio.Event().wait()

    async def is_ended(self) -> bool:
        for _ in range(5):
            await asyncio.sleep(0)
        return self.task.done() and isinstance(self.task.exception(), TimeoutError)

    async def leave(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


async def begin(waits: Waits, patience: Patience | None = None) -> Command:
    command = Command(waits, patience)
    await asyncio.sleep(0)
    return command


async def test_waiting_for_a_server_ends_with_the_patience() -> None:
    waits, base = Waits(15.0), asyncio.get_running_loop().time() - 1000
    command = await begin(waits)

    for seconds in (0.0, 5.0, 14.9):
        waits.expire(base + seconds, is_away=False)
        assert not await command.is_ended()

    waits.expire(base + 15.0, is_away=False)
    assert await command.is_ended()
    assert not waits.entries[id(CLIENT)]


async def test_a_command_that_a_living_server_executes_is_not_bounded() -> None:
    waits, base = Waits(15.0), asyncio.get_running_loop().time() - 1000
    command = await begin(waits)
    command.has_server = True

    for seconds in (0.0, 500.0):
        waits.expire(base + seconds, is_away=False)
        assert not await command.is_ended()

    command.has_server = False  # given up by the driver: from now on it waits
    waits.expire(base + 500.0, is_away=False)
    waits.expire(base + 514.0, is_away=False)
    assert not await command.is_ended()
    waits.expire(base + 515.0, is_away=False)
    assert await command.is_ended()


async def test_what_one_command_waited_the_next_one_of_the_request_cannot() -> None:
    waits, base = Waits(15.0), asyncio.get_running_loop().time() - 1000
    patience = Patience(10.0)
    first = await begin(waits, patience)
    waits.expire(base, is_away=False)
    first.has_server = True
    waits.expire(base + 6.0, is_away=False)
    await first.leave()

    assert patience.left == pytest.approx(4.0)
    second = await begin(waits, patience)
    waits.expire(base + 100.0, is_away=False)
    waits.expire(base + 104.0, is_away=False)
    assert await second.is_ended()


async def test_all_who_wait_are_ended_when_the_database_is_known_to_be_away() -> None:
    waits, base = Waits(15.0), asyncio.get_running_loop().time() - 1000
    commands = [await begin(waits), await begin(waits, Patience(0.1))]

    waits.expire(base, is_away=True)

    assert [await command.is_ended() for command in commands] == [True, True]
    assert waits.is_away


async def test_without_a_limit_the_patience_has_no_end() -> None:
    waits, base = Waits(None), asyncio.get_running_loop().time() - 1000
    command = await begin(waits)

    waits.expire(base, is_away=False)
    waits.expire(base + 900.0, is_away=False)

    assert not await command.is_ended()
    await command.leave()


SECONDARY = {"ok": 1, "setName": "rs", "secondary": True, "maxWireVersion": 21}
PRIMARY = {**SECONDARY, "secondary": False, "isWritablePrimary": True}


def topology(kind: int, *replies: dict[str, object] | None) -> TopologyDescription:
    """Members with these replies; None: it does not answer."""
    members = [
        ServerDescription(("m", number), None if reply is None else Hello(reply))
        for number, reply in enumerate(replies)
    ]
    servers = {one.address: one for one in members}
    return TopologyDescription(kind, servers, "rs", None, None, None)


def test_an_election_is_awaited_as_long_as_requests_wait() -> None:
    """Decision 60: from the loss of the primary, and again from the next one."""
    now = 0.0
    election = Election(15.0, lambda: now)
    leaderless = topology(TOPOLOGY_TYPE.ReplicaSetNoPrimary, SECONDARY, None)
    for _ in range(2):
        assert not election.is_awaited(
            topology(TOPOLOGY_TYPE.ReplicaSetWithPrimary, SECONDARY, PRIMARY)
        )
        now += 100.0
        assert election.is_awaited(leaderless)
        now += 14.9
        assert election.is_awaited(leaderless)
        now += 0.2
        assert not election.is_awaited(leaderless)


@pytest.mark.parametrize(
    "known",
    [
        topology(TOPOLOGY_TYPE.ReplicaSetNoPrimary, None, None),
        topology(TOPOLOGY_TYPE.Unknown, None),
        topology(TOPOLOGY_TYPE.Single, SECONDARY),
        topology(TOPOLOGY_TYPE.Sharded, None),
    ],
)
def test_no_election_is_awaited_without_a_member_that_answers(known: TopologyDescription) -> None:
    assert not Election(15.0).is_awaited(known)
