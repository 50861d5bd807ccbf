"""One request and its response on a connection: uvicorn's cycle, with an end to waiting.

Beside what uvicorn does, a cycle knows its task (a client that leaves ends the work for it), can
fail a body that is late or broken, and decides whether the connection can be used again when a
body was not read to its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from docgraph.exchange import DocgraphError

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveEvent, ASGISendEvent

__all__ = ["DRAINABLE", "Cycle", "Outlet"]

# So much of an unread body is read and thrown away to keep the connection, or to let the client
# see the answer before it is closed.
DRAINABLE = 64 * 1024


class Outlet:
    """What a cycle sees of the transport: it does not close it, it says that it is done."""

    __slots__ = ("close", "is_closing", "write")

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self.write = transport.write
        self.is_closing = transport.is_closing
        self.close = close


class Cycle(RequestResponseCycle):
    """`length` is the announced size of the body, None when it comes in chunks."""

    def __init__(
        self, length: int | None, await_body: Callable[[Cycle], None], **given: Any
    ) -> None:
        super().__init__(**given)
        self.length = length
        self.received = 0
        self.failure: DocgraphError | None = None
        self.task: asyncio.Task[None] | None = None
        self._await_body = await_body

    @property
    def is_drainable(self) -> bool:
        """Whether the rest of the body is known, short, and on its way."""
        return (
            self.length is not None
            and self.length - self.received <= DRAINABLE
            and not self.waiting_for_100_continue
            and self.failure is None
        )

    def fail(self, error: DocgraphError) -> None:
        """Let the body end with an error: whoever reads it will raise it."""
        self.failure = error
        self.keep_alive = False
        self.message_event.set()

    def abandon(self) -> None:
        """The client is gone: end the work for it."""
        self.disconnected = True
        self.message_event.set()
        if self.task is not None and not self.response_complete:
            self.task.cancel()

    async def receive(self) -> ASGIReceiveEvent:
        """The next part of the body; raises when it is late, broken or too large."""
        if self.more_body and not self.response_complete:
            self._await_body(self)
        if self.failure is None:
            message = await super().receive()
            if self.failure is None:
                return message
        raise self.failure

    async def send(self, message: ASGISendEvent) -> None:
        """A part of the response."""
        if self.more_body and not self.response_started and not self.is_drainable:
            self.keep_alive = False
        await super().send(message)
