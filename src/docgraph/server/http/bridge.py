"""ASGI bridge for services that leave their response to another application (`Takeover`).

Only this file uses scope, receive and send. The application gets the original request, and its
response gets the headers that all responses have.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any
from urllib.parse import unquote, unquote_to_bytes

from docgraph.exchange import Exchange, Takeover
from docgraph.server.fields import RawHeaders
from docgraph.server.http.call import HttpCall
from docgraph.server.respond import Head

AsgiMessage = MutableMapping[str, Any]
RenderHead = Callable[[int, RawHeaders], Head]

_VERSIONS = {"version": "3.0", "spec_version": "2.3"}


class Bridge:
    """One request to another application."""

    def __init__(self, call: HttpCall, exchange: Exchange, render_head: RenderHead) -> None:
        self._call = call
        self._exchange = exchange
        self._render_head = render_head
        self._head: Head | None = None  # announced, and sent with the first part of the content
        self._is_read = False

    async def run(self, answer: Takeover) -> None:
        request = self._exchange.request
        connection = request.connection
        raw_path = connection.root_path.encode() + request.raw_path
        scope = {
            "type": "http",
            "asgi": _VERSIONS,
            "http_version": connection.http_version,
            "server": connection.server,
            "client": connection.client,
            "scheme": connection.scheme,
            "method": request.method,
            "root_path": unquote(connection.root_path),
            "path": unquote_to_bytes(raw_path).decode("utf-8", "replace"),
            "raw_path": raw_path,
            "query_string": request.query_string,
            "headers": list(request.headers.raw),
            "state": {},
            **answer.scope,
        }
        await answer.application(scope, self._receive, self._send)
        if not self._call.is_answered and not self._call.is_aborted:
            raise RuntimeError("the application ended before its response did")

    async def _receive(self) -> AsgiMessage:
        """Return the next part of the body; after its end, the disconnect.

        The end of the response counts as a disconnect, too. Raises when the body is late, broken or
        too large.
        """
        if self._is_read or self._call.is_answered:
            await self._call.wait_end()
            return {"type": "http.disconnect"}
        incoming = self._call.incoming
        part = b"" if incoming is None else await incoming.read_part()
        self._is_read = incoming is None or incoming.is_complete
        return {"type": "http.request", "body": part, "more_body": not self._is_read}

    async def _send(self, message: AsgiMessage) -> None:
        kind = message["type"]
        if kind == "http.response.start" and self._head is None and not self._call.status:
            self._head = self._render_head(message["status"], list(message.get("headers", ())))
        elif kind == "http.response.body" and (self._head or self._call.status):
            if self._call.is_answered:
                raise RuntimeError("a response has one end")
            if self._head is not None:
                await self._call.begin(self._head)
                self._head = None
            await self._call.send_part(message.get("body", b""))
            if not message.get("more_body", False):
                await self._call.end()
        else:
            raise RuntimeError(f"{kind} at the wrong time")
