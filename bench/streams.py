"""W10: a change stream with a thousand WebSocket clients and twenty writes a second, one worker.

Every client must get every event in order. The delay of an event is the time from the moment before
its document is written to the moment when a client has read it; the clients of the bench, which
share the processors with the server and the database, are part of it.
"""

from __future__ import annotations

import asyncio
import base64
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psutil
import uvloop
from pymongo import AsyncMongoClient, MongoClient

from bench.contest import Contestant

CLIENTS = 1000
WRITES_PER_SECOND = 20
DELAY_BAR = 500.0  # milliseconds, the 99th percentile
MEMORY_BAR = 50.0  # KiB a client that hears nothing
CONFIG = {
    "/events/max-connections-per-address": "2000",
    "/connection-options/max-connections": "4000",
}
"""What a server needs that has so many clients from one address."""

_COLLECTION = "ticks"
_PATH = f"/data/{_COLLECTION}/_streams/all"
_PATIENCE = 60.0  # seconds
_AT_ONCE = 50  # clients that connect at the same time
_MARK = b'"_id":'
# Frames (RFC 6455): the first byte, and the size that says that two more bytes tell it.
_HEAD_SIZE = 2
_TEXT = 0x81
_PING = 0x89
_EXTENDED = 126


@dataclass
class Told:
    """What the clients have got: how many events in all, and when."""

    written_at: list[float] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    disorder: int = 0

    @property
    def count(self) -> int:
        """The events of all clients."""
        return len(self.delays)

    def percentile(self, share: float) -> float:
        """A delay in milliseconds."""
        ordered = sorted(self.delays)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000


class Listener(asyncio.Protocol):
    """A WebSocket that reads the number in each event, and answers pings."""

    def __init__(self, told: Told, path: str = _PATH, fields: str = "") -> None:
        self._target = path
        self._fields = fields
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.count = 0
        self._told = told
        self._data = b""
        self.transport: Any

    def connection_made(self, transport: Any) -> None:
        """Shake hands."""
        self.transport = transport
        key = base64.b64encode(os.urandom(16)).decode()
        transport.write(
            f"GET {self._target} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\n{self._fields}"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        """The answer to the handshake, then frames."""
        now = time.perf_counter()
        self._data += data
        if not self.opened.done():
            head, mark, rest = self._data.partition(b"\r\n\r\n")
            if not mark:
                return
            if not head.startswith(b"HTTP/1.1 101"):
                raise SystemExit(f"docgraph refused a client: {head.decode()}")
            self._data = rest
            self.opened.set_result(None)
        while self._cut_frame(now):
            pass

    def _cut_frame(self, now: float) -> bool:
        data = self._data
        if len(data) < _HEAD_SIZE:
            return False
        begin, size = _HEAD_SIZE, data[1]
        if size == _EXTENDED:
            begin, size = 4, int.from_bytes(data[2:4], "big")
        if len(data) < begin + size:
            return False
        self._data = data[begin + size :]
        if data[0] == _TEXT:
            self._hear(data[begin : begin + size], now)
        elif data[0] == _PING:
            self.transport.write(b"\x8a\x80\0\0\0\0")
        return True

    def _hear(self, event: bytes, now: float) -> None:
        number = read_number(event)
        self._told.disorder += number != self.count
        self._told.delays.append(now - self._told.written_at[number])
        self.count += 1


def read_number(event: bytes) -> int:
    """The number of its document."""
    return int(event.partition(_MARK)[2].partition(b"}")[0].partition(b",")[0])


@dataclass(frozen=True)
class Outcome:
    """What the rung measured."""

    expected: int
    told: Told
    memory_kib: float
    cpu: float  # seconds, while events were told
    own_cpu: float  # of the clients

    @property
    def is_complete(self) -> bool:
        """Whether every client got every event, in order."""
        return self.told.count == self.expected and not self.told.disorder


def measure(docgraph: Contestant, uri: str, seconds: float) -> Outcome:
    """Connect, look at the memory, write for so many seconds, and wait for the last event."""
    with MongoClient[dict[str, Any]](uri) as client:
        stream = {"uri": "all", "stages": []}
        client["bench"]["_properties"].replace_one(
            {"_id": f"_properties.{_COLLECTION}"}, {"streams": [stream]}, upsert=True
        )
        client["bench"].drop_collection(_COLLECTION)
        client["bench"].create_collection(_COLLECTION)
    return uvloop.run(_measure(docgraph, uri, seconds))


async def _measure(docgraph: Contestant, uri: str, seconds: float) -> Outcome:
    told = Told()
    first = await _connect(docgraph.port, told, 1)
    before = docgraph.process.memory_info().rss
    listeners = first + await _connect(docgraph.port, told, CLIENTS - 1)
    memory = (docgraph.process.memory_info().rss - before) / (CLIENTS - 1) / 1024
    cpu, own = docgraph.cpu(), time.process_time()
    writes = int(seconds * WRITES_PER_SECOND)
    await _write(uri, told, writes)
    expected = writes * CLIENTS
    await _wait_until(lambda: told.count >= expected)
    cpu, own = docgraph.cpu() - cpu, time.process_time() - own
    for listener in listeners:
        listener.transport.abort()
    return Outcome(expected, told, memory, cpu, own)


async def _connect(port: int, told: Told, count: int) -> list[Listener]:
    loop = asyncio.get_running_loop()
    listeners: list[Listener] = []
    while len(listeners) < count:
        some = min(_AT_ONCE, count - len(listeners))
        made = await asyncio.gather(
            *(
                loop.create_connection(lambda: Listener(told), "127.0.0.1", port)
                for _ in range(some)
            )
        )
        listeners += [one for _, one in made]
        async with asyncio.timeout(_PATIENCE):
            await asyncio.gather(*(one.opened for _, one in made))
    return listeners


async def _write(uri: str, told: Told, writes: int) -> None:
    async with AsyncMongoClient[dict[str, Any]](uri) as client:
        ticks = client["bench"][_COLLECTION]
        begun = time.perf_counter()
        for number in range(writes):
            await asyncio.sleep(begun + number / WRITES_PER_SECOND - time.perf_counter())
            told.written_at.append(time.perf_counter())
            await ticks.insert_one({"_id": number, "text": "a message of a usual length"})


async def _wait_until(check: Callable[[], bool]) -> None:
    deadline = time.perf_counter() + _PATIENCE
    while not check() and time.perf_counter() < deadline:  # noqa: ASYNC110 - counts of other tasks
        await asyncio.sleep(0.05)


def print_outcome(outcome: Outcome) -> None:
    """One line, with the load of the machine."""
    told = outcome.told
    load = psutil.getloadavg()[0]
    print(
        f"{'W10':8} {told.count} of {outcome.expected} events"
        f"{'' if outcome.is_complete else ' NOT COMPLETE OR NOT IN ORDER'}"
        f"   p50/p99 ms {told.percentile(0.5):.0f}/{told.percentile(0.99):.0f}"
        f" (bar {DELAY_BAR:.0f})"
        f"   {outcome.memory_kib:.1f} KiB a client (bar {MEMORY_BAR:.0f})"
        f"   CPU µs a message {outcome.cpu / told.count * 1e6:.1f}"
        f" (clients {outcome.own_cpu / told.count * 1e6:.1f})   load {load:.1f}",
        flush=True,
    )
