"""The log reports at start when reads cannot take the fast path, and why."""

from __future__ import annotations

import sys

import pytest

from docgraph.exchange.deadline import Deadline
from docgraph.observe.events import FastPathOff
from docgraph.store import DriverClient, Store, open_store
from docgraph.store.driver import driver_internals
from docgraph.store.sections import AggregationSecurity, MClient
from tests.http.driver import settle
from tests.http.harness import listening
from tests.programs import run_program

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
    monkeypatch.setattr(driver_internals, "_IS_TESTED", False)
    monkeypatch.setattr(driver_internals, "version", "4.99.1")

    [event] = await start_and_stop(mongo_uri)

    assert event.driver_version == "4.99.1"
    assert "4.19" in event.tried
    assert event.reason == "the fast path is tested with pymongo 4.19, this is 4.99.1"


async def test_nothing_is_reported_where_reads_take_the_fast_path(mongo_uri: str) -> None:
    assert await start_and_stop(mongo_uri) == []


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("socketTimeoutMS=60000", "socketTimeoutMS"),
        ("timeoutMS=60000", "timeoutMS"),
        ("compressors=zlib", "compressors"),
        ("compressors=zlib&socketTimeoutMS=60000", "socketTimeoutMS, compressors"),
    ],
)
async def test_options_of_the_connection_string_are_named(
    mongo_uri: str, options: str, named: str
) -> None:
    [event] = await start_and_stop(f"{mongo_uri}&{options}")

    assert event.reason == f"the connection uses {named}"


_WITHOUT_INTERNALS = """
import pymongo, pymongo.helpers_shared, pymongo.asynchronous.mongo_client as client
pymongo.version_tuple = (4, 99, 1)
del pymongo.helpers_shared._check_command_response, client._ClientCheckout
import docgraph.store.driver.driver_internals as internals, docgraph.store
print(internals._IS_TESTED)
"""


async def test_a_version_without_our_internals_can_be_imported() -> None:
    done = await run_program(sys.executable, "-c", _WITHOUT_INTERNALS)

    assert (done.stdout.strip(), done.stderr) == (b"False", b"")


async def test_reads_work_with_a_version_that_was_not_tried(
    client: DriverClient, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_internals, "_IS_TESTED", False)
    await client[database]["letters"].insert_one({"_id": "a"})

    found = await Store(client).find(database, "letters", {}, limit=1, deadline=Deadline.never())

    assert found == [{"_id": "a"}]
