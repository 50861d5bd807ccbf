"""One client for all tests of the engine; it remembers the commands it sends."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from pymongo import AsyncMongoClient

from docgraph.exchange import Document
from docgraph.store import Store
from tests.http.engine.harness import Engine, Recorder


@pytest.fixture(scope="session")
def recorder() -> Recorder:
    """What the client sends."""
    return Recorder()


@pytest.fixture(scope="session")
async def client(mongo_uri: str, recorder: Recorder) -> AsyncIterator[AsyncMongoClient[Document]]:
    """The client, connected."""
    client: AsyncMongoClient[Document] = AsyncMongoClient(
        mongo_uri, event_listeners=[recorder], datetime_conversion="DATETIME_AUTO"
    )
    await client.admin.command("ping")
    yield client
    await client.close()


@pytest.fixture
def engine(client: AsyncMongoClient[Document], recorder: Recorder, database: str) -> Engine:
    """An engine over the database of this test."""
    recorder.commands.clear()
    return Engine(Store(client), recorder, database)
