"""Names: databases and collections, valid or reserved, and keys of documents in dot notation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from docgraph.exchange.data import Resource
from docgraph.exchange.errors import QueryError, SecurityViolation

_SERVER_DATABASES = frozenset({"admin", "config", "local"})
_DATABASE_FORBIDS = frozenset('/\\. "$*<>:|?\0')
_COLLECTION_FORBIDS = frozenset("$\0")
_MAX_DATABASE = 63  # bytes
_MAX_NAMESPACE = 255  # bytes


@lru_cache(maxsize=4096)
def check_namespace(db: str, collection: str) -> str:
    """Return the namespace `db.collection`, or raise; cached, since every call needs it."""
    check_database(db)
    check_collection(collection)
    namespace = namespace_of(db, collection)
    if len(namespace.encode()) > _MAX_NAMESPACE:
        raise QueryError(f"the names of database and collection exceed {_MAX_NAMESPACE} bytes")
    return namespace


def place_of(resource: Resource) -> tuple[str, str]:
    """Return the database and the collection of a resource that contains documents."""
    if resource.db is None or resource.collection is None:
        raise QueryError(f"a {resource.type} holds no documents")
    return resource.db, resource.collection


def namespace_of(db: str, collection: str) -> str:
    """Return the key of a collection for guards and row filters."""
    return f"{db}.{collection}"


def check_database(db: str) -> None:
    """Reject invalid database names, and those that belong to the server."""
    if not _is_text(db) or not _DATABASE_FORBIDS.isdisjoint(db) or len(db.encode()) > _MAX_DATABASE:
        raise QueryError("invalid database name")
    if db.lower() in _SERVER_DATABASES:
        raise SecurityViolation(f"the database {db!r} belongs to the server and is not accessible")


def check_collection(collection: str) -> None:
    """Reject invalid collection names, and those that belong to the server."""
    if not _is_text(collection) or not _COLLECTION_FORBIDS.isdisjoint(collection):
        raise QueryError("invalid collection name")
    if collection.startswith(".") or collection.endswith("."):
        raise QueryError("invalid collection name: it starts or ends with '.'")
    if ".." in collection:
        raise QueryError("invalid collection name: it has two '.' in a row")
    if collection.lower().startswith("system."):
        raise SecurityViolation("collections of the server ('system.…') are not accessible")


def _is_text(name: object) -> bool:
    """Check for a non-empty string that can be encoded: a lone surrogate from JSON cannot."""
    if not isinstance(name, str) or not name:
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


# Dot notation: keys of documents as steps.
#
# A step of digits is a name in an object and a position in an array; the key does not say which. So
# keys are compared twice: with all steps, which is certain, and without positions, which is
# possible. `$` and `$[…]` are always positions.

Steps = tuple[str, ...]


def split_key(key: str) -> Steps:
    """Return the steps of a key, without those that can only be positions."""
    first, *rest = key.split(".")
    return (first, *(step for step in rest if step[:1] != "$"))


def is_number(step: str) -> bool:
    """Check if the step can be a position."""
    return step.isascii() and step.isdigit()


def may_overlap(left: Steps, right: Steps) -> bool:
    """Check if one of two paths could be at or below the other."""
    left, right = _without_positions(left), _without_positions(right)
    length = min(len(left), len(right))
    return left[:length] == right[:length]


def _may_be_within(path: Steps, key: Steps) -> bool:
    key = _without_positions(key)
    return _without_positions(path)[: len(key)] == key


def _without_positions(steps: Steps) -> Steps:
    return (*steps[:1], *(step for step in steps[1:] if not is_number(step)))


class Written(NamedTuple):
    """A written path; not `is_exact`: the written parts below or around it are not known."""

    path: Steps
    is_exact: bool = True

    def may_touch(self, key: Steps) -> bool:
        """Check if something at or below the key is written, or could be."""
        if self.is_exact:
            return _may_be_within(self.path, key)
        return may_overlap(self.path, key)

    def is_within(self, key: Steps) -> bool:
        """Check if everything written is certainly at or below the key."""
        return self.path[: len(key)] == key

    def is_outside(self, key: Steps) -> bool:
        """Check if something is certainly written that is not at or below the key."""
        return self.is_exact and not _may_be_within(self.path, key)


EVERYTHING = Written((), is_exact=False)


def walk(value: Any, *, keys: bool = False) -> Iterator[Any]:
    """Return the value and everything inside it, with the keys of objects on request."""
    pending = [value]
    while pending:
        one = pending.pop()
        yield one
        if isinstance(one, Mapping):
            pending += one if keys else ()
            pending += one.values()
        elif isinstance(one, list | tuple):
            pending += one
