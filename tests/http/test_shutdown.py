"""A server that is stopped at any moment of its start leaves nothing behind."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from docgraph.config import Sources, load
from docgraph.observe.events import BackgroundFailed, BackgroundLeft
from docgraph.runtime import create_instance
from docgraph.server.app import Docgraph
from docgraph.server.prepare import Prepared, prepare
from tests.http.harness import OPEN, Mongo, flatten, listening, merge, running

pytestmark = pytest.mark.anyio

_FOLLOWERS = ("dbRealmAuthenticator", "tokenRevocationsWatcher", "graphAppsUpdater", "dbAclUpdater")


def _sections(db: str) -> dict[str, Any]:
    """Everything that runs in the background, on one database."""
    return {
        "graphql": {"db": db},
        "dbRealmAuthenticator": {"users-db": db, "create-user": False, "cache-enabled": True},
        "dbAclAuthorizer": {"acl-db": db},
        "rndTokenManager": {"enabled": True},
    }


def _prepare(uri: str, db: str) -> Prepared:
    settings = flatten(merge(OPEN, {"mclient": {"connection-string": uri}}, _sections(db)))
    return prepare(load(Sources(settings=settings, environ={}, directory=Path("/nonexistent"))))


def _find_new_tasks(before: set[asyncio.Task[Any]]) -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() - before]


async def test_no_task_is_left_whenever_the_stop_comes(mongo_uri: str, database: str) -> None:
    prepared = await asyncio.to_thread(_prepare, mongo_uri, database)
    shared = create_instance()
    instance = await asyncio.to_thread(shared.__enter__)
    before, left = asyncio.all_tasks(), []
    with listening(BackgroundLeft) as stuck, listening(BackgroundFailed) as failed:
        for turn in range(20):
            app = Docgraph(prepared, instance, mongo_uri)
            await app.startup()
            await asyncio.sleep(turn * 0.013)  # another moment of the start each time
            await app.shutdown()
            left += _find_new_tasks(before)
    await asyncio.to_thread(shared.__exit__, None, None, None)

    assert left == []
    assert stuck == []
    assert failed == []


async def test_no_task_is_left_once_every_stream_is_open(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    before = asyncio.all_tasks()
    with listening(BackgroundLeft) as stuck:
        async with running(mongo_client, mongo_uri, _sections(database), db=database) as service:
            async with asyncio.timeout(60):
                for name in _FOLLOWERS:
                    await service.app.plugins.find(name).follower.wait_open()

    assert _find_new_tasks(before) == []
    assert stuck == []
