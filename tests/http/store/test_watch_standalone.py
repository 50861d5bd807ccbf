"""Change streams and transactions of a server that is no replica set (42)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pymongo import MongoClient

from docgraph.exchange import Deadline
from docgraph.exchange.errors import NotSupported
from docgraph.store import Store, open_store
from docgraph.store.sections import AggregationSecurity, MClient
from tests.http.batches import entry
from tests.http.driver import settle
from tests.http.rest_harness import serving

pytestmark = pytest.mark.anyio

SOON = Deadline.never()


@pytest.fixture
async def standalone(standalone_uri: str) -> AsyncIterator[Store]:
    section = MClient(min_pool_size=0)
    store = open_store(section, AggregationSecurity(), connection_string=standalone_uri)
    store.connect()
    await store.available()
    yield store
    await settle(store.client)
    await store.close()


async def test_a_standalone_says_what_batches_need(standalone_uri: str) -> None:
    client: MongoClient[Any] = MongoClient(standalone_uri, serverMonitoringMode="poll")
    with client:
        async with serving(client, standalone_uri) as api:
            reply = await api.post("/_batch", [entry("POST", "/things", {"_id": 1})])

            assert (reply.status, reply.json["code"]) == (501, "not-supported")
            assert reply.json["hint"] == (
                "turn the server into a replica set; one of a single member is enough"
            )
            assert api.things.count_documents({}) == 0


async def test_a_standalone_says_what_change_streams_need(standalone: Store) -> None:
    """Told apart from a failure, with and without rows and images."""
    await standalone.writes.ensure_index("test", "things", {"a": 1}, deadline=SOON)
    await standalone.streams.enable_images("test", "things", deadline=SOON)
    rows = {"test.things": {"a": 1}}

    streams = standalone.streams
    for events in (
        *(streams.watch("test", "things", rows=one) for one in (None, rows)),
        *(streams.watch_source("test", "things", images=images) for images in (True, False)),
    ):
        with pytest.raises(NotSupported) as refusal:
            await events.open()
        assert "replica set" in refusal.value.message
        assert "single member" in (refusal.value.hint or "")


async def test_a_standalone_warns_of_streams_and_tries_them(standalone_uri: str) -> None:
    client: MongoClient[Any] = MongoClient(standalone_uri, serverMonitoringMode="poll")
    with client:
        async with serving(client, standalone_uri) as api:
            reply = await api.put("/things", {"streams": [{"uri": "s", "stages": []}]})
            assert reply.status == 200, reply.text
            assert reply.json["_warnings"][0] == (
                "streams: change streams need a replica set or a sharded cluster; "
                "turn the server into a replica set; one of a single member is enough"
            )
            replaced = [{"$replaceWith": "$fullDocument"}]
            reply = await api.put("/things", {"streams": [{"uri": "s", "stages": replaced}]})
            assert reply.status == 400, reply.text
