"""A herd of logins: listeners of some users come back together, with Basic passwords.

    make drill-login-herd           LISTENERS=1000 USERS=50 is the drill in full

Each password is hashed once by the whole instance, requests that wait hold up no others, and all
listeners are in within the time of the hashes.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from pathlib import Path
from typing import Any

import bcrypt
import psutil
import pytest
from pymongo import MongoClient

from tests.drills.server import describe_load, serving, wait_until

LISTENERS = int(os.environ.get("LISTENERS", "400"))
USERS = int(os.environ.get("USERS", "20"))
COST = 12
PLAIN = bool(os.environ.get("PLAIN"))
WORKERS = os.environ.get("WORKERS", "2")
_ADDRESSES = 10
_STREAM = {"streams": [{"uri": "all", "stages": []}]}
_COUNTER = """
import time
from docgraph.auth import passwords
_matches = passwords._matches
def count(*arguments):
    result = _matches(*arguments)
    with open({path!r}, "a") as counts:
        counts.write(f"{{time.monotonic()}}\\n")
    return result
if not hasattr(passwords, "is_counted"):  # plugins may be loaded more than once
    passwords._matches = count
    passwords.is_counted = True
"""

pytestmark = pytest.mark.timeout(600)


def _store_users(mongo: MongoClient[dict[str, Any]]) -> float:
    """Store the users; return the CPU seconds of one hash."""
    begun = time.thread_time()
    bcrypt.hashpw(b"secret", bcrypt.gensalt(COST))
    seconds = time.thread_time() - begun
    users = mongo["docgraph"]["users"]
    users.delete_many({})
    for number in range(USERS):
        hashed = bcrypt.hashpw(f"secret{number}".encode(), bcrypt.gensalt(COST)).decode()
        users.insert_one({"_id": f"user{number}", "password": hashed, "roles": ["user"]})
    return seconds


class Herd:
    """The listeners, and what they got."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.arrived: list[float] = []
        self.refused: list[int] = []
        self.odd: list[int] = []
        self.pings: list[float] = []
        self.begun = time.monotonic()

    async def run(self) -> None:
        async with asyncio.timeout(300):
            pinging = asyncio.create_task(self._ping())
            self._stay = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                for number in range(LISTENERS):
                    group.create_task(self._listen(number))
            pinging.cancel()

    async def _listen(self, number: int) -> None:
        pair = base64.b64encode(f"user{number % USERS}:secret{number % USERS}".encode()).decode()
        path = "/drill/things" if PLAIN else "/drill/things/_streams/all"
        while True:
            reader, writer = await self._connect(number)
            accept = "" if PLAIN else "Accept: text/event-stream\r\n"
            writer.write(
                f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{accept}"
                f"Authorization: Basic {pair}\r\n\r\n".encode()
            )
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            status = int(head.split()[1])
            if status == 200:
                self.arrived.append(time.monotonic() - self.begun)
                if len(self.arrived) == LISTENERS:
                    self._stay.set()
                await self._stay.wait()
                writer.close()
                return
            writer.close()
            fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
            if status != 503:
                self.odd.append(status)
            pause = int(fields.get("retry-after", "1"))
            self.refused.append(pause)
            await asyncio.sleep(pause)

    async def _connect(self, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        address = f"127.0.0.{2 + number % _ADDRESSES}"
        return await asyncio.open_connection("127.0.0.1", self._port, local_addr=(address, 0))

    async def _ping(self) -> None:
        """Measure other traffic meanwhile: an anonymous request each tenth of a second."""
        while True:
            begun = time.monotonic()
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            writer.write(b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            writer.close()
            self.pings.append(time.monotonic() - begun)
            await asyncio.sleep(0.1)


def test_a_herd_of_logins_gets_in(mongo_uri: str, tmp_path: Path) -> None:
    counts, plugins = tmp_path / "counts", tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "counter.py").write_text(_COUNTER.format(path=str(counts)))
    counts.touch()
    options = {
        "mclient__connection_string": mongo_uri,
        "mongo__mongo_mounts": json.dumps([{"what": "/drill", "where": "/drill"}]),
        "core__workers": WORKERS,
        "core__plugins_directory": str(plugins),
        "dbRealmAuthenticator__enabled": "true",
        "basicAuthMechanism__enabled": "true",
    }
    with (
        MongoClient[dict[str, Any]](mongo_uri) as mongo,
        serving(tmp_path, **options) as server,
    ):
        mongo.drop_database("drill")
        wait_until(lambda: server.ask("PUT", "/drill")[0] in (200, 201))
        assert server.ask("PUT", "/drill/things", _STREAM)[0] in (200, 201)
        hash_seconds = _store_users(mongo)
        herd = Herd(server.port)
        processes = psutil.Process(server.process.pid).children(recursive=True)
        before = sum(sum(one.cpu_times()[:2]) for one in processes)
        asyncio.run(herd.run())
        cpu = sum(sum(one.cpu_times()[:2]) for one in processes) - before
        hashes = [float(line) - herd.begun for line in counts.read_text().split()]
    longest = max(herd.refused, default=0)
    print(
        f"\nherd, {LISTENERS} listeners of {USERS} users: in after {max(herd.arrived):.1f} s",
        f"{len(hashes)} hashes of {hash_seconds:.2f} s, the last one after {max(hashes):.1f} s",
        f"{len(herd.refused)} times 503 (Retry-After at most {longest}), odd {herd.odd[:5]}",
        f"ping at most {max(herd.pings):.2f} s; CPU {cpu:.1f} s; {describe_load()}",
        sep="; ",
    )
    assert not herd.odd
    assert len(hashes) <= USERS * 1.2
