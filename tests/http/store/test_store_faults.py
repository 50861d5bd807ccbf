"""Faults that the store survives: lost connections, a database that is away, and comes back."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from pymongo import MongoClient

from docgraph.exchange import Deadline, Resource, ResourceType, Write, WriteKind
from docgraph.exchange.errors import OutcomeUnknown, StoreUnavailable, TimeLimitExceeded
from docgraph.observe import Event
from docgraph.observe.engine_events import CommandFinished
from docgraph.observe.events import ConnectionsUsed, DatabaseFound, DatabaseLost
from docgraph.store import Store, open_store
from docgraph.store.sections import AggregationSecurity, MClient
from tests.http import harness
from tests.http.proxy import Proxy, proxying
from tests.programs import HANGS_SECONDS

pytestmark = pytest.mark.anyio

Sync = MongoClient[dict[str, Any]]
INSERT = Write(WriteKind.INSERT, ({"a": 1},))


@pytest.fixture
def proxy(mongo_uri: str) -> Iterator[Proxy]:
    with proxying(mongo_uri) as proxy:
        yield proxy


@pytest.fixture
async def distant(proxy: Proxy) -> AsyncIterator[Store]:
    """A store behind the proxy, which notices soon what happens there."""
    async with distant_store(proxy) as store:
        yield store


@asynccontextmanager
async def distant_store(proxy: Proxy, *, selection_ms: int = 60_000) -> AsyncIterator[Store]:
    section = MClient(
        min_pool_size=0,
        heartbeat_frequency_ms=500,
        connect_timeout_ms=30_000,
        server_selection_timeout_ms=selection_ms,
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
    with harness.failing(client, "find", mode={"times": times}, namespace=namespace, **data):
        yield


@pytest.mark.parametrize(
    ("times", "fault"),
    [(1, {"errorCode": 91}), (1, {"closeConnection": True}), (5, {"errorCode": 175})],
)
async def test_read_that_fails_is_tried_again(
    distant: Store, database: str, mongo_client: Sync, times: int, fault: dict[str, Any]
) -> None:
    """Up to five times; after the first two faults the only server may count as away by then."""
    mongo_client[database].posts.insert_one({"_id": 1})

    with failing(mongo_client, f"{database}.posts", times, **fault):
        found = await distant.find(database, "posts", {}, limit=1, deadline=Deadline.never())

    assert found == [{"_id": 1}]


async def test_read_that_fails_again_and_again_is_unavailable(
    distant: Store, database: str, mongo_client: Sync
) -> None:
    """Decision 25."""
    with (
        failing(mongo_client, f"{database}.posts", 6, errorCode=91),
        pytest.raises(StoreUnavailable) as caught,
    ):
        await distant.find(database, "posts", {}, limit=1, deadline=Deadline.never())

    assert caught.value.status == 500


async def test_read_that_does_not_answer_ends_with_its_deadline(
    distant: Store, database: str, mongo_client: Sync
) -> None:
    """Decision 25."""
    await distant.ping(30)

    with (
        failing(mongo_client, f"{database}.posts", 1, blockConnection=True, blockTimeMS=600),
        pytest.raises(TimeLimitExceeded) as caught,
    ):
        await distant.find(database, "posts", {}, limit=1, deadline=Deadline.after_ms(200))

    assert caught.value.status == 408


async def test_connections_cut_under_load_do_not_show(
    distant: Store, proxy: Proxy, database: str
) -> None:
    await distant.ping(30)
    reads = [
        distant.find(database, "posts", {}, limit=1, deadline=Deadline.never()) for _ in range(8)
    ]

    running = asyncio.gather(*reads)
    await proxy.cut()

    assert await running == [[]] * 8


async def test_database_that_is_away_is_unavailable_by_the_deadline(
    distant: Store, proxy: Proxy, database: str
) -> None:
    """Decisions 25 and 45."""
    await proxy.close()
    await until(lambda: not distant.is_available)
    posts = Resource(ResourceType.COLLECTION, database, "posts")

    async with asyncio.timeout(30):  # half of what the selection of a server may take
        with pytest.raises(StoreUnavailable):
            await distant.find(database, "posts", {}, limit=1, deadline=Deadline.after_ms(200))
        with pytest.raises(StoreUnavailable):
            await distant.write(posts, INSERT, deadline=Deadline.after_ms(200))
        with pytest.raises(StoreUnavailable):
            await distant.ping(0.2)


async def test_without_a_deadline_selection_of_a_server_is_bounded(
    proxy: Proxy, database: str
) -> None:
    """Decision 25."""
    await proxy.close()
    posts = Resource(ResourceType.COLLECTION, database, "posts")

    async with distant_store(proxy, selection_ms=200) as store, asyncio.timeout(30):
        with pytest.raises(StoreUnavailable):
            await store.find(database, "posts", {}, limit=1, deadline=Deadline.never())
        with pytest.raises(StoreUnavailable):
            await store.write(posts, INSERT, deadline=Deadline.never())


async def test_commands_under_way_end_when_the_database_goes_away_for_good(
    distant: Store, proxy: Proxy, database: str, mongo_client: Sync
) -> None:
    """Neither the ceiling (5 minutes) nor the selection of a server (60 s here) is waited for."""
    await distant.ping(30)
    posts = Resource(ResourceType.COLLECTION, database, "posts")
    block = {"blockConnection": True, "blockTimeMS": 500}
    with harness.failing(
        mongo_client, "insert", "find", mode="alwaysOn", namespace=f"{database}.posts", **block
    ):
        write = asyncio.create_task(distant.write(posts, INSERT, deadline=Deadline.never()))
        read = asyncio.create_task(
            distant.find(database, "posts", {}, limit=1, deadline=Deadline.never())
        )
        await until(lambda: len(distant.waits.entries.get(id(distant.client), ())) == 2)
        await proxy.close()

        async with asyncio.timeout(30):
            with pytest.raises(OutcomeUnknown) as unknown:
                await write
            with pytest.raises(StoreUnavailable) as away:
                await read

    assert (unknown.value.status, unknown.value.code) == (500, "outcome-unknown")
    assert away.value.code == "database-unavailable"


async def test_a_database_that_is_away_is_not_waited_for_at_the_end(proxy: Proxy) -> None:
    """It would be told which sessions and cursors are over, within the selection of a server."""
    async with asyncio.timeout(HANGS_SECONDS):
        async with distant_store(proxy, selection_ms=1000 * 2 * HANGS_SECONDS) as store:
            await store.ping(30)
            await store.client.admin.command("ping")  # of a session that is kept
            await proxy.close()
            await until(lambda: store.waits.is_away)


async def test_database_known_to_be_away_is_not_waited_for(
    distant: Store, proxy: Proxy, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads, writes and looks at its health alike; when it is back, they are answered again."""
    await distant.ping(30)
    posts = Resource(ResourceType.COLLECTION, database, "posts")
    await proxy.close()
    await until(lambda: distant.waits.is_away)

    with monkeypatch.context() as patch:
        patch.setattr(distant.client, "_select_server", lambda *_, **__: pytest.fail("waits"))
        patch.setattr(distant._availability, "_try_login", lambda: asyncio.sleep(0))
        for work in (
            distant.find(database, "posts", {}, limit=1, deadline=Deadline.never()),
            distant.write(posts, INSERT, deadline=Deadline.never()),
            distant.ping(30),
        ):
            with pytest.raises(StoreUnavailable):
                await work

    await proxy.open()
    await until(lambda: not distant.waits.is_away)
    assert await distant.find(database, "posts", {}, limit=1, deadline=Deadline.never()) == []


