"""Fixtures of the whole suite: a real mongod per worker, a database per test, no blocking calls."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import traceback
from collections.abc import Iterator
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import blockbuster.blockbuster as buster
import pytest
import uvloop
from hypothesis import HealthCheck, settings
from pymongo import MongoClient
from tests import forked, hanging, restless, times
from tests.blocking import watching
from tests.chance import IS_LONG, examples
from tests.databases import data_directory, drop, new_name, recycle
from tests.guarded_mongo import GuardedMongo, guarding
from tests.http.driver import closing_connected, collecting_sockets
from tests.leaks import Snapshot, lasting_clients
from tests.process.commands import start_preloaded, stop_preloaded
from tests.replica_set import ReplicaSet
from tests.tiers import find_reason

from docgraph.embedded import EmbeddedMongo, MongodOptions
from docgraph.store.driver.fast_path import FastPath

# A run of the suite tries the same examples each time, `make test-long` others (`chance.py`).
# How long it takes to make them says how busy the machine is, and examples may share a fixture.
settings.register_profile(
    "docgraph",
    deadline=None,
    print_blob=True,
    derandomize=not IS_LONG,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("docgraph")
_SLOW = {"process", "conformance", "browser"}
_JSON = {"unit", "properties"}
_OF_A_DATABASE = "mongod_options"  # the fixture that whatever starts a database needs
_COLLECT_AFTER = 20_000  # objects, as a server does; what a test leaves is collected at its end
# What a process opens once and keeps is no leak of the first test that needs it: a loop's pipe for
# signals, and the process that looks after shared memory.
uvloop.new_event_loop().close()
resource_tracker.ensure_running()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of this suite."""
    words = "give each test the applications that it shares with its module for itself alone"
    parser.addoption("--alone", action="store_true", help=words)
    forked.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    """What watches a run, and what runs it in forks."""
    hanging.bound_run(config)
    config.pluginmanager.register(hanging)
    times.install(config)
    if restless.IS_RESTLESS:
        restless.install()
    forked.install(config)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected lives as long as the run: the garbage collector need not look at it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(_COLLECT_AFTER)
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Tests that start a server, a database or another process are not among the fast ones.

    They are marked before tests are chosen by their marks, as are those of the directories that run
    with the native lane, too. When all are in their order, the longest ones come first.
    """
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if _OF_A_DATABASE in fixtures or _SLOW & set(item.path.parts):
            item.add_marker("server")
        if _JSON & set(item.path.parts):
            item.add_marker("json")
        if reason := find_reason(item):
            item.add_marker(pytest.mark.second_tier(reason))
    yield
    forked.sort_modules(items)


@pytest.fixture(scope="module")
def served_by(request: pytest.FixtureRequest) -> str:
    """The protocol that serves the tests of a module: our own, or that of an ASGI server."""
    return str(getattr(request, "param", "own"))


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Async tests run on asyncio with uvloop, as the server does."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="session")
def run_seed(pytestconfig: pytest.Config) -> int:
    """What chance begins with: the same in each run, the seed that pytest prints in a long one."""
    seed: int = pytestconfig.getoption("randomly_seed", 0)
    return seed if IS_LONG else 0


@pytest.fixture(scope="session")
def preloaded() -> Iterator[None]:
    """The process that commands are started from; it lives as long as the tests."""
    start_preloaded()
    yield
    stop_preloaded()


@pytest.fixture(scope="session", autouse=True)
def connected_clients() -> Iterator[None]:
    """No client of the driver is closed while it connects, and what it forgets is closed."""
    with closing_connected(), collecting_sockets():
        yield


@pytest.fixture(scope="session", autouse=True)
def one_loop_for_a_client() -> Iterator[None]:
    """A read from another event loop than its client's raises, as it does in the driver.

    Its answer would come to the client's loop, and nobody would wake the one that waits for it.
    """
    converse = FastPath._converse

    async def checked(self: FastPath, *message: Any) -> tuple[Any, ...]:
        owner = self._client._loop
        assert owner in (None, asyncio.get_running_loop()), "the client belongs to another loop"
        return await converse(self, *message)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FastPath, "_converse", checked)
        yield


@pytest.fixture(scope="session", autouse=True)
def blocking_watch() -> Iterator[list[str]]:
    """Calls of docgraph's code that block an event loop raise, and are remembered."""
    seen: list[str] = []

    class RecordedBlockingError(buster.BlockingError):
        def __init__(self, function: str) -> None:
            super().__init__(function)
            arguments = sys._getframe(1).f_locals.get("args")
            stack = "".join(traceback.format_stack()[:-2])
            seen.append(f"{function} with {arguments!r:.500}, called by\n{stack}")

    with pytest.MonkeyPatch.context() as patch, watching("docgraph") as blocking:
        patch.setattr(buster, "BlockingError", RecordedBlockingError)
        # The driver looks whether it runs in a container when it connects.
        blocking.functions["os.stat"].can_block_in(
            "pymongo/pool_options.py", {"get_container_env_info"}
        )
        lock = blocking.functions["threading.Lock.acquire"]
        # The lock of shared counters is held for microseconds: workers wait for each other, too.
        # Tests that announce a change from a loop of their own meet the loop of the application.
        lock.can_block_in("docgraph/runtime/shared_memory.py", {"__enter__"})
        # While coverage is measured (`make coverage`), any line of code may be the first of a file.
        lock.can_block_in("coverage/collector.py", {"lock_data"})
        # Hypothesis traces examples after the first that failed, and asks where each file is.
        for name in ("os.path.abspath", "os.stat", "os.readlink"):
            blocking.functions[name].can_block_in("hypothesis/internal/escalation.py", {"accept"})
        # pytest writes what libraries log to a file that is none, on any thread.
        for name in ("io.TextIOWrapper.write", "io.BufferedWriter.write"):
            write = blocking.functions[name].deactivate()
            write.can_block_predicate = lambda file, *_: file.name == os.devnull
            write.activate()
        yield seen


