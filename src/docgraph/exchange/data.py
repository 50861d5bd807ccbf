"""The common language of reads and writes.

Whatever changes or reads documents (the REST API, `docgraph apps apply`, `docgraph users add`)
says it with these values and passes the points of interception below, so that packages which do
not know each other can still react to each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = [
    "ESCAPING",
    "SORT_KEY",
    "Consistency",
    "DataPoint",
    "Document",
    "Read",
    "Resource",
    "ResourceType",
    "TrustedDocument",
    "Write",
    "WriteConcern",
    "WriteFailure",
    "WriteKind",
    "WriteResult",
]

Document = dict[str, Any]


class TrustedDocument(dict[str, Any]):
    """A filter that an administrator or a plugin wrote."""

    __slots__ = ()


# Where a read that is paged has the sort key of each document: the service takes it out again.
SORT_KEY = "_docgraph_sort_key"

# What documents with escaped keys carry: the version of the escaping. It is never shown.
ESCAPING = "_escaping"


class ResourceType(StrEnum):
    """What a path can address."""

    ROOT = "root"
    DATABASE = "database"
    COLLECTION = "collection"
    DOCUMENT = "document"
    BULK = "bulk"
    INDEXES = "indexes"
    INDEX = "index"
    AGGREGATION = "aggregation"
    STREAM = "stream"
    SCHEMA_STORE = "schema-store"
    SCHEMA = "schema"
    SIZE = "size"
    METADATA = "metadata"


class DataPoint(StrEnum):
    """Where an interceptor can stand around a read or a write."""

    BEFORE_WRITE = "before-write"
    AFTER_WRITE = "after-write"
    BEFORE_READ = "before-read"
    AFTER_READ = "after-read"


@dataclass(frozen=True, slots=True)
class Resource:
    """The place of a read or write."""

    type: ResourceType
    db: str | None = None
    collection: str | None = None
    id: Any = None

    def is_in(self, db: str, collection: str) -> bool:
        """Whether this is that collection or something inside it."""
        return self.db == db and self.collection == collection


@dataclass(frozen=True, slots=True)
class Consistency:
    """Which servers a read may be made from, and how settled what it sees has to be.

    Both in the words of MongoDB (`secondaryPreferred`; `majority`); None: as the connection says.
    """

    preference: str | None = None
    concern: str | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """A read before it is run; interceptors return a changed copy (`dataclasses.replace`)."""

    filter: Mapping[str, Any] = field(default_factory=dict)
    projection: Mapping[str, Any] | None = None
    sort: Sequence[tuple[str, Any]] = ()
    skip: int = 0
    limit: int = 100
    hint: Any = None
    consistency: Consistency | None = None


class WriteKind(StrEnum):
    """How a write treats what is already there."""

    INSERT = "insert"
    REPLACE = "replace"
    UPDATE = "update"
    DELETE = "delete"
    CREATE = "create"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class WriteConcern:
    """Who has to confirm a write before it counts as done; None: as the database has it."""

    servers: int | str | None = None
    journal: bool | None = None


@dataclass(frozen=True, slots=True)
class Write:
    """A write before it is run.

    `insert` and `replace` carry `documents` (a replacement is found by the `_id` of each, or by
    `filter` when there is one document); `update` carries `update` (operators) or `pipeline`;
    `delete` only its `filter`. `many` lets update and delete touch more than one document. Without
    `ordered` each document is tried, and even a single one that fails is told in the result.
    `create` and `drop` are about the collection itself and carry nothing. `concern` None is that of
    the connection. `applied` are the operators that made `documents` out of what was stored, where
    they were applied in memory: the database does not see them, interceptors do. `collection_id` is
    the collection that was checked, so that the write cannot get into another one of that name.
    `warnings` are what an interceptor has to tell of the write; they get into its result.
    """

    kind: WriteKind
    documents: tuple[Document, ...] = ()
    update: Document | None = None
    pipeline: tuple[Document, ...] | None = None
    filter: Mapping[str, Any] = field(default_factory=dict)
    upsert: bool = False
    many: bool = False
    ordered: bool = True
    concern: WriteConcern | None = None
    applied: Document | None = None
    collection_id: bytes | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteFailure:
    """One document of several that was not written; `code` is the database's own, if it has one."""

    index: int
    message: str
    status: int
    code: int | None = None


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What a write did; `warnings` come back to the caller.

    `uncertain`: the write failed in a way that leaves open whether, or how far, it was done.
    """

    inserted: tuple[Any, ...] = ()
    upserted: tuple[Any, ...] = ()
    matched: int = 0
    modified: int = 0
    deleted: int = 0
    failures: tuple[WriteFailure, ...] = ()
    warnings: tuple[str, ...] = ()
    uncertain: bool = False
