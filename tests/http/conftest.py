"""Fixtures of the tests that talk HTTP to an application in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.http.harness import Mongo
from tests.http.hosts import module_application
from tests.http.rest_harness import BY_HOST, Api, own_database, serving
from tests.http.stream_harness import SSE, WEBSOCKET


@module_application
async def shared_server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Api]:
    """The application of a module, for the fixture `api`."""
    async with serving(mongo_client, mongo_uri, mounts=BY_HOST) as server:
        yield server


@pytest.fixture(autouse=True)
def patient_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, the database finishes the trial of a stage the first time."""
    monkeypatch.setattr("docgraph.store.collection_stats._TRIAL_MS", (60_000,))


@pytest.fixture
def api(shared_server: Api) -> Iterator[Api]:
    """The application of the module with a database that belongs to this test alone."""
    with own_database(shared_server) as api:
        yield api


@pytest.fixture(params=[SSE, WEBSOCKET])
def by(request: pytest.FixtureRequest) -> str:
    """How a client of a change stream listens."""
    kind: str = request.param
    return kind
