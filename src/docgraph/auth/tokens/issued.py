"""The tokens that an instance has issued, one per login, as every worker of it knows them.

A live token is reused by all requests of the login, over all workers (decisions 29, 33). What a
worker has seen it remembers until the login is changed: when the generation `logins` moves, the
table tells which ones were, and what is remembered of all others stays. Stamps of `revocations` are
asked at every use. Shortly before its end a token is followed by another one, and stays good until
its own end, so that nobody gets one to keep that is over in a moment.

Where sessions have a greatest age, who comes with a token gets those of the own session only: the
password that another client has shown does not make this one's session younger. Who shows the
password gets a session that has at least half of that age before it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Final, Protocol, TypeVar

from docgraph.auth.tokens.snapshot import decode_account, encode_account
from docgraph.auth.tokens.table import ANY, Changes, Row, Sessions, TokenTable
from docgraph.auth.tokens.token import LoginNames, TokenAccount
from docgraph.exchange import Account
from docgraph.runtime import Blocking, Generations, LoadingCache, close_all, run_blocking

__all__ = ["ID_BYTES", "Ended", "Issued", "IssuedTokens", "KnowsRevoked"]

ID_BYTES: Final = 24  # 192 random bits
_REMEMBERED: Final = 10_000
_LONGEST_MARGIN: Final = 60.0  # seconds before its end from which on a token is not given out
_CLOCK_WAS_SET: Final = 2.0  # seconds by which no clock is off that was not set
_QUEUE: Final = 4096

T = TypeVar("T")


class KnowsRevoked(Protocol):
    """What is asked of the provider `token-revocations` here."""

    def is_revoked(self, jti: str | None, user: str, issued_at: float | None) -> bool:
        """Whether that token no longer counts."""
        ...

    def date(self, user: str) -> float:
        """When a token of the user that is made now counts as made."""
        ...


@dataclass(frozen=True, slots=True)
class Issued:
    """A token without its text, which only the manager can make."""

    id: bytes
    account: TokenAccount
    issued_at: float
    expires_at: float
    valid_until: float


class Ended(Exception):
    """There is no such user any more, and so there will be no token."""


@dataclass(slots=True)
class _Entry:
    """What is remembered of a row of the table, and which change was the last when it was read."""

    issued: Issued
    owner: str  # the name of the login
    snapshot: bytes
    change: int
    login: Account | None = None  # the last one that was found to have this snapshot


class _UnknownTokenError(Exception):
    """The way an unknown token stays out of the cache."""


class IssuedTokens:
    """Asks the table of the instance for what this process does not remember.

    `clock` measures how long tokens live, `wall` is the time of day that is told of them.
    """

    def __init__(  # noqa: PLR0913 - what a token depends on
        self,
        path: Path,
        life: float,
        *,
        blocking: Blocking,
        generations: Generations,
        revocations: KnowsRevoked,
        read_again: Callable[[Account], Awaitable[Account | None]],
        clock: Callable[[], float],
        wall: Callable[[], float] | None = None,
        max_session_age: float = 0.0,
    ) -> None:
        self._path = path
        self._life = life
        self._margin = min(_LONGEST_MARGIN, life / 10)
        # One connection, whose calls must not overlap.
        self._lane = blocking.lane("tokens", concurrency=1, queue=_QUEUE)
        self._generations = generations
        self._revocations = revocations
        self._read_again = read_again
        self._clock = clock
        self._wall = wall  # None: the clock shows the time of day itself
        self._max_session_age = max_session_age
        self._logins = LoginNames()
        self._looking = asyncio.Lock()
        self._seen = generations.read("logins")
        self._change = 0  # the last one that is known
        self._changed: dict[str, int] = {}  # logins, and the last change of each
        self._current: LoadingCache[tuple[str, float | None], _Entry] = LoadingCache(_REMEMBERED)
        self._by_id: LoadingCache[bytes, _Entry] = LoadingCache(_REMEMBERED)
        self._table: TokenTable | None = None

    async def open(self) -> None:
        """Open the table, which the first worker makes."""
        self._table = await run_blocking(self._lane, TokenTable, self._path)
        self._change = await self._call(TokenTable.find_last_change)

    async def close(self) -> None:
        """Give up what is being read, and give back the connection."""
        await close_all(self._current, self._by_id)
        if self._table is not None:
            await run_blocking(self._lane, self._table.close)
            self._table = None

    async def current(self, account: Account) -> Issued:
        """The token of the account's login, a new one if there is none to give out."""
        await self._follow()
        key = self._logins.get(account), self._find_session(account)
        load = partial(self._load, account)
        entry = await self._current.get(key, load)
        if not self._is_usable(entry, account):
            self._current.invalidate(key)
            entry = await self._current.get(key, load)
        return entry.issued

    async def renew(self, account: Account) -> Issued:
        """A new token in the place of all others of the login, after reading the user again."""
        fresh = await self._refresh(account)
        row = self._make_row(account, fresh)
        await self._run(self._replace, row)
        return _read_row(row)

    async def find(self, id: bytes) -> Issued | None:
        """The live token with that random part."""
        await self._follow()
        try:
            entry = await self._by_id.get(id, self._find)
            if self._is_outdated(entry):
                self._by_id.invalidate(id)
                entry = await self._by_id.get(id, self._find)
        except _UnknownTokenError:
            return None
        return None if self._is_over(entry.issued) else entry.issued

    async def end(self, account: Account) -> list[bytes]:
        """Take away the tokens of the login; their random parts."""
        return await self._run(self._end, self._logins.get(account))

    def is_too_old(self, account: Account) -> bool:
        """Whether the session is past its greatest age: its token goes on to its own end."""
        if not self._max_session_age or not isinstance(account, TokenAccount):
            return False
        return self._clock() - account.session_since > self._max_session_age

    def find_end(self, issued: Issued) -> float:
        """When the token ends by the time of day, even if that was set in the meantime."""
        if self._wall is None:
            return issued.expires_at
        end = self._wall() + issued.expires_at - self._clock()
        return end if abs(end - issued.valid_until) > _CLOCK_WAS_SET else issued.valid_until

    # --- keeping up with the other workers --------------------------------------------------------

    async def _follow(self) -> None:
        """Learn which logins other workers, or this one, have changed since the last look."""
        generation = self._generations.read("logins")
        if generation <= self._seen:
            return
        async with self._looking:
            if generation <= self._seen:
                return  # who looked before us began late enough
            generation = self._generations.read("logins")
            self._take(await self._call(TokenTable.find_changes, self._change))
            self._seen = generation

    def _take(self, changes: Changes) -> None:
        self._change = changes.last
        if changes.logins is None or len(self._changed) + len(changes.logins) > _REMEMBERED:
            self._current.clear()
            self._by_id.clear()
            self._changed.clear()
        else:
            self._changed.update(dict.fromkeys(changes.logins, changes.last))

    def _is_outdated(self, entry: _Entry) -> bool:
        return self._changed.get(entry.owner, 0) > entry.change

    # Changes are written and made known in one go in the thread: whoever waits for them may be
    # cancelled at any moment, and then neither happens or both.

    def _replace(self, row: Row) -> None:
        self._opened.replace(row)
        self._generations.bump("logins")

    def _end(self, login: str, until: float = inf) -> list[bytes]:
        ids = self._opened.end(login, until)
        self._generations.bump("logins")
        return ids

    def _put(self, row: Row, sessions: Sessions) -> Row:
        put = self._opened.put(row, usable_until=row.issued_at + self._margin, sessions=sessions)
        if put.id != row.id:  # the token stays, the account behind it is another one
            self._generations.bump("logins")
        return put

    # --- reading and issuing ----------------------------------------------------------------------

    def _is_usable(self, entry: _Entry, account: Account) -> bool:
        """Whether it is live, not nearly over, and says of the account what the login says now."""
        issued = entry.issued
        if self._is_outdated(entry):
            return False
        if issued.expires_at - self._margin <= self._clock() or self._is_over(issued):
            return False
        if isinstance(account, TokenAccount):
            return True
        if self._max_session_age and issued.account.session_since < self._find_sessions(account)[0]:
            return False
        if account is entry.login or account == entry.login:
            return True
        if encode_account(account) != entry.snapshot:
            return False
        entry.login = account
        return True

    def _is_over(self, issued: Issued) -> bool:
        return issued.expires_at <= self._clock() or self._revocations.is_revoked(
            issued.id.hex(), issued.account.name, issued.account.token_made_at
        )

    async def _load(self, account: Account, key: tuple[str, float | None]) -> _Entry:
        login, sessions = key[0], self._find_sessions(account)
        change = self._change  # what is changed from now on may be missing in what is read
        latest = await self._call(TokenTable.find_latest, login, sessions)
        if latest is not None:
            entry = _Entry(_read_row(latest), login, latest.account, change)
            if self._is_usable(entry, account):
                return entry
        return await self._issue(account, latest)

    async def _issue(self, account: Account, latest: Row | None) -> _Entry:
        # Who comes with a token has shown a password some time ago; much may have changed since.
        fresh = await self._refresh(account) if isinstance(account, TokenAccount) else account
        row = self._make_row(account, fresh)
        if latest is not None and self._is_over(_read_row(latest)):
            # Not the one that another worker, which has seen the same, has issued since.
            await self._run(self._end, row.login, latest.issued_at)
        change = self._change
        put = await self._run(self._put, row, self._find_sessions(account))
        return _Entry(_read_row(put), row.login, put.account, change, fresh)

    async def _find(self, id: bytes) -> _Entry:
        change = self._change
        row = await self._call(TokenTable.find, id)
        if row is None:
            raise _UnknownTokenError
        return _Entry(_read_row(row), row.login, row.account, change)

    async def _refresh(self, account: Account) -> Account:
        fresh = await self._read_again(account)
        if fresh is None:
            raise Ended(account.name)
        return fresh

    def _find_session(self, account: Account) -> float | None:
        """The session that the caller is bound to, if any."""
        if self._max_session_age and isinstance(account, TokenAccount):
            return account.session_since
        return None

    def _find_sessions(self, account: Account) -> Sessions:
        """The sessions whose tokens the caller may have."""
        if not self._max_session_age:
            return ANY
        session = self._find_session(account)
        if session is not None:
            return Sessions(session, session)
        return Sessions(self._clock() - self._max_session_age / 2)

    def _make_row(self, account: Account, fresh: Account) -> Row:
        now = self._clock()
        return Row(
            secrets.token_bytes(ID_BYTES),
            self._logins.get(account),
            encode_account(fresh),
            issued_at=now,
            expires_at=int(now + self._life),
            valid_until=int((now if self._wall is None else self._wall()) + self._life),
            made_at=self._revocations.date(account.name),
            session=account.session_since if isinstance(account, TokenAccount) else now,
        )

    async def _call(self, method: Callable[..., T], *args: object) -> T:
        return await self._run(method, self._opened, *args)

    async def _run(self, work: Callable[..., T], *args: object) -> T:
        return await run_blocking(self._lane, work, *args)

    @property
    def _opened(self) -> TokenTable:
        if self._table is None:
            raise RuntimeError("the table of tokens is not open")
        return self._table


def _read_row(row: Row) -> Issued:
    account = decode_account(row.account)
    return Issued(
        row.id,
        TokenAccount(
            account.name,
            account.roles,
            account.properties,
            account.kind,
            token_id=row.id.hex(),
            token_issued_at=row.issued_at,
            token_expires_at=row.valid_until,
            token_made_at=row.made_at,
            session_since=row.session,
        ),
        row.issued_at,
        row.expires_at,
        row.valid_until,
    )
