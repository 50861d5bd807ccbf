"""A replica set whose members are reached, by clients and by each other, through relays.

A relay passes everything on, falls silent (connections stay open, nothing comes through, as when
packets are dropped on the way), is late, or resets connections now and then. The relays are a
process of their own, which is told by lines what to do:

    add 127.0.0.1:27017       →  the address of the relay
    silent 127.0.0.1:27017 1  →  ok          delay … 0.1, reset … 0.01 alike
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from docgraph.embedded.mongod_process import Mongod
from docgraph.embedded.mongod_setup import MongodOptions
from tests.replica_set import ReplicaSet

__all__ = ["RelayedSet", "relayed_set"]


class RelayedSet(ReplicaSet):
    """Members that know each other by the addresses of their relays."""

    def __init__(self, directory: Path, relays: subprocess.Popen[str]) -> None:
        super().__init__(directory, MongodOptions(cache_gb=0.25, oplog_mb=64))
        self._relays = relays
        self._addresses: dict[str, str] = {}

    def silence(self, node: Mongod, is_silent: bool) -> None:
        """Let nothing come through to a member and from it, or everything again."""
        self._tell("silent", node.host, str(int(is_silent)))

    def delay(self, seconds: float) -> None:
        """Let everything come so much later, each way."""
        for node in self.nodes:
            self._tell("delay", node.host, str(seconds))

    def reset(self, share: float) -> int:
        """Reset that share of the connections, chosen at random; how many that were."""
        return sum(int(self._tell("reset", node.host, str(share))) for node in self.nodes)

    @property
    def _hosts(self) -> list[str]:
        for node in self.nodes:
            if node.host not in self._addresses:
                self._addresses[node.host] = self._tell("add", node.host)
        return [self._addresses[node.host] for node in self.nodes]

    def _tell(self, *words: str) -> str:
        assert self._relays.stdin is not None
        assert self._relays.stdout is not None
        print(*words, file=self._relays.stdin, flush=True)
        return self._relays.stdout.readline().strip()


@contextmanager
def relayed_set(directory: Path) -> Iterator[RelayedSet]:
    """Three members and their relays, with MongoDB's own time until an election."""
    command = [sys.executable, "-m", "tests.drills.relays"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as relays:
        members = RelayedSet(directory, relays)
        try:
            members.start()
            members.be_patient()
            yield members
        finally:
            members.stop()
            relays.terminate()


# --- the process of the relays --------------------------------------------------------------------


class _Relay:
    """The way to one server."""

    def __init__(self, target: str) -> None:
        self._target = target.split(":")
        self._writers: set[asyncio.StreamWriter] = set()
        self._heard = asyncio.Event()
        self._heard.set()
        self.delay = 0.0

    async def listen(self) -> str:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    def silence(self, is_silent: bool) -> None:
        if is_silent:
            self._heard.clear()
        else:
            self._heard.set()

    def reset(self, share: float) -> int:
        chosen = [one for one in self._writers if random.random() < share]
        for writer in chosen:
            writer.transport.abort()
        return len(chosen)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._heard.wait()
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
                await self._heard.wait()
                writer.write(data)
                await writer.drain()
        await self._heard.wait()
        writer.close()


async def _obey() -> None:
    relays: dict[str, _Relay] = {}
    while line := await asyncio.to_thread(sys.stdin.readline):
        word, target, *values = line.split()
        answer = "ok"
        if word == "add":
            relays[target] = _Relay(target)
            answer = await relays[target].listen()
        elif word == "silent":
            relays[target].silence(values[0] == "1")
        elif word == "delay":
            relays[target].delay = float(values[0])
        elif word == "reset":
            answer = str(relays[target].reset(float(values[0])))
        print(answer, flush=True)


if __name__ == "__main__":
    asyncio.run(_obey())
