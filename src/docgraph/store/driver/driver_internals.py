"""Internals of PyMongo: all that is used of the driver beyond its documented interface.

No other module names a private attribute of the driver. `tests/http/store/test_driver_internals.py`
has a test for each, so that a new version of the driver is tried by running them, and then added to
`_TESTED`. With any other version the driver's documented methods do everything: reads cost more
(`find_obstacle`), connections in use are not counted, and connections that lost their login remain
until the driver closes them. `docs/reference/dependencies.md` says what each part saves.

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
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, NoReturn

import bson
from bson.codec_options import CodecOptions
from pymongo import AsyncMongoClient, ReadPreference, version, version_tuple
from pymongo.monitoring import CommandListener, ConnectionPoolListener
from pymongo.topology_description import TOPOLOGY_TYPE

from docgraph.exchange.data import Document
from docgraph.observe import emit
from docgraph.observe.events import FastPathOff

_TESTED: Final = ((4, 19),)
_IS_TESTED: Final = version_tuple[:2] in _TESTED

if TYPE_CHECKING or _IS_TESTED:
    from bson import _encode_mapping
    from pymongo.asynchronous import pool as pool_module
    from pymongo.asynchronous import topology as topology_module
    from pymongo.asynchronous.client_session import AsyncClientSession
    from pymongo.asynchronous.mongo_client import _ClientCheckout
    from pymongo.asynchronous.pool import AsyncConnection, Pool
    from pymongo.asynchronous.server import Server
    from pymongo.helpers_shared import _check_command_response
    from pymongo.lock import Condition
    from pymongo.pool_shared import PoolState
    from pymongo.read_preferences import _ServerMode

    ServerMode = _ServerMode
else:
    ServerMode = object

_FIELD: Final = b"a\0"  # a name to encode a document as a field
_WAIT: Final = "_async_cond_wait"
_LISTENERS: Final = (CommandListener, ConnectionPoolListener)
_MAX_IDLE: Final = 0.5  # seconds: after twice as many, the driver checks whether it is closed
_RENEWED: Final = "MONGODB-OIDC"  # logins that expire during use


def _name_tested() -> str:
    return ", ".join(f"{major}.{minor}" for major, minor in _TESTED)


def find_obstacle(client: AsyncMongoClient[Document]) -> str | None:
    """Return why reads of a client cannot use the fast path; None if they can."""
    if not _IS_TESTED:
        return f"the fast path is tested with pymongo {_name_tested()}, this is {version}"
    options, pool = client.options, client.options.pool_options
    compression, credentials = pool._compression_settings, pool._credentials
    asked = {
        "client-side encryption": options.auto_encryption_opts,
        "timeoutMS": options.timeout,
        "loadBalanced": options.load_balanced,
        "socketTimeoutMS": pool.socket_timeout,
        "a server API version": pool.server_api,
        "compressors": compression and compression.compressors,
        "command listeners": any(isinstance(on, _LISTENERS) for on in options.event_listeners),
        f"authMechanism={_RENEWED}": credentials and credentials.mechanism == _RENEWED,
    }
    names = [name for name, value in asked.items() if value]
    return f"the connection uses {', '.join(names)}" if names else None


def report_obstacle(client: AsyncMongoClient[Document]) -> None:
    """Emit an event if reads cannot use the fast path."""
    if reason := find_obstacle(client):
        emit(FastPathOff(version, _name_tested(), reason))


def _list_servers(client: AsyncMongoClient[Document]) -> list[Server]:
    """Return the servers of a client; none until the name server has answered (SRV)."""
    topology = client._topology if _IS_TESTED else None
    return list(topology._servers.values()) if topology is not None else []


def has_free_connection(client: AsyncMongoClient[Document]) -> bool:
    """Check if the pool of a server that accepts writes has a free connection."""
    pools = [server.pool for server in _list_servers(client) if server.description.is_writable]
    return not pools or any(pool.requests < pool.max_pool_size for pool in pools)


def count_used_connections(client: AsyncMongoClient[Document]) -> int:
    """Return how many connections of a client are in use, at all its servers."""
    return sum(server.pool.requests for server in _list_servers(client))


def is_ready(pool: Pool) -> bool:
    """Return whether the server of a pool has not been given up."""
    return pool.state == PoolState.READY


def count_openable(pool: Pool) -> int:
    """Return how many connections the driver may open at this moment."""
    return max(0, pool._max_connecting - pool._pending)


async def forget_connections(client: AsyncMongoClient[Document]) -> None:
    """Close connections, so that new ones log in: they lose their login if the user is dropped.

    The driver considers them valid as long as they are open, even if the user is created again.
    """
    for server in _list_servers(client):
        await server.pool.reset_without_pause()


async def select_server(
    client: AsyncMongoClient[Document], preference: ServerMode, name: str
) -> Server:
    """Return the server to send the command of this name to; wait until there is one."""
    return await client._select_server(preference, None, name)


def check_out(
    client: AsyncMongoClient[Document], server: Server, preference: ServerMode
) -> AbstractAsyncContextManager[tuple[AsyncConnection, ServerMode]]:
    """Return a context that has a connection, and the read preference to send on it."""
    return client._conn_from_server(preference, server, None)


async def fail_connection(connection: AsyncConnection, error: BaseException) -> NoReturn:
    """Close a connection and raise the driver's error."""
    await connection._raise_connection_failure(error)


