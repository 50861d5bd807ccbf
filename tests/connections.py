"""The server's protocol without sockets: a transport in memory, and clients at its other end.

`Peer` speaks in bytes, `MemoryClient` is a transport of `httpx2` on top of it. What is written is
seen at once; what the protocol does not want to read waits, as it would in a kernel.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx2

from docgraph.server.http.protocol import HttpProtocol
from docgraph.server.http.state import ProcessState

Fields = list[tuple[str, str]]
_ADDRESS = "http://test"


class MemoryTransport(asyncio.Transport):
    """The server's end of a connection."""

    def __init__(self, client: tuple[str, int] = ("127.0.0.1", 123), *, tls: bool = False) -> None:
        super().__init__()
        self._names = {"peername": client, "sockname": ("192.0.2.1", 80), "sslcontext": tls}
        self._loop = asyncio.get_running_loop()
        self._protocol: Any = None
        self._unread = b""  # sent to a protocol that does not read
        self._is_reading = True
        self._is_closing = False
        self.output = bytearray()
        self.has_ended = False  # the server will not write any more
        self.is_lost = False
        self.changed = asyncio.Event()
        self.pending = 0  # what the peer has not taken yet, as a test pretends

    # --- what protocols call ----------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._names.get(name, default)

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def write(self, data: Any) -> None:
        assert not self.has_ended, "written after the end"
        if not self._is_closing:
            self.output += data
            self.changed.set()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.has_ended = True
        self.changed.set()

    def get_write_buffer_size(self) -> int:
        return self.pending

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        if self._unread:
            self._loop.call_soon(self.deliver, b"")

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self.lose()

    def abort(self) -> None:
        self.lose()

    # --- what the other end does ------------------------------------------------------------------

    def connect(self, protocol: Any) -> None:
        self._protocol = protocol
        protocol.connection_made(self)

    def deliver(self, data: bytes) -> None:
        """Bytes arrive."""
        self._unread += data
        if self._unread and self._is_reading and not self._is_closing:
            data, self._unread = self._unread, b""
            self._protocol.data_received(data)

    def lose(self) -> None:
        """The connection ends, whoever wanted it."""
        if not self._is_closing:
            self._is_closing = self.has_ended = True
            self.changed.set()
            self._loop.call_soon(self._report_loss)

    def _report_loss(self) -> None:
        self.is_lost = True
        self._protocol.connection_lost(None)
        self.changed.set()


@dataclass
class Response:
    """A response as it was written."""

    status: int
    headers: Fields
    body: bytes

    def __getitem__(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.headers]


class Protocols:
    """What is put on a connection: our own protocol, or that of an ASGI server."""

    make: Callable[[ProcessState, asyncio.AbstractEventLoop], Any] = staticmethod(HttpProtocol)


protocols = Protocols()


class Peer:
    """The client's end of a connection to a protocol."""

    def __init__(self, state: ProcessState, **options: Any) -> None:
        self.transport = MemoryTransport(**options)
        self.protocol = protocols.make(state, asyncio.get_running_loop())
        self.transport.connect(self.protocol)

    def send(self, data: bytes) -> None:
        self.transport.deliver(data)

    async def ask(self, data: bytes, method: str = "GET") -> Response:
        self.send(data)
        return await self.read(method)

    async def read(self, method: str = "GET") -> Response:
        """The next response; EOFError when there is none."""
        while True:
            found = _parse(bytes(self.transport.output), method, self.transport.has_ended)
            if found is not None:
                response, size = found
                del self.transport.output[:size]
                if response.status != 100:
                    return response
                continue
            if self.transport.has_ended:
                raise EOFError("the server closed the connection")
            await self._wait()

    async def read_all(self) -> bytes:
        """Everything until the server ends the connection."""
        while not self.transport.has_ended:
            await self._wait()
        return bytes(self.transport.output)

    async def wait_lost(self) -> None:
        while not self.transport.is_lost:
            await self._wait()

    def leave(self) -> None:
        self.transport.lose()

    async def _wait(self) -> None:
        self.transport.changed.clear()
        async with asyncio.timeout(240):
            await self.transport.changed.wait()


def build_request(
    method: str, path: str = "/", body: bytes | None = None, /, **headers: str
) -> bytes:
    """A well-formed request; header names are written with underscores."""
    fields = {"host": "test"} | {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        fields["content-length"] = str(len(body))
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + (body or b"")


def _parse(data: bytes, method: str, has_ended: bool) -> tuple[Response, int] | None:
    """The first response and its size, if it is complete."""
    head, mark, rest = data.partition(b"\r\n\r\n")
    if not mark:
        return None
    status_line, *lines = head.decode("latin-1").split("\r\n")
    fields = [(name, value) for name, _, value in (line.partition(": ") for line in lines)]
    response = Response(int(status_line.split()[1]), fields, b"")
    begin = len(head) + 4
    if method == "HEAD" or response.status in (100, 101, 204, 304):
        return response, begin
    if response["transfer-encoding"] == "chunked":
        return _parse_chunks(response, data, begin)
    length = response["content-length"]
    if length is None:
        response.body = rest
        return (response, len(data)) if has_ended else None
    response.body = rest[: int(length)]
    return (response, begin + int(length)) if len(rest) >= int(length) else None


def _parse_chunks(response: Response, data: bytes, at: int) -> tuple[Response, int] | None:
    parts = []
    while True:
        end = data.find(b"\r\n", at)
        if end < 0:
            return None
        size = int(data[at:end], 16)
        if len(data) < end + 2 + size + 2:
            return None
        parts.append(data[end + 2 : end + 2 + size])
        at = end + 2 + size + 2
        if not size:
            response.body = b"".join(parts)
            return response, at


class PathClient(httpx2.AsyncClient):
    """A client of one application, to which most addresses are paths.

    The library reads a path, puts it behind the address of the server, and reads the whole: half of
    what a request costs it. A plain path is put there at once.
    """

    def __init__(self, state: ProcessState) -> None:
        super().__init__(transport=MemoryClient(state), base_url=_ADDRESS)

    def build_request(self, method: str, url: Any, **options: Any) -> httpx2.Request:
        """The request that is sent."""
        if isinstance(url, str) and url.startswith("/") and not url.startswith("//"):
            url = _ADDRESS + url
        return super().build_request(method, url, **options)


class MemoryClient(httpx2.AsyncBaseTransport):
    """Sends each request of an `httpx2` client on a connection of its own."""

    def __init__(self, state: ProcessState) -> None:
        self.state = state

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = b"".join([part async for part in request.stream])  # type: ignore[union-attr]
        if "transfer-encoding" in request.headers:
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
        lines = b"".join(b"%s: %s\r\n" % field for field in request.headers.raw)
        target = request.url.raw_path
        peer = Peer(self.state)
        try:
            response = await peer.ask(
                b"%s %s HTTP/1.1\r\n%s\r\n%s" % (request.method.encode(), target, lines, body),
                request.method,
            )
        except EOFError as error:
            raise httpx2.RemoteProtocolError(str(error)) from None
        finally:
            peer.leave()
        return httpx2.Response(
            response.status,
            headers=[(name.encode(), value.encode("latin-1")) for name, value in response.headers],
            content=response.body,
        )
