"""What docgraph may do at the database: the rights it needs, those it has, and how to get more.

A right is told in MongoDB's own words (a database, a collection, actions), so that whoever has to
grant it can search for them. Nothing here talks to the database.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

__all__ = [
    "Missing",
    "Privileges",
    "Right",
    "merge_rights",
    "parse_denial",
    "render_grant",
    "render_missing",
]

_ALL: Final = ""  # in a resource: every database, or every collection that is not the system's
_SYSTEM: Final = "system."

# What a command needs, as far as its name tells; `aggregate` with a change stream needs more.
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
    "createCollection",
    "createIndex",
    "dropCollection",
    "dropIndex",
    "insert",
    "remove",
    "update",
}


@dataclass(frozen=True, slots=True)
class Right:
    """Actions on a collection, or on a whole database where `collection` is empty.

    Without one that is `required` hardly a request can be answered.
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
    """The part of a right that we do not have."""

    right: Right
    actions: tuple[str, ...]


class Privileges:
    """What the user that we are logged in as may do."""

    def __init__(self, privileges: Iterable[Mapping[str, Any]]) -> None:
        self._known = [(one["resource"], frozenset(one["actions"])) for one in privileges]

    def find_missing(self, rights: Iterable[Right]) -> tuple[Missing, ...]:
        """The rights that we lack, each with the actions that it is about."""
        found = ((right, self._find_lacking(right)) for right in rights)
        return tuple(Missing(right, actions) for right, actions in found if actions)

    def _find_lacking(self, right: Right) -> tuple[str, ...]:
        held = [actions for resource, actions in self._known if _covers(resource, right)]
        return tuple(one for one in right.actions if not any(one in actions for actions in held))


def _covers(resource: Mapping[str, Any], right: Right) -> bool:
    if resource.get("anyResource"):
        return True
    if resource.get("db") not in (_ALL, right.db):
        return False
    if resource.get("collection") == _ALL:
        return not right.collection.startswith(_SYSTEM)
    return bool(right.collection) and resource.get("collection") == right.collection


def parse_denial(text: str) -> Right | None:
    """The right that a command lacked, from what the database says of it; None if it is unclear."""
    found = _DENIAL.search(text)
    if found is None or found["command"] not in _ACTIONS:
        return None
    is_stream = found["command"] == "aggregate" and _STREAM in text
    action = "changeStream" if is_stream else _ACTIONS[found["command"]]
    return Right(found["db"], found["collection"] or _ALL, (action,), "asked for by a request")


def render_missing(missing: Iterable[Missing]) -> Iterator[str]:
    """A line for each place: what is missing there, and what for."""
    by_place: dict[str, list[Missing]] = {}
    for one in missing:
        by_place.setdefault(one.right.place, []).append(one)
    for place, found in by_place.items():
        actions = dict.fromkeys(action for one in found for action in one.actions)
        purposes = dict.fromkeys(one.right.purpose for one in found)
        yield f"{place}: {', '.join(actions)} ({'; '.join(purposes)})"


def render_grant(user: str, db: str, missing: Sequence[Missing]) -> str:
    """What an administrator types into `mongosh` so that nothing is missing any more."""
    needed: dict[str, set[str]] = {}
    for one in missing:
        needed.setdefault(one.right.db, set()).update(one.actions)
    roles = ", ".join(
        f"{{role: {_quote(role)}, db: {_quote(name)}}}"
        for name, actions in sorted(needed.items())
        for role in _choose_roles(actions)
    )
    return f"db.getSiblingDB({_quote(db)}).grantRolesToUser({_quote(user)}, [{roles}])"


def _choose_roles(actions: set[str]) -> Iterator[str]:
    """The smallest roles of MongoDB's own that have these actions."""
    if actions & _WRITING:
        yield "read" if actions & _WRITING <= _READING else "readWrite"
    if actions - _WRITING:
        yield "dbAdmin"


def merge_rights(rights: Iterable[Right], more: Iterable[Right]) -> tuple[Right, ...]:
    """These rights and those of `more` that they do not speak of."""
    known = tuple(rights)
    named = {(right.db, right.collection, action) for right in known for action in right.actions}
    added = []
    for right in more:
        new = tuple(one for one in right.actions if (right.db, right.collection, one) not in named)
        if new:
            added.append(replace(right, actions=new))
    return (*known, *added)


def _quote(text: str) -> str:
    """A text of JavaScript in single quotes: the log has double ones around the whole."""
    inner = orjson.dumps(text).decode()[1:-1].replace('\\"', '"')
    return "'" + inner.replace("'", "\\'") + "'"
