"""Token revocation: tokens that end before their expiration (decision 32).

Revocation marks are stored in a collection that all instances share; each process has all of them
in memory, so that no request waits for the database. When the database is unavailable, the known
marks stay in force.

All times are those of the database, which the instances share: the database sets `written`, by
which a process finds marks that it has not read; the others come from `Store.clock`. The index on
`until` lets the database remove marks that are no longer needed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from secrets import token_hex
from typing import Any, Final

from docgraph.exchange import Account, Deadline, Document, Resource, ResourceType, Write, WriteKind
from docgraph.exchange.errors import StoreError, StoreUnavailable
from docgraph.observe import emit
from docgraph.observe.events import BackgroundFailed
from docgraph.plugins.kinds import TokenManager
from docgraph.runtime import Generations, LoadingCache
from docgraph.runtime.clock import elapsed
from docgraph.store import Store
from docgraph.store.names import REVOCATION_STORE

COLLECTION: Final = REVOCATION_STORE
CLOCK_SECONDS: Final = 2.0  # within which the database returns its time
_KEPT: Final = timedelta(days=400)  # longer than the lifetime of any token that we issue
_CLOCKS_DIFFER: Final = 3600.0  # seconds that other verifiers may accept an expired token
_LAST: Final = 250e9  # seconds; a date that both Python and the database support
_OVERLAP: Final = timedelta(seconds=15)  # writes that began earlier may become visible later
_JUST_AFTER: Final = 0.001  # seconds
_MAX_NAMES: Final = 2 << 20  # characters in one mark; a document may have 16 MiB
_PAGE: Final = 10_000
_READ_MS: Final = 2_000
_WRITE_MS: Final = 10_000
_INDEX_MS: Final = 60_000
_SWEEP_EVERY: Final = 60.0
_REHASH_SECONDS: Final = 3600.0  # within which every instance learns of a replaced hash
_REST: Final = 5.0  # seconds without another attempt after a database failure


class Revocations:
    """The provider `token-revocations`: one per process."""

    def __init__(
        self,
        store: Store,
        db: str,
        generations: Generations,
        *,
        wall: Callable[[], float] = time.time,
        measure: Callable[[], float] = elapsed,
    ) -> None:
        self._store = store
        self._db = db
        self._generations = generations
        self._read_generation = generations.reader("tokens")
        self._clock = store.clock
        self._wall = wall
        self._measure = measure
        self._marks = RevocationMarks()
        self._read_until: datetime | None = None
        self._seen = -1
        self._swept = 0.0
        self._rests_until = 0.0
        self._reading = asyncio.Lock()
        self._looks: LoadingCache[str, None] = LoadingCache(0)  # one read for all waiting requests

    def is_revoked(self, jti: str | None, user: str | None, issued_at: float | None) -> bool:
        """Return whether that token is revoked.

        Raises `StoreUnavailable` until the marks were read for the first time: it is unknown.
        """
        if self._read_until is None:
            raise StoreUnavailable("it is not known yet which tokens have been revoked")
        return self._marks.end(jti, user, issued_at)

    def has_stamp(self, user: str, at: float) -> bool:
        """Return whether a mark of the user that is at least as recent is already known."""
        return self._marks.find(user) >= at

    def is_rehash(self, hash: Any) -> bool:
        """Return whether a stored hash is only a new hash of the same password."""
        return isinstance(hash, str) and self._marks.is_rehash(hash)

    def date(self, user: str) -> float:
        """Return the issue time of a new token of the user: later than every revocation mark."""
        return max(self._clock.earliest(), self._marks.find(user) + _JUST_AFTER)

    async def revoke(self, jti: str, expires_at: float | None = None) -> None:
        """Revoke one token; `expires_at` by the time of day, None: its expiration is unknown."""
        left = _KEPT.total_seconds() if expires_at is None else expires_at - self._wall()
        until = self._clock() + left + _CLOCKS_DIFFER
        await self._stamp(name_token(jti), {"until": _date(until)})

    async def stamp(self, user: str, at: float | None = None) -> None:
        """Revoke every token of the user that was issued until now, or until `at`."""
        await self._stamp(name_user(user), await self._find_moment(at))

    async def stamp_many(self, users: Collection[str]) -> None:
        """Revoke every token of these users that was issued until now, in one write."""
        now: float = (await self._find_moment(None))["at"]
        await self.stamp_at(dict.fromkeys(users, now))

    async def stamp_at(self, times: Mapping[str, float]) -> None:
        """Revoke by a separate time for each user; for too many users, everyone's tokens."""
        if not times:
            return
        last = max(times.values())
        if len(times) == 1:
            await self.stamp(next(iter(times)), last)
        elif sum(map(len, times)) > _MAX_NAMES:
            await self.stamp_everyone(last)
        else:
            named = {"users": list(times), "times": list(times.values())}
            await self._stamp(name_users(), {**named, **await self._find_moment(last)})

    async def stamp_everyone(self, at: float | None = None) -> None:
        """Revoke every token that was issued until now, or until `at`."""
        await self._stamp(EVERYONE, await self._find_moment(at))

    async def announce_rehash(self, hash: str) -> None:
        """Announce, before storing it, that this hash is no change of the password.

        It ends no token, so that no session is authorized again. Who follows the changes of users
        receives this mark first.
        """
        now: float = (await self._find_moment(None))["at"]
        until = {"until": _date(now + _REHASH_SECONDS)}
        await self._stamp(name_rehash(hash), until, ends_tokens=False)

    async def _find_moment(self, at: float | None) -> Document:
        if not self._clock.is_set:  # a command that has just started
            await self._store.set_clock(CLOCK_SECONDS)
        at = self._clock.latest() if at is None else at
        return {"at": at, "until": _date(at) + _KEPT}

    async def _stamp(self, id: str, fields: Document, *, ends_tokens: bool = True) -> None:
        async def work() -> None:
            await self._store.writes.write(
                Resource(ResourceType.DOCUMENT, self._db, COLLECTION, id),
                Write(
                    WriteKind.UPDATE,
                    update={"$max": fields, "$currentDate": {"written": True}},
                    filter={"_id": id},
                    upsert=True,
                ),
                deadline=Deadline.after_ms(_WRITE_MS),
                majority=True,
            )
            self.learn({"_id": id, **fields})
            if ends_tokens:
                self._announce()

        await self._store.writes.finish(f"stamp {id}", work)

    def _announce(self) -> None:
        generation = self._generations.bump("tokens")
        if generation == self._seen + 1:
            self._seen = generation  # no other worker has revoked anything meanwhile

    def learn(self, document: Document) -> None:
        """Add a mark, whatever its source."""
        self._marks.add(document)

    @property
    def is_behind(self) -> bool:
        """Whether another worker of this instance has revoked something since the last read."""
        return self._read_until is None or self._read_generation() != self._seen

    async def keep_up(self) -> None:
        """Read new marks, if there may be any; a database failure changes nothing."""
        if self._measure() < self._rests_until and not self._store.is_available:
            return
        try:
            await self._looks.get("all", self._reload)
        except StoreError as error:
            # It is read again within seconds; until then no request waits for it a second time.
            self._seen = self._generations.read("tokens")
            self._rests_until = self._measure() + _REST
            if self._store.fault is None:  # otherwise that has been reported
                emit(BackgroundFailed("token-revocations", error))

    async def close(self) -> None:
        await self._looks.close()

    async def _reload(self, _: str) -> None:
        if self.is_behind:
            await self.read()

    async def read(self) -> None:
        """Read the marks that were written since the last read; the first time all of them."""
        async with self._reading:
            generation = self._generations.read("tokens")
            latest = await self._read_since(self._read_until)
            self._read_until = max(latest, self._read_until or EPOCH)
            self._seen = generation
            self._sweep()

    async def _read_since(self, since: datetime | None) -> datetime:
        """Add the marks that were written since then; returns the time of the last one.

        A page continues after the last mark of the previous one, not after so many marks: others
        are removed or written again meanwhile.
        """
        new: Document = {}
        if since is not None and since != EPOCH:
            new = {"written": {"$gte": since - _OVERLAP}}
        latest = EPOCH
        while True:
            page = await self._store.reads.find(
                self._db,
                COLLECTION,
                new,
                limit=_PAGE,
                sort={"written": 1, "_id": 1},
                deadline=Deadline.after_ms(_READ_MS),
            )
            for document in page:
                self.learn(document)
                written: Any = document.get("written")
                if isinstance(written, datetime):
                    latest = max(latest, written)
            if len(page) < _PAGE:
                return latest
            new = _continue_after(page[-1])

    async def prepare(self) -> None:
        """Create the indexes: one that removes old marks, one that finds new ones."""
        deadline = Deadline.after_ms(_INDEX_MS)
        await self._store.writes.ensure_index(
            self._db, COLLECTION, {"until": 1}, expireAfterSeconds=0, deadline=deadline
        )
        await self._store.writes.ensure_index(
            self._db, COLLECTION, {"written": 1, "_id": 1}, deadline=deadline
        )

    def _sweep(self) -> None:
        now = self._measure()
        if now - self._swept > _SWEEP_EVERY:
            self._swept = now
            self._marks.forget(self._clock())


