"""Responses: a body, a stream, a WebSocket, or a takeover of the connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

HeaderList = list[tuple[str, str]]

# Of server-sent events: proxies must forward each of them immediately.
EVENT_HEADERS: Final = (("Cache-Control", "no-store"), ("X-Accel-Buffering", "no"))


@dataclass(slots=True)
class Body:
    """A complete response."""

    status: int = 200
    content: bytes = b""
    media_type: str | None = None
    headers: HeaderList = field(default_factory=list)


@dataclass(slots=True)
class Stream:
    """A response of unknown length; each chunk is sent as it comes.

    `stop` ends the chunks of a stream that lasts: it is called when the server stops. `is_bounded`:
    its size has a limit, so it is buffered for a slow client, as a `Body` is.
    """

    chunks: AsyncIterator[bytes]
    status: int = 200
    media_type: str | None = None
    headers: HeaderList = field(default_factory=list)
    stop: Callable[[], None] | None = None
    is_bounded: bool = False


@dataclass(slots=True)
class SharedMessages:
    """UTF-8 text messages for many WebSockets; the first sender builds their frames.

    `compressed` has the frames for peers that accept compression, by the size of their window.
    """

    contents: Sequence[bytes]
    frames: bytes = b""
    compressed: dict[int, bytes] | None = None
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = sum(map(len, self.contents))


class Socket(Protocol):
    """An open WebSocket, as services use it.

    `count_frame`, if set, is called for each frame from the peer: messages, their fragments, pings.
    If it returns a code and a reason, the socket is closed with them.
    """

    count_frame: Callable[[], tuple[int, str] | None] | None

    async def send(self, message: str | SharedMessages) -> None:
        """Send one text message, or several prepared ones."""

    def offer(self, message: SharedMessages) -> bool:
        """Send the message if that needs no waiting; return whether it was sent."""

    async def receive(self) -> str | bytes | None:
        """Return the next message, or None when the peer has disconnected."""

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the socket with a code."""


SocketHandler = Callable[[Socket], Awaitable[None]]


@dataclass(slots=True)
class Takeover:
    """Hands the rest of the exchange to another application: `(scope, receive, send)`."""

    application: Callable[[Any, Any, Any], Awaitable[None]]
    scope: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    headers: HeaderList = field(default_factory=list)


@dataclass(slots=True)
class Upgrade:
    """Accepts the WebSocket and passes it to `handler`."""

    handler: SocketHandler
    status: int = 101
    headers: HeaderList = field(default_factory=list)


Answer = Body | Stream | Upgrade | Takeover
