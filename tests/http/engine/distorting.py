"""A way to the database that changes the results of chosen commands, as no server would."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import bson

HEADER = struct.Struct("<iiii")
OP_MSG = 2013
_BODY = 21  # behind the header, the flags and the kind of the section

Document = dict[str, Any]


class Distorter:
    """Passes everything on; `batches` are the first batches of the reads since the last `begin`.

    The batch with the number `place` is replaced.
    """

    def __init__(self, uri: str) -> None:
        self._target = urlsplit(uri).netloc.split(":")
        self.port = 0
        self.begin()

    def begin(self, place: int = -1, changed: Any = None) -> None:
        """Forget the batches so far."""
        self.batches: list[list[Document]] = []
        self._place, self._changed = place, changed

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Distorter]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        yield self
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self._target
        database, to_database = await asyncio.open_connection(host, int(port))
        reads: set[int] = set()  # numbers of the requests whose replies may be changed
        try:
            await asyncio.gather(
                self._pass_requests(reader, to_database, reads),
                self._pass_replies(database, writer, reads),
            )
        finally:
            writer.close()
            to_database.close()

    async def _pass_requests(self, reader: Any, writer: Any, reads: set[int]) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                message = await _read_message(reader)
                _, number, _, kind = HEADER.unpack_from(message)
                if kind == OP_MSG and message[20] == 0:
                    command = bson.decode(message[_BODY:])
                    if next(iter(command)) in ("find", "aggregate") and "comment" in command:
                        reads.add(number)
                writer.write(message)
        writer.close()

    async def _pass_replies(self, reader: Any, writer: Any, reads: set[int]) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                message = await _read_message(reader)
                _, number, request, _ = HEADER.unpack_from(message)
                if request in reads:
                    reply = self._distort(bson.decode(message[_BODY:]))
                    body = message[16:_BODY] + bson.encode(reply)
                    message = HEADER.pack(16 + len(body), number, request, OP_MSG) + body
                writer.write(message)
        writer.close()

    def _distort(self, reply: Document) -> Document:
        cursor = reply.get("cursor")
        if cursor is None:
            return reply
        place = len(self.batches)
        self.batches.append(cursor["firstBatch"])
        if place != self._place:
            return reply
        return {**reply, "cursor": {**cursor, "firstBatch": self._changed}}


async def _read_message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(16)
    return head + await reader.readexactly(HEADER.unpack(head)[0] - 16)
