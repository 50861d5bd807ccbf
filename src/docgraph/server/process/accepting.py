"""Accept loop: accepts many waiting connections per turn of the event loop.

The event loop's own server accepts one connection per turn. Turns are long under load, so that a
health check would wait for as many turns as connections came before it.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any, Final

AT_ONCE: Final = 128  # connections per turn; open connections are served between two turns
_PAUSE: Final = 0.1  # seconds, when the system has no resources for another connection
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """Gives each connection of a listening socket a protocol."""

    def __init__(
        self,
        listener: socket.socket,
        make_protocol: Callable[[], asyncio.Protocol],
        options: dict[str, Any],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._make_protocol = make_protocol
        self._options = options
        self._resuming: asyncio.TimerHandle | None = None
        self.connecting: set[asyncio.Task[None]] = set()
        self._loop.add_reader(listener, self._accept)

    def close(self) -> None:
        """Stop listening; connections that the system has accepted already are served first."""
        self._loop.remove_reader(self._listener)
        if self._resuming is not None:
            self._resuming.cancel()
        while self._accept_one():
            pass
        self._listener.close()

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            if not self._accept_one():
                return

    def _accept_one(self) -> bool:
        """Accept a connection; returns whether there may be another one."""
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                return True  # this connection has failed already
            self._pause()
            return False
        task = self._loop.create_task(self._connect(connection))
        self.connecting.add(task)
        task.add_done_callback(self.connecting.discard)
        return True

    async def _connect(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(
                self._make_protocol, connection, **self._options
            )
        except OSError:  # the client is gone, or the TLS handshake has failed
            connection.close()

    def _pause(self) -> None:
        """Accept again after a moment: the socket stays readable, and the loop would not rest."""
        self._loop.remove_reader(self._listener)
        self._resuming = self._loop.call_later(
            _PAUSE, self._loop.add_reader, self._listener, self._accept
        )
