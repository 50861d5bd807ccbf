"""Change streams: what happens to a collection or a database, as it happens.

The driver resumes a stream after a lost connection or an election, without a gap. What a reader may
be told of is the business of `guard/events.py`, and of `judge.py` where the database keeps the
images of documents from before and after a change.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any

import bson
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo.asynchronous.change_stream import AsyncChangeStream
from pymongo.asynchronous.mongo_client import AsyncMongoClient

from docgraph.exchange.data import Document
from docgraph.store.driver.command import Commands
from docgraph.store.driver.errors import translated
from docgraph.store.driver.salvage import decode_event
from docgraph.store.judge import Judge

__all__ = ["ChangeEvents"]

_AWAIT_MS = 1000  # that the database waits for an event before it says that there is none


class ChangeEvents:
    """An asynchronous iterator of change events; opened by `open` or by the first event.

    Close it (`async with`, or `aclose`) when done: it holds a cursor of the database. `prepare`
    gives the stages where they are not known before it is opened.
    """

    def __init__(  # noqa: PLR0913 - the parts of a stream
        self,
        client: AsyncMongoClient[Document],
        commands: Commands,
        db: str,
        collection: str | None,
        pipeline: Sequence[Mapping[str, Any]],
        *,
        judge: Judge | None = None,
        prepare: Callable[[], Awaitable[Sequence[Mapping[str, Any]]]] | None = None,
        **options: Any,
    ) -> None:
        # Raw, so that a value which the driver cannot read does not end the stream.
        raw: CodecOptions[Any] = client.codec_options.with_options(document_class=RawBSONDocument)
        database = client.get_database(db, codec_options=raw)
        self._commands = commands
        self._db = db
        self._decoding: CodecOptions[Document] = client.codec_options
        self._source = database if collection is None else database.get_collection(collection)
        self._pipeline = pipeline
        self._options = {**options, "max_await_time_ms": _AWAIT_MS}
        self._stream: AsyncChangeStream[Any] | None = None
        self._judge = judge
        self._prepare = prepare
        self._unjudged: RawBSONDocument | None = None
        self._token: Any = None

    @property
    def alive(self) -> bool:
        """Whether there may be more events from this cursor.

        There are none after the end of what is watched (`invalidate`), where a new stream goes on
        with `start_after`, and after an error or a cancellation that has ended the cursor, where
        one goes on with `resume_after`. `try_next` is None at once then.
        """
        return self._unjudged is not None or self._stream is None or self._stream.alive

    @property
    def resume_token(self) -> Mapping[str, Any] | None:
        """Where to go on: after the last event, also when later ones did not concern us.

        Not for those who listen: it may name a document that is not theirs. The `_id` of an event
        that they are told of names that document only.
        """
        token = self._token
        if self._unjudged is None and self._stream is not None:
            token = self._stream.resume_token
        return bson.decode(token.raw) if isinstance(token, RawBSONDocument) else token

    async def open(self) -> None:
        """Open the stream, so that nothing that happens after this is missed.

        Nobody waits for a database that is known to be away.
        """
        if self._stream is None:
            if self._prepare is not None:
                self._pipeline = await self._prepare()
            self._stream = await self._commands.within(
                None, partial(self._source.watch, self._pipeline, **self._options)
            )

    async def try_next(self) -> Document | None:
        """The next event, or None: there was none for about a second, or one that is not told.

        An event that could not be judged, because of an error, is judged by the next call.
        """
        await self.open()
        assert self._stream is not None  # noqa: S101 - it is open
        if self._unjudged is not None:
            return await self._tell(self._unjudged)
        if self._judge is not None:  # the driver copies it, which takes longer than the event does
            self._token = self._stream.resume_token
        with translated():
            event = await self._stream.try_next()
            if event is None:
                return None
            if self._judge is None:
                return decode_event(event.raw, self._decoding, self._db)
        return await self._tell(event)

    async def _tell(self, event: RawBSONDocument) -> Document | None:
        assert self._judge is not None  # noqa: S101 - only then there is something to judge
        self._unjudged = event
        told = await self._judge.tell(event)
        self._unjudged = None
        return told

    def __aiter__(self) -> ChangeEvents:
        return self

    async def __anext__(self) -> Document:
        while self.alive:
            event = await self.try_next()
            if event is not None:
                return event
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Give back the cursor."""
        if self._stream is not None:
            with translated():
                await self._stream.close()

    async def __aenter__(self) -> ChangeEvents:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()
