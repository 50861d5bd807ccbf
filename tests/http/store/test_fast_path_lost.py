"""Reads on the fast path whose server is given up while they wait: they end, and no others.

Between client and `mongod` stands a relay that holds back reads and, when it is told to, lets
nothing through any more, not even heartbeats. Nothing here depends on how long anything takes.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import bson
import pytest
from pymongo import MongoClient
from pymongo.errors import AutoReconnect
from pymongo.read_preferences import SecondaryPreferred

from docgraph.exchange.data import Document
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import StoreUnavailable
from docgraph.store import DriverClient, Store
from docgraph.store.driver.client import build_client
from docgraph.store.driver.fast_path import FastPath
from docgraph.store.sections import MClient
from tests.http.driver import settle

pytestmark = pytest.mark.anyio

OP_REPLY, OP_MSG = 1, 2013
BODY = {OP_REPLY: 36, OP_MSG: 21}  # where the document of a message begins
IMPATIENT = "heartbeatFrequencyMS=500&connectTimeoutMS=2000&minPoolSize=0"
ENOUGH = 120.0


class Relay:
    """Passes messages on, between one client and the `mongod` at that port."""

    def __init__(self, port: int, *, as_router: bool = False) -> None:
        self._port = port
        self._as_router = as_router
        self._links: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.finds: list[int] = []  # the connections that reads came by, oldest first
        self.connections = 0
        self.may_find, self.is_lit = asyncio.Event(), asyncio.Event()
        self.is_lit.set()

    async def link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        self._writers.add(writer)
        self._keep(asyncio.current_task())
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers.add(back)
        for work in (self._ask(reader, back, number), self._answer(there, writer)):
            self._keep(asyncio.create_task(work))

    def _keep(self, task: asyncio.Task[None] | None) -> None:
        assert task is not None
        self._links.add(task)
        task.add_done_callback(self._links.discard)

    async def _ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                message = await read_message(reader)
                if b"\x02find\x00" in message:
                    self.finds.append(number)
                    await self.may_find.wait()
                await self.is_lit.wait()
                writer.write(message)
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                message = await read_message(reader)
                await self.is_lit.wait()
                writer.write(pose_as_router(message) if self._as_router else message)
        writer.close()

    async def close(self) -> None:
        tasks = tuple(self._links)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in self._writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def read_message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(4)
    return head + await reader.readexactly(struct.unpack("<i", head)[0] - 4)


def pose_as_router(message: bytes) -> bytes:
    """A member of a set, as a `mongos`: a client may have several of those and choose any."""
    operation = struct.unpack_from("<i", message, 12)[0]
    if b"setName" not in message:
        return message
    document = bson.decode(message[BODY[operation] :])
    for name in ("setName", "setVersion", "hosts", "me", "primary", "secondary", "electionId"):
        document.pop(name, None)
    rest = message[4 : BODY[operation]] + bson.encode({**document, "msg": "isdbgrid"})
    return struct.pack("<i", len(rest) + 4) + rest


@asynccontextmanager
async def relaying(uri: str, *, as_router: bool = False) -> AsyncIterator[tuple[Relay, str]]:
    """A relay before that database, and its address."""
    relay = Relay(urlsplit(uri).port or 0, as_router=as_router)
    server = await asyncio.start_server(relay.link, "127.0.0.1", 0)
    try:
        yield relay, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await relay.close()


@pytest.fixture
async def relay(mongo_uri: str) -> AsyncIterator[tuple[Relay, DriverClient]]:
    async with relaying(mongo_uri) as (relay, address):
        options = f"directConnection=true&retryReads=false&{IMPATIENT}"
        async with build_client(MClient(), f"mongodb://{address}/?{options}") as client:
            yield relay, client
            await let_go(relay, client)


async def let_go(relay: Relay, client: DriverClient) -> None:
    """Let a client connect before it is closed: in between, the driver forgets its connection."""
    relay.is_lit.set()
    relay.may_find.set()
    await settle(client, ENOUGH)


@pytest.fixture
def letters(database: str, mongo_client: MongoClient[Document]) -> str:
    mongo_client[database]["letters"].insert_many([{"_id": one} for one in "abc"])
    return database


async def reach(relays: list[Relay], finds: int) -> None:
    """Wait until so many reads have come to the relays."""
    async with asyncio.timeout(ENOUGH):
        while sum(len(relay.finds) for relay in relays) < finds:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)


async def find_all(store: Store, db: str) -> list[Document]:
    return await store.find(db, "letters", {}, limit=10, deadline=Deadline.after_ms(300_000))


async def test_read_that_waits_for_a_server_that_was_given_up_ends_with_an_error(
    relay: tuple[Relay, DriverClient], letters: str
) -> None:
    held, client = relay
    store = Store(client)
    fast_path = store._commands._fast_path
    assert fast_path is not None
    reading = asyncio.create_task(find_all(store, letters))
    await reach([held], 1)
    held.is_lit.clear()

    with pytest.raises(StoreUnavailable):
        async with asyncio.timeout(ENOUGH):
            await reading

    assert fast_path._waiting == {}


async def test_read_that_its_caller_gives_up_leaves_its_answer_to_nobody(
    relay: tuple[Relay, DriverClient], letters: str
) -> None:
    held, client = relay
    fast_path = FastPath.find(client)
    assert fast_path is not None
    slow = {"find": "letters", "filter": {}}
    quick = {"find": "letters", "filter": {"_id": "a"}}
    reading = asyncio.create_task(fast_path.read(letters, slow, SecondaryPreferred()))
    await reach([held], 1)

    reading.cancel()
    await asyncio.wait([reading])
    held.may_find.set()
    reads = (fast_path.read(letters, quick, SecondaryPreferred()) for _ in range(20))
    answers = await asyncio.gather(*reads)

    assert [answer["cursor"]["firstBatch"] for answer, _ in answers] == [[{"_id": "a"}]] * 20
    assert fast_path._waiting == {}


async def test_connection_to_a_server_that_was_given_up_is_not_used_again(
    relay: tuple[Relay, DriverClient], letters: str
) -> None:
    held, client = relay
    fast_path = FastPath.find(client)
    assert fast_path is not None
    command = {"find": "letters", "filter": {}}
    reading = asyncio.create_task(fast_path.read(letters, command, SecondaryPreferred()))
    await reach([held], 1)
    before = held.connections
    held.is_lit.clear()
    with pytest.raises(AutoReconnect):
        async with asyncio.timeout(ENOUGH):
            await reading

    held.is_lit.set()
    held.may_find.set()
    documents = await find_all(Store(client), letters)

    assert len(documents) == 3
    assert held.finds[-1] > before


async def test_reads_that_wait_for_other_servers_are_not_disturbed(
    mongo_uri: str, letters: str
) -> None:
    async with (
        relaying(mongo_uri, as_router=True) as (lost, one),
        relaying(mongo_uri, as_router=True) as (good, other),
        build_client(
            MClient(), f"mongodb://{one},{other}/?{IMPATIENT}&localThresholdMS=60000"
        ) as client,
    ):
        fast_path = FastPath.find(client)
        assert fast_path is not None
        await until_both_are_known(client)
        command = {"find": "letters", "filter": {}}
        reads: list[asyncio.Task[Any]] = []
        while not (lost.finds and good.finds):  # the driver chooses at random
            read = fast_path.read(letters, command, SecondaryPreferred())
            reads.append(asyncio.create_task(read))
            await reach([lost, good], len(reads))
        lost.is_lit.clear()

        ended = await until_some_end(reads, len(lost.finds))

        assert [type(read.exception()) for read in ended] == [AutoReconnect] * len(lost.finds)
        assert len(fast_path._waiting) == len(good.finds)
        good.may_find.set()
        answers = [await read for read in reads if read not in ended]
        assert [len(one["cursor"]["firstBatch"]) for one, _ in answers] == [3] * len(good.finds)
        assert fast_path._waiting == {}
        await let_go(lost, client)


async def until_both_are_known(client: DriverClient) -> None:
    await client.aconnect()
    async with asyncio.timeout(ENOUGH):
        while len(client.topology_description.readable_servers) < 2:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)


async def until_some_end(reads: list[asyncio.Task[Any]], count: int) -> set[asyncio.Task[Any]]:
    ended: set[asyncio.Task[Any]] = set()
    async with asyncio.timeout(ENOUGH):
        while len(ended) < count:
            ended, _ = await asyncio.wait(
                [*reads], return_when=asyncio.FIRST_COMPLETED, timeout=0.05
            )
    return ended
