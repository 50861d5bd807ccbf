"""Internals of the driver: a contract test for each, and the connections that reads check out.

A new version of the driver is tested by running this file with it. The pool of the driver counts
connections that reads check out as its own.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from math import inf
from pathlib import Path

import bson
import pytest
from bson import Binary
from bson.codec_options import CodecOptions
from pymongo.asynchronous import pool as pool_module
from pymongo.asynchronous import topology as topology_module
from pymongo.asynchronous.pool import Pool
from pymongo.asynchronous.server import Server
from pymongo.errors import AutoReconnect, NotPrimaryError, OperationFailure
from pymongo.read_preferences import ReadPreference

from docgraph.store.driver import driver_internals
from docgraph.store.driver.client import DriverClient, build_client
from docgraph.store.driver.driver_internals import (
    check_in,
    check_in_failed,
    check_out,
    check_out_idle,
    count_openable,
    count_used_connections,
    encode_in_python,
    extend_commands,
    fail_connection,
    find_obstacle,
    fix_waiting,
    forget_connections,
    has_free_connection,
    raise_error,
    select_server,
)
from docgraph.store.sections import MClient

pytestmark = pytest.mark.anyio

UNUSED = (0, 0, 0, 0)


@pytest.fixture(autouse=True)
def never_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine must not make a connection one that was idle for long."""
    monkeypatch.setattr(driver_internals, "_MAX_IDLE", inf)


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
        monkeypatch.setattr(driver_internals, "_MAX_IDLE", -1.0)
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


# --- a contract for each attribute -------------------------------------------------------------

ROOT = Path(__file__).parents[3] / "src/docgraph/store"
Contract = Callable[[DriverClient, str], Awaitable[None]]
CONTRACTS: dict[str, Contract] = {}


def contract(*names: str) -> Callable[[Contract], Contract]:
    """Register the test of these names of the driver."""

    def register(test: Contract) -> Contract:
        CONTRACTS.update(dict.fromkeys(names, test))
        return test

    return register


@contract("_topology", "_servers")
async def counts_the_connections_of_all_servers(client: DriverClient, uri: str) -> None:
    pool = (await find_server(client)).pool
    connection = check_out_idle(pool)
    assert connection is not None
    assert (count_used_connections(client), has_free_connection(client)) == (1, True)
    await check_in(pool, connection)
    await forget_connections(client)
    assert connection.closed


@contract("_select_server", "_ServerMode")
async def selects_the_server_that_the_preference_names(client: DriverClient, uri: str) -> None:
    server = await select_server(client, ReadPreference.PRIMARY, "ping")
    assert server.description.is_writable


@contract("_conn_from_server")
async def checks_out_a_connection_for_a_context(client: DriverClient, uri: str) -> None:
    server = await find_server(client)
    async with check_out(client, server, ReadPreference.PRIMARY) as (connection, preference):
        assert (connection.active, preference) == (True, ReadPreference.PRIMARY_PREFERRED)
        assert count_used_connections(client) == 1
    assert count(server.pool) == UNUSED


@contract("_raise_connection_failure")
async def closes_a_connection_that_failed(client: DriverClient, uri: str) -> None:
    async with check_out(client, await find_server(client), ReadPreference.PRIMARY) as (opened, _):
        with pytest.raises(AutoReconnect):
            await fail_connection(opened, OSError("gone"))
        assert opened.closed


@contract("_ClientCheckout")
async def notifies_the_driver_of_an_error(client: DriverClient, uri: str) -> None:
    server = await find_server(client)
    connection = check_out_idle(server.pool)
    assert connection is not None
    error = NotPrimaryError("it stepped down", {"code": 10107})
    await check_in_failed(client, server, connection, error)
    assert count(server.pool) == UNUSED


@contract("_check_command_response")
async def raises_the_error_of_a_response(client: DriverClient, uri: str) -> None:
    async with check_out(client, await find_server(client), ReadPreference.PRIMARY) as (opened, _):
        with pytest.raises(OperationFailure, match="no such command"):
            raise_error({"ok": 0, "code": 59, "errmsg": "no such command"}, opened)


@contract("_max_connecting", "_pending")
async def counts_the_connections_that_may_be_opened(client: DriverClient, uri: str) -> None:
    pool = (await find_server(client)).pool
    assert count_openable(pool) == MClient().max_connecting
    pool._pending += 1
    assert count_openable(pool) == MClient().max_connecting - 1
    pool._pending -= 1


@contract("_max_connecting_cond", "_waiters")
async def returns_a_connection_to_those_that_wait_to_open_one(
    client: DriverClient, uri: str
) -> None:
    pool = (await find_server(client)).pool
    connection = check_out_idle(pool)
    assert connection is not None

    async def wait() -> None:
        async with pool._max_connecting_cond:
            await pool._max_connecting_cond.wait()

    waiting = asyncio.create_task(wait())
    while not pool._max_connecting_cond._waiters:  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0)
    await check_in(pool, connection)
    await asyncio.wait_for(waiting, 60)


@contract("_compression_settings", "_credentials")
async def reports_what_the_fast_path_cannot_do(client: DriverClient, uri: str) -> None:
    assert find_obstacle(client) is None
    renewed = "authMechanism=MONGODB-OIDC&authMechanismProperties=ENVIRONMENT:k8s"
    for options, named in (("compressors=zlib", "compressors"), (renewed, "authMechanism")):
        other = build_client(MClient(), f"mongodb://127.0.0.1:1/?{options}")
        assert named in (find_obstacle(other) or "")
        await other.close()


@contract("_apply_to")
async def extends_the_commands_of_a_session(client: DriverClient, uri: str) -> None:
    extended: list[str] = []
    async with client.start_session() as session:
        extend_commands(session, lambda command, version: extended.append(next(iter(command))))
        await client.admin.command("ping", session=session)
    assert extended == ["ping"]


@contract("_encode_mapping")
async def encodes_without_the_extension(client: DriverClient, uri: str) -> None:
    document = {"a": [Binary(b"x", 255), {"b": 1}]}
    assert bson.decode(encode_in_python(document, CodecOptions())) == document


@contract("_async_cond_wait")
async def waits_in_the_task_that_holds_the_lock(client: DriverClient, uri: str) -> None:
    fix_waiting()
    for module in (pool_module, topology_module):
        waits = inspect.getmodule(vars(module)["_async_cond_wait"])
        assert (waits is driver_internals) is (sys.version_info < (3, 12))


@pytest.mark.parametrize("name", sorted(CONTRACTS))
async def test_the_driver_has_what_we_use_of_it(name: str, mongo_uri: str) -> None:
    async with build_client(MClient(), mongo_uri) as client:
        await CONTRACTS[name](client, mongo_uri)


def _find_private_names(path: Path) -> Iterator[str]:
    """Yield the private names that a module uses of others: attributes of objects, and imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if owner not in ("self", "cls") and not owner[:1].isupper():
                yield node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "")[:7] in ("pymongo", "bson"):
            yield from (one.name for one in node.names if one.name[0] == "_")


def test_one_module_uses_internals_and_each_has_a_contract() -> None:
    used = set(_find_private_names(ROOT / "driver/driver_internals.py"))
    assert {*used, driver_internals._WAIT} == set(CONTRACTS)
    elsewhere = {
        (path.name, name)
        for path in ROOT.rglob("*.py")
        if path.name != "driver_internals.py"
        for name in _find_private_names(path)
        if name != "_replace"  # of named tuples, and documented
    }
    assert elsewhere == set()
