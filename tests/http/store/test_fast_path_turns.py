"""Reads on the fast path have connections in the order they came, and nobody waits in vain."""

from __future__ import annotations

import asyncio

import pytest
from pymongo import ReadPreference

from docgraph.exchange.errors import StoreUnavailable
from docgraph.store.driver.client import build_client
from docgraph.store.driver.fast_path import FastPath
from docgraph.store.sections import MClient
from tests.http.harness import Mongo, failing

pytestmark = pytest.mark.anyio

CALLERS, READS = 12, 10
PING = {"ping": 1}


def joined(uri: str, *options: str) -> str:
    return uri + ("&" if "?" in uri else "?") + "&".join(options)


async def test_nobody_who_comes_later_is_answered_earlier(mongo_uri: str) -> None:
    uri = joined(mongo_uri, "maxPoolSize=1")
    overtaken: list[int] = []
    done = 0

    async with build_client(MClient(), uri) as client:
        path = FastPath.find(client)
        assert path is not None

        async def ask() -> None:
            nonlocal done
            for _ in range(READS):
                before = done
                await path.read("admin", PING, ReadPreference.PRIMARY)
                overtaken.append(done - before)
                done += 1

        await asyncio.gather(*(ask() for _ in range(CALLERS)))

    assert done == CALLERS * READS
    assert max(overtaken) < CALLERS  # only by those who were there before


async def test_a_read_that_gets_no_connection_in_time_is_told(
    mongo_uri: str, mongo_client: Mongo
) -> None:
    uri = joined(mongo_uri, "maxPoolSize=1", "waitQueueTimeoutMS=50")
    async with build_client(MClient(), uri) as client:
        path = FastPath.find(client)
        assert path is not None
        await path.read("admin", PING, ReadPreference.PRIMARY)
        with failing(mongo_client, "ping", blockConnection=True, blockTimeMS=3000):
            first = asyncio.create_task(path.read("admin", PING, ReadPreference.PRIMARY))
            await asyncio.sleep(0)
            with pytest.raises(StoreUnavailable):
                await path.read("admin", PING, ReadPreference.PRIMARY)
            first.cancel()
            await asyncio.wait({first})
        reply, _ = await path.read("admin", PING, ReadPreference.PRIMARY)
        assert reply["ok"] == 1
