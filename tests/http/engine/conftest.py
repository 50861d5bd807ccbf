"""The client of an engine's test, which remembers the commands it sends."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from pymongo import AsyncMongoClient

from docgraph.exchange import Document
from docgraph.store import Store
from tests.http.driver import settle
from tests.http.engine.harness import Engine, Recorder


@pytest.fixture
def recorder() -> Recorder:
    """What the client sends."""
    return Recorder()


@pytest.fixture
async def client(mongo_uri: str, recorder: Recorder) -> AsyncIterator[AsyncMongoClient[Document]]:
    """The client, connected."""
    client: AsyncMongoClient[Document] = AsyncMongoClient(
        mongo_uri,
        event_listeners=[recorder],
        datetime_conversion="DATETIME_AUTO",
        appname="docgraph",
    )
    await client.admin.command("ping")
    yield client
    await settle(client)
    await client.close()


@pytest.fixture
def engine(client: AsyncMongoClient[Document], recorder: Recorder, database: str) -> Engine:
    """An engine over the database of this test."""
    return Engine(Store(client), recorder, database)
