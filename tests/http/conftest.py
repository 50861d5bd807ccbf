"""Fixtures of the tests that talk HTTP to an application in this process."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from docgraph.embedded.mongod_process import Mongod
from docgraph.embedded.mongod_setup import MongodOptions
from tests.http.harness import Mongo
from tests.http.hosts import module_application
from tests.http.rest_harness import BY_HOST, Api, own_database, serving
from tests.http.stream_harness import SSE, WEBSOCKET


@module_application
async def shared_server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Api]:
    """The application of a module, for the fixture `api`."""
    patient = {"batch": {"time-limit": 60_000}}
    async with serving(mongo_client, mongo_uri, patient, mounts=BY_HOST) as server:
        yield server


@pytest.fixture(autouse=True)
def patient_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, the database finishes what is tried or counted before a query.

    A trial is finished the first time.
    """
    monkeypatch.setattr("docgraph.store.trials._TRIAL_MS", (60_000,))
    monkeypatch.setattr("docgraph.store.trials._PATIENCE_MS", 60_000)
    monkeypatch.setattr("docgraph.store.collection_stats._PATIENCE_MS", 60_000)
    monkeypatch.setattr("docgraph.graphql.execute.cost_estimate._COUNT_MS", 60_000)
    monkeypatch.setattr("docgraph.graphql.freshness.read_sources._PATIENCE_MS", 60_000)


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


@pytest.fixture
def standalone_uri(tmp_path: Path, mongod_options: MongodOptions) -> Iterator[str]:
    """The connection string of a `mongod` of its own that is no replica set."""
    options = replace(mongod_options, is_member=False)
    server = Mongod(tmp_path, options, lambda message: None)
    server.launch(time.monotonic() + options.start_timeout)
    yield f"mongodb://{server.host}/?directConnection=true"
    server.stop()
