"""Cached answers of several workers, of which some are killed (52)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from tests.http.access_harness import TestCaller
from tests.http.cache_checker import CALLERS, Checker
from tests.http.cache_harness import CACHE, ask_until_hit
from tests.http.cache_writer import SCHEMA, Way, build_items_rule, mappings
from tests.http.harness import Mongo, Service, build_definition
from tests.process.harness import Server, run_server
from tests.programs import HANGS_SECONDS

pytestmark = pytest.mark.anyio

LAG = 5.0  # seconds
WRITES, KILLS = 30, (8, 16, 24)
IMPORTS = """
import json
from collections.abc import Sequence
from typing import ClassVar
from docgraph.exchange import Account, Exchange
from docgraph.plugins.kinds import ABSENT, Accepted, AuthMechanism, Outcome
"""


class PatientClient(httpx2.AsyncClient):
    """Sends a request again if the worker that had it is dead: it was killed before any write."""

    async def request(self, *args: Any, **options: Any) -> httpx2.Response:
        async with asyncio.timeout(HANGS_SECONDS):
            while True:
                try:
                    return await super().request(*args, **options)
                except httpx2.TransportError:
                    await asyncio.sleep(0.01)


class KillingChecker(Checker):
    """Kills a worker before some of its writes, while the readers go on."""

    server: Server
    killed = 0

    async def _write(self) -> None:
        if self.writes in KILLS:
            await asyncio.to_thread(self._kill)
        await super()._write()

    def _kill(self) -> None:
        """Kill the worker that has run longest, and wait until it is dead."""
        victim = min(self.server.workers(), key=lambda one: (one.create_time(), one.pid))
        victim.kill()
        assert not psutil.wait_procs([victim], timeout=HANGS_SECONDS)[1]
        self.killed += 1


@asynccontextmanager
async def reaching(server: Server, mongo: Mongo, db: str) -> AsyncIterator[Service]:
    """The server as a service of the checker."""
    async with PatientClient(base_url=server.urls[0], timeout=HANGS_SECONDS) as client:
        no_app: Any = None
        yield Service(no_app, client, mongo, db)


@pytest.mark.parametrize("way", ["own", "direct"])
async def test_answers_are_those_of_the_database_while_workers_are_killed(
    mongo_client: Mongo, mongo_uri: str, database: str, tmp_path: Path, run_seed: int, way: Way
) -> None:
    (tmp_path / "caller.py").write_text(IMPORTS + inspect.getsource(TestCaller))
    settings: dict[str, Any] = {
        "mclient": {"connection-string": mongo_uri},
        "core": {"plugins-directory": str(tmp_path)},
        "graphql": {
            "db": database,
            "cache": {"max-lag-ms": int(LAG * 1000)},
            "explain": ["user", "admin"],
        },
        "mongo": {"mongo-mounts": [{"what": f"/{database}", "where": "/"}]},
        "fullAuthorizer": {"enabled": False},
        "dbAclAuthorizer": {"acl-db": database},
        "dbRealmAuthenticator": {"users-db": database, "create-user": False},
    }
    store(mongo_client, database)
    with run_server(settings, workers=2) as server:
        async with reaching(server, mongo_client, database) as service:
            checker = KillingChecker(service, service, run_seed, LAG, (way,), has_settings=False)
            checker.server = server
            await checker.run(WRITES)
            question = next(one for one in checker._questions if one.caller != "eve")
            headers = CALLERS[question.caller][0]
            await ask_until_hit(service, "items", question.query, headers=headers)
    assert checker.killed == len(KILLS)


def store(mongo: Mongo, db: str) -> None:
    """Store the app of the checker, and a rule for its callers."""
    mongo[db].create_collection("items")
    no_app: Any = None
    mapped = mappings(Service(no_app, no_app, mongo, db, loop=no_app))
    mongo[db]["gql-apps"].insert_one(build_definition("items", SCHEMA, mapped, **CACHE))
    mongo[db]["acl"].insert_one(build_items_rule(db))
