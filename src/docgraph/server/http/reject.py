"""Rejections by the protocol layer, before a request is complete.

They look like all others: the format of the service or a page, request id, CORS, logged. They
always end the connection, because what follows on it can no longer be trusted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import uuid4

from docgraph.exchange import DocgraphError, Exchange, Headers, Request
from docgraph.exchange.errors import InternalError
from docgraph.exchange.request import cut_unreadable
from docgraph.observe import emit
from docgraph.observe.events import RequestFailed, RequestRefused
from docgraph.server.fields import RawHeaders
from docgraph.server.http.exchanges import Application
from docgraph.server.http.framing import find_path
from docgraph.server.http.trace import RequestIds
from docgraph.server.respond import Head, Responder


@dataclass(frozen=True, slots=True)
class PartialRequest:
    """The parts of a request that is rejected before it is complete."""

    client: str = ""
    method: str = ""
    target: bytes = b""
    headers: RawHeaders = field(default_factory=list)


class Refusals:
    """Renders and reports rejections."""

    def __init__(self, application: Application, responder: Responder, ids: RequestIds) -> None:
        self._application = application
        self._responder = responder
        self._ids = ids

    def render(self, error: DocgraphError, request: PartialRequest) -> tuple[Head, bytes]:
        """Return the response, and report the rejection."""
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
        exchange = Exchange(_build_request(request), id)
        body = self._application.render_error(error, exchange)
        return self._responder.render_body(body, exchange, trace)


def _build_request(partial: PartialRequest) -> Request:
    """Build the request as far as it was read: its path selects the format of the error."""
    path = cut_unreadable(find_path(partial.target))
    return Request(partial.method, path, headers=Headers.of_lower_case(partial.headers))


def report_fault(error: Exception) -> DocgraphError:
    """Report an internal error during reading: details to the log, an id to the caller."""
    id = uuid4().hex[:12]
    emit(RequestFailed(id, "", error))
    return InternalError("the request could not be read", details={"id": id})
