"""Names: databases and collections, valid or reserved, and keys of documents in dot notation.

A step of digits in a key is a name in an object and a position in an array; the key does not say
which. So keys are compared twice: with all steps, which is certain, and without positions, which is
possible. `$` and `$[…]` are always positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from docgraph.exchange.data import CollectionName, FieldPath, Resource, ResourceType
from docgraph.exchange.errors import QueryError, RequestError, SecurityViolation

METADATA_STORE = "_properties"
REVOCATION_STORE = "_revocations"
NONCE_STORE = "_digestNonces"
SCHEMA_STORE = "_schemas"
VERSION_STORE = "_versions"
HISTORY_STORE = "_appHistory"
KEY_STORE = "_cursorKeys"
API_KEYS = "_apiKeys"
# Segments of paths of the REST API that are no names of documents.
SIZE, META, INDEXES, AGGREGATIONS, STREAMS = "_size", "_meta", "_indexes", "_aggrs", "_streams"

_RESERVED = frozenset({SIZE, META, INDEXES, AGGREGATIONS, STREAMS, SCHEMA_STORE, "_sessions"})
_OWN_COLLECTIONS = frozenset(
    {METADATA_STORE, REVOCATION_STORE, NONCE_STORE, VERSION_STORE, HISTORY_STORE, KEY_STORE}
) | {API_KEYS}
_OF_FILES = (".files", ".chunks")
_SERVER_DATABASES = frozenset({"admin", "config", "local"})
_DATABASE_FORBIDS = frozenset('/\\. "$*<>:|?\0')
_REST_DATABASE_FORBIDS = frozenset('/\\. "$\0')  # the REST API lets the database decide the rest
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


def place_of(resource: Resource) -> CollectionName:
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


class ReservedResource(RequestError):
    """A name that belongs to the database or to docgraph itself."""

    status, code = 403, "reserved-resource"

    def __init__(self, message: str = "reserved resource") -> None:
        super().__init__(message)


def check_names(resource: Resource) -> None:
    """Reject impossible names, and names that this API does not serve."""
    _check_place(resource.db, resource.collection)
    if resource.type in (ResourceType.DOCUMENT, ResourceType.SCHEMA):
        if is_reserved_id(resource.id):
            raise ReservedResource
        _reject_other_case(resource.id)


def is_reserved_in_other_case(name: str) -> bool:
    """Check if only the letter case distinguishes the name from a reserved one."""
    return name[:1] == "_" and name not in _RESERVED and name.lower() in _RESERVED


def _reject_other_case(name: str) -> None:
    """Reject reserved names in other letter case: `_SIZE` is neither the size nor a valid name."""
    if is_reserved_in_other_case(name):
        raise ReservedResource(f"reserved resource: {name.lower()} is written in lower case")


@lru_cache(maxsize=4096)
def _check_place(db: str | None, collection: str | None) -> None:
    """Check the names of a database and collection; cached, since every request needs it."""
    if db is not None:
        if is_reserved_database(db):
            raise ReservedResource
        _reject_other_case(db)
        is_legal = db and _REST_DATABASE_FORBIDS.isdisjoint(db)
        if not is_legal or len(db.encode()) > _MAX_DATABASE:
            raise RequestError(
                "illegal database name: it has 1 to 63 bytes and none of / \\ . ' $, space and NUL"
            )
    if collection is not None:
        if is_reserved_collection(collection):
            raise ReservedResource
        _reject_other_case(collection)
        if not collection or not _COLLECTION_FORBIDS.isdisjoint(collection):
            raise RequestError("illegal collection name: it may hold neither NUL nor '$'")
        if not all(collection.split(".")):
            raise RequestError(
                "illegal collection name: it may not start or end with '.', nor hold '..'"
            )


def is_reserved_database(name: str) -> bool:
    """Check if the database belongs to the server."""
    return name.lower() in _SERVER_DATABASES or name.startswith("system.")


def is_reserved_collection(name: str) -> bool:
    """Check if the collection belongs to the server, to a file store or to docgraph itself."""
    return name.startswith("system.") or name.endswith(_OF_FILES) or name in _OWN_COLLECTIONS


def check_reserved(collection: str) -> None:
    """Reject joins and mappings of collections that are not readable directly."""
    if is_reserved_collection(collection):
        raise SecurityViolation(f"the collection {collection!r} is reserved and not accessible")


def is_reserved_id(id: object) -> bool:
    """Check if the id is that of a metadata document."""
    return isinstance(id, str) and (id == METADATA_STORE or id.startswith(f"{METADATA_STORE}."))


def split_key(key: str) -> FieldPath:
    """Return the steps of a key, without those that can only be positions."""
    first, *rest = key.split(".")
    return (first, *(step for step in rest if step[:1] != "$"))


def is_number(step: str) -> bool:
    """Check if the step can be a position."""
    return step.isascii() and step.isdigit()


def may_overlap(left: FieldPath, right: FieldPath) -> bool:
    """Check if one of two paths could be at or below the other."""
    left, right = _without_positions(left), _without_positions(right)
    length = min(len(left), len(right))
    return left[:length] == right[:length]


def _may_be_within(path: FieldPath, key: FieldPath) -> bool:
    key = _without_positions(key)
    return _without_positions(path)[: len(key)] == key


def _without_positions(steps: FieldPath) -> FieldPath:
    return (*steps[:1], *(step for step in steps[1:] if not is_number(step)))


class Written(NamedTuple):
    """A written path; not `is_exact`: the written parts below or around it are not known."""

    path: FieldPath
    is_exact: bool = True

    def may_touch(self, key: FieldPath) -> bool:
        """Check if something at or below the key is written, or could be."""
        if self.is_exact:
            return _may_be_within(self.path, key)
        return may_overlap(self.path, key)

    def is_within(self, key: FieldPath) -> bool:
        """Check if everything written is certainly at or below the key."""
        return self.path[: len(key)] == key

    def is_outside(self, key: FieldPath) -> bool:
        """Check if something is certainly written that is not at or below the key."""
        return self.is_exact and not _may_be_within(self.path, key)


EVERYTHING = Written((), is_exact=False)


def walk(value: Any, *, keys: bool = False) -> Iterator[Any]:
    """Return the value and everything inside it, with the keys of objects on request."""
    pending = [value]
    while pending:
        item = pending.pop()
        yield item
        if isinstance(item, Mapping):
            pending += item if keys else ()
            pending += item.values()
        elif isinstance(item, list | tuple):
            pending += item