@pytest.fixture(autouse=True)
def guarded_test(blocking_watch: list[str]) -> Iterator[None]:
    """Fail a test that blocks the event loop, or leaves something behind.

    It fails for a blocking call of docgraph's code even if the error was caught, and for threads,
    processes, open descriptors or listeners that are there after it and were not before. What lives
    for a module or the whole run is there before; that the application of a module leaves nothing
    behind is checked when it ends (`hosts.py`).

    One fixture, not two: that of every test is what a short test costs.
    """
    blocking_watch.clear()
    before = Snapshot.take()
    yield
    before.check()
    if blocking_watch:
        pytest.fail(f"blocking call in the event loop: {'; '.join(blocking_watch)}")


@pytest.fixture(scope="module", autouse=True)
def recycled_names() -> Iterator[None]:
    """Names of databases are used again by the modules that follow."""
    yield
    recycle()


@pytest.fixture(scope="session")
def mongod_options() -> MongodOptions:
    """A small `mongod` that also knows the failpoints of the failure drills.

    Its journal waits as long as MongoDB's own settings say: with 10 ms it never rests, and writes
    that wait for the majority, as ours do, do not wait for it. With half of that cache, the largest
    documents with their images are now and then more than one transaction may write.
    """
    return MongodOptions(cache_gb=0.5, oplog_mb=64, journal_ms=100, test_commands=True)


@pytest.fixture(scope="session")
def mongo_uri(mongod_options: MongodOptions) -> Iterator[str]:
    """The connection string of this worker's own mongod, a single-node replica set.

    `DOCGRAPH_TEST_MONGO` names one that runs already and outlives this run (tools/mutations).
    """
    if running := os.environ.get("DOCGRAPH_TEST_MONGO"):
        yield running
        return
    with (
        data_directory() as directory,
        EmbeddedMongo(directory, options=mongod_options) as uri,
    ):
        # On a busy machine it may not answer the driver's monitors for seconds, and is not away.
        yield f"{uri}&connectTimeoutMS=30000"


@pytest.fixture(scope="module")
def replica_set(mongod_options: MongodOptions) -> Iterator[ReplicaSet]:
    """Three members that a test may kill or step down; `start` again at the end of the test.

    They end with the module: members that have nothing to do take a tenth of a processor.
    """
    with (
        data_directory() as directory,
        ReplicaSet(directory, mongod_options) as members,
    ):
        yield members


@pytest.fixture(scope="module")
def guarded_mongo(mongod_options: MongodOptions) -> Iterator[GuardedMongo]:
    """A mongod that lets nobody in without a login; a user for a test goes with the test."""
    with (
        data_directory() as directory,
        guarding(Path(directory), mongod_options) as mongo,
    ):
        yield mongo


@pytest.fixture(scope="session")
def mongo_client(mongo_uri: str) -> Iterator[MongoClient[dict[str, Any]]]:
    """A synchronous client, for arranging and looking at data outside of the program."""
    # Polling needs one connection, opened at once: no test sees another one appear later.
    with MongoClient[dict[str, Any]](mongo_uri, serverMonitoringMode="poll") as client:
        client.admin.command("ping")
        lasting_clients.add(client)
        yield client
        lasting_clients.discard(client)


@pytest.fixture
def database(mongo_client: MongoClient[dict[str, Any]]) -> Iterator[str]:
    """The name of a database that belongs to this test alone and is dropped after it."""
    name = new_name()
    yield name
    drop(mongo_client, name)
