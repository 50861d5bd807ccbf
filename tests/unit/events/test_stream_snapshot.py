"""Snapshots of streams: portions that fit the size of documents, and the end with its token."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from bson import Timestamp

from docgraph.codec import JsonMode
from docgraph.events.encoded_event import EncodedEvent, Rendering
from docgraph.events.stream_client import SnapshotReader
from docgraph.exchange import Document
from docgraph.exchange.errors import AnswerTooLarge, StoreUnavailable

pytestmark = pytest.mark.anyio

TOKEN = "820000000A000000032B0229296E04"


class Documents:
    """Documents of one size; a read of more than `most` of them is too large."""

    def __init__(self, count: int, size: int, most: int = 1_000) -> None:
        self.left = count
        self.size = size
        self.most = most
        self.asked: list[int] = []

    async def open(self) -> Any:
        return Timestamp(10, 2)

    async def read(self, count: int) -> list[Document] | None:
        self.asked.append(count)
        if not self.left:
            return None
        some = min(count, self.left)
        if some > self.most:
            raise AnswerTooLarge("the answer exceeds 32 MiB")
        self.left -= some
        return [{"_id": 1, "text": "x" * self.size}] * some


def reader(documents: Documents, **options: bool) -> SnapshotReader:
    return SnapshotReader(documents, Rendering(JsonMode.STANDARD, **options), asyncio.Semaphore(1))


async def read_all(snapshot: SnapshotReader) -> list[EncodedEvent]:
    assert await snapshot.open() == TOKEN
    found: list[EncodedEvent] = []
    while not snapshot.is_over:
        found += await snapshot.read()
    return found


async def test_small_documents_come_in_larger_portions() -> None:
    documents = Documents(1000, 10)
    found = await read_all(reader(documents))
    assert len(found) == 1001
    assert documents.asked == [16, 32, 64, 128, 256, 256, 256, 256]


async def test_large_documents_come_in_smaller_portions() -> None:
    documents = Documents(40, 200_000)
    assert len(await read_all(reader(documents))) == 41
    assert documents.asked[:5] == [16, 8, 4, 4, 4]


async def test_a_portion_that_is_too_large_is_read_one_by_one() -> None:
    documents = Documents(3, 1, most=1)
    assert len(await read_all(reader(documents))) == 4
    assert documents.asked[:2] == [16, 1]
    with pytest.raises(AnswerTooLarge):
        await read_all(reader(Documents(3, 1, most=0)))


@pytest.mark.parametrize(
    ("options", "id", "keys"),
    [
        ({}, {"_data": TOKEN}, ["operationType"]),
        ({"with_ids": True}, {"_data": TOKEN}, ["_id", "clusterTime", "operationType"]),
        ({"with_ids": True, "hides_ids": True}, None, ["clusterTime", "operationType"]),
    ],
)
async def test_the_end_has_the_token_of_the_moment_after_the_read(
    options: dict[str, bool], id: Document | None, keys: list[str]
) -> None:
    (end,) = await read_all(reader(Documents(0, 0), **options))
    assert (end.name, end.token) == (b"snapshot-end", TOKEN)
    assert (json.loads(end.id) if end.id else None) == id
    assert list(json.loads(end.message.contents[0])) == keys


async def test_a_read_that_fails_is_repeated_and_loses_nothing() -> None:
    class Failing(Documents):
        has_failed = False

        async def read(self, count: int) -> list[Document] | None:
            if not self.has_failed:
                self.has_failed = True
                raise StoreUnavailable("the database cannot be reached")
            return await super().read(count)

    snapshot = reader(Failing(20, 1))
    await snapshot.open()
    with pytest.raises(StoreUnavailable):
        await snapshot.read()
    assert len(await read_all(snapshot)) == 21


async def test_documents_of_an_earlier_time_than_the_known_events_are_read_again() -> None:
    """Events can arrive before the database reads at their time."""

    class Late(Documents):
        times = iter([Timestamp(9, 1), Timestamp(10, 1), Timestamp(10, 2)])

        async def open(self) -> Any:
            return next(self.times)

    known = "820000000A000000032B0229296E04"
    assert await reader(Late(1, 1)).open(known) == TOKEN
    assert next(Late.times, None) is None
