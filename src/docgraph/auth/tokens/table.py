"""Table of issued tokens: a small database file that all workers of an instance open.

It also lists the logins that were changed, in order, so that a worker drops only their cached
tokens. It contains no token: only the random part of each, which is worthless without the secret of
the instance or the key. The file is in the private directory of the instance and is removed with
it. Everything here blocks and is called off the event loop.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

from docgraph.runtime.shared_memory import make_once

MAX_ROWS: Final = 100_000
KEPT_CHANGES: Final = 10_000  # a worker that is further behind clears its cache
_SWEEP_EVERY: Final = 64  # insertions
_SCHEMA: Final = """
    CREATE TABLE issued (
        id BLOB PRIMARY KEY, login TEXT NOT NULL, account BLOB NOT NULL,
        issued_at REAL NOT NULL, expires_at REAL NOT NULL, valid_until REAL NOT NULL,
        made_at REAL NOT NULL, session REAL NOT NULL, login_end REAL
    ) WITHOUT ROWID;
    CREATE INDEX by_login ON issued (login, issued_at);
    CREATE INDEX by_end ON issued (expires_at);
    CREATE TABLE changes (
        number INTEGER PRIMARY KEY AUTOINCREMENT, login TEXT NOT NULL
    );
"""
_FIND: Final = (
    "SELECT id, login, account, issued_at, expires_at, valid_until, made_at, session, "
    "login_end FROM issued WHERE "
)


class Sessions(NamedTuple):
    """The sessions that may have a token: those that began between two times."""

    first: float = 0.0
    last: float = inf


ANY: Final = Sessions()


class TokenRow(NamedTuple):
    """A token that was issued.

    The first two times are those of the manager's clock; `valid_until` is the time of day that
    callers see, `made_at` is compared with revocation marks, `session` is when the password was
    checked. `login_end` is the time of day at which the login itself ends, if it does.
    """

    id: bytes
    login: str
    account: bytes
    issued_at: float
    expires_at: float
    valid_until: float = 0.0
    made_at: float = 0.0
    session: float = 0.0
    login_end: float | None = None


class TokenChanges(NamedTuple):
    """Logins whose tokens were removed or have another account; None: too many to list."""

    last: int
    logins: list[str] | None


class TokenTable:
    """One connection per process; its calls must not overlap."""

    def __init__(self, path: Path, *, most_rows: int = MAX_ROWS) -> None:
        self._most_rows = most_rows
        self._inserted = 0
        make_once(path, _create)
        self._connection = _connect(path)

    def close(self) -> None:
        """Close the connection; the file stays for the other workers."""
        self._connection.close()

    def find(self, id: bytes) -> TokenRow | None:
        return self._read(_FIND + "id = ?", id)

    def find_latest(self, login: str, sessions: Sessions = ANY) -> TokenRow | None:
        """Return the latest token of the login, of one of these sessions."""
        return self._read(
            _FIND + "login = ? AND session BETWEEN ? AND ? ORDER BY issued_at DESC LIMIT 1",
            login,
            *sessions,
        )

    def put(self, row: TokenRow, *, usable_until: float, sessions: Sessions = ANY) -> TokenRow:
        """Return the login's live token with the account of `row`; insert `row` if there is none.

        When two workers issue at the same time, the second gets the token of the first.
        """
        with self._transaction():
            latest = self.find_latest(row.login, sessions)
            if latest is None or latest.expires_at < usable_until:
                self._insert(row)
                return row
            self._connection.execute(
                "UPDATE issued SET account = ? WHERE login = ?", (row.account, row.login)
            )
            self._record_change(row.login)
            return latest._replace(account=row.account)

    def replace(self, row: TokenRow) -> None:
        """Make `row` the login's only token."""
        with self._transaction():
            self._delete(row.login)
            self._insert(row)
            self._record_change(row.login)

    def end(self, login: str, until: float = inf) -> list[bytes]:
        """Remove the login's tokens that were issued until then; returns their random parts."""
        with self._transaction():
            row = self._connection.execute(
                "SELECT id FROM issued WHERE login = ? AND issued_at <= ?", (login, until)
            )
            ids = [id for (id,) in row.fetchall()]
            self._delete(login, until)
            self._record_change(login)
        return ids

    def find_changes(self, since: int) -> TokenChanges:
        """Return the changes after the change of that number."""
        rows = self._connection.execute(
            "SELECT number, login FROM changes WHERE number > ? ORDER BY number", (since,)
        ).fetchall()
        if not rows:
            return TokenChanges(since, [])
        is_complete = rows[0][0] == since + 1
        return TokenChanges(rows[-1][0], [login for _, login in rows] if is_complete else None)

    def find_last_change(self) -> int:
        """Return the number of the last change, 0 before the first one."""
        (last,) = self._connection.execute("SELECT max(number) FROM changes").fetchone()
        return last or 0

    def _record_change(self, login: str) -> None:
        noted = self._connection.execute("INSERT INTO changes (login) VALUES (?)", (login,))
        oldest = (noted.lastrowid or 0) - KEPT_CHANGES
        self._connection.execute("DELETE FROM changes WHERE number <= ?", (oldest,))

    def _insert(self, row: TokenRow) -> None:
        self._connection.execute("INSERT INTO issued VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        self._inserted += 1
        if self._inserted % _SWEEP_EVERY == 0:
            self._sweep(row.issued_at)

    def _delete(self, login: str, until: float = inf) -> None:
        self._connection.execute(
            "DELETE FROM issued WHERE login = ? AND issued_at <= ?", (login, until)
        )

    def _sweep(self, now: float) -> None:
        self._connection.execute("DELETE FROM issued WHERE expires_at <= ?", (now,))
        (count,) = self._connection.execute("SELECT count(*) FROM issued").fetchone()
        excess = count - self._most_rows
        if excess > 0:
            self._connection.execute(
                "DELETE FROM issued WHERE id IN "
                "(SELECT id FROM issued ORDER BY expires_at LIMIT ?)",
                (excess,),
            )

    def _read(self, statement: str, *values: bytes | str | float) -> TokenRow | None:
        row = self._connection.execute(statement, values).fetchone()
        return None if row is None else TokenRow(*row)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")


def _create(path: Path) -> None:
    """Create an empty table; workers never wait for each other to create one."""
    with closing(_connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(_SCHEMA)


def _connect(path: Path) -> sqlite3.Connection:
    # Any thread may call, since no two calls overlap.
    connection = sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
    # Durability is not needed: no worker should wait for the disk while others wait for it.
    connection.execute("PRAGMA synchronous = OFF")
    return connection
