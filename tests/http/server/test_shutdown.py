"""A server that is stopped at any moment of its start leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest
import uvloop

from docgraph.config import ConfigSources
from docgraph.observe.events import BackgroundFailed, BackgroundLeft
from docgraph.runtime import Instance, create_instance
from docgraph.server.app import Docgraph
from docgraph.server.prepare import LoadedConfiguration, load_tree, prepare
from tests.http.harness import OPEN, Mongo, flatten, listening, merge, running

# The driver forgets the socket, or the transport, of an attempt to connect that is given up in the
# middle. As an error, the warning would keep uvloop from ever closing its loop.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

_FOLLOWERS = ("dbRealmAuthenticator", "tokenRevocationsWatcher", "graphAppsUpdater", "dbAclUpdater")


def _sections(db: str) -> dict[str, Any]:
    """Everything that runs in the background, on one database."""
    return {
        "graphql": {"db": db},
        "dbRealmAuthenticator": {"users-db": db, "create-user": False, "cache-enabled": True},
        "dbAclAuthorizer": {"acl-db": db},
        "rndTokenManager": {"enabled": True},
    }


def _prepare(uri: str, db: str) -> LoadedConfiguration:
    settings = flatten(merge(OPEN, {"mclient": {"connection-string": uri}}, _sections(db)))
    return prepare(
        load_tree(ConfigSources(settings=settings, environ={}, directory=Path("/nonexistent")))
    )


def _find_other_tasks() -> list[str]:
    return [str(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()]


def test_no_task_is_left_whenever_the_stop_comes(mongo_uri: str, database: str) -> None:
    prepared = _prepare(mongo_uri, database)

    async def start_and_stop(instance: Instance) -> list[str]:
        left = []
        for turn in range(20):
            app = Docgraph(prepared, instance, mongo_uri)
            await app.startup()
            await asyncio.sleep(turn * 0.013)  # another moment of the start each time
            await app.shutdown()
            left += _find_other_tasks()
        return left

    with (
        create_instance() as instance,
        listening(BackgroundLeft) as stuck,
        listening(BackgroundFailed) as failed,
    ):
        left = uvloop.run(start_and_stop(instance))
    gc.collect()  # such a socket is found here, and not by another test

    assert (left, stuck, failed) == ([], [], [])


def test_no_task_is_left_once_every_stream_is_open(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    async def start_and_stop() -> list[str]:
        async with (
            running(mongo_client, mongo_uri, _sections(database), db=database) as service,
            asyncio.timeout(60),
        ):
            for name in _FOLLOWERS:
                await service.app.plugins.find(name).follower.wait_open()
        return _find_other_tasks()

    with listening(BackgroundLeft) as stuck:
        left = uvloop.run(start_and_stop())
    gc.collect()

    assert (left, stuck) == ([], [])
