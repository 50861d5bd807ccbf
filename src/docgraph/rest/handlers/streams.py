"""Change stream requests: `GET /<collection>/_streams/<uri>`, its stages and permissions.

This module renders the stream with the variables of the request, and renders it again for each
reauthorization of the client. `events` delivers the events.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Final

from docgraph.codec import as_meant
from docgraph.exchange import (
    Answer,
    Consistency,
    Deadline,
    Document,
    NotifyWhen,
    Read,
    Resource,
    ResourceType,
    Subscription,
    WatchedIsGone,
)
from docgraph.exchange.errors import Forbidden, NotFound, RequestError, SecurityViolation
from docgraph.exchange.path import encode_path
from docgraph.rest.bodies.stream_definitions import StreamDefinition, find_stream
from docgraph.rest.call import Handlers, RestCall
from docgraph.rest.handlers.aggregations import find_shown
from docgraph.rest.parameters.aggregation_variables import build_scope
from docgraph.rest.stream_access import find_open_streams
from docgraph.store.names import namespace_of
from docgraph.variables import NotBound, matches_nothing

_WITH_IDS: Final = "event-ids"
_SNAPSHOT: Final = "snapshot"
_BEFORE: Final = "before"


async def _get(call: RestCall) -> Answer:
    moment: Document = {}
    definition = await _find_definition(call)
    subscription = await _subscribe(call, definition, moment)
    snapshot = await build_snapshot(call, definition) if _is_on(call, _SNAPSHOT) else None
    streams = call.context.streams
    assert streams is not None  # noqa: S101 - without them the resource takes no GET
    renew = partial(_renew, call, moment)
    try:
        return await streams.answer(call.exchange, subscription, renew, snapshot)
    except SecurityViolation as error:
        raise SecurityViolation(
            f"Cannot open change stream: Security violation: {error.message}", hint=error.hint
        ) from None


async def _renew(call: RestCall, moment: Document) -> Subscription:
    """Return the subscription that the same request would get now; `moment` has its start time."""
    admission = call.exchange.admission
    assert admission is not None  # noqa: S101 - the request came through the pipeline
    exchange = await admission.readmit(call.exchange)
    try:
        again = replace(call, exchange=exchange, checked={})
        return await _subscribe(again, await _find_definition(again), moment)
    except NotFound:
        find = call.context.catalog.find_collection
        if await find(call.db, call.collection, exchange.deadline, fresh=True) is None:
            raise WatchedIsGone from None
        raise


async def _find_definition(call: RestCall) -> StreamDefinition:
    await call.require_collection()
    metadata = await call.find_metadata(call.collection)
    definition = find_stream(as_meant(metadata or {}), call.resource.id)
    if definition is None:
        raise NotFound(
            "Change Stream does not exist", hint=f"'{call.resource.id}' is not among its streams"
        )
    return definition


async def _subscribe(
    call: RestCall, definition: StreamDefinition, moment: Document
) -> Subscription:
    namespace = namespace_of(call.db, call.collection)
    before = _is_before_requested(call, definition)
    row = (call.rows or {}).get(namespace)
    deadline = call.exchange.deadline
    streams = call.context.store.streams
    is_needed = bool(row) or before
    has_images = is_needed and await streams.has_images(call.db, call.collection, deadline=deadline)
    if before and not has_images:
        raise RequestError(
            "the database does not keep documents of this collection as they were before a change",
            hint="connect without before, or enable changeStreamPreAndPostImages",
        )
    return Subscription(
        db=call.db,
        collection=call.collection,
        uri=definition.uri,
        stages=tuple(await _render(call, definition, moment)),
        json_mode=call.parameters.json_mode,
        row=row or None,
        shown=find_shown(call.exchange.permission, namespace) or None,
        images=has_images,
        before=before,
        with_ids=_is_on(call, _WITH_IDS),
        notify_when=_find_condition(call, definition),
        constant=definition.constant,
    )


def _is_before_requested(call: RestCall, definition: StreamDefinition) -> bool:
    """Return whether events have the document before the change; reject it if not allowed."""
    is_requested = _is_on(call, _BEFORE)
    if is_requested and not definition.before:
        raise RequestError(
            "the stream does not show documents as they were before a change",
            hint="connect without before; `before` in its definition allows it",
        )
    return is_requested


async def _render(call: RestCall, definition: StreamDefinition, moment: Document) -> list[Document]:
    """Return the stages with the variables of this request."""
    template, resolvers = definition.stages, call.context.resolvers
    scope = await build_scope(template.names, call.exchange, resolvers, call.parameters, moment)
    try:
        stages: list[Document] = template.render(scope)
    except NotBound as error:
        error.message = f"variable {error.name} not bound"
        error.hint = f'give it by avars={{"{error.name}": …}}'
        raise
    return stages


def _find_condition(call: RestCall, definition: StreamDefinition) -> NotifyWhen | None:
    """Return the client's condition on the events; without the parameter, it gets all of them."""
    if not definition.notify_parameter:
        return None
    value = call.request.query.get(definition.notify_parameter)
    return None if value is None else NotifyWhen(definition.notify_path, value)


def _is_on(call: RestCall, name: str) -> bool:
    value = call.request.query.get(name)
    return value is not None and value.lower() not in ("false", "0")


async def _list(call: RestCall) -> Answer:
    """Return the streams that the caller may open."""
    await call.require_collection()
    metadata = await call.find_metadata(call.collection)
    found = find_open_streams(metadata, call.exchange, call.context.dry_run)
    return call.answer([stream.describe() async for stream in found])


HANDLERS: Handlers = {
    (ResourceType.STREAMS, "GET"): _list,
    (ResourceType.STREAM, "GET"): _get,
}


# Snapshots of change streams: the documents that a client gets before the events.
#
# The caller needs the permission to GET the collection: its row filter, fence and projection
# apply, as in a list. First the ids of all matching documents are read, then the documents, in
# portions as the client reads them, all at the same cluster time.

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
    path = encode_path(segments) or "/"
    service, decision = await call.context.dry_run.decide_get(call.exchange, path)
    if decision is None or service != call.exchange.service:
        raise Forbidden("a snapshot needs the permission to GET the collection")
    permitted = replace(
        call,
        exchange=replace(call.exchange, permission=decision.permission),
        resource=Resource(ResourceType.COLLECTION, call.db, call.collection),
    )
    most = min(snapshot.limit or call.context.max_snapshot, call.context.max_snapshot)
    return StreamSnapshot(permitted, await _render_snapshot(call, definition), most)


async def _render_snapshot(call: RestCall, definition: StreamDefinition) -> Document:
    assert definition.snapshot is not None  # noqa: S101 - the caller checked it
    template, resolvers = definition.snapshot.filter, call.context.resolvers
    scope = await build_scope(template.names, call.exchange, resolvers, call.parameters)
    try:
        filter: Document = template.render(scope)
    except NotBound as error:
        error.message = f"variable {error.name} not bound"
        error.hint = f'give it by avars={{"{error.name}": …}}'
        raise
    return filter


@dataclass(slots=True)
class StreamSnapshot:
    """The documents of one snapshot, read as the caller of a GET of the collection."""

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
            found = await reads.find(
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
            self._ids = [document["_id"] for document in found]
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
