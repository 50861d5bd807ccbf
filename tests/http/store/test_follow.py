"""Following a change stream: it says when it is open, and is opened again when it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from docgraph.exchange import Document
from docgraph.exchange.errors import NotSupported, StoreError, StoreUnavailable
from docgraph.runtime import cancel_until_over
from docgraph.store import ChangeEvents, Store
from docgraph.store.change_stream import Follower, ResumeToken
from tests.http.harness import Mongo

pytestmark = pytest.mark.anyio


class Following:
    """What a follower of a collection has opened, caught up with and taken."""

    def __init__(self, store: Store, db: str) -> None:
        self._store = store
        self._db = db
        self.opened: list[ResumeToken | None] = []
        self.taken: asyncio.Queue[Document] = asyncio.Queue()
        self.caught_up = 0
        self.refusal: Exception | None = None
        self.follower = Follower(self._open, catch_up=self._catch_up, take=self._take)

    def _open(self, resume: ResumeToken | None) -> ChangeEvents:
        self.opened.append(resume)
        return self._store.streams.watch(self._db, "things", resume_after=resume)

    async def _catch_up(self) -> None:
        self.caught_up += 1
        assert not self.follower.is_open

    async def _take(self, event: Document) -> None:
        if self.refusal is not None:
            refusal, self.refusal = self.refusal, None
            raise refusal
        await self.taken.put(event)

    async def next_id(self) -> Any:
        event = await asyncio.wait_for(self.taken.get(), 60)
        return event["documentKey"]["_id"]


@pytest.fixture
def following(store: Store, database: str) -> Following:
    return Following(store, database)


async def test_what_is_written_once_it_is_open_is_taken(
    following: Following, mongo_client: Mongo, database: str
) -> None:
    task = asyncio.create_task(following.follower.run())
    await asyncio.wait_for(following.follower.wait_open(), 60)
    assert (following.follower.is_open, following.caught_up) == (True, 1)
    mongo_client[database]["things"].insert_one({"_id": 1})

    assert await following.next_id() == 1

    await cancel_until_over([task])
    assert task.cancelled()
    assert not following.follower.is_open


async def test_a_stream_that_ends_is_opened_again(
    following: Following, mongo_client: Mongo, database: str
) -> None:
    things = mongo_client[database]["things"]
    task = asyncio.create_task(following.follower.run())
    await asyncio.wait_for(following.follower.wait_open(), 60)
    things.insert_one({"_id": 1})
    assert await following.next_id() == 1
    things.drop()
    async with asyncio.timeout(60):
        while following.caught_up < 2:  # noqa: ASYNC110 - the second opening
            await asyncio.sleep(0.01)
        await following.follower.wait_open()
        things.insert_one({"_id": 2})
        while (await following.taken.get()).get("documentKey") != {"_id": 2}:
            pass

    await cancel_until_over([task])
    assert following.opened == [None, None]


@pytest.mark.parametrize(
    ("error", "goes_on"), [(StoreUnavailable("away"), True), (StoreError("too old"), False)]
)
async def test_after_an_error_it_goes_on_where_it_was_unless_that_may_be_gone(
    following: Following, mongo_client: Mongo, database: str, error: StoreError, goes_on: bool
) -> None:
    things = mongo_client[database]["things"]
    task = asyncio.create_task(following.follower.run())
    await asyncio.wait_for(following.follower.wait_open(), 60)
    things.insert_one({"_id": 1})
    assert await following.next_id() == 1
    following.refusal = error
    things.insert_one({"_id": 2})
    with pytest.raises(type(error)):
        await asyncio.wait_for(task, 60)
    assert not following.follower.is_open

    task = asyncio.create_task(following.follower.run())
    await asyncio.wait_for(following.follower.wait_open(), 60)
    things.insert_one({"_id": 3})

    assert await following.next_id() == (2 if goes_on else 3)
    assert (following.opened[1] is not None) is goes_on
    await cancel_until_over([task])


async def test_it_is_over_where_there_are_no_change_streams() -> None:
    def reject(_: ResumeToken | None) -> ChangeEvents:
        raise NotSupported("no replica set")

    async def nothing(_: Document | None = None) -> None:
        raise AssertionError

    follower = Follower(reject, catch_up=nothing, take=nothing)

    await asyncio.wait_for(follower.run(), 60)

    assert not follower.is_open
