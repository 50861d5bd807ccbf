"""Whether those who are connected still may be: asked again and again.

Every session is judged anew at least once a minute, as if its request came now, and all of them
soon after something was announced that may concern them: a change of rules, users, tokens or
metadata. Who would be told something else now, or nothing, is closed and told why. Only the time
in a row filter does not stay what it was: such a client goes on with the filter of now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from math import inf
from time import monotonic
from typing import Final

from docgraph.events.client import Client
from docgraph.events.ending import (
    CHANGED,
    FAILED,
    GONE,
    NOT_ALLOWED,
    NOT_KNOWN,
    OTHER_RIGHTS,
    Ending,
)
from docgraph.events.identity import identify
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

__all__ = ["Renewals", "Session"]

_TICK: Final = 1.0  # seconds between two looks at what was announced
_AT_ONCE: Final = 10  # sessions that are judged at the same time
_REFUSING: Final = (SecurityViolation, StoreForbidden, StoreRejected)  # they do not pass
_CONCERNING: Final[tuple[Generation, ...]] = (
    "collections",
    "logins",
    "rules",
    "tokens",
    "users",
)


@dataclass(eq=False, slots=True)
class Session:
    """A client, what it was promised, and how to ask again."""

    client: Client
    subscription: Subscription
    renew: Renew
    judged_at: float = field(default_factory=monotonic)
    gone_since: float | None = None  # when its collection was first missed


Move = Callable[[Client, Subscription], Awaitable[bool]]
Announced = tuple[int, ...]


class Renewals:
    """The sessions of this process."""

    def __init__(
        self,
        generations: Generations,
        interval: float,
        move: Move,
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.sessions: set[Session] = set()
        self._generations = generations
        self._interval = interval
        self._move = move
        self._clock = clock
        self._announced = self.read_announced()

    def add(self, session: Session, since: Announced) -> None:
        """Look after a session; at once where something was announced since it was admitted."""
        if since != self.read_announced():
            session.judged_at = -inf
        self.sessions.add(session)

    async def patrol(self) -> None:
        """Judge those whose time has come, for ever."""
        while True:
            await asyncio.sleep(_TICK)
            await self.look()

    async def look(self) -> None:
        """Judge those whose time has come; all, when something was announced."""
        announced = self.read_announced()
        due = [
            one
            for one in self.sessions
            if announced != self._announced or self._clock() - one.judged_at >= self._interval
        ]
        self._announced = announced
        for start in range(0, len(due), _AT_ONCE):
            async with asyncio.TaskGroup() as group:
                for session in due[start : start + _AT_ONCE]:
                    group.create_task(self._judge(session))

    async def _judge(self, session: Session) -> None:
        session.judged_at = self._clock()
        try:
            ending = await self._find_ending(session)
        except Exception as error:  # who cannot be judged is not told any more
            emit(UnattendedFailed("the renewal of a change stream", error))
            ending = FAILED
        if ending is not None:
            session.client.end(ending)

    def read_announced(self) -> Announced:
        """Another one whenever something was announced."""
        return tuple(map(self._generations.read, _CONCERNING))

    async def _find_ending(self, session: Session) -> Ending | None:
        """Why the session must end; None when all is as it was, or nobody can tell now."""
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
            return None  # the database is away, or nobody has the time; it is asked again
        except DocgraphError:
            return CHANGED  # what is stored now cannot be opened
        session.gone_since = None
        if now.is_momentary and identify(replace(now, row=before.row)) == identify(before):
            return await self._go_on(session, now)
        return _compare(before, now)

    def _await_end(self, session: Session) -> Ending | None:
        """Its stream tells of the end, and ends by itself, unless it was opened after that end."""
        if session.gone_since is None:
            session.gone_since = self._clock()
        return GONE if self._clock() - session.gone_since >= self._interval else None

    async def _go_on(self, session: Session, now: Subscription) -> Ending | None:
        """With the time of now in the row filter."""
        try:
            has_moved = await self._move(session.client, now)
        except Overloaded:
            return OTHER_RIGHTS  # there is no other cursor for the rights of now
        except _REFUSING:
            return FAILED
        except StoreError:
            has_moved = False
        if has_moved:
            session.subscription = now
        else:
            session.judged_at = -inf  # soon again
        return None


def _compare(before: Subscription, now: Subscription) -> Ending | None:
    if identify(now) == identify(before):
        return None
    return CHANGED if (now.row, now.shown) == (before.row, before.shown) else OTHER_RIGHTS
