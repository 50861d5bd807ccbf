"""REST call: one request with its resource, parameters, permission and store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from docgraph.codec import JsonMode, decode, encode
from docgraph.codec.csv_table import CSV, CsvCells, CsvTable, FoundColumns
from docgraph.codec.request_body import read_documents
from docgraph.exchange import (
    Answer,
    Body,
    Consistency,
    Deadline,
    Document,
    EventStreams,
    Exchange,
    Permission,
    Read,
    Request,
    Resource,
    ResourceType,
    Write,
    WriteMode,
    WriteResult,
)
from docgraph.exchange.errors import NotFound, RequestError
from docgraph.exchange.headers import find_acceptance
from docgraph.plugins.kinds import DataInterceptor, Decision
from docgraph.rest.parameters import FROM_PRIMARY, Parameters
from docgraph.rest.sections import Mongo
from docgraph.rest.streamed_lists import (
    CsvExport,
    CsvList,
    JsonList,
    build_table,
    check_size,
    encode_found,
)
from docgraph.runtime import KeyedLock
from docgraph.store import Rows, Store
from docgraph.store.catalog import Catalog, Metadata
from docgraph.store.driver.collection_uuid import FoundCollection
from docgraph.store.driver.portions import Take
from docgraph.store.names import SCHEMA_STORE, namespace_of
from docgraph.variables import Resolvers

JSON = "application/json"
MAX_BYTES: Final = 32 * 1024 * 1024  # of the documents in a response


class GetDryRun(Protocol):
    """Predicts how another request of the same caller would be authorized."""

    async def decide_get(self, exchange: Exchange, path: str) -> tuple[str, Decision | None]:
        """Return the service of a plain GET and its decision; None: denied."""


@dataclass(frozen=True, slots=True)
class Context:
    """Shared objects of all requests of this process.

    `services` has the paths of other services: they take precedence over collections.
    """

    settings: Mongo
    store: Store
    catalog: Catalog
    metadata: Metadata
    dry_run: GetDryRun
    base_url: str | None = None
    writers: tuple[DataInterceptor, ...] = ()
    services: tuple[tuple[str, ...], ...] = ()
    resolvers: Resolvers = field(default_factory=lambda: Resolvers(decode))
    turns: KeyedLock = field(default_factory=KeyedLock)
    max_snapshot: int = 10_000  # documents that a stream sends before the events
    streams: EventStreams | None = None  # None: change streams are disabled


@dataclass(frozen=True, slots=True)
class RestCall:
    """A request, its resource and its parameters; every handler receives it.

    `warnings` are those of checks before a write, for its response.
    """

    exchange: Exchange
    resource: Resource
    parameters: Parameters
    context: Context
    checked: dict[tuple[str, str], FoundCollection] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def request(self) -> Request:
        return self.exchange.request

    @property
    def db(self) -> str:
        assert self.resource.db is not None  # noqa: S101 - resources below a database have one
        return self.resource.db

    @property
    def collection(self) -> str:
        assert self.resource.collection is not None  # noqa: S101 - as above
        return self.resource.collection

    @property
    def rows(self) -> Rows | None:
        """The row filters that the caller was admitted under."""
        permission = self.exchange.permission
        return permission.read_filters if permission is not None else None

    @property
    def write_filter(self) -> Mapping[str, Any] | None:
        """The filter that a document of the collection must match for this caller to change it."""
        permission = self._own_permission
        return None if permission is None else permission.write_filter

    @property
    def _own_permission(self) -> Permission | None:
        """The caller's permission, if it is about this collection."""
        permission = self.exchange.permission
        if permission is None or permission.namespace != namespace_of(self.db, self.collection):
            return None
        return permission

    @property
    def mode(self) -> WriteMode:
        """The requested write mode, or the default mode of the method."""
        return self.parameters.mode or _DEFAULT_MODES[self.request.method]

    @property
    def consistency(self) -> Consistency | None:
        """The requested read consistency; reads that belong to a write go to the primary."""
        if self.request.method in ("GET", "HEAD"):
            return self.parameters.consistency
        return FROM_PRIMARY

    def identify(self, body: Document) -> Document:
        """Return the body with the `_id` that the permission adds to the caller's writes, if any.

        The `_id` is added this early so that the response is about the document that is written.
        """
        permission = self._own_permission
        merged = (permission.merge_request if permission is not None else None) or {}
        if "_id" not in merged:
            return body
        return {"_id": merged["_id"], **{key: value for key, value in body.items() if key != "_id"}}

    async def read(self, read: Read, take: Take | None = None) -> list[Document]:
        """Return documents of the resource that this caller can see; none if `take` gets them."""
        consistency = self.consistency
        if consistency is not None:
            read = replace(read, consistency=consistency)
        return await self.context.store.reads.read(
            self.resource,
            read,
            deadline=self.exchange.deadline,
            exchange=self.exchange,
            rows=self.rows,
            take=take,
        )

    async def write(self, write: Write) -> WriteResult:
        return await self.write_at(self.resource, write)

    async def write_at(self, resource: Resource, write: Write) -> WriteResult:
        """Write to another resource.

        A write has no time limit of its own, because half of a write would be useless. A
        transaction that exceeds its time is rolled back.
        """
        write = replace(write, collection_id=self.find_id(resource))
        concern = self.parameters.write_concern
        if concern is not None:
            write = replace(write, concern=concern)
        deadline = self.exchange.deadline
        return await self.context.store.writes.write(
            resource,
            write,
            deadline=deadline if self.exchange.transaction else deadline.without_end(),
            exchange=self.exchange,
        )

    def turn(self, collection: str, id: Any) -> AbstractAsyncContextManager[None]:
        """Lock the document against replacement by other requests of this worker.

        A transaction does not lock: the holder of the lock may be waiting for that transaction.
        """
        if self.exchange.transaction is not None:
            return nullcontext()
        return self.context.turns.hold((self.db, collection, encode(id, JsonMode.EXTENDED)))

    async def count(self, filter: Mapping[str, Any]) -> int:
        """Return the number of matching documents that this caller can see."""
        return await self.context.store.reads.count_at(
            self.resource,
            Read(filter=filter, limit=_UNLIMITED, consistency=self.consistency),
            deadline=self.exchange.deadline,
            exchange=self.exchange,
            rows=self.rows,
        )

    async def as_get(self, path: str, resource: Resource) -> RestCall | None:
        """Return the call as a GET of the resource at the path; None: the caller may not."""
        service, decision = await self.context.dry_run.decide_get(self.exchange, path)
        if decision is None or service != self.exchange.service:
            return None
        exchange = replace(self.exchange, permission=decision.permission)
        return replace(self, exchange=exchange, resource=resource)

    async def rehearse_read(self, read: Read) -> None:
        """Reject a forbidden read before an action that cannot be undone."""
        await self.context.store.reads.rehearse_read(self.resource, read, exchange=self.exchange)

    async def find_metadata(self, collection: str | None) -> Document | None:
        """Return the metadata of a collection of the database, or of the database itself."""
        checked = None if collection is None else self.checked.get((self.db, collection))
        id = None if checked is None else checked.id
        fresh = self.parameters.no_cache
        return await self.context.metadata.find(self.db, collection, id=id, fresh=fresh)

    async def require_collection(self, *, fresh: bool = False) -> None:
        """Reject with 404 if the collection is missing; writes never create a collection."""
        catalog, deadline = self.context.catalog, self.exchange.deadline
        collection = await catalog.find_collection(self.db, self.collection, deadline, fresh=fresh)
        if collection is not None:
            self.checked[self.db, self.collection] = collection
            return
        await self.require_database()
        if self.collection == SCHEMA_STORE:
            raise NotFound("Schema Store does not exist")
        raise NotFound(
            f"Collection '{self.collection}' does not exist",
            hint=_FOREIGN.get(self.collection, _CREATE),
        )

    def find_id(self, resource: Resource) -> bytes | None:
        """Return the UUID of the collection that `require_collection` found."""
        collection = self.checked.get((resource.db or "", resource.collection or ""))
        return None if collection is None else collection.id

    async def require_database(self) -> None:
        if not await self.context.catalog.has_database(self.db, self.exchange.deadline):
            raise NotFound(f"Db '{self.db}' does not exist")

    def answer(
        self, content: Any, headers: list[tuple[str, str]] | None = None, status: int = 200
    ) -> Body:
        """Return a JSON body in the requested mode; the result of a write has no size limit."""
        return self._build_answer(encode(content, self.parameters.json_mode), headers, status)

    async def answer_found(
        self, content: Document, documents: list[Document], headers: list[tuple[str, str]]
    ) -> Body:
        """Return a JSON body that contains one of the found documents."""
        mode = self.parameters.json_mode
        text = await encode_found(content, documents, mode, self.request.offload)
        return self._build_answer(text, headers)

    def _build_answer(
        self, text: bytes, headers: list[tuple[str, str]] | None, status: int = 200
    ) -> Body:
        if self.request.method in ("GET", "HEAD"):
            check_size(len(text), MAX_BYTES)
        return Body(status, text, JSON, headers or [])

    @property
    def wants_csv(self) -> bool:
        """Whether the caller prefers CSV to JSON, of a resource that is a table."""
        if self.resource.type not in _TABLES:
            return False
        if (format := self.parameters.format) is not None:
            if format not in ("csv", "json"):
                raise RequestError("illegal format parameter, it must be csv or json")
            return format == "csv"
        accepted = self.request.headers.get_list("accept")
        return bool(accepted) and find_acceptance(accepted, CSV, (JSON,)).is_preferred

    def open_list(self) -> JsonList | CsvList:
        if self.wants_csv:
            return CsvList(self._build_table(), MAX_BYTES, self.request.offload)
        return JsonList(
            self.parameters.json_mode, MAX_BYTES, self.request.offload, self.decode_documents
        )

    async def decode_documents(self, documents: list[bytes]) -> list[Document]:
        """Decode a portion of documents that were read without that; it is freed soon."""
        reads, unlimited = self.context.store.reads, Deadline.never()
        return await reads.decode(self.db, self.collection, documents, unlimited)

    def open_export(self, max_bytes: int | None = None) -> CsvExport:
        """Return an empty list that is sent while it is read.

        A client of HTTP/1.0 gets it whole: it could not detect that the end is missing.
        """
        limit = MAX_BYTES if max_bytes is None else max_bytes
        is_whole = self.request.connection.http_version == "1.0"
        return CsvExport(self._build_table(), limit, self.request.offload, is_whole=is_whole)

    def _build_table(self) -> CsvTable:
        cells = CsvCells(raw=self.parameters.raw_formulas)
        if self.resource.type is ResourceType.AGGREGATION:
            return FoundColumns(cells)
        permission = self._own_permission
        shown = None if permission is None else permission.project_response
        return build_table(cells, self.parameters.keys, shown)


RestHandler = Callable[[RestCall], Awaitable[Answer]]
Handlers = dict[tuple[ResourceType, str], RestHandler]

_DEFAULT_MODES = {"POST": WriteMode.INSERT, "PUT": WriteMode.UPDATE, "PATCH": WriteMode.UPDATE}
_TABLES = frozenset({ResourceType.COLLECTION, ResourceType.AGGREGATION})

# Paths of services in similar systems: a request to one is not about a collection.
_FOREIGN = {
    "csv": "CSV is not accepted: POST documents as JSON to the path of a collection",
    "ic": "there is no cache to clear: ?nocache reads metadata again",
}
_CREATE = (
    "PUT on the path of the collection creates it; "
    "to serve another database, add it to mongo.mongo-mounts"
)
_UNLIMITED = (1 << 31) - 2


async def read_object(request: Request) -> Document:
    """Return the body; reject anything but an object."""
    content = await read_documents(request)
    if isinstance(content, list):
        raise RequestError("request content must be a Json object")
    return content
