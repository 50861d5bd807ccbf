"""The tokens that an instance has issued, one per login, as every worker of it knows them.

A live token is reused by all requests of the login, over all workers (decisions 29, 33). What a
worker has seen it remembers until the generation `tokens` moves. Shortly before its end a token
is followed by another one, and stays good until its own end, so that nobody gets one to keep that
is over in a moment.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

from docgraph.auth.tokens.snapshot import decode_account, encode_account
from docgraph.auth.tokens.table import Row, TokenTable
from docgraph.auth.tokens.token import LoginNames, TokenAccount
from docgraph.exchange import Account
from docgraph.runtime import Blocking, Generations, LoadingCache, close_all, run_blocking

__all__ = ["ID_BYTES", "Ended", "Issued", "IssuedTokens", "KnowsRevoked"]

ID_BYTES: Final = 24  # 192 random bits
_REMEMBERED: Final = 10_000
_LONGEST_MARGIN: Final = 60.0  # seconds before its end from which on a token is not given out
_QUEUE: Final = 4096

T = TypeVar("T")


class KnowsRevoked(Protocol):
    """What is asked of the provider `token-revocations` here."""

    def is_revoked(self, jti: str | None, user: str, issued_at: float | None) -> bool:
        """Whether that token no longer counts."""
        ...


@dataclass(frozen=True, slots=True)
class Issued:
    """A token without its text, which only the manager can make."""

    id: bytes
    account: TokenAccount
    issued_at: float
    expires_at: float


class Ended(Exception):
    """There is no such user any more, and so there will be no token."""


@dataclass(slots=True)
class _Entry:
    issued: Issued
    snapshot: bytes
    login: Account | None = None  # the last one that was found to have this snapshot


class _UnknownTokenError(Exception):
    """The way an unknown token stays out of the cache."""


class IssuedTokens:
    """Asks the table of the instance for what this process does not remember."""

    def __init__(  # noqa: PLR0913 - what a token depends on
        self,
        path: Path,
        life: float,
        *,
        blocking: Blocking,
        generations: Generations,
        revocations: KnowsRevoked,
        read_again: Callable[[Account], Awaitable[Account | None]],
        clock: Callable[[], float] = time.time,
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
        self._logins = LoginNames()
        self._seen = generations.read("tokens")
        self._current: LoadingCache[str, _Entry] = LoadingCache(_REMEMBERED)
        self._by_id: LoadingCache[bytes, Issued] = LoadingCache(_REMEMBERED)
        self._table: TokenTable | None = None

    async def open(self) -> None:
        """Open the table, which the first worker makes."""
        self._table = await run_blocking(self._lane, TokenTable, self._path)

    async def close(self) -> None:
        """Give up what is being read, and give back the connection."""
        await close_all(self._current, self._by_id)
        if self._table is not None:
            await run_blocking(self._lane, self._table.close)
            self._table = None

    async def current(self, account: Account) -> Issued:
        """The token of the account's login, a new one if there is none to give out."""
        self._follow()
        login = self._logins.get(account)
        load = partial(self._load, account)
        entry = await self._current.get(login, load)
        if not self._is_usable(entry, account):
            self._current.invalidate(login)
            entry = await self._current.get(login, load)
        return entry.issued

    async def renew(self, account: Account) -> Issued:
        """A new token in the place of all others of the login, after reading the user again."""
        fresh = await self._refresh(account)
        row = self._make_row(self._logins.get(account), encode_account(fresh))
        await self._call(TokenTable.replace, row)
        self._generations.bump("tokens")
        return _read_row(row)

    async def find(self, id: bytes) -> Issued | None:
        """The live token with that random part."""
        self._follow()
        try:
            issued = await self._by_id.get(id, self._find)
        except _UnknownTokenError:
            return None
        return None if self._is_over(issued) else issued

    async def end(self, account: Account) -> list[bytes]:
        """Take away the tokens of the login; their random parts."""
        ids = await self._call(TokenTable.end, self._logins.get(account))
        self._generations.bump("tokens")
        return ids

    def _follow(self) -> None:
        generation = self._generations.read("tokens")
        if generation != self._seen:
            self._seen = generation
            self._current.clear()
            self._by_id.clear()

    def _is_usable(self, entry: _Entry, account: Account) -> bool:
        """Whether it is live, not nearly over, and says of the account what the login says now."""
        issued = entry.issued
        if issued.expires_at - self._margin <= self._clock() or self._is_over(issued):
            return False
        if isinstance(account, TokenAccount) or account is entry.login or account == entry.login:
            return True
        if encode_account(account) != entry.snapshot:
            return False
        entry.login = account
        return True

    def _is_over(self, issued: Issued) -> bool:
        return issued.expires_at <= self._clock() or self._revocations.is_revoked(
            issued.id.hex(), issued.account.name, issued.issued_at
        )

    async def _load(self, account: Account, login: str) -> _Entry:
        latest = await self._call(TokenTable.find_latest, login)
        if latest is not None:
            entry = _Entry(_read_row(latest), latest.account)
            if self._is_usable(entry, account):
                return entry
        return await self._issue(account, login, latest)

    async def _issue(self, account: Account, login: str, latest: Row | None) -> _Entry:
        # Who comes with a token has shown a password some time ago; much may have changed since.
        fresh = await self._refresh(account) if isinstance(account, TokenAccount) else account
        row = self._make_row(login, encode_account(fresh))
        if latest is not None and self._is_over(_read_row(latest)):
            await self._call(TokenTable.end, login)
        put: Row = await self._call(TokenTable.put, row, usable_until=row.issued_at + self._margin)
        if put.id != row.id:  # the token stays, the account behind it is another one
            self._generations.bump("tokens")
        return _Entry(_read_row(put), put.account, fresh)

    async def _find(self, id: bytes) -> Issued:
        row = await self._call(TokenTable.find, id)
        if row is None:
            raise _UnknownTokenError
        return _read_row(row)

    async def _refresh(self, account: Account) -> Account:
        fresh = await self._read_again(account)
        if fresh is None:
            raise Ended(account.name)
        return fresh

    def _make_row(self, login: str, snapshot: bytes) -> Row:
        now = self._clock()
        return Row(secrets.token_bytes(ID_BYTES), login, snapshot, now, int(now + self._life))

    async def _call(self, method: Callable[..., T], *args: object, **options: object) -> T:
        return await run_blocking(self._lane, method, self._table, *args, **options)


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
            token_expires_at=row.expires_at,
        ),
        row.issued_at,
        row.expires_at,
    )
