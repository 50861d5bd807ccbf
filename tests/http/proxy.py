"""A way to the database of the run that a test may cut, close and open again.

Nobody else uses it, so that the database is away for the client of one test only. It lives in a
loop of its own, and is no task of the application that is looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from tests.http.hosts import hosted


class Proxy:
    """Listens all the time; while it is closed, whoever connects is sent away at once."""

    def __init__(self, uri: str, *, lingers: bool = False) -> None:
        self._target = urlsplit(uri).netloc.split(":")
        self._loop = asyncio.get_running_loop()
        self._is_open = True
        self._lingers = lingers  # the database does not learn that a client has left
        self._links: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    @property
    def uri(self) -> str:
        return f"mongodb://127.0.0.1:{self.port}/?directConnection=true"

    async def open(self) -> None:
        """Let new connections through."""
        await self._there(self._set_open(True))

    async def close(self) -> None:
        """End every connection, and let no new one through."""
        await self._there(self._set_open(False))

    async def cut(self) -> None:
        """End every connection that is open now."""
        await self._there(self._cut())

    async def _there(self, work: Coroutine[Any, Any, None]) -> None:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _set_open(self, is_open: bool) -> None:
        self._is_open = is_open
        if not is_open:
            await self._cut()

    async def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Proxy]:
        """The proxy, until everybody has left."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            await self._set_open(False)
            if self._links:
                await asyncio.wait(self._links)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        task.add_done_callback(self._links.discard)
        host, port = self._target
        back_reader, back_writer = await asyncio.open_connection(host, int(port))
        self._writers |= {writer, back_writer}
        if not self._is_open:
            await self._cut()
        await asyncio.gather(
            _pump(reader, back_writer, lingers=self._lingers), _pump(back_reader, writer)
        )
        self._writers -= {writer, back_writer}


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, lingers: bool = False
) -> None:
    with suppress(OSError):
        # A transport that was cut meanwhile takes nothing any more: uvloop raises, and no OSError.
        while (data := await reader.read(1 << 16)) and not writer.is_closing():
            writer.write(data)
            await writer.drain()
    if lingers:
        return
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


@asynccontextmanager
async def _proxying(uri: str, lingers: bool) -> AsyncIterator[Proxy]:
    async with Proxy(uri, lingers=lingers).listening() as proxy:
        yield proxy


@contextmanager
def proxying(uri: str, *, lingers: bool = False) -> Iterator[Proxy]:
    """A proxy before that database."""
    with hosted(_proxying(uri, lingers)) as proxy:
        yield proxy
