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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from math import inf
from typing import Any

from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern

from tests.http.access_harness import ADA, ADMIN, BOB, allow
from tests.http.cache_harness import CACHE, HIT
from tests.http.harness import Document, Reply, Service

Documents = Mapping[str, Document]
Oracle = Callable[[list[Document], Any], Any]

SCHEMA = """
type Query {
  items(shop: Int): [Item]
  first(shop: Int): [Item]
  second(shop: Int): [Item]
  among(shops: [Int]): [Item]
  tagged(tag: String): [Item]
  named(id: String): [Item]
  all: [Item]
  size(shop: Int): Int
}
type Item { _id: String name: String shop: Int }
"""
SHOPS, TAGS, NAMES = range(4), "abc", "pqrstuvw"
TEAMS = ("blue", "red")
LINEARIZABLE = ReadConcern("linearizable")
CALLERS = {"ada": (ADA, "blue"), "bob": (BOB, "red"), "root": (ADMIN, None)}


def mappings(service: Service) -> Document:
    of_shop = {"shop": {"$arg": "shop"}}
    by_name = {"name": 1, "_id": 1}
    among = {"shop": {"$in": {"$arg": "shops"}}}
    return {
        "Query": {
            "items": service.find("items", of_shop, sort={"_id": 1}),
            "first": service.find("items", of_shop, sort=by_name, limit=2),
            "second": service.find("items", of_shop, sort=by_name, skip=2, limit=2),
            "among": service.find("items", among, sort={"_id": 1}),
            "tagged": service.find("items", {"tags": {"$arg": "tag"}}, sort={"_id": 1}),
            "named": service.find("items", {"_id": {"$arg": "id"}}),
            "all": service.find("items", {}, sort={"_id": 1}),
            "size": service.find("items", of_shop, count=True),
        }
    }


def _of_shop(documents: list[Document], shop: Any) -> list[Document]:
    return [one for one in documents if one["shop"] == shop]


def _by_name(documents: list[Document], shop: Any) -> list[Document]:
    return sorted(_of_shop(documents, shop), key=lambda one: (one["name"], one["_id"]))


# field: (its argument, a value of it at random, the documents that it finds)
FIELDS: dict[str, tuple[str, Callable[[random.Random], Any], Oracle]] = {
    "items": ("shop", lambda chance: chance.choice(SHOPS), _of_shop),
    "first": ("shop", lambda chance: chance.choice(SHOPS), lambda *of: _by_name(*of)[:2]),
    "second": ("shop", lambda chance: chance.choice(SHOPS), lambda *of: _by_name(*of)[2:4]),
    "among": (
        "shops",
        lambda chance: chance.sample(SHOPS, 2),
        lambda documents, shops: [one for one in documents if one["shop"] in shops],
    ),
    "tagged": (
        "tag",
        lambda chance: chance.choice(TAGS),
        lambda documents, tag: [one for one in documents if tag in one["tags"]],
    ),
    "named": (
        "id",
        lambda chance: f"i{chance.randrange(12)}",
        lambda documents, id: [one for one in documents if one["_id"] == id],
    ),
    "all": ("", lambda chance: None, lambda documents, _: documents),
    "size": (
        "shop",
        lambda chance: chance.choice(SHOPS),
        lambda documents, shop: len(_of_shop(documents, shop)),
    ),
}


@dataclass
class Version:
    """A state of the collection; `replaced` and `outdated` are when it was, by any or own write."""

    documents: Documents
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

    def expect(self, number: int, documents: Documents) -> Any:
        """What a field finds in this state."""
        name, value = self.parts[number]
        team = CALLERS[self.caller][1]
        seen = [documents[id] for id in sorted(documents)]
        seen = [one for one in seen if team is None or one["team"] == team]
        found = FIELDS[name][2](seen, value)
        if name == "size":
            return found
        return [{key: one[key] for key in ("_id", "name", "shop")} for one in found]


