"""Change streams: events of a collection or a database, followed with resume tokens.

The driver resumes a stream after a lost connection or an election, without a gap. Which events a
reader can see is decided in `guard/event_stages.py`; for the clients of change streams, on the
events themselves (`change_visibility.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any

import bson
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo.asynchronous.change_stream import AsyncChangeStream
from pymongo.asynchronous.mongo_client import AsyncMongoClient

from docgraph.exchange.data import Document, Stages
from docgraph.exchange.errors import NotSupported, StoreError, StoreUnavailable
from docgraph.store.driver.command import Commands
from docgraph.store.driver.lenient_decode import decode_event
from docgraph.store.driver.malformed import translated

RawEvent = RawBSONDocument  # as the database sent it

_AWAIT_MS = 1000  # the database waits this long for an event before it returns none


def decode_token(event: RawEvent) -> Mapping[str, Any]:
    return bson.decode(event["_id"].raw)


class ChangeEvents:
    """An asynchronous iterator of change events; opened by `open` or by the first event.

    Close it (`async with`, or `aclose`) when done: it holds a cursor of the database. `prepare`
    checks what is not known before the stream is opened.
    """

    def __init__(
        self,
        client: AsyncMongoClient[Document],
        commands: Commands,
        db: str,
        collection: str | None,
        pipeline: Stages,
        *,
        prepare: Callable[[], Awaitable[object]] | None = None,
        **options: Any,
    ) -> None:
        # Raw, so that a value which the driver cannot decode does not end the stream.
        raw: CodecOptions[Any] = client.codec_options.with_options(document_class=RawBSONDocument)
        database = client.get_database(db, codec_options=raw)
        self._commands = commands
        self._db = db
        self._decoding: CodecOptions[Document] = client.codec_options
        self._source = database if collection is None else database.get_collection(collection)
        self._pipeline = pipeline
        self._options = {"max_await_time_ms": _AWAIT_MS, **options}
        self._stream: AsyncChangeStream[Any] | None = None
        self._prepare = prepare

    @property
    def alive(self) -> bool:
        """Whether this cursor may return more events.

        It returns no more after the watched resource was dropped (`invalidate`); a new stream
        continues with `start_after`. It also returns no more after an error or a cancellation that
        closed the cursor; a new stream continues with `resume_after`. `try_next` then returns None
        immediately.
        """
        return self._stream is None or self._stream.alive

    @property
    def resume_token(self) -> Mapping[str, Any] | None:
        """The resume token: after the last event, even if later events were filtered out.

        Do not send it to clients: it may contain the `_id` of a document that they cannot see. The
        `_id` of a delivered event contains only the `_id` of its own document.
        """
        token = None if self._stream is None else self._stream.resume_token
        return bson.decode(token.raw) if isinstance(token, RawBSONDocument) else token

    async def open(self) -> None:
        """Open the stream, so that no later event is missed; fail if the database is away."""
        if self._stream is None:
            if self._prepare is not None:
                await self._prepare()
            self._stream = await self._commands.within(
                None, partial(self._source.watch, self._pipeline, **self._options)
            )

    async def try_next(self) -> Document | None:
        """Return the next event, or None: there was none for about a second."""
        event = await self.try_next_raw()
        return None if event is None else decode_event(event.raw, self._decoding, self._db)

    async def try_next_raw(self) -> RawBSONDocument | None:
        """Return the next event as it was sent, or None; those of a batch without suspending."""
        await self.open()
        assert self._stream is not None  # noqa: S101 - it is open
        with translated():
            event: RawBSONDocument | None = await self._stream.try_next()
            return event

    def __aiter__(self) -> ChangeEvents:
        return self

    async def __anext__(self) -> Document:
        while self.alive:
            event = await self.try_next()
            if event is not None:
                return event
        raise StopAsyncIteration

    async def aclose(self) -> None:
        if self._stream is not None:
            with translated():
                await self._stream.close()

    async def __aenter__(self) -> ChangeEvents:
        await self.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


_PAUSE = 0.2  # seconds before a stream that ended is opened again

ResumeToken = Mapping[str, Any]


@dataclass(eq=False)
class Follower:
    """Opens a stream, catches up with earlier changes, and handles its events, repeatedly.

    `open_stream` gets the resume token, or None for now. `catch_up` is called whenever a stream has
    been opened, for the changes while there was none.

    After failover, it continues at the resume token. A stream ends when the watched resource is
    dropped; it is opened again after a pause. Errors are left to `Tasks`, which reports them and
    calls `run` again; the stream then continues at its resume token, if the database still knows
    it.
    """

    _open_stream: Callable[[ResumeToken | None], ChangeEvents]
    _: KW_ONLY
    catch_up: Callable[[], Awaitable[None]]
    take: Callable[[Document], Awaitable[None]]
    _resume: ResumeToken | None = None
    _opened: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_open(self) -> bool:
        """Whether all new changes are received, and all earlier ones are known."""
        return self._opened.is_set()

    async def wait_open(self) -> None:
        """Wait until the stream is open; this never returns without change streams."""
        await self._opened.wait()

    async def run(self) -> None:
        """Follow the stream; return only if the database has no change streams."""
        while True:
            try:
                await self._follow()
            except NotSupported:
                return  # no replica set: the caller polls as well
            except StoreUnavailable:
                raise
            except StoreError:
                self._resume = None  # its position may no longer be in the database's oplog
                raise
            self._resume = None  # dropped: there is no position to continue from
            await asyncio.sleep(_PAUSE)

    async def _follow(self) -> None:
        async with self._open_stream(self._resume) as events:
            await self.catch_up()
            self._opened.set()
            try:
                async for event in events:
                    await self.take(event)
                    self._resume = events.resume_token
            finally:
                self._opened.clear()
