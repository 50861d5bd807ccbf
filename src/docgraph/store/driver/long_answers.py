"""Long responses: read or reject responses of more than one batch (more than 16 MiB).

Further batches come from the server that sent the first one. If the fast path sent the command,
that server is known, and each batch is passed on before the next one is requested. Otherwise a
cursor of the driver reads everything again from the beginning.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo.asynchronous.command_cursor import AsyncCommandCursor
from pymongo.asynchronous.database import AsyncDatabase

from docgraph.exchange.data import Document
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import AnswerTooLarge
from docgraph.store.driver.driver_internals import ServerMode
from docgraph.store.driver.errors import DRIVER_ERRORS
from docgraph.store.driver.fast_path import FastPath
from docgraph.store.driver.lenient_decode import ResultReader
from docgraph.store.driver.portions import PORTION, RawBatch, Take, hand_over

if TYPE_CHECKING:
    from pymongo.asynchronous.server import Server

_MAX_BYTES: Final = 32 << 20  # of one response; twice the size that docgraph may send
_KILL_SECONDS: Final = 1.0


async def read_on(  # noqa: PLR0913 - where it was begun, and with what
    fast_path: FastPath,
    server: Server,
    db: str,
    command: Document,
    preference: ServerMode,
    *,
    cursor: Document,
    take: Take | None,
    deadline: Deadline,
) -> list[Document]:
    """Return the documents of a cursor after its first batch; close it if they are not read."""
    collection = cursor["ns"].partition(".")[2]  # `aggregate: 1` names none
    further = {"getMore": cursor["id"], "collection": collection}
    if "comment" in command:
        further["comment"] = command["comment"]
    documents: list[Document] = []
    size = 0
    batch: RawBatch | list[Document] = cursor.pop("firstBatch")
    try:
        while True:
            # A batch that arrives decoded is the small last one.
            size += batch.size if isinstance(batch, RawBatch) else 0
            _weigh(size)
            documents += await hand_over(batch, take)
            del batch  # before the next one arrives
            if not cursor["id"]:
                return documents
            reply = await fast_path.send(server, db, further, preference, deadline)
            cursor = reply["cursor"]
            batch = cursor.pop("nextBatch")
    except BaseException:
        if cursor["id"]:
            closing = {"killCursors": collection, "cursors": [cursor["id"]]}
            with suppress(TimeoutError, *DRIVER_ERRORS):  # the server closes it itself later
                async with asyncio.timeout(_KILL_SECONDS):
                    await fast_path.send(server, db, closing, preference)
        raise


async def read_again(
    database: AsyncDatabase[Document],
    command: Document,
    preference: ServerMode,
    options: CodecOptions[Document],
    take: Take | None,
) -> list[Document]:
    """Return the documents of a command by a cursor of the driver."""
    raw_options = options.with_options(document_class=RawBSONDocument)
    raw = database.with_options(codec_options=raw_options)
    cursor: AsyncCommandCursor[Any] = await raw.cursor_command(
        dict(command), read_preference=preference, codec_options=raw_options
    )
    reader = ResultReader(options, database.name, command)
    documents: list[Document] = []
    size = taken = 0
    async with cursor:
        async for document in cursor:  # raw, so that its size is checked before it is decoded
            size += len(document.raw)
            _weigh(size)
            documents.append(reader.read(document.raw))
            if take is not None and size - taken > PORTION:
                taken = size
                await take(documents)
                documents = []
                await asyncio.sleep(0)  # let other requests run
    reader.finish()
    return await hand_over(documents, take)


def _weigh(size: int) -> None:
    if size > _MAX_BYTES:
        raise AnswerTooLarge(
            f"the answer of the database exceeds {_MAX_BYTES >> 20} MiB",
            hint="ask for fewer documents, or for less of each",
        )
