"""Connection checkout: get a connection from the driver's pool, and return it.

The driver acquires the lock of the pool five times for each message. Nothing in the pool changes
while this code does not wait, so an idle connection needs none of that: it is checked out and
checked in with the same counters. Everything else is left to the driver: a new connection, one that
was idle for long, waiting for one, errors, and connections that are closed.

The driver waits with `asyncio.wait_for`. Before Python 3.12 that runs `Condition.wait` in a task of
its own, which reacquires the lock after the timeout. A waiter that is cancelled in that moment
continues without the lock and releases it nevertheless: the lock of another task, or none, which is
an error. The task then holds the lock forever. With the lock of the topology, no command of the
process finds a server any more, and no monitor can record a response. From 3.12 on there is no such
task.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Final

from pymongo.asynchronous import pool, topology
from pymongo.asynchronous.mongo_client import AsyncMongoClient, _ClientCheckout
from pymongo.asynchronous.pool import AsyncConnection, Pool
from pymongo.asynchronous.server import Server
from pymongo.lock import Condition
from pymongo.pool_shared import PoolState
from pymongo.read_preferences import ReadPreference, _ServerMode
from pymongo.topology_description import TOPOLOGY_TYPE

from docgraph.exchange.data import Document

_NAME = "_async_cond_wait"
_MAX_IDLE: Final = 0.5  # seconds: after twice as many, the driver checks whether it is closed


def check_out_idle(pool: Pool) -> AsyncConnection | None:
    """Return an idle connection of a pool; None if the driver has to find one."""
    if (
        not pool.conns
        or pool.state != PoolState.READY
        or pool.closed
        or pool.requests >= pool.max_pool_size
        or pool.lock.locked()
        or pool._telemetry._should_publish
        or pool.pid != os.getpid()
    ):
        return None
    connection = pool.conns[0]
    if time.monotonic() - connection.last_checkin_time > _find_max_idle(pool) or _is_over(
        pool, connection
    ):
        return None
    pool.conns.popleft()
    pool.operation_count += 1
    pool.requests += 1
    pool.active_sockets += 1
    connection.active = True
    pool.active_contexts.add(connection.cancel_context)
    return connection


def _find_max_idle(pool: Pool) -> float:
    longest = pool.opts.max_idle_time_seconds
    return _MAX_IDLE if longest is None else min(_MAX_IDLE, longest)


def _is_over(pool: Pool, connection: AsyncConnection) -> bool:
    return connection.closed or pool.stale_generation(connection.generation, connection.service_id)


async def check_in(pool: Pool, connection: AsyncConnection) -> None:
    """Return a connection to its pool after a message without errors."""
    if (
        pool.closed
        or pool.lock.locked()
        or pool.size_cond._waiters
        or pool._max_connecting_cond._waiters
        or _is_over(pool, connection)
    ):
        await pool.checkin(connection)
        return
    connection.active = False
    pool.active_contexts.discard(connection.cancel_context)
    pool.operation_count -= 1
    pool.requests -= 1
    pool.active_sockets -= 1
    connection.update_last_checkin_time()
    connection.update_is_writable(bool(pool.is_writable))
    pool.conns.appendleft(connection)


async def check_in_failed(
    client: AsyncMongoClient[Document],
    server: Server,
    connection: AsyncConnection,
    error: BaseException,
) -> None:
    """Return a connection to its pool after an error, of which the driver is notified first."""
    checkout = _ClientCheckout.for_existing_conn(client, server, None, connection)
    try:
        await checkout.handle(type(error), error)
    finally:
        if connection.active:
            await server.pool.checkin(connection)


def adapt_preference(
    client: AsyncMongoClient[Document], connection: AsyncConnection, preference: _ServerMode
) -> _ServerMode:
    """Return the read preference to send, by the specification of server selection.

    A standalone server gets none, a member of a replica set that is connected directly answers.
    """
    if client._topology.description.topology_type == TOPOLOGY_TYPE.Single:
        if connection.is_repl:
            return ReadPreference.PRIMARY_PREFERRED
        if connection.is_standalone:
            return ReadPreference.PRIMARY
    return preference


def fix_waiting() -> None:
    """Let the driver wait in the task that holds the lock; do nothing if it already does."""
    if sys.version_info < (3, 12):
        for module in (pool, topology):
            if _NAME in vars(module):
                vars(module)[_NAME] = _wait


async def _wait(condition: Condition, timeout: float | None) -> bool:  # noqa: ASYNC109 - as the driver calls it
    """Wait with a timeout and reacquire the lock; return whether it was notified."""
    try:
        async with asyncio.timeout(timeout):
            return await condition.wait()
    except TimeoutError:
        return False
