"""Change stream requests: `GET /<collection>/_streams/<uri>`, its stages and permissions.

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
from docgraph.exchange.errors import NotFound, SecurityViolation
from docgraph.rest.bodies.stream_definitions import StreamDefinition, find_stream
from docgraph.rest.call import Handlers, RestCall
from docgraph.rest.handlers.aggregations import find_shown
from docgraph.rest.parameters.aggregation_variables import build_scope
from docgraph.rest.stream_access import find_open_streams
from docgraph.store.names import namespace_of
from docgraph.variables import NotBound

__all__ = ["HANDLERS"]

_WITH_IDS: Final = "event-ids"


async def _get(call: RestCall) -> Answer:
    moment: Document = {}
    subscription = await _subscribe(call, moment)
    streams = call.context.streams
    assert streams is not None  # noqa: S101 - without them the resource takes no GET
    try:
        return await streams.answer(call.exchange, subscription, partial(_renew, call, moment))
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
        return await _subscribe(replace(call, exchange=exchange, checked={}), moment)
    except NotFound:
        find = call.context.catalog.find_collection
        if await find(call.db, call.collection, exchange.deadline, fresh=True) is None:
            raise WatchedIsGone from None
        raise


async def _subscribe(call: RestCall, moment: Document) -> Subscription:
    await call.require_collection()
    metadata = await call.find_metadata(call.collection)
    definition = find_stream(as_meant(metadata or {}), call.resource.id)
    if definition is None:
        raise NotFound(
            "Change Stream does not exist", hint=f"'{call.resource.id}' is not among its streams"
        )
    namespace = namespace_of(call.db, call.collection)
    row = (call.rows or {}).get(namespace)
    deadline = call.exchange.deadline
    store = call.context.store
    return Subscription(
        db=call.db,
        collection=call.collection,
        uri=definition.uri,
        stages=tuple(await _render(call, definition, moment)),
        json_mode=call.parameters.json_mode,
        row=row or None,
        shown=find_shown(call.exchange.permission, namespace) or None,
        images=bool(row)
        and await store.streams.has_images(call.db, call.collection, deadline=deadline),
        with_ids=_is_on(call, _WITH_IDS),
        notify_when=_find_condition(call, definition),
        constant=definition.constant,
    )


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
    found = find_open_streams(metadata, call.exchange, call.context.foresight)
    return call.answer([stream.describe() async for stream in found])


HANDLERS: Handlers = {
    (ResourceType.STREAMS, "GET"): _list,
    (ResourceType.STREAM, "GET"): _get,
}
