"""The tokens of an instance, in a small database file that all its workers open.

Beside them it notes which logins were changed, one after the other, so that a worker forgets what
it remembers of those and of nobody else. It holds no token: only the random part that each was
made with, which is worth nothing without the secret of the instance or the key. The file lives in
the private directory of the instance and vanishes with it. Everything here blocks and is called off
the event loop.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

from docgraph.runtime.shared import make_once

__all__ = ["ANY", "Changes", "Row", "Sessions", "TokenTable"]

MOST_ROWS: Final = 100_000
KEPT_CHANGES: Final = 10_000  # a worker that is further behind forgets all it remembers
_SWEEP_EVERY: Final = 64  # insertions
_SCHEMA: Final = """
    CREATE TABLE issued (
        id BLOB PRIMARY KEY, login TEXT NOT NULL, account BLOB NOT NULL,
        issued_at REAL NOT NULL, expires_at REAL NOT NULL, valid_until REAL NOT NULL,
        made_at REAL NOT NULL, session REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX by_login ON issued (login, issued_at);
    CREATE INDEX by_end ON issued (expires_at);
    CREATE TABLE changes (
        number INTEGER PRIMARY KEY AUTOINCREMENT, login TEXT NOT NULL
    );
"""
_FIND: Final = (
    "SELECT id, login, account, issued_at, expires_at, valid_until, made_at, session "
    "FROM issued WHERE "
)


class Sessions(NamedTuple):
    """Which sessions may have a token: those that began between two times."""

    first: float = 0.0
    last: float = inf


ANY: Final = Sessions()


class Row(NamedTuple):
    """A token that was issued.

    The first two times are those of the manager's clock; `valid_until` is the time of day that is
    told, `made_at` is what stamps are compared with, `session` is when the password was shown.
    """

    id: bytes
    login: str
    account: bytes
    issued_at: float
    expires_at: float
    valid_until: float = 0.0
    made_at: float = 0.0
    session: float = 0.0


class Changes(NamedTuple):
    """Logins whose tokens were taken away or have another account; None: too many to tell."""

    last: int
    logins: list[str] | None


class TokenTable:
    """One connection per process; its calls must not overlap."""

    def __init__(self, path: Path, *, most_rows: int = MOST_ROWS) -> None:
        self._most_rows = most_rows
        self._inserted = 0
        make_once(path, _create)
        self._connection = _connect(path)

    def close(self) -> None:
        """The file stays for the others."""
        self._connection.close()

    def find(self, id: bytes) -> Row | None:
        """The token with that random part."""
        return self._read(_FIND + "id = ?", id)

    def find_latest(self, login: str, sessions: Sessions = ANY) -> Row | None:
        """The youngest token of the login, of one of these sessions."""
        return self._read(
            _FIND + "login = ? AND session BETWEEN ? AND ? ORDER BY issued_at DESC LIMIT 1",
            login,
            *sessions,
        )

    def put(self, row: Row, *, usable_until: float, sessions: Sessions = ANY) -> Row:
        """The login's token with the account of `row`: the live one, else `row` itself.

        Whoever comes second of two workers that issue at the same time gets what the first made.
        """
        with self._transaction():
            latest = self.find_latest(row.login, sessions)
            if latest is None or latest.expires_at < usable_until:
                self._insert(row)
                return row
            self._connection.execute(
                "UPDATE issued SET account = ? WHERE login = ?", (row.account, row.login)
            )
            self._note_change(row.login)
            return latest._replace(account=row.account)

    def replace(self, row: Row) -> None:
        """`row` is the login's only token from now on."""
        with self._transaction():
            self._delete(row.login)
            self._insert(row)
            self._note_change(row.login)

    def end(self, login: str, until: float = inf) -> list[bytes]:
        """Take away every token of the login that was issued until then; their random parts."""
        with self._transaction():
            found = self._connection.execute(
                "SELECT id FROM issued WHERE login = ? AND issued_at <= ?", (login, until)
            )
            ids = [id for (id,) in found.fetchall()]
            self._delete(login, until)
            self._note_change(login)
        return ids

    def find_changes(self, since: int) -> Changes:
        """What has changed behind the change of that number."""
        found = self._connection.execute(
            "SELECT number, login FROM changes WHERE number > ? ORDER BY number", (since,)
        ).fetchall()
        if not found:
            return Changes(since, [])
        is_complete = found[0][0] == since + 1
        return Changes(found[-1][0], [login for _, login in found] if is_complete else None)

    def find_last_change(self) -> int:
        """The number of the last change, 0 before the first one."""
        (last,) = self._connection.execute("SELECT max(number) FROM changes").fetchone()
        return last or 0

    def _note_change(self, login: str) -> None:
        noted = self._connection.execute("INSERT INTO changes (login) VALUES (?)", (login,))
        oldest = (noted.lastrowid or 0) - KEPT_CHANGES
        self._connection.execute("DELETE FROM changes WHERE number <= ?", (oldest,))

    def _insert(self, row: Row) -> None:
        self._connection.execute("INSERT INTO issued VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
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

    def _read(self, statement: str, *values: bytes | str | float) -> Row | None:
        found = self._connection.execute(statement, values).fetchone()
        return None if found is None else Row(*found)

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
    """An empty table; workers never wait for each other to make one."""
    with closing(_connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(_SCHEMA)


def _connect(path: Path) -> sqlite3.Connection:
    # Which thread calls does not matter, since no two calls overlap.
    connection = sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
    # It need not outlive the machine, and nobody waits for the disk while the others wait for him.
    connection.execute("PRAGMA synchronous = OFF")
    return connection
