"""MCP transport: Streamable HTTP by the protocol's library, inside one exchange.

The library answers as an ASGI application. It runs in the task of the request and its answer is
collected, so that everything that holds for other responses holds for this one: interceptors, CORS,
compression, the deadline, the end when the client disconnects. No state is stored between requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any, Final

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from docgraph.exchange import Body
from docgraph.mcp.call import McpCall

Message = MutableMapping[str, Any]

_CALL: Final = "docgraph.call"
_JSON: Final = "application/json"
_SLACK: Final = 1_024  # bytes beyond the body, which was already read and small enough


async def find_call(context: Any) -> McpCall:
    """Return the call behind the library's request context."""
    call: McpCall = context.request.scope[_CALL]
    return call


async def answer(server: Any, call: McpCall, body: bytes) -> Body:
    """Return the library's answer to a message."""
    collected = _Collected(body)
    manager = StreamableHTTPSessionManager(
        server, json_response=True, stateless=True, max_request_body_size=len(body) + _SLACK
    )
    async with manager.run():
        await manager.handle_request(_build_scope(call), collected.receive, collected.send)
    if call.failure is not None:
        raise call.failure
    return Body(collected.status, bytes(collected.content), _JSON if collected.content else None)


def _build_scope(call: McpCall) -> dict[str, Any]:
    request = call.exchange.request
    # A compressed body is already decompressed.
    headers = [one for one in request.headers.raw if one[0] not in _ABOUT_BODY]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": request.connection.http_version,
        "scheme": request.connection.scheme,
        "method": request.method,
        "root_path": "",
        "path": request.path,
        "raw_path": request.raw_path,
        "query_string": b"",
        "headers": headers,
        "client": request.connection.client,
        "server": request.connection.server,
        "state": {},
        _CALL: call,
    }


_ABOUT_BODY: Final = frozenset((b"content-length", b"content-encoding", b"transfer-encoding"))


class _Collected:
    """The two ends of an ASGI application: passes the body in, collects the answer."""

    def __init__(self, body: bytes) -> None:
        self.status = 500
        self.content = bytearray()
        self._body: bytes | None = body

    async def receive(self) -> Message:
        """Return the body, then block: a disconnect ends the task."""
        if self._body is None:
            await asyncio.Event().wait()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Message) -> None:
        """Collect a part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.content += message.get("body", b"")
