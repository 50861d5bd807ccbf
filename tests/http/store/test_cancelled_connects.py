"""Whoever is cancelled while the driver connects for him leaves no socket behind."""

from __future__ import annotations

import asyncio
import gc
import socket
from contextlib import ExitStack

import pytest
from pymongo.pool_options import PoolOptions
from pymongo.pool_shared import _async_create_connection

from tests.leaks import Snapshot

pytestmark = pytest.mark.anyio


async def test_a_connection_that_nobody_waits_for_is_closed() -> None:
    """A listener that takes nobody any more keeps the driver connecting."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        address = listener.getsockname()
        for _ in range(3):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(address)
        before = Snapshot.take()
        connecting = asyncio.create_task(_async_create_connection(address, PoolOptions()))
        await asyncio.sleep(0.05)
        assert not connecting.done()
        connecting.cancel()
        await asyncio.wait({connecting})
        del connecting
        gc.collect()
        before.check()
