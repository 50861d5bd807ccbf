"""Fixtures of the tests that talk HTTP to an application in this process."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from docgraph.embedded.mongod_process import Mongod
from docgraph.embedded.mongod_setup import MongodOptions
from tests.asgi import IN_BOTH, IS_ASGI, make_asgi_protocol
from tests.connections import protocols
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


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of some modules against both protocols."""
    path = metafunc.definition.path
    if not IS_ASGI and f"{path.parent.name}/{path.name}" in IN_BOTH:
        metafunc.parametrize("served_by", ["own", "asgi"], indirect=True, scope="module")


@pytest.fixture(autouse=True)
def serving_protocol(
    served_by: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Make the connections of the test speak that protocol."""
    if served_by == "asgi" or IS_ASGI:
        mark = request.node.get_closest_marker("own_protocol")
        if mark is not None:
            pytest.skip(mark.args[0])
        monkeypatch.setattr(protocols, "make", make_asgi_protocol)


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
