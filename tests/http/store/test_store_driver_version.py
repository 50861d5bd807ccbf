"""The fast path of reads is for tried versions of the driver; with others the log says so."""

from __future__ import annotations

import pytest

from docgraph.exchange.deadline import Deadline
from docgraph.observe.events import FastPathOff
from docgraph.store import Client, Store, open_store
from docgraph.store.driver import fast_path
from docgraph.store.sections import AggregationSecurity, MClient
from tests.http.driver import settle
from tests.http.harness import listening

pytestmark = pytest.mark.anyio


async def start_and_stop(mongo_uri: str) -> list[FastPathOff]:
    """What a start of the store says of the fast path."""
    with listening(FastPathOff) as heard:
        store = open_store(
            MClient(min_pool_size=0), AggregationSecurity(), connection_string=mongo_uri
        )
        store.connect()
        await store.available()
        await settle(store.client)
        await store.close()
    return heard


async def test_version_that_was_not_tried_is_reported_once(
    mongo_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_path, "version_tuple", (4, 99, 1))
    monkeypatch.setattr(fast_path, "version", "4.99.1")

    [event] = await start_and_stop(mongo_uri)

    assert event.driver_version == "4.99.1"
    assert "4.19" in event.tried


async def test_tried_version_is_not_worth_a_word(mongo_uri: str) -> None:
    assert await start_and_stop(mongo_uri) == []


async def test_connection_string_that_asks_for_the_driver_is_not_worth_a_word(
    mongo_uri: str,
) -> None:
    assert await start_and_stop(f"{mongo_uri}&socketTimeoutMS=60000") == []


async def test_reads_work_with_a_version_that_was_not_tried(
    client: Client, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_path, "version_tuple", (4, 99, 1))
    await client[database]["letters"].insert_one({"_id": "a"})

    found = await Store(client).find(database, "letters", {}, limit=1, deadline=Deadline.never())

    assert found == [{"_id": "a"}]