def raise_error(reply: Document, connection: AsyncConnection) -> None:
    _check_command_response(reply, connection.max_wire_version)


def can_extend_commands() -> bool:
    return _IS_TESTED


def extend_commands(session: AsyncClientSession, extend: Callable[[Document, int], None]) -> None:
    """Call `extend` with each command of a session, at every attempt, and the wire version."""
    apply = session._apply_to

    def apply_extended(
        command: Any, is_retryable: bool, read_preference: ServerMode, conn: Any
    ) -> None:
        apply(command, is_retryable, read_preference, conn)
        extend(command, conn.max_wire_version)

    session._apply_to = apply_extended  # type: ignore[method-assign]


def encode_in_python(document: Mapping[str, Any], options: CodecOptions[Any]) -> bytes:
    """Encode a document without the driver's extension."""
    if not _IS_TESTED:
        return bson.encode(document, False, options)
    return _encode_mapping(_FIELD, document, False, options)[1 + len(_FIELD) :]


def check_out_idle(pool: Pool) -> AsyncConnection | None:
    """Return an idle connection of a pool; None if the driver has to find one."""
    if (
        not pool.conns
        or pool.state != PoolState.READY
        or pool.closed
        or pool.requests >= pool.max_pool_size
        or pool.lock.locked()
        or pool.pid != os.getpid()
    ):
        return None
    connection = pool.conns[0]
    longest = pool.opts.max_idle_time_seconds
    max_idle = _MAX_IDLE if longest is None else min(_MAX_IDLE, longest)
    is_idle_too_long = time.monotonic() - connection.last_checkin_time > max_idle
    if is_idle_too_long or _is_over(pool, connection):
        return None
    pool.conns.popleft()
    pool.operation_count += 1
    pool.requests += 1
    pool.active_sockets += 1
    connection.active = True
    pool.active_contexts.add(connection.cancel_context)
    return connection


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
    client: AsyncMongoClient[Document], connection: AsyncConnection, preference: ServerMode
) -> ServerMode:
    """Return the read preference to send, by the specification of server selection.

    A standalone server gets none, a member of a replica set that is connected directly answers.
    """
    if client.topology_description.topology_type == TOPOLOGY_TYPE.Single:
        if connection.is_repl:
            return ReadPreference.PRIMARY_PREFERRED
        if connection.is_standalone:
            return ReadPreference.PRIMARY
    return preference


def fix_waiting() -> None:
    """Let the driver wait in the task that holds the lock; do nothing if it already does."""
    if sys.version_info < (3, 12) and _IS_TESTED:
        for module in (pool_module, topology_module):
            vars(module)[_WAIT] = _wait


async def _wait(condition: Condition, timeout: float | None) -> bool:  # noqa: ASYNC109 - as the driver calls it
    """Wait with a timeout and reacquire the lock; return whether it was notified."""
    try:
        async with asyncio.timeout(timeout):
            return await condition.wait()
    except TimeoutError:
        return False
