"""Names of databases and collections: which are valid, and which are reserved."""

from __future__ import annotations

from functools import lru_cache

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
