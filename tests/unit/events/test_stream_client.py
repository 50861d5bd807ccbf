"""A client reads what it has missed, then what all read.

Snapshots of streams: portions that fit the size of documents, and the end with its token.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest
from bson import Timestamp

from docgraph.codec import JsonMode
from docgraph.events.encoded_event import EncodedEvent, Rendering
from docgraph.events.event_log import EventLog
from docgraph.events.service import EventChunks
from docgraph.events.stream_client import Client, SnapshotReader
from docgraph.exchange import Document, SharedMessages
from docgraph.exchange.close_reason import FAILED, HISTORY_LOST, STOPPED, CloseReason, StreamClosed
from docgraph.exchange.errors import (
    AnswerTooLarge,
    ResumePointLost,
    StoreRejected,
    StoreUnavailable,
)

pytestmark = pytest.mark.anyio


class Channel:
    """One that tells what a test says; `past` is what it knows of the past, or raises."""

    def __init__(self, floor: int, past: Any = None) -> None:
        self.log = EventLog(f"{floor:02}", most=100, most_bytes=10_000)
        self.releases = 0
        self.position = self.log.floor
        self.past = past

    def publish(self, *numbers: int, position: int) -> None:
        for number in numbers:
            self.log.append(notice(number))
        self.log.publish()
        self.position = f"{position:02}"

    def release(self) -> None:
        self.releases += 1

    def flush(self) -> None:
        self.log.publish()

    def find_ending(self, error: Exception) -> CloseReason:
        return HISTORY_LOST if isinstance(error, ResumePointLost) else FAILED

    async def read_portion(self, token: Any) -> Any:
        if isinstance(self.past, Exception):
            raise self.past
        assert token == {"_data": "01"}
        return [], {"_data": "02"}


def notice(number: int) -> EncodedEvent:
    return EncodedEvent(f"{number:02}", {"n": number}, SharedMessages((b"x",)))


async def build(channel: Channel, token: Any = None) -> Client:
    client = Client(cast("Any", channel), None, token, asyncio.Semaphore(1))
    await client.begin()
    return client


async def read(client: Client) -> list[int]:
    async with asyncio.timeout(60):
        return [one.event["n"] for one in await client.read()]


@pytest.mark.parametrize(
    ("error", "ending"),
    [(ResumePointLost("gone"), HISTORY_LOST), (StoreRejected("no"), FAILED)],
)
async def test_a_past_that_cannot_be_read_any_more_ends_with_the_reason(
    error: Exception, ending: CloseReason
) -> None:
    channel = Channel(10)
    client = await build(channel, {"_data": "01"})
    channel.past = error
    with pytest.raises(StreamClosed) as ended:
        await read(client)
    assert ended.value.ending is ending


async def test_one_who_begins_is_not_told_what_was_noted_before() -> None:
    channel = Channel(10)
    channel.log.append(notice(11))
    client = await build(channel)
    channel.publish(12, position=12)
    assert await read(client) == [12]


@pytest.mark.parametrize(("floor", "is_logged"), [(10, True), (83, False)])
async def test_a_client_that_begins_at_a_time_reads_the_past_if_the_log_begins_later(
    floor: int, is_logged: bool
) -> None:
    """Else many events while the time is read would end it, or be missing."""
    channel = Channel(floor)
    client = Client(cast("Any", channel), None, None, asyncio.Semaphore(1))
    client.begin_after(Timestamp(1, 1))  # its token begins with 82
    assert client.is_up_to_date is is_logged
    assert client.place.startswith(b'{"_data":"82')
    if is_logged:
        channel.publish(50, 99, position=99)
        assert await read(client) == [99]


async def test_one_whose_events_are_pushed_out_by_what_was_noted_reads_its_past() -> None:
    channel = Channel(10)
    channel.log = EventLog("10", most=2, most_bytes=10_000)
    channel.publish(11, 12, position=12)
    for number in (13, 14, 15):
        channel.log.append(notice(number))
    client = await build(channel, {"_data": "11"})
    assert channel.log.floor == "13"
    assert not client.is_up_to_date


async def skip_silence(chunks: EventChunks) -> bytes:
    """The next chunk with events: on a busy machine, a heartbeat may be due before it."""
    while (chunk := await anext(chunks)) == b":\n\n":
        pass
    return chunk


async def test_silence_between_server_sent_events_loses_none() -> None:
    channel = Channel(10)
    chunks = EventChunks(await build(channel), heartbeat=0.001)
    await anext(chunks)  # the opening
    for number in (11, 13):
        assert await anext(chunks) == b":\n\n"
        channel.publish(number, number + 1, position=number + 1)
        assert (await skip_silence(chunks)).count(b"event:change") == 2


async def test_large_server_sent_events_are_the_same_bytes_for_all_clients() -> None:
    channel = Channel(10)
    channel.log = EventLog("10", most=100, most_bytes=1_000_000)
    one, other = [EventChunks(await build(channel), heartbeat=60.0) for _ in range(2)]
    for chunks in (one, other):
        assert (await anext(chunks)).startswith(b"retry:")
    large = EncodedEvent("13", {}, SharedMessages((b"x" * 100_000,)))
    for event in (notice(11), notice(12), large, notice(14)):
        channel.log.append(event)
    channel.log.publish()
    for chunks in (one, other):
        assert (await anext(chunks)).count(b"event:change") == 2
        assert await anext(chunks) is large.chunk
        assert (await anext(chunks)).count(b"event:change") == 1


async def test_a_server_that_stops_ends_server_sent_events_before_what_is_unsent() -> None:
    channel = Channel(10)
    channel.log = EventLog("10", most=100, most_bytes=1_000_000)
    chunks = EventChunks(await build(channel), heartbeat=60.0)
    await anext(chunks)  # the opening
    large = SharedMessages((b"x" * 100_000,))
    for number in (11, 12):
        channel.log.append(EncodedEvent(f"{number}", {}, large))
    channel.log.publish()
    await anext(chunks)
    chunks.stop()
    assert await anext(chunks) == STOPPED.chunk
    assert [chunk async for chunk in chunks] == []


async def test_who_leaves_twice_has_left_once() -> None:
    channel = Channel(10)
    client = await build(channel)
    client.leave()
    client.leave()
    assert (channel.releases, channel.log.readers) == (1, set())


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
