"""Issued tokens of an instance, one per login, cached in every worker.

All requests of a login use the same live token, in all workers (decisions 29, 33). A worker caches
tokens until the login changes: when the generation `logins` changes, the table lists the changed
logins, and the cache drops only these. Revocations are checked at every use. Shortly before its end
a token gets a successor and stays valid until its own end, so that no caller receives a token that
is about to expire.

Where sessions have a maximum age, a caller with a token gets tokens of its own session only: a
password that another client sent does not extend this session. A caller with a password gets a
session that has at least half of the maximum age left.

A login with an end of its own, such as a foreign JWT, gets no token that is valid longer; tokens
and their successors carry that end (decision 57).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Final, TypeVar

from docgraph.auth.tokens.revocation import Revocations
from docgraph.auth.tokens.table import ANY, Sessions, TokenChanges, TokenRow, TokenTable
from docgraph.auth.tokens.token import (
    LoginNames,
    TokenAccount,
    decode_account,
    encode_account,
    find_login_end,
)
from docgraph.exchange import Account
from docgraph.runtime import Blocking, Generations, LoadingCache, close_all, run_blocking

ID_BYTES: Final = 24  # 192 random bits
_REMEMBERED: Final = 10_000
_LONGEST_MARGIN: Final = 60.0  # seconds before its end during which a token is not issued
_ROUNDED: Final = 2.0  # by which whole seconds may precede the end of a login
_CLOCK_WAS_SET: Final = 2.0  # a larger difference means that the clock was set
_QUEUE: Final = 4096

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Issued:
    """A token without its text, which only the manager can create."""

    id: bytes
    account: TokenAccount
    issued_at: float
    expires_at: float
    valid_until: float


class UserGone(Exception):
    """The user no longer exists, so no token is issued."""


class LoginEnded(Exception):
    """The login that a token would belong to has ended, so no token is issued."""


@dataclass(slots=True)
class _IssuedToken:
    """A cached row of the table, and the last change when it was read."""

    issued: Issued
    owner: str  # the name of the login
    snapshot: bytes
    change: int
    login: Account | None = None  # the last one with this snapshot


class _UnknownTokenError(Exception):
    """Signals an unknown token, so that the cache stores nothing."""


class IssuedTokens:
    """Reads uncached tokens from the table of the instance.

    `clock` measures the lifetime of tokens, `wall` is the time of day that is reported to callers.
    """

    def __init__(  # noqa: PLR0913 - what a token depends on
        self,
        path: Path,
        life: float,
        *,
        blocking: Blocking,
        generations: Generations,
        revocations: Revocations,
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
        self._wall = wall or clock  # the clock may show the time of day itself
        self._max_session_age = max_session_age
        self._logins = LoginNames()
        self._looking = asyncio.Lock()
        self._seen = generations.read("logins")
        self._change = 0  # the last one that was read
        self._changed: dict[str, int] = {}  # logins, and the last change of each
        self._current: LoadingCache[tuple[str, float | None], _IssuedToken] = LoadingCache(
            _REMEMBERED
        )
        self._by_id: LoadingCache[bytes, _IssuedToken] = LoadingCache(_REMEMBERED)
        self._table: TokenTable | None = None

    async def open(self) -> None:
        """Open the table, which the first worker creates."""
        self._table = await run_blocking(self._lane, TokenTable, self._path)
        self._change = await self._call(TokenTable.find_last_change)

    async def close(self) -> None:
        """Stop reads in progress, and close the connection."""
        await close_all(self._current, self._by_id)
        if self._table is not None:
            await run_blocking(self._lane, self._table.close)
            self._table = None

    async def current(self, account: Account) -> Issued:
        """Return the token of the account's login, a new one if necessary."""
        await self._follow()
        key = self._logins.get(account), self._find_session(account)
        load = partial(self._load, account)
        entry = await self._current.get(key, load)
        if not self._is_usable(entry, account):
            self._current.invalidate(key)
            entry = await self._current.get(key, load)
        return entry.issued

    async def renew(self, account: Account) -> Issued:
        """Replace all tokens of the login by a new one, after reading the user again."""
        fresh = await self._refresh(account)
        row = self._make_row(account, fresh)
        await self._run(self._replace, row)
        return _read_row(row)

    async def find(self, id: bytes) -> Issued | None:
        await self._follow()
        try:
            entry = await self._by_id.get(id, self._find)
            if self._changed.get(entry.owner, 0) > entry.change:
                self._by_id.invalidate(id)
                entry = await self._by_id.get(id, self._find)
        except _UnknownTokenError:
            return None
        return None if self._is_over(entry.issued) else entry.issued

    async def end(self, account: Account) -> list[bytes]:
        """Remove the tokens of the login; returns their random parts."""
        return await self._run(self._end, self._logins.get(account))

    def is_too_old(self, account: Account) -> bool:
        """Return whether the session exceeds its maximum age; its token stays valid to its end."""
        if not self._max_session_age or not isinstance(account, TokenAccount):
            return False
        return self._clock() - account.session_since > self._max_session_age

    def find_end(self, issued: Issued) -> float:
        """Return the end of the token by the time of day, even if the clock was set meanwhile."""
        if self._wall is self._clock:
            return issued.expires_at
        end = self._wall() + issued.expires_at - self._clock()
        if abs(end - issued.valid_until) <= _CLOCK_WAS_SET:
            return issued.valid_until
        login_end = issued.account.login_ends_at
        return end if login_end is None else min(end, login_end)

    async def _follow(self) -> None:
        """Drop cached tokens of logins that any worker has changed since the last call."""
        generation = self._generations.read("logins")
        if generation <= self._seen:
            return
        async with self._looking:
            if generation <= self._seen:
                return  # the previous reader started late enough
            generation = self._generations.read("logins")
            self._apply(await self._call(TokenTable.find_changes, self._change))
            self._seen = generation

    def _apply(self, changes: TokenChanges) -> None:
        self._change = changes.last
        if changes.logins is None or len(self._changed) + len(changes.logins) > _REMEMBERED:
            self._current.clear()
            self._by_id.clear()
            self._changed.clear()
        else:
            self._changed.update(dict.fromkeys(changes.logins, changes.last))

    # The thread writes and announces a change in one step: a waiting request may be cancelled at
    # any moment, and then neither or both happen.

    def _replace(self, row: TokenRow) -> None:
        self._opened.replace(row)
        self._generations.bump("logins")

    def _end(self, login: str, until: float = inf) -> list[bytes]:
        ids = self._opened.end(login, until)
        self._generations.bump("logins")
        return ids

    def _put(self, row: TokenRow, sessions: Sessions) -> TokenRow:
        # Near the end of the login no token has the margin left.
        last = max(row.issued_at, row.expires_at - _ROUNDED)
        usable_until = min(row.issued_at + self._margin, last)
        put = self._opened.put(row, usable_until=usable_until, sessions=sessions)
        if put.id != row.id:  # the token stays, its account differs
            self._generations.bump("logins")
        return put

    def _is_usable(self, entry: _IssuedToken, account: Account) -> bool:
        """Return whether the token is live, not about to expire, and of the current account."""
        issued = entry.issued
        if self._changed.get(entry.owner, 0) > entry.change:
            return False
        is_ending = issued.expires_at - self._margin <= self._clock() and not _is_last(issued)
        if is_ending or self._is_over(issued):
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
        account, login_end = issued.account, issued.account.login_ends_at
        if issued.expires_at <= self._clock():
            return True
        if login_end is not None and login_end <= self._wall():
            return True  # the time of day was set: that ends the login, but not a random token
        return self._revocations.is_revoked(issued.id.hex(), account.name, account.token_made_at)

    async def _load(self, account: Account, key: tuple[str, float | None]) -> _IssuedToken:
        login, sessions = key[0], self._find_sessions(account)
        change = self._change  # later changes may be missing in the read
        latest = await self._call(TokenTable.find_latest, login, sessions)
        if latest is not None:
            entry = _IssuedToken(_read_row(latest), login, latest.account, change)
            if self._is_usable(entry, account):
                return entry
        return await self._issue(account, latest)

    async def _issue(self, account: Account, latest: TokenRow | None) -> _IssuedToken:
        # The password of a caller with a token was checked some time ago; much may have changed.
        fresh = await self._refresh(account) if isinstance(account, TokenAccount) else account
        row = self._make_row(account, fresh)
        if latest is not None and self._is_over(_read_row(latest)):
            # Not a token that another worker has issued since for the same reason.
            await self._run(self._end, row.login, latest.issued_at)
        change = self._change
        put = await self._run(self._put, row, self._find_sessions(account))
        return _IssuedToken(_read_row(put), row.login, put.account, change, fresh)

    async def _find(self, id: bytes) -> _IssuedToken:
        change = self._change
        row = await self._call(TokenTable.find, id)
        if row is None:
            raise _UnknownTokenError
        return _IssuedToken(_read_row(row), row.login, row.account, change)

    async def _refresh(self, account: Account) -> Account:
        fresh = await self._read_again(account)
        if fresh is None:
            raise UserGone(account.name)
        return fresh

    def _find_session(self, account: Account) -> float | None:
        """Return the session that the caller is bound to, if any."""
        if self._max_session_age and isinstance(account, TokenAccount):
            return account.session_since
        return None

    def _find_sessions(self, account: Account) -> Sessions:
        """Return the sessions whose tokens the caller may have."""
        if not self._max_session_age:
            return ANY
        session = self._find_session(account)
        if session is not None:
            return Sessions(session, session)
        return Sessions(self._clock() - self._max_session_age / 2)

    def _make_row(self, account: Account, fresh: Account) -> TokenRow:
        now, wall, login_end = self._clock(), self._wall(), find_login_end(account)
        life = self._life if login_end is None else min(self._life, login_end - wall)
        if int(now + life) <= now:
            raise LoginEnded(account.name)
        return TokenRow(
            secrets.token_bytes(ID_BYTES),
            self._logins.get(account),
            encode_account(fresh),
            issued_at=now,
            expires_at=int(now + life),
            valid_until=int(wall + life),
            made_at=self._revocations.date(account.name),
            session=account.session_since if isinstance(account, TokenAccount) else now,
            login_end=login_end,
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


def _is_last(issued: Issued) -> bool:
    """Return whether no later token is possible: this one is valid as long as its login."""
    login_end = issued.account.login_ends_at
    return login_end is not None and issued.valid_until > login_end - _ROUNDED


def _read_row(row: TokenRow) -> Issued:
    account = decode_account(row.account)
    return Issued(
        row.id,
        TokenAccount(
            account.name,
            account.roles,
            account.properties,
            account.kind,
            row.valid_until,
            row.login_end,
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
