"""One request to the data, as its handler sees it: where, with which parameters, on what."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from docgraph.codec import JsonMode, decode, encode
from docgraph.exchange import (
    Answer,
    Body,
    Consistency,
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
from docgraph.exchange.errors import NotFound
from docgraph.plugins.kinds import DataInterceptor, Decision
from docgraph.rest.lists import JsonList, check_size
from docgraph.rest.parameters.concerns import FROM_PRIMARY
from docgraph.rest.parameters.modes import default_mode
from docgraph.rest.parameters.parameters import Parameters
from docgraph.rest.sections import Mongo
from docgraph.runtime import Turns
from docgraph.store import Rows, Store
from docgraph.store.catalog import Catalog
from docgraph.store.driver.pinned import FoundCollection
from docgraph.store.driver.portions import Take
from docgraph.store.metadata import Metadata
from docgraph.store.mounts import SCHEMA_STORE
from docgraph.store.names import namespace_of
from docgraph.variables import Resolvers

__all__ = ["JSON", "Call", "Context", "Foresight", "Handler", "Handlers"]

JSON = "application/json"
MOST_BYTES: Final = 32 * 1024 * 1024  # of the documents in an answer


class Foresight(Protocol):
    """Knows what would become of another request of the same caller."""

    async def decide_get(self, exchange: Exchange, path: str) -> tuple[str, Decision | None]:
        """The service of a plain GET, and its decision; None: denied."""
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """What is the same for all requests of this process.

    `services` are the paths that other services are bound to: they win over collections.
    """

    settings: Mongo
    store: Store
    catalog: Catalog
    metadata: Metadata
    foresight: Foresight
    base_url: str | None = None
    writers: tuple[DataInterceptor, ...] = ()
    services: tuple[tuple[str, ...], ...] = ()
    resolvers: Resolvers = field(default_factory=lambda: Resolvers(decode))
    turns: Turns = field(default_factory=Turns)
    streams: EventStreams | None = None  # None: change streams are switched off


@dataclass(frozen=True, slots=True)
class Call:
    """A request, its resource and its parameters; handed to every handler."""

    exchange: Exchange
    resource: Resource
    parameters: Parameters
    context: Context
    checked: dict[tuple[str, str], FoundCollection] = field(default_factory=dict)

    @property
    def request(self) -> Request:
        """The request itself."""
        return self.exchange.request

    @property
    def db(self) -> str:
        """The database of the resource."""
        assert self.resource.db is not None  # noqa: S101 - resources below a database have one
        return self.resource.db

    @property
    def collection(self) -> str:
        """The collection of the resource."""
        assert self.resource.collection is not None  # noqa: S101 - as above
        return self.resource.collection

    @property
    def rows(self) -> Rows | None:
        """The row filters that the caller was admitted under."""
        permission = self.exchange.permission
        return permission.read_filters if permission is not None else None

    @property
    def write_filter(self) -> Mapping[str, Any] | None:
        """What a document of the collection has to match for this caller to change it."""
        permission = self._own_permission
        return None if permission is None else permission.write_filter

    @property
    def _own_permission(self) -> Permission | None:
        """The permission, where it is about this collection."""
        permission = self.exchange.permission
        if permission is None or permission.namespace != namespace_of(self.db, self.collection):
            return None
        return permission

    @property
    def mode(self) -> WriteMode:
        """The write mode that was asked for, or the one of the method."""
        return self.parameters.mode or default_mode(self.request.method)

    @property
    def consistency(self) -> Consistency | None:
        """How the request wants to read; what belongs to a write is read where that was made."""
        if self.request.method in ("GET", "HEAD"):
            return self.parameters.consistency
        return FROM_PRIMARY

    def identify(self, body: Document) -> Document:
        """The body with the `_id` that the permission puts into whatever the caller writes, if any.

        Told here already, so that the answer is about the document that is written.
        """
        permission = self._own_permission
        merged = (permission.merge_request if permission is not None else None) or {}
        if "_id" not in merged:
            return body
        return {"_id": merged["_id"], **{key: one for key, one in body.items() if key != "_id"}}

    async def read(self, read: Read, take: Take | None = None) -> list[Document]:
        """Documents of the resource, as this caller may see them; none where `take` gets them."""
        consistency = self.consistency
        if consistency is not None:
            read = replace(read, consistency=consistency)
        return await self.context.store.read(
            self.resource,
            read,
            deadline=self.exchange.deadline,
            exchange=self.exchange,
            rows=self.rows,
            take=take,
        )

    async def write(self, write: Write) -> WriteResult:
        """Write to the resource."""
        return await self.write_at(self.resource, write)

    async def write_at(self, resource: Resource, write: Write) -> WriteResult:
        """Write elsewhere.

        A write has no time limit of its own, as half of one would be useless; of a transaction
        nothing is left when its time is up.
        """
        write = replace(write, collection_id=self.find_id(resource))
        concern = self.parameters.write_concern
        if concern is not None:
            write = replace(write, concern=concern)
        deadline = self.exchange.deadline
        return await self.context.store.write(
            resource,
            write,
            deadline=deadline if self.exchange.transaction else deadline.without_end(),
            exchange=self.exchange,
        )

    def turn(self, collection: str, id: Any) -> AbstractAsyncContextManager[None]:
        """Inside, no other request of this worker is about to replace that document.

        A transaction takes none: who has the turn may be waiting for the transaction itself.
        """
        if self.exchange.transaction is not None:
            return nullcontext()
        return self.context.turns.take((self.db, collection, encode(id, JsonMode.EXTENDED)))

    async def count(self, filter: Mapping[str, Any]) -> int:
        """How many documents of the collection match, of those that this caller may see."""
        return await self.context.store.count_at(
            self.resource,
            Read(filter=filter, limit=_UNLIMITED, consistency=self.consistency),
            deadline=self.exchange.deadline,
            exchange=self.exchange,
            rows=self.rows,
        )

    async def rehearse_read(self, read: Read) -> None:
        """Raise what refuses such a read, before something is done that cannot be undone."""
        await self.context.store.rehearse_read(self.resource, read, exchange=self.exchange)

    async def find_metadata(self, collection: str | None) -> Document | None:
        """The metadata of a collection of the database, or of the database itself."""
        found = None if collection is None else self.checked.get((self.db, collection))
        id = None if found is None else found.id
        fresh = self.parameters.no_cache
        return await self.context.metadata.find(self.db, collection, id=id, fresh=fresh)

    async def require_collection(self, *, fresh: bool = False) -> None:
        """404 unless the collection exists; collections are never made by writing into them."""
        catalog, deadline = self.context.catalog, self.exchange.deadline
        found = await catalog.find_collection(self.db, self.collection, deadline, fresh=fresh)
        if found is not None:
            self.checked[self.db, self.collection] = found
            return
        await self.require_database()
        if self.collection == SCHEMA_STORE:
            raise NotFound("Schema Store does not exist")
        raise NotFound(
            f"Collection '{self.collection}' does not exist",
            hint=_FOREIGN.get(self.collection, "PUT on the path of the collection makes it"),
        )

    def find_id(self, resource: Resource) -> bytes | None:
        """The collection of a resource, if `require_collection` has found it: no other is meant."""
        found = self.checked.get((resource.db or "", resource.collection or ""))
        return None if found is None else found.id

    async def require_database(self) -> None:
        """404 unless the database exists."""
        if not await self.context.catalog.has_database(self.db, self.exchange.deadline):
            raise NotFound(f"Db '{self.db}' does not exist")

    def answer(
        self, content: Any, headers: list[tuple[str, str]] | None = None, status: int = 200
    ) -> Body:
        """A JSON body in the mode that was asked for; what a write has done is told in any size."""
        text = encode(content, self.parameters.json_mode)
        if self.request.method in ("GET", "HEAD"):
            check_size(len(text), MOST_BYTES)
        return Body(status, text, JSON, headers or [])

    def open_list(self) -> JsonList:
        """The list of documents that an answer is made of."""
        return JsonList(self.parameters.json_mode, MOST_BYTES)


Handler = Callable[[Call], Awaitable[Answer]]
Handlers = dict[tuple[ResourceType, str], Handler]

# Where other systems of this kind have services: a request to one is not about a collection.
_FOREIGN = {
    "csv": "CSV is not supported: POST documents as JSON to the path of a collection",
    "ic": "there is no cache to clear: ?nocache reads metadata anew",
}
_UNLIMITED = (1 << 31) - 2
