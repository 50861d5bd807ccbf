"""Answers of the protocol layer itself, for what never became a request.

They look like all others: JSON, request id, CORS, logged. The connection always ends with them,
because what follows on it can no longer be trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from docgraph.exchange import DocgraphError
from docgraph.observe import emit
from docgraph.observe.events import RequestRefused
from docgraph.server.http.before.cors import CorsPolicy, RawHeaders
from docgraph.server.http.before.respond import error_body, phrase_of
from docgraph.server.http.before.trace import RequestIds

__all__ = ["PartialRequest", "Refusals"]


@dataclass(frozen=True, slots=True)
class PartialRequest:
    """What was read of a request that is refused before it is complete."""

    client: str = ""
    method: str = ""
    target: bytes = b""
    headers: Sequence[tuple[bytes, bytes]] = ()


class Refusals:
    """Renders and reports refusals."""

    def __init__(self, cors: CorsPolicy, ids: RequestIds) -> None:
        self._cors = cors
        self._ids = ids

    def render(self, error: DocgraphError, request: PartialRequest, date: RawHeaders) -> bytes:
        """The bytes of the response; the refusal is reported on the way."""
        origin = next((value for name, value in request.headers if name == b"origin"), None)
        id, traces = self._ids.trace(request.headers)
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
        body = error_body(error)
        own = [(name.lower().encode(), value.encode("latin-1")) for name, value in body.headers]
        fields: RawHeaders = [
            *date,
            (b"content-type", b"application/json; charset=utf-8"),
            (b"content-length", b"%d" % len(body.content)),
            (b"x-content-type-options", b"nosniff"),
            *self._cors.headers(origin),
            *traces,
            *own,
            (b"connection", b"close"),
        ]
        lines = b"".join(b"%s: %s\r\n" % field for field in fields)
        status = f"HTTP/1.1 {error.status} {phrase_of(error.status)}\r\n".encode()
        content = b"" if request.method == "HEAD" else body.content
        return status + lines + b"\r\n" + content
