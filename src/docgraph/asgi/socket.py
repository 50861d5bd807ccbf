"""A WebSocket whose frames, pings and close frames the ASGI server handles."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from docgraph.asgi.output import Gate, Output
from docgraph.exchange import SharedMessages
from docgraph.server.http.bridge import AsgiMessage
from docgraph.server.http.call import HttpCall
from docgraph.server.http.websocket import (
    FAREWELL,
    INTERNAL_ERROR,
    MAX_MESSAGE,
    NORMAL,
    RESTART,
    TOO_LARGE,
)


class AsgiSocket:
    """One open WebSocket; sending to a disconnected peer raises `ConnectionResetError`.

    `room` is open while the next message may be received: one at a time, so that a handler that is
    slow slows its peer.
    """

    count_frame: Callable[[], tuple[int, str] | None] | None = None

    def __init__(self, output: Output, call: HttpCall, room: Gate) -> None:
        self._output = output
        self._call = call
        self._room = room
        self._messages: deque[str | bytes] = deque()
        self._heard = asyncio.Event()  # a message, or the end
        self._is_over = False

    async def send(self, message: str | SharedMessages) -> None:
        await self._output.wait_writable()
        if self._is_over:
            raise ConnectionResetError("the WebSocket is closed")
        if isinstance(message, str):
            self._put(message, len(message))
        else:
            self.offer(message)

    def offer(self, message: SharedMessages) -> bool:
        if self._is_over or not self._output.is_writable:
            return False
        for content in message.contents:
            self._put(content.decode(), len(content))
        return True

    async def receive(self) -> str | bytes | None:
        while not self._messages:
            if self._is_over:
                return None
            self._heard.clear()
            self._room.open()
            await self._heard.wait()
        message = self._messages.popleft()
        self._room.open()
        return message

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        if not self._is_over:
            self._output.put({"type": "websocket.close", "code": code, "reason": reason})
            self._end()

    async def fail(self) -> None:
        await self.close(INTERNAL_ERROR, "internal error")

    def hear(self, message: AsgiMessage) -> None:
        data = message.get("text")
        if data is None:
            data = message.get("bytes") or b""
        if self._is_over:
            return
        ending = None if self.count_frame is None else self.count_frame()
        if len(data.encode() if isinstance(data, str) else data) > MAX_MESSAGE:
            ending = TOO_LARGE, f"a message has at most {MAX_MESSAGE} bytes"
        if ending is not None:
            self._output.put({"type": "websocket.close", "code": ending[0], "reason": ending[1]})
            self._end()
            return
        self._messages.append(data)
        self._room.close()
        self._heard.set()

    def shutdown(self) -> None:
        """Close the socket with "service restart"."""
        if not self._is_over:
            self._output.put({"type": "websocket.close", "code": RESTART, "reason": ""})
            self._end()

    def lose(self, call: HttpCall) -> None:
        """Notify the handler that the peer has disconnected; it has a moment to end by itself."""
        self._end()
        task = call.task
        if task is not None and not task.done():
            asyncio.get_running_loop().call_later(FAREWELL, _cancel_late, call)

    def _put(self, text: str, size: int) -> None:
        self._output.put({"type": "websocket.send", "text": text}, size)
        self._call.sent += size

    def _end(self) -> None:
        self._is_over = True
        self._heard.set()
        self._room.open()
        self._output.complete()
        self.count_frame = None  # what counts may refer to this: a cycle


def _cancel_late(call: HttpCall) -> None:
    if call.task is not None:  # of a call that has ended there is none
        call.task.cancel()
