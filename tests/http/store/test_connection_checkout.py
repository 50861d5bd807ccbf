"""Connections that reads check out themselves: the driver's pool counts them as its own."""

from __future__ import annotations

import asyncio
from math import inf

import pytest
from pymongo.asynchronous.pool import Pool
from pymongo.asynchronous.server import Server
from pymongo.errors import AutoReconnect
from pymongo.read_preferences import ReadPreference

from docgraph.store.driver import connection_checkout
from docgraph.store.driver.client import DriverClient, build_client
from docgraph.store.driver.connection_checkout import check_in, check_in_failed, check_out_idle
from docgraph.store.sections import MClient

pytestmark = pytest.mark.anyio

UNUSED = (0, 0, 0, 0)


@pytest.fixture(autouse=True)
def never_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine must not make a connection one that was idle for long."""
    monkeypatch.setattr(connection_checkout, "_MAX_IDLE", inf)


async def find_server(client: DriverClient) -> Server:
    """Return the server, with one idle connection in its pool."""
    await client.admin.command("ping")
    return await client._select_server(ReadPreference.PRIMARY, None, "ping")


def count(pool: Pool) -> tuple[int, int, int, int]:
    contexts = len(pool.active_contexts)
    return pool.requests, pool.active_sockets, pool.operation_count, contexts


async def test_the_pool_counts_a_connection_until_it_is_returned(mongo_uri: str) -> None:
    async with build_client(MClient(), mongo_uri) as client:
        pool = (await find_server(client)).pool
        connection = check_out_idle(pool)
        assert connection is not None
        assert (count(pool), list(pool.conns)) == ((1, 1, 1, 1), [])
        assert check_out_idle(pool) is None

        await check_in(pool, connection)
        assert (count(pool), list(pool.conns)) == (UNUSED, [connection])


async def test_a_connection_that_is_outdated_is_left_to_the_driver(
    mongo_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with build_client(MClient(), mongo_uri) as client:
        pool = (await find_server(client)).pool
        pool.conns[0].generation -= 1
        assert check_out_idle(pool) is None

        pool.conns[0].generation += 1
        monkeypatch.setattr(connection_checkout, "_MAX_IDLE", -1.0)
        assert check_out_idle(pool) is None
        assert count(pool) == UNUSED


async def test_nothing_changes_while_another_task_holds_the_lock(mongo_uri: str) -> None:
    async with build_client(MClient(), mongo_uri) as client:
        pool = (await find_server(client)).pool
        async with pool.lock:
            assert check_out_idle(pool) is None
        connection = check_out_idle(pool)
        assert connection is not None

        async with pool.lock:
            returning = asyncio.create_task(check_in(pool, connection))
            await asyncio.sleep(0)
            assert count(pool) == (1, 1, 1, 1)
        await returning
        assert count(pool) == UNUSED


async def test_a_connection_of_a_pool_that_was_cleared_is_closed(mongo_uri: str) -> None:
    async with build_client(MClient(), mongo_uri) as client:
        pool = (await find_server(client)).pool
        connection = check_out_idle(pool)
        assert connection is not None
        await pool.reset_without_pause()

        await check_in(pool, connection)
        assert connection.closed
        assert (count(pool), list(pool.conns)) == (UNUSED, [])


async def test_a_returned_connection_goes_to_the_one_that_waits(mongo_uri: str) -> None:
    uri = f"{mongo_uri}{'&' if '?' in mongo_uri else '?'}maxPoolSize=1"
    async with build_client(MClient(), uri) as client:
        pool = (await find_server(client)).pool
        connection = check_out_idle(pool)
        assert connection is not None
        waiting = asyncio.create_task(client.admin.command("ping"))
        while not pool.size_cond._waiters:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0)

        await check_in(pool, connection)
        assert (await waiting)["ok"] == 1
        assert count(pool) == UNUSED


async def test_the_driver_is_notified_of_an_error(mongo_uri: str) -> None:
    async with build_client(MClient(), mongo_uri) as client:
        server = await find_server(client)
        connection = check_out_idle(server.pool)
        assert connection is not None
        generation = server.pool.gen.get_overall()
        await connection.close_conn(None)

        error = AutoReconnect("the connection is closed")
        await check_in_failed(client, server, connection, error)
        assert server.pool.gen.get_overall() == generation + 1  # so no other is used
        assert (count(server.pool), list(server.pool.conns)) == (UNUSED, [])
