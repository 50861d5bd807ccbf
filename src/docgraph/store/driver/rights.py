"""Database privileges: those docgraph needs, those it has, and how to grant the rest.

A right uses MongoDB's own terms (a database, a collection, actions), so that an administrator can
search for them. Nothing here sends commands to the database.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

_ALL: Final = ""  # in a resource: every database, or every collection except system collections
_SYSTEM: Final = "system."

# The action that a command needs, by its name; `aggregate` with a change stream needs more.
_ACTIONS: Final[Mapping[str, str]] = {
    "aggregate": "find",
    "collMod": "collMod",
    "collStats": "collStats",
    "count": "find",
    "create": "createCollection",
    "createIndexes": "createIndex",
    "delete": "remove",
    "drop": "dropCollection",
    "dropDatabase": "dropDatabase",
    "dropIndexes": "dropIndex",
    "find": "find",
    "findAndModify": "update",
    "insert": "insert",
    "listCollections": "listCollections",
    "listIndexes": "listIndexes",
    "update": "update",
}
_DENIAL: Final = re.compile(
    r"not authorized on (?P<db>\S+) to execute command "
    r"\{ (?:explain: \{ )?(?P<command>\w+): (?:\"(?P<collection>[^\"]*)\"|\d)"
)
_STREAM: Final = "$changeStream"

_READING: Final = frozenset({"changeStream", "collStats", "find", "listCollections", "listIndexes"})
_WRITING: Final = _READING | {
    *("createCollection", "createIndex", "dropCollection", "dropIndex"),
    *("insert", "remove", "update"),
}


@dataclass(frozen=True, slots=True)
class Right:
    """Actions on a collection, or on a whole database if `collection` is empty.

    Without a `required` right hardly any request can be answered.
    """

    db: str
    collection: str
    actions: tuple[str, ...]
    purpose: str
    required: bool = False

    @property
    def place(self) -> str:
        """`db.collection`, or `db.*` for all of them."""
        return f"{self.db}.{self.collection or '*'}"


@dataclass(frozen=True, slots=True)
class Missing:
    """The missing part of a right."""

    right: Right
    actions: tuple[str, ...]


class Privileges:
    """The privileges of the user that we are logged in as."""

    def __init__(self, privileges: Iterable[Mapping[str, Any]]) -> None:
        self._granted = [
            (privilege["resource"], frozenset(privilege["actions"])) for privilege in privileges
        ]

    def find_missing(self, rights: Iterable[Right]) -> tuple[Missing, ...]:
        missing = []
        for right in rights:
            granted = [actions for resource, actions in self._granted if _covers(resource, right)]
            lacking = frozenset(right.actions).difference(*granted)
            if lacking:
                actions = tuple(action for action in right.actions if action in lacking)
                missing.append(Missing(right, actions))
        return tuple(missing)


def _covers(resource: Mapping[str, Any], right: Right) -> bool:
    if resource.get("anyResource"):
        return True
    if resource.get("db") not in (_ALL, right.db):
        return False
    if resource.get("collection") == _ALL:
        return not right.collection.startswith(_SYSTEM)
    return bool(right.collection) and resource.get("collection") == right.collection


def parse_denial(text: str) -> Right | None:
    """Return the right that a command lacked, by the database's message; None if it is unclear."""
    match = _DENIAL.search(text)
    if match is None or match["command"] not in _ACTIONS:
        return None
    is_stream = match["command"] == "aggregate" and _STREAM in text
    action = "changeStream" if is_stream else _ACTIONS[match["command"]]
    return Right(match["db"], match["collection"] or _ALL, (action,), "asked for by a request")


def render_missing(missing: Iterable[Missing]) -> Iterator[str]:
    """Return a line for each place: what is missing there, and its purpose."""
    by_place: dict[str, list[Missing]] = {}
    for lacking in missing:
        by_place.setdefault(lacking.right.place, []).append(lacking)
    for place, group in by_place.items():
        actions = dict.fromkeys(action for lacking in group for action in lacking.actions)
        purposes = dict.fromkeys(lacking.right.purpose for lacking in group)
        yield f"{place}: {', '.join(actions)} ({'; '.join(purposes)})"


def render_grant(user: str, db: str, missing: Sequence[Missing]) -> str:
    """Return the `mongosh` command with which an administrator grants what is missing."""
    needed: dict[str, set[str]] = {}
    for lacking in missing:
        needed.setdefault(lacking.right.db, set()).update(lacking.actions)
    roles = ", ".join(
        f"{{role: {_quote(role)}, db: {_quote(name)}}}"
        for name, actions in sorted(needed.items())
        for role in _choose_roles(actions)
    )
    return f"db.getSiblingDB({_quote(db)}).grantRolesToUser({_quote(user)}, [{roles}])"


def _choose_roles(actions: set[str]) -> Iterator[str]:
    """Return the smallest built-in roles that have these actions (least privilege)."""
    if actions & _WRITING:
        yield "read" if actions & _WRITING <= _READING else "readWrite"
    if actions - _WRITING:
        yield "dbAdmin"


def merge_rights(rights: Iterable[Right], more: Iterable[Right]) -> tuple[Right, ...]:
    """Return these rights and those of `more` that they do not contain."""
    given = tuple(rights)
    named = {(right.db, right.collection, action) for right in given for action in right.actions}
    added = []
    for right in more:
        place = right.db, right.collection
        new = tuple(action for action in right.actions if (*place, action) not in named)
        if new:
            added.append(replace(right, actions=new))
    return (*given, *added)


def _quote(text: str) -> str:
    """Quote a JavaScript string in single quotes: the log has double ones around the whole."""
    inner = orjson.dumps(text).decode()[1:-1].replace('\\"', '"')
    return "'" + inner.replace("'", "\\'") + "'"
