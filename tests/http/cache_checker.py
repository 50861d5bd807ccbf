"""A checker of cached answers: one writer, many readers, and the history of the collection.

Each answer has to be that of a state which was replaced at most `lag` seconds before the request,
and never that of a state before a write that the same instance had answered. The writer writes at
random through the instance, through another one, and straight into the database. Nothing depends on
how fast anything is: a slow machine bypasses the cache.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from math import inf
from typing import Any

from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern

from tests.http.access_harness import ADA, ADMIN, BOB, caller
from tests.http.cache_harness import HIT
from tests.http.cache_writer import (
    ALL_WAYS,
    IDS,
    SHOPS,
    TAGS,
    TEAMS,
    Documents,
    State,
    Way,
    Writer,
)
from tests.http.harness import Document, Reply, Service

Oracle = Callable[[list[Document], Any, int], Any]

LINEARIZABLE = ReadConcern("linearizable")
# name: (headers, team); the team of the last one differs from request to request
READS_BESIDE_A_WRITE = 6
CALLERS = {"ada": (ADA, "blue"), "bob": (BOB, "red"), "root": (ADMIN, None), "eve": ({}, None)}


def _of_shop(documents: list[Document], shop: Any, *_: int) -> list[Document]:
    return [one for one in documents if one["shop"] == shop]


def _by_name(documents: list[Document], shop: Any) -> list[Document]:
    return sorted(_of_shop(documents, shop), key=lambda one: (one["name"], one["_id"]))


# field: (its argument, a value of it at random, the documents that it finds with that limit)
FIELDS: dict[str, tuple[str, Callable[[random.Random], Any], Oracle]] = {
    "items": ("shop", lambda chance: chance.choice(SHOPS), _of_shop),
    "first": (
        "shop",
        lambda chance: chance.choice(SHOPS),
        lambda documents, shop, limit: _by_name(documents, shop)[:limit],
    ),
    "second": (
        "shop",
        lambda chance: chance.choice(SHOPS),
        lambda documents, shop, _: _by_name(documents, shop)[2:4],
    ),
    "among": (
        "shops",
        lambda chance: chance.sample(SHOPS, 2),
        lambda documents, shops, _: [one for one in documents if one["shop"] in shops],
    ),
    "tagged": (
        "tag",
        lambda chance: chance.choice(TAGS),
        lambda documents, tag, _: [one for one in documents if tag in one["tags"]],
    ),
    "named": (
        "id",
        lambda chance: chance.choice(IDS),
        lambda documents, id, _: [one for one in documents if one["_id"] == id],
    ),
    "all": ("", lambda chance: None, lambda documents, *_: documents),
    "size": (
        "shop",
        lambda chance: chance.choice(SHOPS),
        lambda documents, shop, _: len(_of_shop(documents, shop)),
    ),
}


@dataclass
class Version:
    """A state of the data; `replaced` and `outdated` are when it was, by any or own write."""

    state: State
    replaced: float = inf
    outdated: float = inf

    def is_allowed(self, asked: float, lag: float) -> bool:
        return asked <= min(self.replaced + lag, self.outdated)


@dataclass
class Question:
    """A query of one caller, and what its fields find."""

    caller: str
    parts: tuple[tuple[str, Any], ...]

    @property
    def query(self) -> str:
        return "{ " + " ".join(self._render(number) for number in range(len(self.parts))) + " }"

    def _render(self, number: int) -> str:
        name, value = self.parts[number]
        argument = FIELDS[name][0]
        given = f"({argument}: {json.dumps(value)})" if argument else ""
        return f"f{number}: {name}{given}" + ("" if name == "size" else " { _id name shop }")

    def expect(self, number: int, state: State, team: str | None) -> Any:
        """What a field finds in this state for a caller of that team."""
        name, value = self.parts[number]
        seen = [state.documents[id] for id in sorted(state.documents)]
        seen = [one for one in seen if not (team and state.has_rows) or one["team"] == team]
        found = FIELDS[name][2](seen, value, state.limit)
        if name == "size":
            return found
        return [{key: one[key] for key in ("_id", "name", "shop")} for one in found]


def _mix(states: Sequence[State]) -> list[State]:
    """The documents of one state with the definition and rule of any: these are read earlier.

    The newest state is the last one.
    """
    settings = dict.fromkeys((one.limit, one.has_rows) for one in states)
    newest = states[-1].limit, states[-1].has_rows
    return [
        one._replace(limit=limit, has_rows=has_rows)
        for limit, has_rows in (*(pair for pair in settings if pair != newest), newest)
        for one in states
    ]


@dataclass
class Checker:
    """Writes and reads at random; `own` is the instance that is read, `other` another one."""

    own: Service
    other: Service
    seed: int
    lag: float
    ways: Sequence[Way] = ALL_WAYS
    is_tolerant: bool = False  # requests may fail, for the database does
    has_settings: bool = True  # definitions and rules change, too
    is_paced: bool = False  # readers read a few times next to each write; else as often as they can
    versions: list[Version] = field(default_factory=lambda: [Version(State({}))])
    statuses: Counter[str] = field(default_factory=Counter)
    reads: int = 0
    writes: int = 0
    is_over: bool = False

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._turns: asyncio.Queue[None] = asyncio.Queue()
        pool = random.Random(self.seed + 1)
        self._questions = [self._ask(pool) for _ in range(24)]
        has_settings = self.has_settings and not self.is_tolerant
        self._writer = Writer(self.own, self.other, self._chance, self.ways, has_settings)

    async def prepare(self) -> None:
        """Define the app, and rules for its callers."""
        await self._writer.prepare()

    async def run(self, writes: int, readers: int = 3, seconds: float = inf) -> None:
        """Write so many times, or for so long, while readers compare what they get."""
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            for number in range(readers):
                group.create_task(self._read(random.Random(f"{self.seed} {number}")))
            while self.writes < writes and time.monotonic() < end:
                self._let_read(READS_BESIDE_A_WRITE)
                await self._write()
                self._let_read(self._chance.choice((0, 1, 4, 15)))
                await self._turns.join()
                if self.writes % 10 == 0:
                    await self._converge(6)
            self.is_over = True
            self._let_read(readers)
        await self._converge()

    # --- reading ----------------------------------------------------------------------------------

    def _ask(self, chance: random.Random) -> Question:
        names = chance.sample(sorted(FIELDS), chance.choice((1, 1, 2)))
        parts = tuple((name, FIELDS[name][1](chance)) for name in names)
        return Question(chance.choice(sorted(CALLERS)), parts)

    def _let_read(self, count: int) -> None:
        """Give the readers so many turns."""
        for _ in range(count):
            self._turns.put_nowait(None)

    async def _read(self, chance: random.Random) -> None:
        while not self.is_over:
            if has_turn := self.is_paced or not self._turns.empty():
                await self._turns.get()
            await self._compare(chance.choice(self._questions))
            self.reads += 1
            if has_turn:
                self._turns.task_done()

    async def _compare(self, question: Question) -> bool:
        """Compare an answer with the states that it may have; return if it is the newest one."""
        asked = time.monotonic()
        first = next(n for n, one in enumerate(self.versions) if one.is_allowed(asked, self.lag))
        headers, team = CALLERS[question.caller]
        if not headers:
            team = TEAMS[self.reads % 2]
            headers = caller(question.caller, "user", team=team)
        reply = await self.own.query("items", question.query, headers=headers)
        self.statuses[reply.headers.get("cache-status", "none")] += 1
        if self.is_tolerant and reply.status != HTTPStatus.OK:
            return False
        allowed = [one.state for one in self.versions[first:]]
        is_new = True
        for number in range(len(question.parts)):
            value = reply.data[f"f{number}"]
            expected = [question.expect(number, state, team) for state in _mix(allowed)]
            assert value in expected, self._describe(question, team, value, expected, reply)
            is_new &= value == expected[-1]
        return is_new

    def _describe(
        self, question: Question, team: str | None, value: Any, expected: Any, reply: Reply
    ) -> str:
        status = reply.headers.get("cache-status")
        return (
            f"seed {self.seed}, write {self.writes}: {question.caller} ({team}) got {value} for "
            f"{question.query} ({status}), but the states were {expected}"
        )

    async def _converge(self, count: int = 24) -> None:
        """The answers become those of the last state, and stay it."""
        questions = self._chance.sample(self._questions, count)
        async with asyncio.timeout(120):
            for question in questions:
                while not await self._compare(question):  # noqa: ASYNC110 - no event reports it
                    await asyncio.sleep(0.01)
            for question in questions:
                assert await self._compare(question)

    @property
    def hits(self) -> int:
        return self.statuses[HIT]

    # --- writing ----------------------------------------------------------------------------------

    async def _write(self) -> None:
        """Write once, by one of the ways; both states are possible until it is answered."""
        before = self.versions[-1].state
        change = self._writer.choose(before)
        self.versions.append(Version(change.after))
        try:
            await change.apply()
        except (AssertionError, PyMongoError):
            if not self.is_tolerant:
                raise
            self.versions.append(Version(before._replace(documents=await self._find_stored())))
        now = time.monotonic()
        for version in self.versions[:-1]:
            version.replaced = min(version.replaced, now)
            if change.way == "own":
                version.outdated = min(version.outdated, now)
        self.writes += 1

    async def _find_stored(self) -> Documents:
        """What is stored after a write that may or may not have been applied."""
        stored = self.own.mongo[self.own.db].items.with_options(read_concern=LINEARIZABLE)
        while True:
            try:
                found = await asyncio.to_thread(lambda: list(stored.find({}, {"_etag": 0})))
                return {one["_id"]: one for one in found}
            except PyMongoError:
                await asyncio.sleep(0.1)
