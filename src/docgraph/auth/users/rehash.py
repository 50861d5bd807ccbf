"""Rehash passwords: replace a hash cheaper than new ones when its user logs in (decision 53).

The password does not change: the write passes no interceptor, and is announced to watchers of the
collection, so that tokens and `_etag` stay. It is made only while the old hash is still stored. A
failed write has no effect on the user, who is already logged in; on a read-only database there is
nothing to report.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple, Protocol

from docgraph.auth.authenticators.record import User
from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.auth.passwords import Passwords
from docgraph.exchange import Deadline, DocgraphError, Resource, ResourceType, Write, WriteKind
from docgraph.runtime import LoadingCache, Tasks
from docgraph.store import Store

_QUEUE: Final = 100
_TRIED: Final = 1000
_AGAIN_SECONDS: Final = 300.0  # until the same hash is tried again
_WRITE_MS: Final = 15_000


class _Login(NamedTuple):
    user: str
    password: str
    stored: str


class Announcer(Protocol):
    """The interface of the provider `token-revocations`."""

    async def announce_rehash(self, hash: str) -> None:
        """Announce, before storing it, that this hash is no change of the password."""
        ...


class Rehashing:
    """Replaces hashes one by one; with a full queue, the next login does it."""

    def __init__(
        self,
        section: DbRealmAuthenticator,
        store: Store,
        passwords: Passwords,
        announcer: Announcer | None,
    ) -> None:
        self._announcer = announcer
        self._section = section
        self._store = store
        self._passwords = passwords
        self._queue: asyncio.Queue[_Login] = asyncio.Queue(_QUEUE)
        self._tried: LoadingCache[str, bool] = LoadingCache(_TRIED, _AGAIN_SECONDS)

    def start(self, tasks: Tasks) -> None:
        """Run until the server stops."""
        tasks.start("rehash", self._run)

    def offer(self, user: User, password: str) -> None:
        """Replace the hash after a successful login if it is cheaper than new ones."""
        stored = user.password
        if stored is None or not self._passwords.is_outdated(stored):
            return
        if self._tried.peek(stored) is None and not self._queue.full():
            self._tried.put(stored, True)
            self._queue.put_nowait(_Login(user.account.name, password, stored))

    async def _run(self) -> None:
        while True:
            login = await self._queue.get()
            try:
                await self._replace(login)
            except DocgraphError:
                continue  # read-only, unavailable, or too busy: the old hash stays valid

    async def _replace(self, login: _Login) -> None:
        section = self._section
        fresh = await self._passwords.rehash(login.user, login.password)
        if self._announcer is not None:
            await self._announcer.announce_rehash(fresh)
        write = Write(
            WriteKind.UPDATE,
            filter={
                section.prop_id: {"$eq": login.user},
                section.prop_password: {"$eq": login.stored},
            },
            update={"$set": {section.prop_password: fresh}},
        )
        place = Resource(ResourceType.COLLECTION, section.users_db, section.users_collection)
        await self._store.writes.write_unnoticed(
            place, write, deadline=Deadline.after_ms(_WRITE_MS)
        )
