"""The watch: which changes make an answer outdated that was being read, or was stored (52)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from docgraph.codec.bson_types import ObjectId
from docgraph.codec.equality import equality_key
from docgraph.graphql.freshness.change_watch import ChangeWatch, WatchMark
from docgraph.graphql.freshness.dependency import Dependency
from docgraph.observe.engine_events import CacheLag
from docgraph.store import Store
from tests.expect import present
from tests.http.cache_harness import PATIENT, find_graphql
from tests.http.harness import Mongo, Service, eventually, listening, running

pytestmark = pytest.mark.anyio


class Watched:
    """The watch of an application, and a database that it follows."""

    def __init__(self, service: Service) -> None:
        self.watch: ChangeWatch = find_graphql(service).watch
        self.db = service.db
        self.things = service.mongo[service.db].things

    async def begin(self, *collections: str) -> WatchMark:
        names = [f"{self.db}.{name}" for name in collections or ("things",)]
        mark = await self.watch.begin(names, patience=60)
        return present(mark)

    def depend(self, *keys: Any, collection: str = "things") -> Dependency:
        """What depends on the things of some owners, or on all."""
        if not keys:
            return Dependency(f"{self.db}.{collection}")
        values = frozenset(map(equality_key, keys))
        return Dependency(f"{self.db}.{collection}", frozenset(), {"owner": values}, is_open=False)

    async def register(self, *keys: Any) -> asyncio.Event:
        """Depend on them; until updates are read with their documents, that is tried again."""
        changed = asyncio.Event()
        depend = [self.depend(*keys)]
        async with asyncio.timeout(60):
            while (  # noqa: ASYNC110 - no event reports it
                self.watch.register(await self.begin(), depend, changed.set) is None
            ):
                await asyncio.sleep(0.01)
        return changed

    async def insert(self, **document: Any) -> None:
        """Insert a thing, and wait until the watch has received that."""
        noticed = await self.register()
        await asyncio.to_thread(self.things.insert_one, document)
        await asyncio.wait_for(noticed.wait(), 60)


@pytest.fixture
async def watched(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Watched]:
    async with running(mongo_client, mongo_uri, PATIENT) as service:
        one = Watched(service)
        one.things.insert_one({"_id": 0})
        await one.register("nobody")
        yield one


async def test_a_change_since_the_first_command_is_not_overlooked(watched: Watched) -> None:
    mark = await watched.begin()
    await watched.insert(owner="ada")
    assert watched.watch.register(mark, [watched.depend("ada")], pytest.fail) is None
    assert watched.watch.register(mark, [watched.depend()], pytest.fail) is None


async def test_a_change_that_does_not_matter_rejects_nothing(watched: Watched) -> None:
    mark = await watched.begin()
    await watched.insert(owner="ada")
    assert watched.watch.register(mark, [watched.depend("bob")], lambda: None) is not None


async def test_a_collection_counts_from_when_it_is_followed(watched: Watched) -> None:
    mark = await watched.begin()
    await watched.begin("others")
    depend = watched.depend(collection="others")
    assert watched.watch.register(mark, [depend], pytest.fail) is None
    later = await watched.begin("others")
    assert watched.watch.register(later, [depend], lambda: None) is not None


async def test_each_change_is_reported_once(watched: Watched) -> None:
    calls: list[int] = []
    both = [watched.depend("ada"), watched.depend()]
    mark = await watched.begin()
    registration = present(watched.watch.register(mark, both, lambda: calls.append(1)))
    await watched.insert(owner="ada")
    await watched.insert(owner="ada")
    assert calls == [1]
    assert not registration.parts


async def test_what_was_released_is_not_reported(watched: Watched) -> None:
    mark = await watched.begin()
    registration = present(watched.watch.register(mark, [watched.depend("ada")], pytest.fail))
    registration.release()
    await watched.insert(owner="ada")


async def test_too_many_changes_since_the_first_command_reject_an_answer(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docgraph.graphql.freshness.database_watch._MAX_RECENT", 2)
    mark = await watched.begin()
    for _ in range(4):
        await watched.insert(owner="bob")
    assert watched.watch.register(mark, [watched.depend("ada")], pytest.fail) is None


async def test_a_process_follows_a_few_databases(watched: Watched) -> None:
    names = [f"{watched.db}_{number}" for number in range(10)]
    assert await watched.watch.begin(names) is None
    assert watched.watch.bypass_reason in {"starting", "too-many-databases"}
    for name in names:
        await watched.watch.begin([name])
    assert await watched.watch.begin(names[-1:]) is None
    assert watched.watch.bypass_reason == "too-many-databases"


async def test_the_lag_is_known_while_nothing_is_written(watched: Watched) -> None:
    with listening(CacheLag) as lags:
        await eventually(lambda: len(lags) > 3)
    assert watched.watch.is_current(watched.db)
    assert not watched.watch.is_current("another")


async def test_reads_from_a_primary_that_was_replaced_are_not_usable(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    await watched.begin()
    monkeypatch.setattr(Store, "election", ObjectId())
    assert await watched.watch.begin([f"{watched.db}.things"]) is None
    assert watched.watch.bypass_reason == "starting"
    monkeypatch.undo()
    await watched.begin()
