"""Names of databases and collections: which are possible, and which nobody may reach."""

from __future__ import annotations

from functools import lru_cache

from docgraph.exchange.data import Resource
from docgraph.exchange.errors import QueryError, SecurityViolation

__all__ = ["check_collection", "check_database", "check_namespace", "namespace_of", "place_of"]

_SERVER_DATABASES = frozenset({"admin", "config", "local"})
_DATABASE_FORBIDS = frozenset('/\\. "$*<>:|?\0')
_COLLECTION_FORBIDS = frozenset("$\0")
_MAX_DATABASE = 63  # bytes
_MAX_NAMESPACE = 255  # bytes


@lru_cache(maxsize=4096)
def check_namespace(db: str, collection: str) -> str:
    """The namespace `db.collection`, or an error; remembered, since it is part of every call."""
    check_database(db)
    check_collection(collection)
    namespace = namespace_of(db, collection)
    if len(namespace.encode()) > _MAX_NAMESPACE:
        raise QueryError(f"the names of database and collection exceed {_MAX_NAMESPACE} bytes")
    return namespace


def place_of(resource: Resource) -> tuple[str, str]:
    """The database and the collection of a resource that holds documents."""
    if resource.db is None or resource.collection is None:
        raise QueryError(f"a {resource.type} holds no documents")
    return resource.db, resource.collection


def namespace_of(db: str, collection: str) -> str:
    """The key under which guards and row filters know a collection."""
    return f"{db}.{collection}"


def check_database(db: str) -> None:
    """Refuse what cannot be a database, and those that belong to the server."""
    if not _is_text(db) or not _DATABASE_FORBIDS.isdisjoint(db) or len(db.encode()) > _MAX_DATABASE:
        raise QueryError("invalid database name")
    if db.lower() in _SERVER_DATABASES:
        raise SecurityViolation(f"the database {db!r} belongs to the server and is not accessible")


def check_collection(collection: str) -> None:
    """Refuse what cannot be a collection, and those that belong to the server."""
    if not _is_text(collection) or not _COLLECTION_FORBIDS.isdisjoint(collection):
        raise QueryError("invalid collection name")
    if collection.startswith(".") or collection.endswith("."):
        raise QueryError("invalid collection name: it starts or ends with '.'")
    if ".." in collection:
        raise QueryError("invalid collection name: it has two '.' in a row")
    if collection.lower().startswith("system."):
        raise SecurityViolation("collections of the server ('system.…') are not accessible")


def _is_text(name: object) -> bool:
    """A non-empty text that can be encoded: a lone surrogate from JSON cannot."""
    if not isinstance(name, str) or not name:
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
