"""Which version of what is stored the instances serve, so that a change is live on all of them.

Where changes have no stream (a standalone MongoDB), and where somebody who has written wants to
know who has it. A collection that instances keep in memory has one document in `_versions` of its
database:

    {_id: <collection>, version, instances: [{instance, host, process, version, seen}, …]}

Whoever writes to the collection raises `version`. Every instance asks for it once a second, takes
up what is new and notes which version it serves. All times are those of the database; notes that
are old go with the next one that is made.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from docgraph.exchange.data import Document, Resource, ResourceType, Write, WriteKind
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import DocgraphError
from docgraph.observe import emit
from docgraph.observe.events import BackgroundFailed
from docgraph.runtime import Instance
from docgraph.runtime.clock import elapsed
from docgraph.runtime.gathering import gather
from docgraph.store.mounts import VERSION_STORE
from docgraph.store.store import Store

__all__ = ["PATIENCE", "Served", "Spread", "VersionFollower", "Versions"]

PATIENCE: Final = 5.0  # seconds that somebody who has written waits for the instances
_PAUSE: Final = 0.1
_RECENT_SECONDS: Final = 10  # an instance that was seen within them counts as running
_KEPT_SECONDS: Final = 60
_LOOK_EVERY: Final = 1.0
_NOTE_EVERY: Final = 4.0
_MOST_NOTES: Final = 200
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
    """The instances that run: those that serve a change, and those that do not yet."""

    live: Sequence[Served]
    late: Sequence[Served]


class Versions:
    """The versions of one collection."""

    def __init__(self, store: Store, db: str, collection: str) -> None:
        self._store = store
        self._db = db
        self._collection = collection

    async def announce(self) -> None:
        """Raise the version, after a write. A failure is told: the write itself is done."""
        await gather((Versions, self._db, self._collection), (), self._raise)

    async def _raise(self, _: Collection[str] = ()) -> None:
        try:
            await self._update(pipeline=({"$set": {"version": _NEXT}},), upsert=True)
        except DocgraphError as error:
            if self._store.fault is None:  # else that has been told
                emit(BackgroundFailed(f"announce {self._collection}", error))

    async def read(self) -> int:
        """The present version: 0 before the first write."""
        found = await self._store.find_one(
            self._db,
            VERSION_STORE,
            {"_id": self._collection},
            projection={"version": 1},
            deadline=Deadline.after_ms(_LOOK_MS),
        )
        return _number(found or {})

    async def find_served(self, seconds: int = _RECENT_SECONDS) -> list[Served]:
        """What the instances serve that were seen within the last `seconds`."""
        recent = _filter_notes(_is_younger(seconds))
        found = await self._store.aggregate(
            self._db,
            VERSION_STORE,
            [{"$match": {"_id": self._collection}}, {"$project": {"recent": recent}}],
            limit=1,
            deadline=Deadline.after_ms(_LOOK_MS),
        )
        notes = found[0]["recent"] if found else []
        return [
            Served(one["instance"], str(one.get("host")), _number(one, "process"), _number(one))
            for one in notes
        ]

    async def await_served(
        self,
        *,
        clock: Callable[[], float] = elapsed,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> Spread:
        """Wait until every instance that runs serves the present version; `PATIENCE` at most.

        One that ends is not waited for.
        """
        wanted = await self.read()
        served = await self.find_served()
        running = {one.instance for one in served}
        end = clock() + PATIENCE
        while any(one.version < wanted for one in served) and clock() < end:
            await sleep(_PAUSE)
            # One that hangs is not seen any more, and still to be named.
            found = await self.find_served(_KEPT_SECONDS)
            served = [one for one in found if one.instance in running]
        return Spread(
            [one for one in served if one.version >= wanted],
            [one for one in served if one.version < wanted],
        )

    async def note(self, instance: Instance, version: int) -> None:
        """Say that the instance serves that version now."""
        mine = {
            "instance": instance.id,
            "host": {"$literal": socket.gethostname()},
            "process": os.getpid(),
            "version": version,
            "seen": "$$NOW",
        }
        is_other = {"$ne": ["$$this.instance", instance.id]}
        others = _filter_notes({"$and": [is_other, _is_younger(_KEPT_SECONDS)]})
        notes = {"$slice": [{"$concatArrays": [others, [mine]]}, -_MOST_NOTES]}
        await self._update(pipeline=({"$set": {"instances": notes}},), upsert=True)

    async def leave(self, instance: Instance) -> None:
        """Forget the instance: it ends, and nobody has to wait for it."""
        gone = {"$pull": {"instances": {"instance": instance.id}}}
        await self._update(_LEAVE_MS, update=gone)

    async def _update(self, limit_ms: int = _LOOK_MS, **parts: Any) -> None:
        await self._store.write(
            Resource(ResourceType.DOCUMENT, self._db, VERSION_STORE, self._collection),
            Write(WriteKind.UPDATE, filter={"_id": self._collection}, **parts),
            deadline=Deadline.after_ms(limit_ms),
        )


class VersionFollower:
    """Has changes taken up, and notes what is served: for one process of an instance.

    `take` makes sure that no process of the instance serves anything older from then on. What is
    not noted is nothing that anybody waits for.
    """

    def __init__(
        self,
        name: str,
        store: Store,
        versions: Versions,
        instance: Instance,
        *,
        take: Callable[[], Awaitable[None]],
        is_noted: bool = True,
    ) -> None:
        self._name = name
        self._store = store
        self._versions = versions
        self._instance = instance
        self._take = take
        self._is_noted = is_noted
        self._served: int | None = None
        self._noted: float | None = None
        self._is_known = False  # others may have read of this instance
        self._failing: set[str] = set()

    async def run(self) -> None:
        """Follow for as long as the process lives; one worker does it for its instance.

        In its first second an instance has just read everything: nobody has to wait for it.
        """
        if self._instance.worker > 1:
            return
        await self._try("look", self._follow)
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            await self.look()

    async def look(self) -> None:
        """Take up a new version, if there is one; say what is served when that is due."""
        await self._try("look", self._follow)
        if self._served is not None and self._is_note_due():
            await self._try("note", self._note)

    async def close(self) -> None:
        """Let nobody wait for this instance. What cannot be said ends by itself, a little later."""
        if self._is_known and self._store.is_available:
            with suppress(DocgraphError):
                await self._versions.leave(self._instance)

    async def _follow(self) -> None:
        version = await self._versions.read()
        if version != self._served:
            await self._take()
            self._served, self._noted = version, None

    async def _note(self) -> None:
        assert self._served is not None  # noqa: S101 - see `look`
        self._is_known = True  # also when this is cancelled: the write goes on
        self._noted = elapsed()  # also when it fails, so that nobody is asked in vain every second
        await self._versions.note(self._instance, self._served)

    def _is_note_due(self) -> bool:
        return self._is_noted and (self._noted is None or elapsed() - self._noted >= _NOTE_EVERY)

    async def _try(self, what: str, work: Callable[[], Awaitable[None]]) -> None:
        """A failure is told once, not every second."""
        try:
            await work()
            self._failing.discard(what)
        except DocgraphError as error:
            if what in self._failing or await self._store.outage.explains(error):
                return
            self._failing.add(what)
            emit(BackgroundFailed(f"{self._name}-{what}", error))


# What another program has put there counts as nothing, and does not stay.
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
    """A number that somebody else has written there counts as none where it is not whole."""
    number = document.get(name)
    return int(number) if isinstance(number, int | float) and math.isfinite(number) else 0
