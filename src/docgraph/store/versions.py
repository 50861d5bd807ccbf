"""Versions: which version of stored data each instance serves, for cache invalidation.

It is for databases without change streams (a standalone MongoDB), and for writers who want to know
which instances serve their change. A collection that instances cache has one document in
`_versions` of its database:

    {_id: <collection>, version, instances: [{instance, host, process, version, seen}, …]}

A write to the collection increments `version`. Every instance reads it once a second, loads what is
new and records the version it serves. All times are those of the database; the next record removes
old ones.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from docgraph.exchange.data import Document, Resource, ResourceType, Write, WriteKind
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import DocgraphError
from docgraph.observe import emit
from docgraph.observe.events import BackgroundFailed
from docgraph.runtime import Instance
from docgraph.runtime.after_commit import gather
from docgraph.runtime.clock import elapsed
from docgraph.store.names import VERSION_STORE
from docgraph.store.store import Store

PATIENCE: Final = 5.0  # seconds that a writer waits for the instances
_PAUSE: Final = 0.1
_RECENT_SECONDS: Final = 10  # an instance that was seen within this time counts as running
_KEPT_SECONDS: Final = 60
_POLL_EVERY: Final = 1.0
_RECORD_EVERY: Final = 4.0
_MAX_RECORDS: Final = 200
_LOOK_MS: Final = 2_000
_LEAVE_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Served:
    """An instance, and the version that it serves."""

    instance: str
    host: str
    process: int
    version: int

    def __str__(self) -> str:
        return f"{self.host} (process {self.process})"


@dataclass(frozen=True, slots=True)
class Spread:
    """The running instances: those that serve a change, and those that do not yet."""

    live: Sequence[Served]
    late: Sequence[Served]


@dataclass(frozen=True)
class Versions:
    """The versions of one collection."""

    _store: Store
    _db: str
    _collection: str

    async def announce(self) -> None:
        """Increment the version after a write. A failure is logged: the write itself is done."""
        await gather((Versions, self._db, self._collection), (), self._raise)

    async def _raise(self, _: Collection[str] = ()) -> None:
        try:
            await self._update(pipeline=({"$set": {"version": _NEXT}},), upsert=True)
        except DocgraphError as error:
            if self._store.fault is None:  # otherwise the fault is already reported
                emit(BackgroundFailed(f"announce {self._collection}", error))

    async def read(self) -> int:
        """Return the current version: 0 before the first write."""
        document = await self._store.reads.find_one(
            self._db,
            VERSION_STORE,
            {"_id": self._collection},
            projection={"version": 1},
            deadline=Deadline.after_ms(_LOOK_MS),
        )
        return _number(document or {})

    async def find_served(self, seconds: int = _RECENT_SECONDS) -> list[Served]:
        """Return what the instances serve that were seen within the last `seconds`."""
        recent = _filter_notes(_is_younger(seconds))
        results = await self._store.reads.aggregate(
            self._db,
            VERSION_STORE,
            [{"$match": {"_id": self._collection}}, {"$project": {"recent": recent}}],
            limit=1,
            deadline=Deadline.after_ms(_LOOK_MS),
        )
        notes = results[0]["recent"] if results else []
        return [
            Served(note["instance"], str(note.get("host")), _number(note, "process"), _number(note))
            for note in notes
        ]

    async def await_served(
        self,
        *,
        clock: Callable[[], float] = elapsed,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> Spread:
        """Wait until every running instance serves the current version; for `PATIENCE` at most."""
        wanted = await self.read()
        served = await self.find_served()
        running = {instance.instance for instance in served}
        end = clock() + PATIENCE
        while any(instance.version < wanted for instance in served) and clock() < end:
            await sleep(_PAUSE)
            # A hanging instance was not seen recently, and must still be named.
            seen = await self.find_served(_KEPT_SECONDS)
            served = [instance for instance in seen if instance.instance in running]
        return Spread(
            [instance for instance in served if instance.version >= wanted],
            [instance for instance in served if instance.version < wanted],
        )

    async def record(self, instance: Instance, version: int) -> None:
        mine = {
            "instance": instance.id,
            "host": {"$literal": socket.gethostname()},
            "process": os.getpid(),
            "version": version,
            "seen": "$$NOW",
        }
        is_other = {"$ne": ["$$this.instance", instance.id]}
        others = _filter_notes({"$and": [is_other, _is_younger(_KEPT_SECONDS)]})
        notes = {"$slice": [{"$concatArrays": [others, [mine]]}, -_MAX_RECORDS]}
        await self._update(pipeline=({"$set": {"instances": notes}},), upsert=True)

    async def leave(self, instance: Instance) -> None:
        """Remove the instance: it ends, and no writer has to wait for it."""
        gone = {"$pull": {"instances": {"instance": instance.id}}}
        await self._update(_LEAVE_MS, update=gone)

    async def _update(self, limit_ms: int = _LOOK_MS, **parts: Any) -> None:
        await self._store.writes.write(
            Resource(ResourceType.DOCUMENT, self._db, VERSION_STORE, self._collection),
            Write(WriteKind.UPDATE, filter={"_id": self._collection}, **parts),
            deadline=Deadline.after_ms(limit_ms),
        )


@dataclass(eq=False)
class VersionFollower:
    """Loads changes by polling, and records the version that this instance serves.

    `take` ensures that no process of the instance serves older data from then on. No writer waits
    for an instance without a record.
    """

    _name: str
    _store: Store
    _versions: Versions
    _instance: Instance
    take: Callable[[], Awaitable[None]] = field(kw_only=True)
    is_recorded: bool = field(default=True, kw_only=True)
    _served: int | None = None
    _noted: float | None = None
    _is_known: bool = False  # others may have read the record of this instance
    _failing: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Follow the version for as long as the process lives; one worker does it for its instance.

        In its first second an instance has just read everything: no writer has to wait for it.
        """
        if self._instance.worker > 1:
            return
        await self._try("look", self._follow)
        while True:
            await asyncio.sleep(_POLL_EVERY)
            await self.poll()

    async def poll(self) -> None:
        """Load a new version, if there is one; record what is served if that is due."""
        await self._try("look", self._follow)
        is_due = self._noted is None or elapsed() - self._noted >= _RECORD_EVERY
        if self._served is not None and self.is_recorded and is_due:
            await self._try("note", self._record)

    async def close(self) -> None:
        """Remove this instance. If that fails, its record expires by itself, a little later."""
        if self._is_known and self._store.is_available:
            with suppress(DocgraphError):
                await self._versions.leave(self._instance)

    async def _follow(self) -> None:
        version = await self._versions.read()
        if version != self._served:
            await self.take()
            self._served, self._noted = version, None

    async def _record(self) -> None:
        assert self._served is not None  # noqa: S101 - see `poll`
        self._is_known = True  # also if this is cancelled: the write continues
        self._noted = elapsed()  # also if it fails, so that it is not repeated in vain every second
        await self._versions.record(self._instance, self._served)

    async def _try(self, what: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run the work; report a failure once, not every second."""
        try:
            await work()
            self._failing.discard(what)
        except DocgraphError as error:
            if what in self._failing or await self._store.outage.explains(error):
                return
            self._failing.add(what)
            emit(BackgroundFailed(f"{self._name}-{what}", error))


# Values that another program has written there are ignored and replaced.
_NEXT: Final[Document] = {
    "$add": [{"$convert": {"input": "$version", "to": "long", "onError": 0, "onNull": 0}}, 1]
}
_NOTES: Final[Document] = {"$cond": [{"$isArray": "$instances"}, "$instances", []]}
_IS_NOTE: Final[Document] = {"$eq": [{"$type": "$$this.instance"}, "string"]}


def _filter_notes(condition: Document) -> Document:
    return {"$filter": {"input": _NOTES, "cond": {"$and": [_IS_NOTE, condition]}}}


def _is_younger(seconds: int) -> Document:
    return {"$gte": ["$$this.seen", {"$subtract": ["$$NOW", seconds * 1000]}]}


def _number(document: Document, name: str = "version") -> int:
    """Return a whole number; other values, written by another program, count as none."""
    number = document.get(name)
    return int(number) if isinstance(number, int | float) and math.isfinite(number) else 0
