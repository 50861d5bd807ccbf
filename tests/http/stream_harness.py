"""Clients of change streams, in memory: a WebSocket and server-sent events, read alike.

    async with listen(service, "/things/_streams/all") as client:
        event = await client.next()

Both live in the loop of the application; `next` waits as long as a busy machine may need.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)

from docgraph.server.http.state import ProcessState
from tests.connections import Peer, Response, build_request
from tests.http.access_harness import remove_rules
from tests.http.harness import Document, Service

__all__ = ["SSE", "WEBSOCKET", "Refused", "StreamClient", "emptied", "listen", "notes"]

SSE, WEBSOCKET = "sse", "websocket"
_PATIENCE = 60.0


class Refused(Exception):
    """The server answered with something else than a stream."""

    def __init__(self, response: Response) -> None:
        super().__init__(f"{response.status} {response.body[:500]!r}")
        self.status = response.status
        self.headers = response
        self.text = response.body.decode()
        self.json: Any = json.loads(response.body) if response.body[:1] == b"{" else None


class StreamClient:
    """What both kinds have in common: events in the order in which they came."""

    def __init__(self, service: Service, state: ProcessState, host: str) -> None:
        self._service = service
        self._state = state
        self._host = host
        self.peer: Peer
        self.events: deque[Document] = deque()
        self.ids: list[str] = []  # of server-sent events
        self.comments = 0
        self.closed: tuple[int, str] | None = None  # code and reason

    async def next(self) -> Document:
        """The next event; EOFError when there is none any more."""
        return await self._service.there(self._next())

    async def take(self, count: int) -> list[Document]:
        return [await self.next() for _ in range(count)]

    async def wait_closed(self) -> tuple[int, str]:
        """The code and the reason that the server gave."""

        async def wait() -> tuple[int, str]:
            while self.closed is None:
                self._take_in()
                if self.closed is None:
                    await self.peer._wait()
            return self.closed

        return await self._service.there(wait())

    async def leave(self) -> None:
        async def leave() -> None:
            self.peer.leave()
            await self.peer.wait_lost()
            # The handler of a WebSocket has a moment to end by itself.
            call = getattr(self.peer.transport._protocol, "_call", None)
            if call is not None and call.task is not None:
                await asyncio.wait({call.task}, timeout=_PATIENCE)

        await self._service.there(leave())

    async def _next(self) -> Document:
        async with asyncio.timeout(_PATIENCE):
            while True:
                self._take_in()
                if self.events:
                    return self.events.popleft()
                if self.closed is not None or self.peer.transport.has_ended:
                    raise EOFError(f"there are no more events: {self.closed}")
                await self.peer._wait()

    def _take_output(self) -> bytes:
        data = bytes(self.peer.transport.output)
        self.peer.transport.output.clear()
        return data

    def _take_in(self) -> None:
        raise NotImplementedError

    async def open(self, path: str, headers: Mapping[str, str]) -> None:
        raise NotImplementedError


class SocketClient(StreamClient):
    """A WebSocket."""

    protocols: tuple[str, ...] = ()
    protocol: str | None = None  # that the server has chosen

    async def open(self, path: str, headers: Mapping[str, str]) -> None:
        self.peer = Peer(self._state)
        self._frames = WSConnection(ConnectionType.CLIENT)
        extra = [(name.encode(), value.encode()) for name, value in headers.items()]
        self.peer.send(
            self._frames.send(
                Request(
                    host=self._host,
                    target=path,
                    extra_headers=extra,
                    subprotocols=list(self.protocols),
                )
            )
        )
        async with asyncio.timeout(_PATIENCE):
            while not self._accept():
                await self.peer._wait()

    def _accept(self) -> bool:
        head = bytes(self.peer.transport.output)
        if b"\r\n\r\n" not in head:
            return False
        if not head.startswith(b"HTTP/1.1 101"):
            raise Refused(_parse(head, self.peer))
        self._frames.receive_data(self._take_output())
        event = next(self._frames.events())
        assert isinstance(event, AcceptConnection), event
        self.protocol = event.subprotocol
        return True

    def say(self, *frames: Event) -> None:
        self.peer.send(b"".join(map(self._frames.send, frames)))

    def _take_in(self) -> None:
        data = self._take_output()
        if data:
            self._frames.receive_data(data)
        for event in self._frames.events():
            match event:
                case TextMessage(data=text):
                    self.events.append(json.loads(text))
                case Ping():
                    self.peer.send(self._frames.send(event.response()))
                case CloseConnection(code=code, reason=reason):
                    self.closed = (code, reason or "")
                case RejectConnection():
                    raise AssertionError("refused after the handshake")


class SseClient(StreamClient):
    """Server-sent events."""

    method, body = "GET", b""
    kinds = frozenset({"change", "error", "snapshot", "snapshot-end"})

    _text = b""
    place = ""  # where it has begun
    retry = 0  # ms after which it connects again
    chunks = 0  # of the transfer coding

    async def open(self, path: str, headers: Mapping[str, str]) -> None:
        self.peer = Peer(self._state)
        fields = {"accept": "text/event-stream", **headers}
        if self.body:
            fields["content-length"] = str(len(self.body))
        request = build_request(self.method, path, host=self._host).removesuffix(b"\r\n")
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.peer.send(request + lines.encode() + b"\r\n" + self.body)
        async with asyncio.timeout(_PATIENCE):
            while b"\r\n\r\n" not in self.peer.transport.output:
                await self.peer._wait()
        head, _, rest = bytes(self.peer.transport.output).partition(b"\r\n\r\n")
        if b"text/event-stream" not in head:
            raise Refused(_parse(bytes(self.peer.transport.output), self.peer))
        self.head = head.decode()
        self.peer.transport.output[:] = rest
        self._raw = b""

    def _take_in(self) -> None:
        self._raw += self._take_output()
        while (found := _cut_chunk(self._raw)) is not None:
            chunk, self._raw = found
            self.chunks += 1
            self._text += chunk
        *blocks, self._text = self._text.split(b"\n\n")
        for block in blocks:
            self._read_block(block.decode())

    def _read_block(self, block: str) -> None:
        fields = dict(line.partition(":")[::2] for line in block.split("\n"))
        if set(fields) == {""}:
            self.comments += 1
        elif "retry" in fields:
            self.retry = int(fields["retry"])
            self.place = fields.get("id", "")
        elif fields["event"] == "close":
            said = json.loads(fields["data"])
            self.closed = (said["code"], said["reason"])
        else:
            assert fields["event"] in self.kinds
            self.ids.append(fields.get("id", ""))
            self.events.append(json.loads(fields["data"]))


def _cut_chunk(data: bytes) -> tuple[bytes, bytes] | None:
    size, mark, rest = data.partition(b"\r\n")
    if not mark:
        return None
    length = int(size, 16)
    return (rest[:length], rest[length + 2 :]) if len(rest) >= length + 2 else None


def _parse(data: bytes, peer: Peer) -> Response:
    head, _, body = data.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    fields = [(name, value) for name, _, value in (line.partition(": ") for line in lines)]
    return Response(int(status.split()[1]), fields, body)


@asynccontextmanager
async def listen(
    service: Service,
    path: str,
    headers: Mapping[str, str] | None = None,
    *,
    by: str = SSE,
    host: str = "test",
) -> AsyncIterator[Any]:
    """A client of the stream at that path; raises `Refused` when there is none."""
    state = service.client._transport.state  # type: ignore[attr-defined]
    client = (SocketClient if by == WEBSOCKET else SseClient)(service, state, host)
    try:
        await service.there(client.open(path, headers or {}))
        yield client
    finally:
        await client.leave()


def notes(service: Service) -> Any:
    """The collection that most streams of the tests are about."""
    return service.mongo[service.db]["notes"]


@asynccontextmanager
async def emptied(service: Service, *collections: str) -> AsyncIterator[None]:
    """For one test: collections without documents, and no rules after it."""
    for name in collections:
        service.mongo[service.db][name].delete_many({})
    yield
    await remove_rules(service)
