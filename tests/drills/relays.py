"""A replica set whose members are reached, by clients and by each other, through relays.

A relay passes everything on, falls silent (connections stay open, nothing comes through, as when
packets are dropped on the way), is late, or resets connections now and then.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from docgraph.embedded.binary import MongodOptions
from docgraph.embedded.node import Node
from tests.replica_set import ReplicaSet

__all__ = ["Relay", "RelayedSet", "relayed_set"]


class Relay:
    """The way to one server; the attributes can be changed at any time, from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, target: str) -> None:
        self._loop = loop
        self._target = target.split(":")
        self._writers: set[asyncio.StreamWriter] = set()
        self.is_silent = False
        self.delay = 0.0  # seconds, each way
        self.resets = 0  # how many connections were reset
        listening = asyncio.run_coroutine_threadsafe(self._listen(), loop)
        self.address = f"127.0.0.1:{listening.result(30)}"

    def reset(self, share: float) -> None:
        """Reset that share of the connections, chosen at random."""
        self._loop.call_soon_threadsafe(self._reset, share)

    def _reset(self, share: float) -> None:
        for writer in list(self._writers):
            if random.random() < share:
                self.resets += 1
                writer.transport.abort()

    async def _listen(self) -> int:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._pass()
        host, port = self._target
        try:
            back_reader, back_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.transport.abort()
            return
        self._writers.add(writer)
        await asyncio.gather(self._pump(reader, back_writer), self._pump(back_reader, writer))
        self._writers.discard(writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                if self.delay:
                    await asyncio.sleep(self.delay)
                await self._pass()
                writer.write(data)
                await writer.drain()
        await self._pass()
        writer.close()

    async def _pass(self) -> None:
        """Wait until something comes through."""
        while self.is_silent:  # noqa: ASYNC110 - another thread says so
            await asyncio.sleep(0.05)


class RelayedSet(ReplicaSet):
    """Members that know each other by the addresses of their relays."""

    def __init__(self, directory: Path, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(directory, MongodOptions(cache_gb=0.25, oplog_mb=64, test_commands=True))
        self._loop = loop
        self._relays: dict[str, Relay] = {}

    def relay(self, node: Node) -> Relay:
        """The relay of a member."""
        return self._relays[node.host]

    @property
    def relays(self) -> list[Relay]:
        """All of them."""
        return [self._relays[node.host] for node in self.nodes]

    @property
    def _hosts(self) -> list[str]:
        for node in self.nodes:
            if node.host not in self._relays:
                self._relays[node.host] = Relay(self._loop, node.host)
        return [relay.address for relay in self.relays]


@contextmanager
def relayed_set(directory: Path) -> Iterator[RelayedSet]:
    """Three members and their relays, with MongoDB's own time until an election."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    members = RelayedSet(directory, loop)
    try:
        members.start()
        members.be_patient()
        yield members
    finally:
        members.stop()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
