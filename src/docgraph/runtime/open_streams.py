"""Open streams: limits per user and address, and reauthorization while they are open.

Every session is authorized again at least once a minute, as if its request came now. All sessions
are authorized soon after an announcement that may concern them: a change of rules, users, tokens or
metadata. A session is closed, with the reason, when its current permissions would give it something
else, or nothing.

A session whose credentials expire at a known time (`exp` of a token) is authorized again then.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from math import ceil, inf
from time import monotonic, time
from typing import Final, Protocol

from docgraph.exchange import Account
from docgraph.exchange.close_reason import FAILED, CloseReason
from docgraph.exchange.errors import TooManyRequests
from docgraph.exchange.hosts import group_address
from docgraph.observe import emit
from docgraph.observe.events import UnattendedFailed
from docgraph.runtime.shared_memory import Generation, Generations

_TICK: Final = 1.0  # seconds between two checks for announcements
_EXPIRY_TICK: Final = 0.25  # seconds between two checks for expired credentials
_EXPIRY_SECONDS: Final = 3.0  # for which they are checked again if they are still accepted
_AT_ONCE: Final = 10  # sessions that are authorized at the same time
CONCERNING: Final[tuple[Generation, ...]] = ("collections", "logins", "rules", "tokens", "users")


class EndableClient(Protocol):
    """A client of a stream; `ending` is the reason once it was ended."""

    @property
    def ending(self) -> CloseReason | None:
        """The reason why the client was ended; None while it is open."""

    def end(self, ending: CloseReason) -> None:
        """End the client, and send it the reason."""


@dataclass(eq=False)
class Session(ABC):
    """A client, and how to authorize it again."""

    client: EndableClient
    authorized_at: float = field(default_factory=monotonic, kw_only=True)
    expires_at: float | None = field(default=None, kw_only=True)  # in seconds since the epoch
    expiry_due: int | None = field(default=None, kw_only=True)  # the second in which it is checked

    @abstractmethod
    async def find_ending(self, now: float, interval: float) -> CloseReason | None:
        """Return why the session must end; None: nothing changed, or it cannot be decided now.

        `interval` is the time in seconds until the next check.
        """


class _Expiries:
    """Sessions by the second in which their credentials expire: none of them is scanned before."""

    def __init__(self) -> None:
        self._sessions: dict[int, set[Session]] = {}
        self._next: float = inf

    def add(self, session: Session, second: int) -> None:
        session.expiry_due = second
        self._sessions.setdefault(second, set()).add(session)
        self._next = min(self._next, second)

    def remove(self, session: Session) -> None:
        second = session.expiry_due
        if second is not None and second in self._sessions:
            self._sessions[second].discard(session)
            if not self._sessions[second]:
                del self._sessions[second]

    def pop(self, now: float) -> list[Session]:
        if now < self._next:
            return []
        seconds = [second for second in self._sessions if second <= now]
        due = [session for second in seconds for session in self._sessions.pop(second)]
        self._next = min(self._sessions, default=inf)
        return due


Announced = tuple[int, ...]


@dataclass(eq=False)
class Reauthorizer:
    """The sessions of this process."""

    _generations: Generations
    _interval: float
    _: KW_ONLY
    concerning: Sequence[Generation] = CONCERNING
    clock: Callable[[], float] = monotonic
    _wall: Callable[[], float] = time
    sessions: set[Session] = field(default_factory=set)
    _expiries: _Expiries = field(default_factory=_Expiries)

    def __post_init__(self) -> None:
        self._announced = self.read_announced()

    def add(self, session: Session, since: Announced) -> None:
        """Add a session; check it soon if something was announced since its admission."""
        if since != self.read_announced():
            session.authorized_at = -inf
        self.sessions.add(session)
        if session.expires_at is not None:
            self._expiries.add(session, ceil(session.expires_at))

    def remove(self, session: Session) -> None:
        self.sessions.discard(session)
        self._expiries.remove(session)

    async def run(self) -> None:
        """Authorize due sessions in an endless loop."""
        while True:
            await asyncio.sleep(_TICK)
            await self.reauthorize_due()

    async def reauthorize_due(self) -> None:
        """Authorize the sessions that are due; all of them after an announcement."""
        announced = self.read_announced()
        oldest = self.clock() - self._interval
        due = [
            session
            for session in self.sessions
            if announced != self._announced or session.authorized_at <= oldest
        ]
        self._announced = announced
        await self._reauthorize_all(due)

    async def close_expired(self) -> None:
        """Authorize sessions whose credentials expire, in an endless loop."""
        while True:
            await asyncio.sleep(_EXPIRY_TICK)
            await self.reauthorize_expired()

    async def reauthorize_expired(self) -> None:
        """Authorize the sessions whose credentials have expired by now: that ends them."""
        now = self._wall()
        expired = self._expiries.pop(now)
        await self._reauthorize_all(expired)
        for session in expired:
            # A token that is checked by another clock may be valid for a moment longer.
            is_late = session.expires_at is None or now - session.expires_at > _EXPIRY_SECONDS
            if session in self.sessions and session.client.ending is None and not is_late:
                self._expiries.add(session, int(now) + 1)

    async def _reauthorize_all(self, sessions: Sequence[Session]) -> None:
        for start in range(0, len(sessions), _AT_ONCE):
            async with asyncio.TaskGroup() as group:
                for session in sessions[start : start + _AT_ONCE]:
                    if session in self.sessions:  # else it has ended meanwhile
                        group.create_task(self._reauthorize(session))

    async def _reauthorize(self, session: Session) -> None:
        session.authorized_at = self.clock()
        try:
            ending = await session.find_ending(session.authorized_at, self._interval)
        except Exception as error:  # a session that cannot be authorized gets no more events
            emit(UnattendedFailed("the renewal of a stream", error))
            ending = FAILED
        if ending is not None:
            session.client.end(ending)

    def read_announced(self) -> Announced:
        """Return a value that differs after each announcement."""
        return tuple(map(self._generations.read, self.concerning))


class StreamLimits:
    """Limits of open streams per user and address; `what` names the streams in messages."""

    def __init__(self, what: str, *, per_user: int, per_address: int) -> None:
        self._what = what
        self._per_user = per_user
        self._per_address = per_address
        self._taken: Counter[tuple[str, str]] = Counter()

    def acquire(
        self, account: Account | None, client: tuple[str, int] | None
    ) -> Callable[[], None]:
        """Acquire a slot; call the result to release it. Raise `TooManyRequests` if none."""
        keys = []
        if account is not None:
            keys.append((("user", account.name), self._per_user))
        if client is not None:
            keys.append((("address", group_address(client[0])), self._per_address))
        for (kind, name), most in keys:
            if self._taken[kind, name] >= most:
                raise TooManyRequests(
                    f"this {kind} has too many {self._what} open, {most} of them",
                    hint="close one of them first",
                )
        self._taken.update(key for key, _ in keys)
        return lambda: self._give_back([key for key, _ in keys])

    def _give_back(self, keys: list[tuple[str, str]]) -> None:
        for key in keys:
            self._taken[key] -= 1
            if not self._taken[key]:
                del self._taken[key]
