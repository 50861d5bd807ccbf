"""Faults that the store survives: lost connections, a database that is away, and comes back."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from pymongo import MongoClient

from docgraph.config.sections import AggregationSecurity, MClient
from docgraph.exchange import Deadline, Resource, ResourceType, Write, WriteKind
from docgraph.exchange.errors import StoreUnavailable, TimeLimitExceeded
from docgraph.observe.events import CommandFinished, DatabaseFound, DatabaseLost, Event
from docgraph.store import Store, open_store

pytestmark = pytest.mark.anyio

Sync = MongoClient[dict[str, Any]]
INSERT = Write(WriteKind.INSERT, ({"a": 1},))


class Proxy:
    """A way to the database that can be closed, cut and opened again."""

    def __init__(self, uri: str) -> None:
        self._target = urlsplit(uri).netloc.split(":")
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    @property
    def uri(self) -> str:
        return f"mongodb://127.0.0.1:{self.port}/?directConnection=true"

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
            self.cut()

    def cut(self) -> None:
        """End every connection that is open now."""
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self._target
        self._writers.add(writer)
        back_reader, back_writer = await asyncio.open_connection(host, int(port))
        if self._server is None:  # closed in the meantime
            back_writer.transport.abort()
        self._writers.add(back_writer)
        await asyncio.gather(_pump(reader, back_writer), _pump(back_reader, writer))
        self._writers -= {writer, back_writer}


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


@pytest.fixture
async def proxy(mongo_uri: str) -> AsyncIterator[Proxy]:
    proxy = Proxy(mongo_uri)
    await proxy.open()
    yield proxy
    await proxy.close()


@pytest.fixture
async def distant(proxy: Proxy) -> AsyncIterator[Store]:
    """A store behind the proxy, with little patience."""
    async with impatient_store(proxy) as store:
        yield store


@asynccontextmanager
async def impatient_store(proxy: Proxy) -> AsyncIterator[Store]:
    section = MClient(
        min_pool_size=0,
        heartbeat_frequency_ms=500,
        connect_timeout_ms=500,
        server_selection_timeout_ms=1000,
    )
    store = open_store(section, AggregationSecurity(), connection_string=proxy.uri)
    store.connect()
    yield store
    await store.close()
    await proxy.close()
    with warnings.catch_warnings():  # the driver forgets sockets that it was just connecting
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - the state of another task
            await asyncio.sleep(0.01)


@contextmanager
def failing(client: Sync, namespace: str, times: int, **data: Any) -> Iterator[None]:
    """Let `find` on that collection fail that many times, in the server."""
    data |= {"failCommands": ["find"], "namespace": namespace}
    point = {"configureFailPoint": "failCommand"}
    client.admin.command({**point, "mode": {"times": times}, "data": data})
    yield
    client.admin.command({**point, "mode": "off"})


@pytest.mark.parametrize("fault", [{"errorCode": 91}, {"closeConnection": True}])
async def test_read_that_fails_once_is_tried_again(
    distant: Store, database: str, mongo_client: Sync, fault: dict[str, Any]
) -> None:
    mongo_client[database].posts.insert_one({"_id": 1})

    with failing(mongo_client, f"{database}.posts", 1, **fault):
        found = await distant.find(database, "posts", {}, limit=1, deadline=Deadline.never())

    assert found == [{"_id": 1}]


async def test_read_that_fails_twice_is_unavailable(
    distant: Store, database: str, mongo_client: Sync
) -> None:
    """Decision 25."""
    with (
        failing(mongo_client, f"{database}.posts", 2, errorCode=91),
        pytest.raises(StoreUnavailable) as caught,
    ):
        await distant.find(database, "posts", {}, limit=1, deadline=Deadline.never())

    assert caught.value.status == 500


async def test_read_that_does_not_answer_ends_with_its_deadline(
    distant: Store, database: str, mongo_client: Sync
) -> None:
    """Decision 25."""
    await distant.ping(5)

    with failing(mongo_client, f"{database}.posts", 1, blockConnection=True, blockTimeMS=2000):
        started = asyncio.get_running_loop().time()
        with pytest.raises(TimeLimitExceeded) as caught:
            await distant.find(database, "posts", {}, limit=1, deadline=Deadline.after_ms(200))
        elapsed = asyncio.get_running_loop().time() - started

    assert caught.value.status == 408
    assert elapsed < 20


async def test_connections_cut_under_load_do_not_show(
    distant: Store, proxy: Proxy, database: str
) -> None:
    await distant.ping(5)
    reads = [
        distant.find(database, "posts", {}, limit=1, deadline=Deadline.never()) for _ in range(8)
    ]

    running = asyncio.gather(*reads)
    proxy.cut()

    assert await running == [[]] * 8


async def test_database_that_is_away_is_unavailable_by_the_deadline(
    distant: Store, proxy: Proxy, database: str
) -> None:
    """Decisions 25 and 45."""
    await proxy.close()
    await until(lambda: not distant.is_available)
    posts = Resource(ResourceType.COLLECTION, database, "posts")
    started = asyncio.get_running_loop().time()

    with pytest.raises(StoreUnavailable):
        await distant.find(database, "posts", {}, limit=1, deadline=Deadline.after_ms(300))
    with pytest.raises(StoreUnavailable):
        await distant.write(posts, INSERT, deadline=Deadline.after_ms(300))
    with pytest.raises(StoreUnavailable):
        await distant.ping(0.3)

    assert asyncio.get_running_loop().time() - started < 4


async def test_without_a_deadline_selection_of_a_server_is_bounded(
    distant: Store, proxy: Proxy, database: str
) -> None:
    """Decision 25."""
    await proxy.close()
    posts = Resource(ResourceType.COLLECTION, database, "posts")

    async with asyncio.timeout(30):
        with pytest.raises(StoreUnavailable):
            await distant.find(database, "posts", {}, limit=1, deadline=Deadline.never())
        with pytest.raises(StoreUnavailable):
            await distant.write(posts, INSERT, deadline=Deadline.never())


async def test_database_is_lost_and_found_once_each(
    events: list[Event], distant: Store, proxy: Proxy, database: str
) -> None:
    """Decision 45."""

    def told() -> list[str]:
        return [event.name for event in events if not isinstance(event, CommandFinished)]

    await distant.available()
    await proxy.close()
    await until(lambda: told() == ["database-found", "database-lost"])
    assert not distant.is_available
    await proxy.open()
    await until(lambda: len(told()) == 3)
    await distant.find(database, "posts", {}, limit=1, deadline=Deadline.never())

    found, lost, again = (e for e in events if isinstance(e, DatabaseFound | DatabaseLost))
    assert isinstance(lost, DatabaseLost)
    assert isinstance(found, DatabaseFound)
    assert isinstance(again, DatabaseFound)
    assert again.down_seconds > 0
    assert "127.0.0.1" not in lost.reason


async def test_first_answer_can_be_awaited(proxy: Proxy) -> None:
    """Decision 45: initializers follow when the database first answers."""
    await proxy.close()
    async with impatient_store(proxy) as store:
        waiting = asyncio.create_task(store.available())
        with pytest.raises(StoreUnavailable):
            await store.ping(0.2)
        was_done = waiting.done()

        await proxy.open()
        async with asyncio.timeout(30):
            await waiting
            await store.ping(5)

    assert not was_done
