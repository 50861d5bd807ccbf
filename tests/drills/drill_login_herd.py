"""A herd of logins: listeners of some users come back together, with Basic passwords.

    make drill-login-herd           LISTENERS=1000 USERS=50 is the drill in full

Each password is hashed once by the whole instance, requests that wait hold up no others, and all
listeners are in within 1.5 times the time of the hashes plus 10 s. On a busy machine the hashes
take longer than their CPU time: what counts is that some are always running until the last one
ends, and that the listeners are in soon afterwards.

Once with a wait so short that most logins get 503: then its `Retry-After` has to be the truth.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

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
def count(given, *arguments):
    begun, cpu = time.monotonic(), time.thread_time()
    result = _matches(given, *arguments)
    line = given.decode(), begun, time.monotonic(), time.thread_time() - cpu
    with open({path!r}, "a") as counts:
        print(*line, file=counts)
    return result
if not hasattr(passwords, "is_counted"):  # plugins may be loaded more than once
    passwords._matches = count
    passwords.is_counted = True
"""

pytestmark = pytest.mark.timeout(600)


def _store_users(mongo: MongoClient[dict[str, Any]]) -> None:
    users = mongo["docgraph"]["users"]
    users.delete_many({})
    for number in range(USERS):
        hashed = bcrypt.hashpw(f"secret{number}".encode(), bcrypt.gensalt(COST)).decode()
        users.insert_one({"_id": f"user{number}", "password": hashed, "roles": ["user"]})


class Hash(NamedTuple):
    """A password that was hashed, and when; `cpu` is the CPU time."""

    password: str
    begun: float
    ended: float
    cpu: float


def _read_hashes(counts: Path, begun: float) -> list[Hash]:
    lines = (line.split() for line in counts.read_text().splitlines())
    found = [Hash(one[0], *(float(value) for value in one[1:])) for one in lines]
    return sorted(one._replace(begun=one.begun - begun, ended=one.ended - begun) for one in found)


def _measure_pauses(hashes: list[Hash]) -> float:
    """Return the seconds before the last hash ended in which none was running."""
    pauses, until = 0.0, 0.0
    for one in sorted(hashes, key=lambda one: one.begun):
        pauses += max(0.0, one.begun - until)
        until = max(until, one.ended)
    return pauses


class Refusal(NamedTuple):
    """An answer of 503: when, to which password, and its Retry-After."""

    at: float
    password: str
    seconds: int


class Herd:
    """The listeners, and what they got."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.arrived: list[float] = []
        self.refused: list[Refusal] = []
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
        password = f"secret{number % USERS}"
        pair = base64.b64encode(f"user{number % USERS}:{password}".encode()).decode()
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
            self.refused.append(Refusal(time.monotonic() - self.begun, password, pause))
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
            head = await reader.readuntil(b"\r\n\r\n")
            writer.close()
            if not head.startswith(b"HTTP/1.1 200"):
                self.odd.append(int(head.split()[1]))
            self.pings.append(time.monotonic() - begun)
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("wait_ms", [None, "500"], ids=["waiting", "rejected"])
def test_a_herd_of_logins_gets_in(mongo_uri: str, tmp_path: Path, wait_ms: str | None) -> None:
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
        **({"core__wait_timeout_ms": wait_ms} if wait_ms else {}),
    }
    with (
        MongoClient[dict[str, Any]](mongo_uri) as mongo,
        serving(tmp_path, **options) as server,
    ):
        mongo.drop_database("drill")
        wait_until(lambda: server.ask("PUT", "/drill")[0] in (200, 201))
        assert server.ask("PUT", "/drill/things", _STREAM)[0] in (200, 201)
        _store_users(mongo)
        herd = Herd(server.port)
        processes = psutil.Process(server.process.pid).children(recursive=True)
        before = sum(sum(one.cpu_times()[:2]) for one in processes)
        asyncio.run(herd.run())
        cpu = sum(sum(one.cpu_times()[:2]) for one in processes) - before
        hashes = _read_hashes(counts, herd.begun)
    assert wait_ms is None or any(one.seconds > 1 for one in herd.refused)
    _judge(herd, hashes, cpu)


def _judge(herd: Herd, hashes: list[Hash], cpu: float) -> None:
    last, pauses = max(one.ended for one in hashes), _measure_pauses(hashes)
    ends = {one.password: one.ended for one in hashes}
    # A check that ends within a second is announced as one second.
    errors = [one.seconds - max(1.0, ends[one.password] - one.at) for one in herd.refused]
    error = median(abs(one) for one in errors) if errors else 0.0
    print(
        f"\nherd, {LISTENERS} listeners of {USERS} users: in after {max(herd.arrived):.1f} s",
        f"{len(hashes)} hashes of {sum(one.cpu for one in hashes):.1f} s of CPU",
        f"the last one after {last:.1f} s, without a hash {pauses:.1f} s",
        f"{len(herd.refused)} times 503 (Retry-After at most "
        f"{max((one.seconds for one in herd.refused), default=0)}, wrong by {error:.1f} s)",
        f"odd {herd.odd[:5]}; ping {median(herd.pings):.3f} s, at most {max(herd.pings):.2f} s",
        f"CPU {cpu:.1f} s; {describe_load()}",
        sep="; ",
    )
    assert not herd.odd
    assert len(hashes) <= USERS * 1.2
    assert pauses <= 0.1 * last + 1
    assert max(herd.arrived) <= 1.5 * last + 10
    assert cpu <= 1.5 * sum(one.cpu for one in hashes) + 10
    assert error <= 0.25 * last + 1
    assert median(herd.pings) <= 0.5
