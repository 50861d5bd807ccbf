"""Change stream requests: the stages and permissions of a stream.

This module renders the stream with the variables of the request, and renders it again for each
reauthorization of the client. `events` delivers the events.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from docgraph.codec import as_meant
from docgraph.exchange import (
    Answer,
    Document,
    NotifyWhen,
    ResourceType,
    Subscription,
    WatchedIsGone,
)
from docgraph.exchange.errors import NotFound, RequestError, SecurityViolation
from docgraph.rest.call import Handlers, RestCall
from docgraph.rest.handlers.aggregations import find_shown
from docgraph.rest.handlers.stream_list import list_open_streams
from docgraph.rest.handlers.stream_snapshot import build_snapshot, render_variables
from docgraph.rest.stream_definitions import StreamDefinition, find_stream
from docgraph.store.names import namespace_of

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
    before = _is_on(call, _BEFORE)
    if before and not definition.before:
        raise RequestError(
            "the stream does not show documents as they were before a change",
            hint="connect without before; `before` in its definition allows it",
        )
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
        stages=tuple(await render_variables(call, definition.stages, moment)),
        json_mode=call.parameters.json_mode,
        row=row or None,
        shown=find_shown(call.exchange.permission, namespace) or None,
        images=has_images,
        before=before,
        with_ids=_is_on(call, _WITH_IDS),
        notify_when=_find_condition(call, definition),
        constant=definition.constant,
    )


def _find_condition(call: RestCall, definition: StreamDefinition) -> NotifyWhen | None:
    """Return the client's condition on the events; without the parameter, it gets all of them."""
    if not definition.notify_parameter:
        return None
    value = call.request.query.get(definition.notify_parameter)
    return None if value is None else NotifyWhen(definition.notify_path, value)


def _is_on(call: RestCall, name: str) -> bool:
    value = call.request.query.get(name)
    return value is not None and value.lower() not in ("false", "0")


HANDLERS: Handlers = {
    (ResourceType.STREAMS, "GET"): list_open_streams,
    (ResourceType.STREAM, "GET"): _get,
}
