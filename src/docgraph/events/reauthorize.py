"""Reauthorization of open change streams: checks again whether clients may still read them.

Every session is authorized again at least once a minute, as if its request came now. All sessions
are authorized soon after an announcement that may concern them: a change of rules, users, tokens or
metadata. A session is closed, with the reason, when its current permissions would give it other
events or none. The current time in a row filter makes no difference: it is that of each decision.

A session whose credentials expire at a known time (`exp` of a token) is authorized again then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from time import monotonic, time
from typing import Final

from docgraph.events.close_reason import (
    CHANGED,
    FAILED,
    GONE,
    NOT_ALLOWED,
    NOT_KNOWN,
    OTHER_RIGHTS,
    CloseReason,
)
from docgraph.events.stream_client import Client
from docgraph.events.subscription_key import identify
from docgraph.exchange import DocgraphError, Renew, Subscription, WatchedIsGone
from docgraph.exchange.errors import (
    Forbidden,
    NotFound,
    Overloaded,
    SecurityViolation,
    StoreError,
    StoreForbidden,
    StoreRejected,
    Unauthenticated,
)
from docgraph.observe import emit
from docgraph.observe.events import UnattendedFailed
from docgraph.runtime import Generations
from docgraph.runtime.generations import Generation

_TICK: Final = 1.0  # seconds between two checks for announcements
_EXPIRY_TICK: Final = 0.25  # seconds between two checks for expired credentials
_EXPIRY_SECONDS: Final = 3.0  # for which they are checked again if they are still accepted
_AT_ONCE: Final = 10  # sessions that are authorized at the same time
_REFUSING: Final = (SecurityViolation, StoreForbidden, StoreRejected)  # errors that end the session
_CONCERNING: Final[tuple[Generation, ...]] = (
    "collections",
    "logins",
    "rules",
    "tokens",
    "users",
)


@dataclass(eq=False, slots=True)
class Session:
    """A client, its subscription, and how to authorize it again."""

    client: Client
    subscription: Subscription
    renew: Renew
    judged_at: float = field(default_factory=monotonic)
    gone_since: float | None = None  # when its collection was first missing
    expires_at: float | None = None  # its credentials, in seconds since the epoch
    expiry_due: int | None = None  # the second in which that is checked


class _Expiries:
    """Sessions by the second in which their credentials expire: none of them is scanned before."""

    def __init__(self) -> None:
        self._sessions: dict[int, set[Session]] = {}
        self._next: float = inf

    def add(self, session: Session, second: int) -> None:
        """Add a session that is due in that second."""
        session.expiry_due = second
        self._sessions.setdefault(second, set()).add(session)
        self._next = min(self._next, second)

    def remove(self, session: Session) -> None:
        """Remove a session, if it is there."""
        second = session.expiry_due
        if second is not None and second in self._sessions:
            self._sessions[second].discard(session)
            if not self._sessions[second]:
                del self._sessions[second]

    def pop(self, now: float) -> list[Session]:
        """Remove the sessions that are due, and return them."""
        if now < self._next:
            return []
        seconds = [second for second in self._sessions if second <= now]
        due = [session for second in seconds for session in self._sessions.pop(second)]
        self._next = min(self._sessions, default=inf)
        return due


Announced = tuple[int, ...]


class Reauthorizer:
    """The sessions of this process."""

    def __init__(
        self,
        generations: Generations,
        interval: float,
        *,
        clock: Callable[[], float] = monotonic,
        wall: Callable[[], float] = time,
    ) -> None:
        self.sessions: set[Session] = set()
        self._expiries = _Expiries()
        self._wall = wall
        self._generations = generations
        self._interval = interval
        self._clock = clock
        self._announced = self.read_announced()

    def add(self, session: Session, since: Announced) -> None:
        """Add a session; check it soon if something was announced since its admission."""
        if since != self.read_announced():
            session.judged_at = -inf
        self.sessions.add(session)
        if session.expires_at is not None:
            self._expiries.add(session, ceil(session.expires_at))

    def remove(self, session: Session) -> None:
        """Remove a session that has ended."""
        self.sessions.discard(session)
        self._expiries.remove(session)

    async def patrol(self) -> None:
        """Authorize due sessions in an endless loop."""
        while True:
            await asyncio.sleep(_TICK)
            await self.reauthorize_due()

    async def reauthorize_due(self) -> None:
        """Authorize the sessions that are due; all of them after an announcement."""
        announced = self.read_announced()
        due = [
            one
            for one in self.sessions
            if announced != self._announced or self._clock() - one.judged_at >= self._interval
        ]
        self._announced = announced
        await self._reauthorize_all(due)

    async def patrol_expiries(self) -> None:
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
                    group.create_task(self._reauthorize(session))

    async def _reauthorize(self, session: Session) -> None:
        session.judged_at = self._clock()
        try:
            ending = await self._find_ending(session)
        except Exception as error:  # a session that cannot be authorized gets no more events
            emit(UnattendedFailed("the renewal of a change stream", error))
            ending = FAILED
        if ending is not None:
            session.client.end(ending)

    def read_announced(self) -> Announced:
        """Return a value that differs after each announcement."""
        return tuple(map(self._generations.read, _CONCERNING))

    async def _find_ending(self, session: Session) -> CloseReason | None:
        """Return why the session must end; None if nothing changed or it cannot be decided now."""
        before = session.subscription
        try:
            now = await session.renew()
        except Unauthenticated:
            return NOT_KNOWN
        except (Forbidden, SecurityViolation):
            return NOT_ALLOWED
        except WatchedIsGone:
            return self._await_end(session)
        except NotFound:
            return GONE
        except _REFUSING:
            return FAILED
        except (StoreError, Overloaded):
            return None  # the database is unavailable or overloaded; the next check tries again
        except DocgraphError:
            return CHANGED  # the stored stream cannot be opened any more
        session.gone_since = None
        return _compare(before, now)

    def _await_end(self, session: Session) -> CloseReason | None:
        """Let the stream report its own end, unless it was opened after that end."""
        if session.gone_since is None:
            session.gone_since = self._clock()
        return GONE if self._clock() - session.gone_since >= self._interval else None


def _compare(before: Subscription, now: Subscription) -> CloseReason | None:
    if identify(now) == identify(before):
        return None
    return CHANGED if (now.row, now.shown) == (before.row, before.shown) else OTHER_RIGHTS
