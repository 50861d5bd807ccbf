"""Fixtures of the store's tests: a store on the real MongoDB, and what it says about itself.

The client is one for all tests, since the driver leaves a socket behind when it is closed while it
still connects. A store of its own gives each test guards and interceptors of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from docgraph.config.sections import AggregationSecurity, MClient
from docgraph.observe import subscribe, unsubscribe
from docgraph.observe.events import Event
from docgraph.store import Client, Store, open_store


@pytest.fixture(scope="session")
async def opened(mongo_uri: str) -> AsyncIterator[Store]:
    """The store as the server opens it."""
    store = open_store(MClient(min_pool_size=0), AggregationSecurity(), connection_string=mongo_uri)
    store.connect()
    await store.available()
    yield store
    await store.close()


@pytest.fixture
def client(opened: Store) -> Client:
    """The one client."""
    return opened.client


@pytest.fixture
def store(client: Client) -> Store:
    """A store of this test alone."""
    return Store(client)


@pytest.fixture
def events() -> Iterator[list[Event]]:
    """What was emitted during the test."""
    seen: list[Event] = []
    subscribe(seen.append)
    yield seen
    unsubscribe(seen.append)
