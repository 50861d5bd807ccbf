"""Live queries over server-sent events: GraphQL over SSE in distinct connections mode."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import orjson

from docgraph.exchange import DocgraphError, Exchange
from docgraph.exchange.close_reason import LEFT, STOPPED, CloseReason, StreamClosed
from docgraph.exchange.errors import Forbidden, Unauthenticated
from docgraph.exchange.headers import find_acceptance
from docgraph.graphql.errors import Classification, GraphqlError
from docgraph.graphql.http.response_shape import MEDIA_TYPE, list_errors
from docgraph.graphql.live.live_query import LiveQuery

EVENTS: Final = "text/event-stream"
_USUAL: Final = (MEDIA_TYPE, "application/json")
_HEARTBEAT: Final = b":\n\n"
_COMPLETE: Final = b"event:complete\ndata:\n\n"
_CODES: Final = {"rights": Forbidden.code, "credentials": Unauthenticated.code}
_SILENT: Final = (LEFT, STOPPED)  # a client that gets no `complete` connects again


def wants_events(exchange: Exchange) -> bool:
    """Return whether the caller prefers server-sent events to JSON."""
    accepted = exchange.request.headers.get_list("accept")
    return bool(accepted) and find_acceptance(accepted, EVENTS, _USUAL).is_preferred


class LiveEvents(AsyncIterator[bytes]):
    """The events of one live query, with a comment after each interval without events."""

    def __init__(self, query: LiveQuery, heartbeat: float) -> None:
        self._query = query
        self._heartbeat = heartbeat
        self._is_over = False

    async def __anext__(self) -> bytes:
        if self._is_over:
            raise StopAsyncIteration
        try:
            async with asyncio.timeout(self._heartbeat):
                return _render_next(await self._query.read())
        except TimeoutError:
            return _HEARTBEAT
        except StreamClosed as ended:
            self._is_over = True
            if ended.ending in _SILENT:
                raise StopAsyncIteration from None
            errors = render_ending(ended.ending, self._query.error)
            return _render_next(b'{"errors":%s}' % errors) + _COMPLETE

    def stop(self) -> None:
        """End the stream because the server stops."""
        self._query.end(STOPPED)


async def send_once(content: bytes) -> AsyncIterator[bytes]:
    """Yield the events of an operation that has one answer."""
    yield _render_next(content) + _COMPLETE


def render_ending(ending: CloseReason, error: DocgraphError | None) -> bytes:
    """Return the list of errors that says why a live query has ended."""
    if error is not None and not isinstance(error, Unauthenticated | Forbidden):
        return orjson.dumps(list_errors(error))
    code = _CODES.get(ending.word, "live-ended")
    return orjson.dumps([GraphqlError(ending.reason, Classification.ABORTED, code).as_dict()])


def _render_next(content: bytes) -> bytes:
    return b"event:next\ndata:%s\n\n" % content
