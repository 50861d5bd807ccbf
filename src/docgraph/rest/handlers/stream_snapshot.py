"""Snapshot of a stream: the documents of the collection before its changes, at one cluster time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from docgraph.exchange import Consistency, Deadline, Document, Read, Resource, ResourceType
from docgraph.exchange.errors import Forbidden, RequestError
from docgraph.exchange.request import encode_path
from docgraph.rest.aggregation_variables import build_scope
from docgraph.rest.call import RestCall
from docgraph.rest.stream_definitions import StreamDefinition
from docgraph.variables import NotBound, Template, matches_nothing

_READ_MS: Final = 30_000


class SnapshotTooLarge(RequestError):
    """More documents than a snapshot may have."""

    status: ClassVar[int] = 422
    code: ClassVar[str] = "snapshot-too-large"


async def build_snapshot(call: RestCall, definition: StreamDefinition) -> StreamSnapshot:
    """Return the requested snapshot; reject a caller who may not GET the collection."""
    snapshot = definition.snapshot
    if snapshot is None:
        raise RequestError(
            "the stream has no snapshot",
            hint="connect without snapshot; `snapshot` in its definition allows one",
        )
    segments = call.request.segments[:-2]  # without `_streams` and the name
    collection = Resource(ResourceType.COLLECTION, call.db, call.collection)
    permitted = await call.as_get(encode_path(segments) or "/", collection)
    if permitted is None:
        raise Forbidden("a snapshot needs the permission to GET the collection")
    most = min(snapshot.limit or call.context.max_snapshot, call.context.max_snapshot)
    return StreamSnapshot(permitted, await render_variables(call, snapshot.filter), most)


@dataclass(slots=True)
class StreamSnapshot:
    """The documents of one snapshot, read as the caller of a GET of the collection.

    A client gets them before the events. The caller needs the permission to GET the collection: its
    row filter, fence and projection apply, as in a list. First the ids of all matching documents
    are read, then the documents, in portions as the client reads them, all at the same cluster
    time.
    """

    call: RestCall
    filter: Document
    most: int
    _ids: list[Any] = field(default_factory=list)
    _position: int = 0
    _at: Consistency | None = None

    async def open(self) -> Any:
        """Find the documents; return their cluster time. Raise if there are too many."""
        call, reads = self.call, self.call.context.store.reads
        await call.rehearse_read(Read(filter=self.filter, limit=1))
        deadline = Deadline.after_ms(_READ_MS)
        self._at = await reads.find_snapshot(call.db, call.collection, deadline)
        if not matches_nothing(self.filter):
            documents = await reads.find(
                call.db,
                call.collection,
                self.filter,
                limit=self.most + 1,
                deadline=deadline,
                projection={"_id": 1},
                comment={"request": call.exchange.id},
                rows=call.rows,
                consistency=self._at,
            )
            self._ids = [document["_id"] for document in documents]
        if len(self._ids) > self.most:
            raise SnapshotTooLarge(
                f"the snapshot has more than {self.most} documents",
                hint="narrow its filter by a variable, or read the collection in pages",
            )
        return self._at.at

    async def read(self, count: int) -> list[Document] | None:
        """Return the next documents, about so many; None when all were read."""
        ids = self._ids[self._position : self._position + count]
        if not ids:
            return None
        call = self.call
        documents = await call.context.store.reads.read(
            call.resource,
            Read(filter={"_id": {"$in": ids}}, limit=len(ids), consistency=self._at),
            deadline=Deadline.after_ms(_READ_MS),
            exchange=call.exchange,
            rows=call.rows,
        )
        self._position += len(ids)
        return documents


async def render_variables(
    call: RestCall, template: Template, moment: Document | None = None
) -> Any:
    """Return the stages or the filter with the variables of this request."""
    resolvers = call.context.resolvers
    scope = await build_scope(template.names, call.exchange, resolvers, call.parameters, moment)
    try:
        return template.render(scope)
    except NotBound as error:
        error.message = f"variable {error.name} not bound"
        error.hint = f'give it by avars={{"{error.name}": …}}'
        raise