def _continue_after(mark: Document) -> Document:
    """Build the filter for the marks that follow this one, in the order of `written` and `_id`."""
    written: Any = mark.get("written")
    later = {"$gt": written} if isinstance(written, datetime) else {"$type": "date"}
    return {"$or": [{"written": later}, {"written": written, "_id": {"$gt": mark["_id"]}}]}


def _date(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=min(max(seconds, 0.0), _LAST))


async def end_session(
    store: Store, manager: TokenManager | None, revocations: Revocations | None, account: Account
) -> None:
    """Revoke the account's token, and the foreign JWT that the caller sent.

    Completes even if the caller disconnects.
    """

    async def end() -> None:
        if manager is not None:
            await manager.revoke(account)
        jti, exp = account.properties.get("jti"), account.properties.get("exp")
        if revocations is not None and account.kind == "jwt" and isinstance(jti, str):
            await revocations.revoke(jti, exp if isinstance(exp, int | float) else None)

    await store.writes.finish("logout", end)


EPOCH: Final = datetime(1970, 1, 1)
EVERYONE: Final = "everyone"
_SHORT: Final = 64


def name_token(jti: str) -> str:
    """Return the `_id` of a token's mark: small, whatever a foreign issuer puts into `jti`."""
    return f"token:{_shorten(jti)}"


