"""Fixtures of the store's tests: a store on the real MongoDB, and what it says about itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from docgraph.observe import Event, subscribe, unsubscribe
from docgraph.store import DriverClient, Store, open_store
from docgraph.store.sections import AggregationSecurity, MClient
from tests.http.driver import settle


@pytest.fixture
async def opened(mongo_uri: str) -> AsyncIterator[Store]:
    """The store as the server opens it."""
    store = open_store(MClient(min_pool_size=0), AggregationSecurity(), connection_string=mongo_uri)
    store.connect()
    await store.available()
    yield store
    await settle(store.client)
    await store.close()


@pytest.fixture
def client(opened: Store) -> DriverClient:
    """The client of this test."""
    return opened.client


@pytest.fixture
def store(client: DriverClient) -> Store:
    """A store without guards and interceptors."""
    return Store(client)


@pytest.fixture
def events() -> Iterator[list[Event]]:
    """What was emitted during the test."""
    seen: list[Event] = []
    subscribe(seen.append)
    yield seen
    unsubscribe(seen.append)
