"""Receive token revocations: at start, by change stream, and by polling.

The stream also reports users that are changed directly in the database: a deleted user, or one with
a new password, loses all tokens as if docgraph had made the change. A hash that was announced as a
rehash of the same password revokes none (decision 53). Changes apply here immediately; the marks
that make them permanent are written together, however many there are.

Each change of a user is announced: open streams and live queries are authorized again.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any, ClassVar, Final

from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.auth.mechanisms.sections import ApiKeyMechanism
from docgraph.auth.tokens.revocation import (
    CLOCK_SECONDS,
    COLLECTION,
    EPOCH,
    EVERYONE,
    Revocations,
    name_user,
)
from docgraph.config.section import PluginConfig
from docgraph.exchange import Answer, Document, Exchange
from docgraph.exchange.errors import StoreError
from docgraph.observe import emit
from docgraph.observe.events import BackgroundFailed
from docgraph.plugins.kinds import Initializer, Interceptor, Point, Provider
from docgraph.runtime import Generations, Instance, Tasks
from docgraph.store import ChangeEvents, Store
from docgraph.store.change_stream import Follower, ResumeToken
from docgraph.store.names import API_KEYS

_ANNOUNCE_SECONDS: Final = 5.0  # between two announcements, while users change all the time
_WITH_KEYS: Final = 0.5  # the same: streams of a key end within two seconds (decision 72)
ROUND: Final = 4.0  # seconds between two reads, so that a mark applies within 5 without a stream
_GONE: Final = frozenset({"drop", "dropDatabase", "rename"})


class RevocationsProvider(Provider):
    """`token-revocations`: tokens that were revoked before their expiration."""

    name: ClassVar[str] = "tokenRevocations"
    description: ClassVar[str] = "which tokens ended before their time"
    provides: ClassVar[str] = "token-revocations"
    security: ClassVar[bool] = True

    def __init__(
        self,
        config: PluginConfig,
        store: Store,
        generations: Generations,
        users: DbRealmAuthenticator,
    ) -> None:
        self.config = config
        self._revocations = Revocations(store, users.users_db, generations)

    def get(self) -> Revocations:
        return self._revocations

    async def close(self) -> None:
        await self._revocations.close()


class RevocationsGate(Interceptor):
    """Makes revocations by one worker known to the others before they check credentials."""

    name: ClassVar[str] = "tokenRevocationsGate"
    description: ClassVar[str] = "reads new revocations before credentials are looked at"
    point: ClassVar[Point] = Point.BEFORE_AUTH
    priority: ClassVar[int] = 1
    security: ClassVar[bool] = True

    def __init__(self, config: PluginConfig, token_revocations: Revocations) -> None:
        self.config = config
        self._revocations = token_revocations

    def resolve(self, exchange: Exchange) -> bool:
        """Return whether there may be new marks, and the request could have a token."""
        fields = exchange.request.headers.first
        has_token = b"authorization" in fields or b"cookie" in fields
        return has_token and self._revocations.is_behind

    async def handle(self, exchange: Exchange) -> Answer | None:
        """Read new marks; never ends the request."""
        await self._revocations.keep_up()
        return None


class RevocationsWatcher(Initializer):
    """Keeps the marks of this process up to date."""

    name: ClassVar[str] = "tokenRevocationsWatcher"
    description: ClassVar[str] = "learns of tokens that other instances revoke"
    priority: ClassVar[int] = 1
    security: ClassVar[bool] = True

    def __init__(  # noqa: PLR0913, PLR0917 - the providers it needs
        self,
        config: PluginConfig,
        store: Store,
        tasks: Tasks,
        instance: Instance,
        token_revocations: Revocations,
        users: DbRealmAuthenticator,
        generations: Generations,
        keys: ApiKeyMechanism,
    ) -> None:
        self.config = config
        self._pause = _WITH_KEYS if keys.enabled else _ANNOUNCE_SECONDS
        self._store = store
        self._tasks = tasks
        self._generations = generations
        self._writes = instance.worker <= 1  # one worker of the instance makes marks permanent
        self._revocations = token_revocations
        self._users = users
        self._unwritten: dict[str, float] = {}  # users, and the time of the mark of each
        self._has_unwritten = asyncio.Event()
        self._has_followed = False
        self._has_changed = asyncio.Event()
        self.follower = Follower(self._open_stream, catch_up=self._catch_up, take=self._apply)

    async def initialize(self) -> None:
        """Read all marks, then follow changes."""
        await self._store.set_clock(CLOCK_SECONDS)
        await self._revocations.read()
        works = {
            "round": self._go_round,
            "watch": self.follower.run,
            "stamp": self._write,
            "users": self._announce,
        }
        for name, work in works.items():
            if not self._tasks.is_running(f"token-revocations-{name}"):
                self._tasks.start(f"token-revocations-{name}", work)
        if self._writes:
            await self._revocations.prepare()

    async def _go_round(self) -> None:
        while True:
            await asyncio.sleep(ROUND)
            try:
                await self._revocations.read()
                await self._store.set_clock(CLOCK_SECONDS)
            except StoreError as error:
                if not await self._store.outage.explains(error):
                    emit(BackgroundFailed("token-revocations-round", error))

    async def _announce(self) -> None:
        """Announce changed users; each time, all live queries and streams are authorized again."""
        while True:
            await self._has_changed.wait()
            self._has_changed.clear()
            self._generations.bump("users")
            await asyncio.sleep(self._pause)

    async def _catch_up(self) -> None:
        await self._revocations.read()
        if self._has_followed:  # users may have changed while there was no stream
            self._generations.bump("users")
        self._has_followed = True

    def _open_stream(self, resume: ResumeToken | None) -> ChangeEvents:
        """Open the stream unguarded: the guard hides even that a password was written."""
        users = self._users
        return self._store.streams.watch_unguarded(
            users.users_db, _stages(users), full_document="updateLookup", resume_after=resume
        )

    async def _apply(self, event: Document) -> None:
        if event.get("coll") == COLLECTION:
            if isinstance(event.get("stamp"), dict):
                self._revocations.learn(event["stamp"])
            return
        if event.get("coll") == API_KEYS:
            self._generations.bump("users")
            return
        if self._revocations.is_rehash(event.get("hash")):
            return
        self._has_changed.set()
        if not event["ends_tokens"]:
            return
        earliest, at = _read_time(event)
        user = event.get("user")
        if event["operationType"] in _GONE:
            self._revocations.learn({"_id": EVERYONE, "at": at})
            if self._writes:
                await self._revocations.stamp_everyone(at)
        elif isinstance(user, str) and not self._revocations.has_stamp(user, earliest):
            self._revocations.learn({"_id": name_user(user), "at": at})
            if self._writes:
                self._unwritten[user] = at
                self._has_unwritten.set()

    async def _write(self) -> None:
        """Write the new marks; others may arrive during a write."""
        while True:
            await self._has_unwritten.wait()
            self._has_unwritten.clear()
            unwritten, self._unwritten = self._unwritten, {}
            try:
                await self._revocations.stamp_at(unwritten)
            except StoreError as error:
                if not await self._store.outage.explains(error):
                    emit(BackgroundFailed("token-revocations-stamp", error))
                self._unwritten = {**unwritten, **self._unwritten}
                self._has_unwritten.set()
                await asyncio.sleep(ROUND)


def _stages(users: DbRealmAuthenticator) -> list[Document]:
    """Build the stages that match marks and changed users: deletions and passwords end tokens."""
    written = f"$updateDescription.updatedFields.{users.prop_password}"
    removed = {"$ifNull": ["$updateDescription.removedFields", []]}
    ends_tokens = [
        {"$in": ["$operationType", ["delete", "replace", *sorted(_GONE)]]},
        {"$ne": [{"$type": written}, "missing"]},
        {"$in": [users.prop_password, removed]},
    ]
    changed = {"ns.coll": {"$in": [COLLECTION, users.users_collection]}}
    keys = {"ns.coll": API_KEYS, "updateDescription.updatedFields.lastUsedAt": {"$exists": False}}
    replaced = {"to.coll": users.users_collection}  # `$out` ends with a rename, too
    gone = {"operationType": "dropDatabase"}
    user = "$documentKey._id" if users.prop_id == "_id" else f"$fullDocument.{users.prop_id}"
    stamp = {"$cond": [{"$eq": ["$ns.coll", COLLECTION]}, "$fullDocument", "$$REMOVE"]}
    return [
        {"$match": {"$or": [changed, keys, replaced, gone]}},
        {
            "$project": {
                "operationType": 1,
                "coll": "$ns.coll",
                "clusterTime": 1,
                "wallTime": 1,
                "user": user,
                "hash": written,
                "ends_tokens": {"$or": ends_tokens},
                "stamp": stamp,
            }
        },
    ]


def _read_time(event: Document) -> tuple[float, float]:
    """Return the earliest and latest time of the event; before MongoDB 6.0 only the second."""
    wall: Any = event.get("wallTime")
    if isinstance(wall, datetime):
        at = (wall - EPOCH).total_seconds() + 0.001  # the rest of the millisecond
        return at, at
    second = float(event["clusterTime"].time)
    return second, second + 1
