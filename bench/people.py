"""W13: a change stream with thousands of people, each of whom may see other rows; one worker.

Every message reaches its sender and its recipient, and nobody else. Beside the stream, one client
sends GraphQL queries and REST reads, before the people come and while messages are written.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psutil
import uvloop
from pymongo import AsyncMongoClient, MongoClient

from bench.contest import Contestant
from bench.data import DB
from bench.row_filters import KEY
from bench.streams import DELAY_BAR, MEMORY_BAR, Listener, Told, read_number

__all__ = ["CROWDS", "Crowd", "CrowdOutcome", "build_config", "measure", "print_outcome"]

_COLLECTION = "messages"
_PATH = f"/data/{_COLLECTION}/_streams/all"
_ROLE = "person"
_OWN = {"$or": [{"from": "@user.sub"}, {"to": "@user.sub"}]}
_PATIENCE = 60.0  # seconds
_AT_ONCE = 50  # people who connect at the same time
_WARM_UP = 200  # requests of each kind, not counted
_BATCH = 250  # documents of one write, when there are thousands a second


@dataclass(frozen=True)
class Crowd:
    """So many people with rows of their own, and messages a second."""

    id: str
    people: int
    writes: int
    row: dict[str, Any]
    bar: float  # milliseconds, the 99th percentile of the delay


CROWDS = (
    Crowd("W13-own", 10_000, 20, _OWN, DELAY_BAR),
    Crowd("W13-database", 1000, 20, {**_OWN, "n": {"$gte": 0}}, 2000.0),
    Crowd("W13-fast", 1, 5000, _OWN, 0.0),
)


def build_config(crowd: Crowd) -> dict[str, str]:
    """What a server needs that has so many clients from one address, and knows them by token."""
    rules = [
        {"role": _ROLE, "predicate": f"path-prefix('{_PATH}')", "mongo": {"readFilter": crowd.row}},
        {"role": _ROLE, "predicate": "path('/data/notes') or path('/graphql/notes')"},
    ]
    return {
        "/jwtAuthenticationMechanism/enabled": "true",
        "/jwtAuthenticationMechanism/key": KEY,
        "/fullAuthorizer/enabled": "false",
        "/fileAclAuthorizer/enabled": "true",
        "/fileAclAuthorizer/permissions": json.dumps(rules),
        "/events/max-connections-per-address": "100000",
        "/connection-options/max-connections": "100000",
        "/connection-options/max-connections-per-address": "100000",
    }


def _sign(name: str) -> str:
    """A token of this person."""
    head = {"alg": "HS256", "typ": "JWT"}
    claims = {"sub": name, "roles": [_ROLE], "exp": int(time.time()) + 3600}
    parts = [_encode(json.dumps(one).encode()) for one in (head, claims)]
    text = b".".join(parts)
    return (text + b"." + _encode(hmac.digest(KEY.encode(), text, hashlib.sha256))).decode()


def _encode(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


class Person(Listener):
    """Counts what it should not have got."""

    def __init__(self, told: Told, name: str) -> None:
        super().__init__(told, _PATH, f"Authorization: Bearer {_sign(name)}\r\n")
        self._name = f'"{name}"'.encode()

    def _hear(self, event: bytes, now: float) -> None:
        number = read_number(event)
        self._told.disorder += self._name not in event or number < self.count
        self._told.delays.append(now - self._told.written_at[number])
        self.count = number + 1


@dataclass
class CrowdOutcome:
    """What was measured."""

    expected: int
    told: Told
    memory_kib: float
    cpu: float
    cursors: int  # of the stream at the database
    commands: dict[str, float]  # a message
    quiet: dict[str, float] = field(default_factory=dict)  # p99 in milliseconds, without people
    beside: dict[str, float] = field(default_factory=dict)  # … and while messages are written

    @property
    def is_complete(self) -> bool:
        """Whether everybody got all messages of their own, in order, and no others."""
        return self.told.count == self.expected and not self.told.disorder


def measure(docgraph: Contestant, uri: str, crowd: Crowd, seconds: float) -> CrowdOutcome:
    """Connect, write for so many seconds, and wait for the last event."""
    with MongoClient[dict[str, Any]](uri) as client:
        db = client[DB]
        db["_properties"].replace_one(
            {"_id": f"_properties.{_COLLECTION}"},
            {"streams": [{"uri": "all", "stages": []}]},
            upsert=True,
        )
        db.drop_collection(_COLLECTION)
        db.create_collection(_COLLECTION, changeStreamPreAndPostImages={"enabled": True})
    return uvloop.run(_measure(docgraph, uri, crowd, seconds))


async def _measure(docgraph: Contestant, uri: str, crowd: Crowd, seconds: float) -> CrowdOutcome:
    told = Told()
    await _ask_beside(docgraph.port, _WARM_UP)
    quiet = await _ask_beside(docgraph.port, int(seconds * 10), pause=0.1)
    first = await _connect(docgraph.port, told, [0])
    before = docgraph.process.memory_info().rss
    listeners = first + await _connect(docgraph.port, told, range(1, crowd.people))
    grown = docgraph.process.memory_info().rss - before
    async with AsyncMongoClient[dict[str, Any]](uri) as client:
        counted, cpu = await _count_commands(client), docgraph.cpu()
        writing = asyncio.create_task(_write(client, told, crowd, seconds))
        beside = await _ask_beside(docgraph.port, int(seconds * 10), pause=0.1)
        expected = await writing
        await _wait_for(told, expected)
        cpu = docgraph.cpu() - cpu
        spent = await _count_commands(client)
        cursors = await _count_cursors(client)
    for listener in listeners:
        listener.transport.abort()
    messages = len(told.written_at)
    commands = {name: (spent[name] - counted[name]) / messages for name in spent}
    memory = grown / max(1, crowd.people - 1) / 1024
    return CrowdOutcome(expected, told, memory, cpu, cursors, commands, quiet, beside)


async def _connect(port: int, told: Told, numbers: Any) -> list[Person]:
    loop = asyncio.get_running_loop()
    people: list[Person] = []
    waiting = list(numbers)
    while waiting:
        some, waiting = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
        made = await asyncio.gather(
            *(
                loop.create_connection(partial(Person, told, f"p{n}"), "127.0.0.1", port)
                for n in some
            )
        )
        people += [one for _, one in made]
        async with asyncio.timeout(_PATIENCE):
            await asyncio.gather(*(one.opened for _, one in made))
    return people


async def _write(
    client: AsyncMongoClient[dict[str, Any]], told: Told, crowd: Crowd, seconds: float
) -> int:
    """Write messages at a steady pace; how many times they are told."""
    messages = client[DB][_COLLECTION]
    begun = time.perf_counter()
    size = _BATCH if crowd.writes > _BATCH else 1
    told_times = 0
    for start in range(0, int(seconds * crowd.writes), size):
        await asyncio.sleep(begun + start / crowd.writes - time.perf_counter())
        documents = [_build(number, crowd.people) for number in range(start, start + size)]
        told.written_at += [time.perf_counter()] * size
        await messages.insert_many(documents)
        told_times += sum(len({one["from"], one["to"]}) for one in documents)
    return told_times


def _build(number: int, people: int) -> dict[str, Any]:
    sender, recipient = number * 7919 % people, (number * 104_729 + 1) % people
    text = "a message of a usual length"
    return {"_id": number, "from": f"p{sender}", "to": f"p{recipient}", "n": number, "text": text}


async def _wait_for(told: Told, expected: int) -> None:
    deadline = time.perf_counter() + _PATIENCE
    while told.count < expected and time.perf_counter() < deadline:  # noqa: ASYNC110 - of tasks
        await asyncio.sleep(0.05)


async def _ask_beside(port: int, count: int, pause: float = 0.0) -> dict[str, float]:
    """The 99th percentile of requests one after the other, in milliseconds."""
    body = b'{"query":"{ plain { id title } }"}'
    token = f"Authorization: Bearer {_sign('beside')}\r\n"
    heads = {
        "GraphQL": f"POST /graphql/notes HTTP/1.1\r\nHost: localhost\r\n{token}"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n",
        "REST": f"GET /data/notes?pagesize=5 HTTP/1.1\r\nHost: localhost\r\n{token}\r\n",
    }
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    times: dict[str, list[float]] = {name: [] for name in heads}
    for _ in range(count):
        await asyncio.sleep(pause)
        for name, head in heads.items():
            begun = time.perf_counter()
            writer.write(head.encode() + (body if name == "GraphQL" else b""))
            await _read_answer(reader, name)
            times[name].append((time.perf_counter() - begun) * 1000)
    writer.close()
    return {name: sorted(some)[int(len(some) * 0.99)] for name, some in times.items()}


async def _read_answer(reader: asyncio.StreamReader, name: str) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    if not head.startswith("http/1.1 200"):
        raise SystemExit(f"W13: {name} is answered by {head.splitlines()[0]}")
    size = int(head.partition("content-length:")[2].partition("\r\n")[0])
    await reader.readexactly(size)


async def _count_commands(client: AsyncMongoClient[dict[str, Any]]) -> dict[str, float]:
    commands = (await client.admin.command("serverStatus"))["metrics"]["commands"]
    return {name: commands[name]["total"] for name in ("getMore", "aggregate")}


async def _count_cursors(client: AsyncMongoClient[dict[str, Any]]) -> int:
    stages: list[dict[str, Any]] = [
        {"$currentOp": {"idleCursors": True, "allUsers": True}},
        {"$match": {"ns": f"{DB}.{_COLLECTION}", "cursor.cursorId": {"$exists": True}}},
        {"$group": {"_id": "$cursor.cursorId"}},
    ]
    return len(await (await client.admin.aggregate(stages)).to_list())


def print_outcome(crowd: Crowd, outcome: CrowdOutcome) -> None:
    """One line, with the load of the machine."""
    told = outcome.told
    bar = f" (bar {crowd.bar:.0f})" if crowd.bar else ""
    beside = ", ".join(
        f"{name} {outcome.quiet[name]:.0f} → {outcome.beside[name]:.0f}" for name in outcome.quiet
    )
    print(
        f"{crowd.id:12} {crowd.people} people, {told.count} of {outcome.expected} events"
        f"{'' if outcome.is_complete else ' NOT COMPLETE OR NOT IN ORDER'}"
        f"   p50/p99 ms {told.percentile(0.5):.0f}/{told.percentile(0.99):.0f}{bar}"
        f"   {outcome.memory_kib:.1f} KiB a client (bar {MEMORY_BAR:.0f})"
        f"   {outcome.cursors} cursors; a message: "
        f"{', '.join(f'{count:.2f} {name}' for name, count in outcome.commands.items())}, "
        f"CPU ms {outcome.cpu / max(1, len(told.written_at)) * 1000:.2f}"
        f"   p99 ms beside it: {beside}   load {psutil.getloadavg()[0]:.1f}",
        flush=True,
    )