@dataclass
class Checker:
    """Writes and reads at random; `own` is the instance that is read, `other` another one."""

    own: Service
    other: Service
    seed: int
    lag: float
    is_foreign: bool = False  # the instance that is read writes nothing itself
    is_tolerant: bool = False  # requests may fail, for the database does
    versions: list[Version] = field(default_factory=lambda: [Version({})])
    statuses: Counter[str] = field(default_factory=Counter)
    reads: int = 0
    writes: int = 0
    is_over: bool = False

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        pool = random.Random(self.seed + 1)
        self._questions = [self._ask(pool) for _ in range(24)]

    async def prepare(self) -> None:
        """Define the app, and rules for its callers."""
        self.own.mongo[self.own.db].create_collection("items")
        await self.own.define("items", SCHEMA, mappings(self.own), **CACHE)
        rows = {"readFilters": {f"{self.own.db}.items": {"team": "@user.team"}}}
        await allow(self.own, "path-prefix('/graphql')", "user", mongo=rows)

    async def run(self, writes: int, readers: int = 3, seconds: float = inf) -> None:
        """Write so many times, or for so long, while readers compare what they get."""
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            for number in range(readers):
                group.create_task(self._read(random.Random(f"{self.seed} {number}")))
            while self.writes < writes and time.monotonic() < end:
                await self._write()
                target = self.reads + self._chance.choice((0, 1, 6, 30))
                while self.reads < target:  # noqa: ASYNC110 - of tasks that report nothing
                    await asyncio.sleep(0)
                if self.writes % 10 == 0:
                    await self._converge(6)
            self.is_over = True
        await self._converge()

    # --- reading ----------------------------------------------------------------------------------

    def _ask(self, chance: random.Random) -> Question:
        names = chance.sample(sorted(FIELDS), chance.choice((1, 1, 2)))
        parts = tuple((name, FIELDS[name][1](chance)) for name in names)
        return Question(chance.choice(sorted(CALLERS)), parts)

    async def _read(self, chance: random.Random) -> None:
        while not self.is_over:
            await self._compare(chance.choice(self._questions))
            self.reads += 1

    async def _compare(self, question: Question) -> bool:
        """Compare an answer with the states that it may have; return if it is the newest one."""
        asked = time.monotonic()
        first = next(n for n, one in enumerate(self.versions) if one.is_allowed(asked, self.lag))
        reply = await self._send(question)
        if self.is_tolerant and reply.status != HTTPStatus.OK:
            return False
        allowed = [one.documents for one in self.versions[first:]]
        is_new = True
        for number in range(len(question.parts)):
            value = reply.data[f"f{number}"]
            expected = [question.expect(number, documents) for documents in allowed]
            assert value in expected, self._describe(question, value, expected, reply)
            is_new &= value == expected[-1]
        return is_new

    async def _send(self, question: Question) -> Reply:
        headers = CALLERS[question.caller][0]
        reply = await self.own.query("items", question.query, headers=headers)
        self.statuses[reply.headers.get("cache-status", "none")] += 1
        return reply

    def _describe(self, question: Question, value: Any, expected: Any, reply: Reply) -> str:
        status = reply.headers.get("cache-status")
        return (
            f"seed {self.seed}, write {self.writes}: {question.caller} got {value} for "
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
        chance = self._chance
        before = self.versions[-1].documents
        id = f"i{chance.randrange(12)}"
        ways = (self._write_direct, self._write_other, self._write_own)
        way = chance.choice(ways[:2] if self.is_foreign else ways)
        changed = self._change(before.get(id), id)
        after = {key: one for key, one in before.items() if key != id}
        if changed is not None:
            after[id] = changed
        self.versions.append(Version(after))
        try:
            await way(id, before.get(id), changed)
        except (AssertionError, PyMongoError):
            if not self.is_tolerant:
                raise
            self.versions.append(Version(await self._find_stored()))
        now = time.monotonic()
        for version in self.versions[:-1]:
            version.replaced = min(version.replaced, now)
            if way == self._write_own:
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

    def _change(self, before: Document | None, id: str) -> Document | None:
        chance = self._chance
        fresh = {
            "_id": id,
            "name": chance.choice(NAMES),
            "shop": chance.choice(SHOPS),
            "team": chance.choice(TEAMS),
            "tags": chance.sample(TAGS, chance.randrange(3)),
        }
        if before is None or chance.random() < 0.1:
            return fresh
        if chance.random() < 0.2:
            return None
        name = chance.choice(("name", "shop", "team", "tags"))
        return {**before, name: fresh[name]}

    async def _write_direct(self, id: str, before: Document | None, after: Document | None) -> None:
        items = self.own.mongo[self.own.db].items
        if after is None:
            await asyncio.to_thread(items.delete_one, {"_id": id})
        elif before is None:
            await asyncio.to_thread(items.insert_one, dict(after))
        elif self._chance.random() < 0.3:
            await asyncio.to_thread(items.replace_one, {"_id": id}, after)
        else:
            await asyncio.to_thread(items.update_one, {"_id": id}, {"$set": _differ(before, after)})

    async def _write_own(self, id: str, before: Document | None, after: Document | None) -> None:
        await self._write_by(self.own, id, before, after)

    async def _write_other(self, id: str, before: Document | None, after: Document | None) -> None:
        await self._write_by(self.other, id, before, after)

    async def _write_by(
        self, service: Service, id: str, before: Document | None, after: Document | None
    ) -> None:
        """Write through the REST API."""
        method = "DELETE" if after is None else "PUT" if before is None else "PATCH"
        body = None if after is None else _differ(before or {}, after)
        reply = await service.request(method, f"/items/{id}?wm=upsert", headers=ADMIN, json=body)
        assert reply.status in {200, 201, 204}, reply.text


def _differ(before: Document, after: Document) -> Document:
    """The properties that differ; at least one."""
    changed = {key: one for key, one in after.items() if before.get(key) != one and key != "_id"}
    return changed or {"name": after["name"]}
