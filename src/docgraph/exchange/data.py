"""Reads and writes as values: resource, filter, write, write concern, result.

All code that reads or changes documents (the REST API, `docgraph apps apply`, `docgraph users add`)
expresses it with these values and passes the interception points below. Packages that do not import
each other can thus react to each other.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Document = dict[str, Any]
Filter = Mapping[str, Any]
Stages = Sequence[Mapping[str, Any]]  # of a pipeline
FieldPath = tuple[str, ...]  # the names of properties, from the top of a document
CollectionName = tuple[str, str]  # its database, and its own name


class TrustedDocument(dict[str, Any]):
    """A filter that an administrator or a plugin wrote."""

    __slots__ = ()


class SeveralKinds:
    """A value that a filter compares with several kinds of stored values."""

    __slots__ = ()

    @property
    @abstractmethod
    def candidates(self) -> tuple[Any, ...]:
        """The stored values that are meant, the preferred one first."""


# The sort key of each document in a keyset page; the service removes it again.
SORT_KEY = "_docgraph_sort_key"

# The version of the key escaping in documents with escaped keys. It is never shown.
ESCAPING = "_escaping"


class ResourceType(StrEnum):
    """The kinds of resources that a path can address."""

    ROOT = "root"
    DATABASE = "database"
    COLLECTION = "collection"
    DOCUMENT = "document"
    BULK = "bulk"
    INDEXES = "indexes"
    INDEX = "index"
    AGGREGATION = "aggregation"
    STREAMS = "streams"
    STREAM = "stream"
    SCHEMA_STORE = "schema-store"
    SCHEMA = "schema"
    SIZE = "size"
    METADATA = "metadata"


class DataPoint(StrEnum):
    """The points of a read or write where an interceptor can run."""

    BEFORE_WRITE = "before-write"
    AFTER_WRITE = "after-write"
    BEFORE_READ = "before-read"
    AFTER_READ = "after-read"


@dataclass(frozen=True, slots=True)
class Resource:
    """The target of a read or write."""

    type: ResourceType
    db: str | None = None
    collection: str | None = None
    id: Any = None

    def is_in(self, db: str, collection: str) -> bool:
        """Return whether this is that collection or something inside it."""
        return self.db == db and self.collection == collection


@dataclass(frozen=True, slots=True)
class Consistency:
    """Read preference and read concern of a read.

    Both use the names of MongoDB (`secondaryPreferred`; `majority`); None: as the connection has
    it. `at` is the cluster time of a `snapshot` read.
    """

    preference: str | None = None
    concern: str | None = None
    at: Any = None


@dataclass(frozen=True, slots=True)
class Keyset:
    """Filter and projection that keyset pagination adds to a read; built from its sort alone.

    The values of sort keys are literals: no check may mistake one for an operator.
    """

    filter: Mapping[str, Any] | None = None
    projection: Mapping[str, Any] = field(default_factory=dict)


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
    keyset: Any = None  # a `Keyset`, of docgraph itself: plugins leave it as it is


class WriteKind(StrEnum):
    """How a write treats existing documents."""

    INSERT = "insert"
    REPLACE = "replace"
    UPDATE = "update"
    DELETE = "delete"
    CREATE = "create"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class WriteConcern:
    """The members that must confirm a write; None: the default of the database."""

    servers: int | str | None = None
    journal: bool | None = None


class _WithEffects:
    """Caches the effects of a write (`store/guard/write_effects.py`); a changed copy has none."""

    __slots__ = ("effects",)


@dataclass(frozen=True, slots=True)
class Write(_WithEffects):
    """A write before it is run.

    `insert` and `replace` have `documents`. A replacement is found by the `_id` of each, or by
    `filter` when there is one document. `update` has `update` (operators) or `pipeline`; `delete`
    has only its `filter`. `many` lets update and delete change more than one document. Without
    `ordered` each document is tried, and even a single failure is reported in the result. `create`
    and `drop` apply to the collection itself and have none of these. `concern` None is that of the
    connection.

    `applied` are the operators that produced `documents` from the stored ones, if they were applied
    in memory: interceptors see them, the database does not. `collection_id` is the collection that
    was checked, so that the write cannot reach another collection of that name. `warnings` come
    from interceptors and appear in the result of the write.
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
    """A document that was not written; `code` is the database's error code, if it has one."""

    index: int
    message: str
    status: int
    code: int | None = None


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The effect of a write; `warnings` are returned to the caller.

    `uncertain`: the write failed, and it may have been applied in full or in part.
    """

    inserted: tuple[Any, ...] = ()
    upserted: tuple[Any, ...] = ()
    matched: int = 0
    modified: int = 0
    deleted: int = 0
    failures: tuple[WriteFailure, ...] = ()
    warnings: tuple[str, ...] = ()
    uncertain: bool = False
