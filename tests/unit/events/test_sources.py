"""Sources and their clients together: each is told its own, once and in order, come what may.

The changes come from a history in memory; everything behind it is what the service runs with, and
there is a rest after each wave.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast
from unittest.mock import patch

import bson
import orjson
import pytest
from bson.raw_bson import RawBSONDocument
from hypothesis import given, settings
from hypothesis import strategies as st

from docgraph.codec import JsonMode
from docgraph.events import delivery
from docgraph.events import source as sources
from docgraph.events import stream_client as clients
from docgraph.events.hub import Hub
from docgraph.events.sections import Events
from docgraph.events.service import EventChunks, serve_socket
from docgraph.events.stream_client import Client
from docgraph.exchange import NotifyWhen, SharedMessages, Subscription
from docgraph.exchange.close_reason import GONE, TOO_SLOW
from docgraph.exchange.errors import StoreUnavailable
from docgraph.store.streams import StreamView
from tests.chance import examples

_PATIENCE: Final = 60.0
_HIDDEN: Final = {"first": 0, "second": 1}  # of the numbers modulo 3, by the rights
_NO_VIEW: Final = StreamView({}, ({},), ())
_FIRST: Final = Subscription(
    "db", "notes", "all", (), JsonMode.STANDARD.value, row={"readers": "first"}
)
_SECOND: Final = replace(_FIRST, row={"readers": "second"})


@pytest.fixture(autouse=True)
def with_rests() -> Iterator[None]:
    """There is one after each wave, and a lost stream is soon opened again."""
    rests: dict[str, Any] = {"_REST": 1e9, "_LONGEST_REST": 0.005, "_SHORTEST_REST": 0.0}
    with (
        patch.multiple(delivery, **rests),
        patch.object(sources, "_FIRST_PAUSE", 0.001),
        patch.object(clients, "_PAUSE", 0.001),
    ):
        yield


@dataclass
class History:
    """What happened: event n has the token n and its size; the store that cursors watch."""

    sizes: list[int] = field(default_factory=list)
    is_over: bool = False
    is_away: bool = False  # for the next who asks
    is_elsewhere: bool = False  # what happens concerns other collections
    starts: list[int] = field(default_factory=list)  # of the cursors
    cursors: list[Changes] = field(default_factory=list)
    happened: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, sizes: list[int]) -> None:
        self.sizes += sizes
        self.happened.set()
        self.happened = asyncio.Event()

    @property
    def streams(self) -> History:
        """The part of the store that watches."""
        return self

    async def read_committed_time(self) -> None:
        await asyncio.sleep(0)

    async def has_happened(self, token: Mapping[str, Any]) -> bool:
        return int(token["_data"]) <= len(self.sizes)

    @property
    def pipelines(self) -> History:
        """The part of the store that decides about rows."""
        return self

    async def match_documents(self, *_: Any, **__: Any) -> list[Any]:
        raise StoreUnavailable("there is no database")

    def check_view(self, *_: Any, row: Mapping[str, Any], **__: Any) -> StreamView:
        return replace(_NO_VIEW, row=row)

    async def find_collation(self, *_: Any, **__: Any) -> None:
        await asyncio.sleep(0)

    def decode(self, event: RawBSONDocument, db: str) -> dict[str, Any]:
        return bson.decode(event.raw)

    def watch_source(self, *_: Any, resume_after: Mapping[str, Any] | None, **__: Any) -> Changes:
        start = int(resume_after["_data"]) if resume_after else len(self.sizes)
        self.starts.append(start)
        self.cursors.append(Changes(self, start))
        return self.cursors[-1]


@dataclass
class Changes:
    """One change stream."""

    history: History
    place: int

    @property
    def resume_token(self) -> Mapping[str, Any]:
        return {"_data": f"{self.place:06}"}

    @property
    def alive(self) -> bool:
        return not self.history.is_over or self.place < len(self.history.sizes)

    async def open(self) -> None:
        await asyncio.sleep(0)

    async def aclose(self) -> None:
        await asyncio.sleep(0)

    async def __aenter__(self) -> Changes:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def try_next_raw(self) -> RawBSONDocument | None:
        if self.history.is_away:
            self.history.is_away = False
            raise StoreUnavailable("away")
        if self.history.is_elsewhere:
            self.place = len(self.history.sizes)
        if self.place < len(self.history.sizes):
            self.place += 1
            pad = "x" * self.history.sizes[self.place - 1]
            readers = [rights for rights in _HIDDEN if is_shown(self.place, rights)]
            told = {"n": self.place, "room": find_room(self.place), "pad": pad, "readers": readers}
            event = {"_id": self.resume_token, "operationType": "insert", "fullDocument": told}
            return RawBSONDocument(bson.encode(event))
        with suppress(TimeoutError):
            async with asyncio.timeout(0.001):
                await self.history.happened.wait()
        return None


def is_shown(number: int, rights: str) -> bool:
    return number % 3 != _HIDDEN[rights]


def find_room(number: int) -> str:
    return "even" if number % 2 == 0 else "odd"


def read_number(content: bytes) -> int:
    return int(orjson.loads(content)["fullDocument"]["n"])


class Peer:
    """One who listens, by either way; as a socket it may refuse what it is offered."""

    def __init__(self, stream_client: Client, rights: str, room: str | None, start: int) -> None:
        self.client = stream_client
        self.rights = rights
        self.room = room
        self.start = start
        self.numbers: list[int] = []
        self.code: int | None = None
        self.refuses = False
        self.refused = False
        self.count_frame: Callable[[], tuple[int, str] | None] | None = None

    async def listen(self, transport: str) -> None:
        try:
            if transport == "socket":
                await serve_socket(self.client, self)
            else:
                await self._read_chunks(EventChunks(self.client, heartbeat=0.0005))
        finally:
            self.client.leave()

    async def _read_chunks(self, chunks: EventChunks) -> None:
        async for chunk in chunks:
            for block in chunk.split(b"\n\n"):
                _, _, data = block.partition(b"\ndata:")
                if b"event:change" in block:
                    self.numbers.append(read_number(data))
                elif data:
                    self.code = orjson.loads(data)["code"]
        await chunks.aclose()

    def offer(self, message: SharedMessages) -> bool:
        self.refused |= self.refuses
        if not self.refuses:
            self._take(message)
        return not self.refuses

    async def send(self, message: str | SharedMessages) -> None:
        await asyncio.sleep(0)
        assert isinstance(message, SharedMessages)
        self._take(message)

    async def receive(self) -> None:
        await asyncio.get_running_loop().create_future()

    async def close(self, code: int = 1000, reason: str = "") -> None:
        self.code = self.code or code

    def _take(self, message: SharedMessages) -> None:
        frames = b"".join(message.contents)
        assert message.frames in (b"", frames)  # what many share stays as it is
        message.frames = frames
        self.numbers += map(read_number, message.contents)

    def check(self, last: int) -> None:
        """It was told everything of its own, up to the last unless it was too slow."""
        if self.code == TOO_SLOW.code:
            assert self.refused
            last = max([self.start, *self.numbers])
        else:
            assert self.code == GONE.code
        assert self.numbers == [
            one
            for one in range(self.start + 1, last + 1)
            if is_shown(one, self.rights) and self.room in (None, find_room(one))
        ]


class World:
    """A history, and those who listen to it."""

    def __init__(self) -> None:
        self.history = History()
        options = Events(max_behind=5, max_behind_size=200_000)
        self.hub = Hub(cast("Any", self.history), options, most_cursors=1, most_filters=1)
        self.peers: list[Peer] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def happen(self, count: int, size: int) -> None:
        self.history.add([size] * count)

    async def join(self, transport: str, rights: str, back: int | None, room: str | None) -> None:
        """From now on, or so many events back."""
        condition = NotifyWhen(("fullDocument", "room"), room) if room else None
        start = None if back is None else max(len(self.history.sizes) - back, 0)
        token = None if start is None else {"_data": f"{start:06}"}
        self.history.is_away = False
        asked = replace(_FIRST if rights == "first" else _SECOND, notify_when=condition)
        stream_client = await self.hub.join(asked, token)
        if start is None:
            start = int(stream_client._reader.known)  # type: ignore[union-attr]
        self.peers.append(Peer(stream_client, rights, room, start))
        self.tasks.append(asyncio.create_task(self.peers[-1].listen(transport)))

    async def reject(self, which: int) -> None:
        for peer in self.peers[which : which + 1]:
            peer.refuses = not peer.refuses

    async def be_away(self) -> None:
        self.history.is_away = True

    async def turn(self, count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    async def rest(self) -> None:
        await asyncio.sleep(0.006)

    async def end(self) -> None:
        self.history.is_over = True
        async with asyncio.timeout(_PATIENCE):
            await asyncio.gather(*self.tasks)
            await self.hub.close()
        for peer in self.peers:
            peer.check(len(self.history.sizes))


def _step(action: Callable[..., Any], *arguments: st.SearchStrategy[Any]) -> Any:
    return st.tuples(st.just(action), st.tuples(*arguments))


_join = _step(
    World.join,
    st.sampled_from(["socket", "sse"]),
    st.sampled_from(["first", "second"]),
    st.none() | st.integers(0, 12),
    st.sampled_from([None, None, "even", "odd"]),
)
_happen = _step(World.happen, st.integers(1, 12), st.sampled_from([0, 0, 40_000, 70_000]))
_steps = st.lists(
    _happen
    | _join
    | _step(World.turn, st.integers(1, 8))
    | _step(World.reject, st.integers(0, 3))
    | _step(World.rest)
    | _step(World.be_away),
    min_size=10,
    max_size=30,
)


@settings(max_examples=examples(80))
@given(steps=_steps)
def test_each_client_is_told_its_own_events_once_and_in_order_up_to_the_end(
    steps: list[tuple[Callable[..., Any], tuple[Any, ...]]],
) -> None:
    async def play() -> None:
        world = World()
        await world.join("socket", "first", None, None)
        for action, arguments in steps:
            await action(world, *arguments)
        await world.end()

    asyncio.run(play())


@pytest.mark.anyio
async def test_a_client_to_whom_events_cannot_be_passed_reads_them_and_the_others_get_theirs() -> (
    None
):
    """Else those after it would not learn of the events before the next one."""
    world = World()
    for _ in range(3):
        await world.join("socket", "first", None, None)
    await world.turn(5)

    def fail(_: SharedMessages) -> bool:
        raise RuntimeError("cannot be written to")

    world.peers[1].client.pass_to(fail)
    await world.happen(2, 0)

    await until(lambda: [peer.numbers for peer in world.peers] == [[1, 2]] * 3)
    await world.end()


@pytest.mark.anyio
async def test_a_quiet_stream_resumes_where_the_database_was() -> None:
    """Not at its last event: by then the database may have forgotten what happened after it."""
    world = World()
    await world.join("socket", "first", None, None)
    await world.happen(1, 0)
    await until(lambda: world.peers[0].numbers == [1])
    world.history.is_elsewhere = True
    await world.happen(2, 0)
    await until(lambda: world.history.cursors[0].place == 3)
    await world.be_away()
    await until(lambda: len(world.history.starts) == 2)
    world.history.is_over = True
    async with asyncio.timeout(_PATIENCE):
        await asyncio.gather(*world.tasks)
        await world.hub.close()
    assert world.history.starts == [0, 3]


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(_PATIENCE):
        while not check():  # noqa: ASYNC110 - what is awaited is not ours
            await asyncio.sleep(0.001)
