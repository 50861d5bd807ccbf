"""Change stream requests: stages, permissions and snapshot of a stream; the list of streams.

This module renders the stream with the variables of the request, and renders it again for each
reauthorization of the client. `events` delivers the events.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, ClassVar, Final

from docgraph.codec import as_meant
from docgraph.config.section import PluginConfig
from docgraph.exchange import (
    Answer,
    Consistency,
    DataRequest,
    Deadline,
    Document,
    Exchange,
    NotifyWhen,
    Read,
    Resource,
    ResourceType,
    Subscription,
    WatchedIsGone,
)
from docgraph.exchange.errors import Forbidden, NotFound, RequestError, SecurityViolation
from docgraph.exchange.request import encode_path
from docgraph.plugins.kinds import Authorizer, Decision
from docgraph.rest.aggregation_variables import build_scope
from docgraph.rest.call import GetDryRun, Handlers, RestCall
from docgraph.rest.handlers.aggregations import find_shown
from docgraph.rest.sections import Mongo
from docgraph.rest.stream_definitions import StreamDefinition, find_stream, list_streams
from docgraph.runtime import Generations
from docgraph.store import Store
from docgraph.store.catalog import Metadata
from docgraph.store.names import namespace_of
from docgraph.variables import NotBound, Template, matches_nothing

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
        stages=tuple(await _render(call, definition.stages, moment)),
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


async def _render(call: RestCall, template: Template, moment: Document | None = None) -> Any:
    """Return the stages or the filter with the variables of this request."""
    resolvers = call.context.resolvers
    scope = await build_scope(template.names, call.exchange, resolvers, call.parameters, moment)
    try:
        return template.render(scope)
    except NotBound as error:
        error.message = f"variable {error.name} not bound"
        error.hint = f'give it by avars={{"{error.name}": …}}'
        raise


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
    return StreamSnapshot(permitted, await _render(call, snapshot.filter), most)


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


MAX_LISTED: Final = 100  # streams of a collection: each costs an evaluation of the rules
_AT_ONCE: Final = 16

_NOT_A_LIST: Final = Decision(False, "not a list of change streams")
_NONE_OPEN: Final = Decision(False, "the caller may open no change stream of the collection")
_APPROVED: Final = Decision(True, "the caller may open a change stream of the collection")


async def find_open_streams(
    metadata: Mapping[str, Any] | None, exchange: Exchange, dry_run: GetDryRun
) -> AsyncIterator[StreamDefinition]:
    """Yield the streams in the metadata that the caller of a request for the list may open.

    The list of a collection needs no rule of its own (decision 42). Each stream of the collection
    is authorized as if the caller opened it. A caller who may open none, and has no rule for the
    list, is rejected as at the path of a stream: with the same status whether the collection exists
    or not.
    """
    segments = exchange.request.segments
    for number, stream in enumerate(islice(list_streams(as_meant(metadata or {})), MAX_LISTED)):
        if number and number % _AT_ONCE == 0:
            await asyncio.sleep(0)  # let other tasks run
        path = encode_path((*segments, stream.uri))
        service, decision = await dry_run.decide_get(exchange, path)
        if decision is not None and service == exchange.service:
            yield stream


class StreamListAllower(Authorizer):
    """Approves the list of streams for callers who may open one of them.

    It reads metadata for callers without permissions, so it has a cache of its own: they cannot
    displace what other requests need. Missing metadata is cached as well, so that both cases take
    the same time.
    """

    name: ClassVar[str] = "streamLists"
    description: ClassVar[str] = "approves the list of change streams that a caller may open"
    part_of: ClassVar[str] = "mongo"
    priority: ClassVar[int] = 200  # after the rules, whose approvals cost less

    def __init__(
        self,
        config: PluginConfig,
        *,
        store: Store,
        generations: Generations,
        mongo: Mongo,
        imagined_requests: GetDryRun,
    ) -> None:
        ttl = mongo.local_cache_ttl / 1000 if mongo.local_cache_enabled else 0.0
        self._metadata = Metadata(store, generations, ttl=ttl)
        self._dry_run = imagined_requests

    async def close(self) -> None:
        """Stop the reads that are in progress."""
        await self._metadata.close()

    @property
    def is_idle(self) -> bool:
        """Whether it approves nothing by itself: it needs the approval of another allower."""
        return True

    def requires_authentication(self, exchange: Exchange) -> bool:
        """Return whether a login is needed: not for a list, rules decide about each stream."""
        return _find_list(exchange) is None

    async def decide(self, exchange: Exchange) -> Decision:
        """Approve a list with at least one stream that the caller may open."""
        resource = _find_list(exchange)
        if resource is None:
            return _NOT_A_LIST
        assert resource.db is not None  # noqa: S101 - a collection has one
        metadata = await self._metadata.find(resource.db, resource.collection)
        async for _ in find_open_streams(metadata, exchange, self._dry_run):
            return _APPROVED
        return _NONE_OPEN


def _find_list(exchange: Exchange) -> Resource | None:
    """Return the resource of a GET of a list of streams; None for all other requests."""
    parsed = exchange.parsed
    if exchange.request.method not in ("GET", "HEAD") or not isinstance(parsed, DataRequest):
        return None
    resource = parsed.resource
    if parsed.refusal is not None or resource is None or resource.type is not ResourceType.STREAMS:
        return None
    return resource
