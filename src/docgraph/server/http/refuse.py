"""Answers of the protocol layer itself, for what never became a request.

They look like all others: JSON or a page, request id, CORS, logged. The connection always ends
with them, because what follows on it can no longer be trusted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import uuid4

from docgraph.exchange import DocgraphError, Exchange, Headers, Request
from docgraph.exchange.errors import InternalError
from docgraph.observe import emit
from docgraph.observe.events import RequestFailed, RequestRefused
from docgraph.server.fields import RawHeaders
from docgraph.server.http.trace import RequestIds
from docgraph.server.refusals import render_refusal
from docgraph.server.respond import Head, Responder

__all__ = ["PartialRequest", "Refusals", "report_fault"]


@dataclass(frozen=True, slots=True)
class PartialRequest:
    """What was read of a request that is refused before it is complete."""

    client: str = ""
    method: str = ""
    target: bytes = b""
    headers: RawHeaders = field(default_factory=list)


class Refusals:
    """Renders and reports refusals."""

    def __init__(self, responder: Responder, ids: RequestIds) -> None:
        self._responder = responder
        self._ids = ids

    def render(self, error: DocgraphError, request: PartialRequest) -> tuple[Head, bytes]:
        """The response; the refusal is reported on the way."""
        id, trace = self._ids.trace(request.headers)
        emit(
            RequestRefused(
                status=error.status,
                reason=error.message,
                client=request.client,
                request_id=id,
                method=request.method,
                path=request.target.partition(b"?")[0].decode("latin-1"),
            )
        )
        headers = Headers.of_lower_case(request.headers)
        exchange = Exchange(Request(request.method, b"/", headers=headers), id)
        return self._responder.render_body(render_refusal(error, exchange), exchange, trace)


def report_fault(error: Exception) -> DocgraphError:
    """A fault of ours while a request was read: the log gets all of it, the caller an id."""
    id = uuid4().hex[:12]
    emit(RequestFailed(id, "", error))
    return InternalError("the request could not be read", details={"id": id})
