"""The stamps that end tokens before their time, in memory; pure. `revocation` stores them.

    {_id: "token:<jti>", until}    {_id: "user:<name>", at, until}    {_id: "everyone", at, until}
    {_id: "users:<random>", users: [<name>, …], times: [<at>, …], at, until}
    {_id: "rehash:<digest>", until}

A stamp of a token ends that one, a stamp of a user, of many or of everyone ends what was made until
`at`. `until` is when no such token can be alive any more. Times are those of the database.
A stamp of a rehash ends nothing: that hash is not a new password (decision 53).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from secrets import token_hex
from typing import Any, Final

__all__ = [
    "EPOCH",
    "EVERYONE",
    "Stamps",
    "name_rehash",
    "name_token",
    "name_user",
    "name_users",
]

EPOCH: Final = datetime(1970, 1, 1)
EVERYONE: Final = "everyone"
_SHORT: Final = 64


def name_token(jti: str) -> str:
    """The `_id` of a token's stamp. Others may put anything into a `jti`; the stamp stays small."""
    return f"token:{_shorten(jti)}"


def name_user(user: str) -> str:
    """The `_id` of a user's stamp."""
    return f"user:{user}"


def name_users() -> str:
    """The `_id` of a stamp of many users, which is never written a second time."""
    return f"users:{token_hex(12)}"


def name_rehash(hash: str) -> str:
    """The `_id` of the stamp of a hash that took the place of a cheaper one."""
    return f"rehash:{sha256(hash.encode()).hexdigest()}"


class Stamps:
    """All that are known."""

    def __init__(self) -> None:
        self._tokens: dict[str, float] = {}  # to the time until which the stamp is needed
        self._users: dict[str, float] = {}  # to the time of the stamp
        self._rehashes: dict[str, float] = {}  # to the time until which the stamp is needed
        self._everyone = 0.0

    def __len__(self) -> int:
        return len(self._tokens) + len(self._users)

    def end(self, jti: str | None, user: str | None, issued_at: float | None) -> bool:
        """Whether they end that token; without `iat` it is older than any stamp of its user.

        `user` None: the token names nobody of ours, so that no stamp of a user concerns it.
        """
        if jti is not None and _shorten(jti) in self._tokens:
            return True
        stamp = 0.0 if user is None else self.find(user)
        return stamp > 0 and (issued_at is None or issued_at <= stamp)

    def find(self, user: str) -> float:
        """The time of the youngest stamp that concerns the user; 0 for none."""
        return max(self._users.get(user, 0.0), self._everyone)

    def add(self, document: Mapping[str, Any]) -> None:
        """Take a stamp into account; one that is known, or has another shape, changes nothing."""
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
        """Whether that hash took the place of a cheaper one of the same password."""
        return name_rehash(hash).partition(":")[2] in self._rehashes

    def forget(self, now: float) -> None:
        """Drop the stamps of tokens that are over by themselves, and of rehashes."""
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
