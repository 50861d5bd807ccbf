"""Revocation marks that end tokens before their expiration, in memory; pure.

`revocation.py` stores them.

    {_id: "token:<jti>", until}    {_id: "user:<name>", at, until}    {_id: "everyone", at, until}
    {_id: "users:<random>", users: [<name>, …], times: [<at>, …], at, until}
    {_id: "rehash:<digest>", until}

The mark of a token revokes that one; the mark of a user, of many users or of everyone revokes
tokens issued until `at`. After `until` no such token can be valid. Times are those of the database.
The mark of a rehash revokes nothing: that hash is not a new password (decision 53).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from secrets import token_hex
from typing import Any, Final

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


class Stamps:
    """All known marks."""

    def __init__(self) -> None:
        self._tokens: dict[str, float] = {}  # to the time until which the mark is needed
        self._users: dict[str, float] = {}  # to the time of the mark
        self._rehashes: dict[str, float] = {}  # to the time until which the mark is needed
        self._everyone = 0.0

    def __len__(self) -> int:
        return len(self._tokens) + len(self._users)

    def end(self, jti: str | None, user: str | None, issued_at: float | None) -> bool:
        """Return whether they revoke that token; without `iat` it is older than any mark.

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
            known = self._tokens if kind == "token" else self._rehashes
            known[name] = max(needed, known.get(name, 0.0))
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
