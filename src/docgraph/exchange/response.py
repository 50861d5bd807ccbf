"""What an answer can be: a body, a stream, a socket, or a takeover of the connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["Answer", "Body", "Prepared", "Socket", "SocketHandler", "Stream", "Takeover", "Upgrade"]

HeaderList = list[tuple[str, str]]


@dataclass(slots=True)
class Body:
    """A complete answer."""

    status: int = 200
    content: bytes = b""
    media_type: str | None = None
    headers: HeaderList = field(default_factory=list)


@dataclass(slots=True)
class Stream:
    """An answer whose length is not known; each chunk is sent as it comes."""

    chunks: AsyncIterator[bytes]
    status: int = 200
    media_type: str | None = None
    headers: HeaderList = field(default_factory=list)


@dataclass(slots=True)
class Prepared:
    """Text messages for many sockets, in UTF-8: the first that sends them makes their frames."""

    contents: Sequence[bytes]
    frames: bytes = b""
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = sum(map(len, self.contents))


class Socket(Protocol):
    """An open WebSocket, seen from a service.

    `count_frame`, if set, is called for each frame that the peer sends: messages, their fragments,
    pings. What it returns, a code and a reason, closes the socket.
    """

    count_frame: Callable[[], tuple[int, str] | None] | None

    async def send(self, message: str | Prepared) -> None:
        """Send one text message, or several that are prepared."""
        ...

    def offer(self, message: Prepared) -> bool:
        """Send all of it, if that needs no waiting; whether it is sent."""
        ...

    async def receive(self) -> str | bytes | None:
        """The next message, or None when the peer is gone."""
        ...

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Say goodbye with a code."""
        ...


SocketHandler = Callable[[Socket], Awaitable[None]]


@dataclass(slots=True)
class Takeover:
    """The rest of the exchange is another application's: `(scope, receive, send)`."""

    application: Callable[[Any, Any, Any], Awaitable[None]]
    scope: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    headers: HeaderList = field(default_factory=list)


@dataclass(slots=True)
class Upgrade:
    """Accept the WebSocket and hand it to `handler`."""

    handler: SocketHandler
    status: int = 101
    headers: HeaderList = field(default_factory=list)


Answer = Body | Stream | Upgrade | Takeover