async def test_write_does_not_wait_for_a_connection_until_its_ceiling(
    database: str, mongo_uri: str, mongo_client: Sync
) -> None:
    """The driver would, where the time of a command is given to it."""
    section = MClient(min_pool_size=0, max_pool_size=1, wait_queue_timeout_ms=50)
    store = open_store(section, AggregationSecurity(), connection_string=mongo_uri)
    posts = Resource(ResourceType.COLLECTION, database, "posts")
    await store.ping(30)
    with failing(mongo_client, f"{database}.posts", 1, blockConnection=True, blockTimeMS=3_000):
        slow = asyncio.create_task(
            store.find(database, "posts", {}, limit=1, deadline=Deadline.never())
        )
        await until(lambda: len(store.waits.entries.get(id(store.client), ())) == 1)

        with pytest.raises(StoreUnavailable, match="no connection"):
            await store.write(posts, INSERT, deadline=Deadline.never())

        assert not slow.done()
        await slow
    await store.close()


async def test_database_is_lost_and_found_once_each(
    events: list[Event], distant: Store, proxy: Proxy, database: str
) -> None:
    """Decision 45."""

    def told() -> list[str]:
        return [
            event.name
            for event in events
            if not isinstance(event, CommandFinished | ConnectionsUsed)
        ]

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
    async with distant_store(proxy) as store:
        waiting = asyncio.create_task(store.available())
        with pytest.raises(StoreUnavailable):
            await store.ping(0.2)
        was_done = waiting.done()

        await proxy.open()
        async with asyncio.timeout(30):
            await waiting
            await store.ping(30)

    assert not was_done