def name_user(user: str) -> str:
    """Return the `_id` of a user's mark."""
    return f"user:{user}"


def name_users() -> str:
    """Return the `_id` of a mark of many users, which is unique."""
    return f"users:{token_hex(12)}"


def name_rehash(hash: str) -> str:
    """Return the `_id` of the mark of a hash that replaced a cheaper one."""
    return f"rehash:{sha256(hash.encode()).hexdigest()}"


class RevocationMarks:
    """Revocation marks in memory, which end tokens before their expiration; pure.

    `Revocations` stores them.

        {_id: "token:<jti>", until}
        {_id: "user:<name>", at, until}
        {_id: "everyone", at, until}
        {_id: "users:<random>", users: [<name>, …], times: [<at>, …], at, until}
        {_id: "rehash:<digest>", until}

    The mark of a token revokes that one; the mark of a user, of many users or of everyone revokes
    tokens issued until `at`. After `until` no such token can be valid. Times are those of the
    database. The mark of a rehash revokes nothing: that hash is not a new password (decision 53).
    """

    def __init__(self) -> None:
        self._tokens: dict[str, float] = {}  # to the time until which the mark is needed
        self._users: dict[str, float] = {}  # to the time of the mark
        self._rehashes: dict[str, float] = {}  # to the time until which the mark is needed
        self._everyone = 0.0

    def __len__(self) -> int:
        return len(self._tokens) + len(self._users)

    def end(self, jti: str | None, user: str | None, issued_at: float | None) -> bool:
        """Return whether a mark revokes the token; without `iat` it is older than any mark.

        `user` None: the token names no user of this service, so that no mark of a user applies.
        """
        if jti is not None and _shorten(jti) in self._tokens:
            return True
        stamp = 0.0 if user is None else self.find(user)
        return stamp > 0 and (issued_at is None or issued_at <= stamp)

    def find(self, user: str) -> float:
        """Return the time of the latest mark that concerns the user; 0 for none."""
        return max(self._users.get(user, 0.0), self._everyone)

    def add(self, document: Mapping[str, Any]) -> None:
        """Add a mark; a known or malformed one changes nothing."""
        kind, _, name = str(document.get("_id")).partition(":")
        at, until = document.get("at"), document.get("until")
        if kind in ("token", "rehash") and isinstance(until, datetime):
            needed = (until - EPOCH).total_seconds()
            marks = self._tokens if kind == "token" else self._rehashes
            marks[name] = max(needed, marks.get(name, 0.0))
        elif kind == "user" and isinstance(at, int | float):
            self._add_user(name, at)
        elif kind == "users":
            for user, time in _read_many(document):
                self._add_user(user, time)
        elif kind == EVERYONE and isinstance(at, int | float):
            self._everyone = max(float(at), self._everyone)

    def _add_user(self, user: str, at: float) -> None:
        self._users[user] = max(float(at), self._users.get(user, 0.0))

    def is_rehash(self, hash: str) -> bool:
        """Return whether that hash replaced a cheaper one of the same password."""
        return name_rehash(hash).partition(":")[2] in self._rehashes

    def forget(self, now: float) -> None:
        """Drop the marks of expired tokens and of old rehashes."""
        self._tokens = {name: until for name, until in self._tokens.items() if until > now}
        self._rehashes = {name: until for name, until in self._rehashes.items() if until > now}


def _read_many(document: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    users, times = document.get("users"), document.get("times")
    if isinstance(users, list) and isinstance(times, list):
        for user, time in zip(users, times, strict=False):
            if isinstance(user, str) and isinstance(time, int | float):
                yield user, time


def _shorten(jti: str) -> str:
    return jti if len(jti) <= _SHORT else sha256(jti.encode()).hexdigest() + "+"
