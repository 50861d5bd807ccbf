"""An ASGI server of one request: what a test sends, what the application sends, and when."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import MutableMapping
from typing import Any

from docgraph.asgi.connection import AsgiConnection
from docgraph.server.http.state import ProcessState, build_state
from docgraph.server.settings import ServerSettings
from tests.unit.server.http.test_exchanges import App, Handler

Message = dict[str, Any]
PATIENCE = 60.0


def make_scope(path: str = "/a", **values: Any) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "query_string": b"",
        "headers": [(b"host", b"test")],
        "client": ("192.0.2.7", 4000),
        "server": ("192.0.2.1", 80),
        **values,
    }


class AsgiPeer:
    """The server's side of one request, and its client."""

    def __init__(
        self, handler: Handler, scope: dict[str, Any], settings: ServerSettings | None = None
    ) -> None:
        self.state: ProcessState = build_state(App(handler), settings or ServerSettings())
        self.sent: list[Message] = []
        self.incoming: asyncio.Queue[Message] = asyncio.Queue()
        self.may_send = asyncio.Event()  # cleared: the client does not read
        self.may_send.set()
        self.changed = asyncio.Event()
        self.received = 0
        self.fault: Exception | None = None  # raised by `send`
        connection = AsgiConnection(self.state, scope, self._receive, self._send)
        self.connection = weakref.ref(connection)
        self.task = asyncio.ensure_future(connection.answer())

    async def _receive(self) -> Message:
        message = await self.incoming.get()
        self.received += 1
        return message

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        await self.may_send.wait()
        if self.fault is not None:
            raise self.fault
        self.sent.append(dict(message))
        self.changed.set()

    def give(self, kind: str = "http.request", **values: Any) -> None:
        self.incoming.put_nowait({"type": kind, **values})

    def sweep(self, later: float = 0.0) -> None:
        self.state.sweep(asyncio.get_running_loop().time() + later)

    async def wait_sent(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.sent) < count:
                self.changed.clear()
                await self.changed.wait()

    async def finish(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.task

    async def respond(self) -> tuple[int, dict[bytes, bytes], bytes]:
        """The response when it is complete."""
        await self.finish()
        start, *parts = self.sent
        assert start["type"] == "http.response.start"
        assert [part["more_body"] for part in parts] == [True] * (len(parts) - 1) + [False]
        body = b"".join(part["body"] for part in parts)
        return start["status"], dict(start["headers"]), body
