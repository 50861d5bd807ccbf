"""Read commands: run one with its time limit, retry, errors and observation.

Reads use the fast path (`fast_path.py`) if there is one, or `AsyncDatabase.command`, and not
`find().to_list()`: the driver's cursor objects cost a noticeable part of a small read, and a
response of one batch needs none. Their other tasks are done here: the retry of the retryable reads
specification, read preference and read concern of the client. `long_answers.py` reads the further
batches of a response that does not fit into one.

Time is bounded twice. The server stops the command by `maxTimeMS` and reports it. A moment later
docgraph stops waiting (or the caller does, if it enforces the deadline), for servers that do not
respond. A timeout or a cancellation closes the connection inside the driver, and the server ends a
read whose client has disconnected; docgraph also kills it (`abandoned.py`). The driver's own
`timeout()` is not used for reads: it would also replace the bound on waiting for a connection, and
it costs a task for every message.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

import bson
from bson.errors import InvalidBSON
from bson.raw_bson import RawBSONDocument
from pymongo import ReadPreference
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.asynchronous.mongo_client import AsyncMongoClient
from pymongo.errors import AutoReconnect, OperationFailure, PyMongoError

from docgraph.exchange.data import Consistency, Document
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import AnswerTooLarge, PoolExhausted, TimeLimitExceeded
from docgraph.runtime.native import find_native
from docgraph.store.driver.abandoned import AbandonedReads
from docgraph.store.driver.concerns import choose_preference
from docgraph.store.driver.driver_internals import ServerMode, has_free_connection
from docgraph.store.driver.errors import (
    AUTHENTICATION_FAILED,
    DRIVER_ERRORS,
    UNAUTHORIZED,
    explain,
    out_of_time,
    translate,
    unreachable,
)
from docgraph.store.driver.fast_path import FastPath
from docgraph.store.driver.lanes import Wait
from docgraph.store.driver.lenient_decode import ResultReader, check_reply, decode_reply
from docgraph.store.driver.long_answers import read_again, read_on
from docgraph.store.driver.malformed import (
    invalid_response,
    is_unread_by_driver,
    reading_reply,
    translated,
)
from docgraph.store.driver.portions import LARGE, OneField, RawBatch, RawTake, Take, hand_over
from docgraph.store.driver.retryable import is_worth_another_try
from docgraph.store.driver.timed_commands import Observed
from docgraph.store.driver.waiting import WaitingCommand, Waits
from docgraph.store.repeated_names import find_compared, mark_repeated

if TYPE_CHECKING:
    from pymongo.asynchronous.server import Server

T = TypeVar("T")

_NO_DEADLINE = Deadline()
_GRACE = 0.25  # seconds between the server's timeout of a command and ours
_LOOK_SECONDS = 0.02  # between two checks for a free connection
_KEPT_DATABASES = 256
# Seconds before each retry of a read. One is not enough: until its monitor has noticed the loss of
# a server, the driver may select the same one again.
_RETRY_PAUSES = (0.0, 0.05, 0.1, 0.2, 0.4)


class Commands:
    """Sends commands to the database of a client, each with a time limit."""

    def __init__(
        self, client: AsyncMongoClient[Document], *, ceiling_ms: int, waits: Waits | None = None
    ) -> None:
        self.client = client
        self.waits = waits or Waits()
        self.ceiling_ms = ceiling_ms
        self._ceiling = ceiling_ms / 1000 if ceiling_ms > 0 else None
        self._options = client.codec_options
        self._raw_options = client.codec_options.with_options(document_class=RawBSONDocument)
        self._read_concern = client.read_concern.document
        self._read_preference = client.read_preference
        self._pauses = _RETRY_PAUSES if client.options.retry_reads else ()
        self._pool = client.options.pool_options
        self._fast_path = FastPath.find(client)
        self._database = lru_cache(maxsize=_KEPT_DATABASES)(client.get_database)
        self._abandoned = AbandonedReads(client)
        self._turn = asyncio.Lock()

    async def stop(self) -> None:
        """Stop killing abandoned operations; call it before the client is closed."""
        await self._abandoned.close()

    def close(self) -> None:
        """Cancel the remaining background work."""
        self.waits.wheel.close()
        if self._fast_path is not None:
            self._fast_path.close()

    async def fetch(
        self,
        db: str,
        command: Document,
        deadline: Deadline,
        consistency: Consistency | None = None,
        *,
        one_batch: bool = False,
        take: Take | None = None,
    ) -> list[Document]:
        """Return the documents, of `one_batch` at most; `take` gets them in portions instead."""
        self._abandoned.mark(command)
        with Observed(db, command) as seen:
            seconds = self.limit(command, deadline)
            if self._read_concern:
                command["readConcern"] = self._read_concern
            preference = self._read_preference
            if consistency is not None:
                preference = self._apply(consistency, command)
            database = self._database(db)
            if take is not None and seen.comment is not None:
                take = seen.counting(take)
            wait = Wait(deadline, seen.restart, isinstance(take, RawTake))
            read = partial(self._read, database, command, preference, one_batch, take, wait)
            try:
                documents = await self.within(seconds, read, deadline, preference=preference)
                if take is None:
                    seen.documents = len(documents)
                return documents
            except (asyncio.CancelledError, TimeLimitExceeded) as error:
                if not isinstance(error.__cause__, OperationFailure):  # the server itself ended it
                    self._abandoned.add(command, preference)
                raise

    async def decode(
        self, db: str, collection: str, documents: Sequence[bytes], deadline: Deadline
    ) -> list[Document]:
        """Decode documents that were not decoded when they arrived."""
        reader = ResultReader(self._options, db, {"find": collection})
        with translated():
            if sum(map(len, documents)) > LARGE:
                return await RawBatch(documents, reader, self._turn, deadline).decode()
            decoded = list(map(reader.read, documents))
        reader.finish()
        return decoded

    def decode_fields(
        self, documents: Sequence[bytes], names: Sequence[str]
    ) -> Sequence[Document] | None:
        """Decode these fields of documents; None if that is not possible."""
        native = find_native()
        if native is None:
            return None
        decode = partial(bson.decode, codec_options=self._options)
        try:
            if len(names) != 1:
                return native.view(documents, names, decode)
            (name,) = names
            return OneField.decode(native, documents, name, decode)
        except (native.misfit, InvalidBSON):
            return None

    def _apply(self, consistency: Consistency, command: Document) -> ServerMode:
        """Apply the consistency of the caller; it takes precedence over that of the connection."""
        if consistency.concern is not None:
            command["readConcern"] = {"level": consistency.concern}
            if consistency.at is not None:
                command["readConcern"]["atClusterTime"] = consistency.at
        return choose_preference(
            consistency, self._read_preference, self.client.topology_description
        )

    def budget(self, deadline: Deadline) -> float | None:
        """Return the time limit of one command in seconds: what is left, up to the maximum."""
        left = deadline.remaining()
        if left is None or self._ceiling is None:
            return left or self._ceiling
        return min(left, self._ceiling)

    def limit(self, command: Document, deadline: Deadline) -> float | None:
        """Add the time limit to a command; return it in seconds."""
        seconds = self.budget(deadline)
        if seconds is not None:
            command["maxTimeMS"] = max(1, int(seconds * 1000))
        return seconds

    async def within(
        self,
        seconds: float | None,
        work: Callable[[], Awaitable[T]],
        deadline: Deadline = _NO_DEADLINE,
        *,
        writing: bool = False,
        preference: ServerMode | None = None,
    ) -> T:
        """Await the work within a time limit, and the patience of its deadline for a server."""
        if self.waits.is_away:
            raise explain(AUTHENTICATION_FAILED) if self.waits.is_refused else unreachable()
        limit = None if seconds is None else seconds + _GRACE
        has_server = partial(self.has_server, writing=writing, preference=preference)
        bound = WaitingCommand(
            self.waits, self.client, limit, has_server, deadline, is_write=writing
        )
        try:
            with bound:
                return await work()
        except DRIVER_ERRORS as error:
            # The driver's own timeout (of the pool, …) is that of the work if at most the grace
            # period is left of ours.
            is_close = bound.until - time.monotonic() < 2 * _GRACE
            if bound.expired or (is_close and isinstance(error, PyMongoError) and error.timeout):
                is_reachable = not self.waits.is_away and has_server()
                raise (out_of_time() if is_reachable else unreachable()) from error
            if isinstance(error, OperationFailure) and error.code == AUTHENTICATION_FAILED:
                self.waits.is_refused = True
            if isinstance(error, OperationFailure) and error.code == UNAUTHORIZED:
                self.waits.record_denial(str(error))
            raise translate(error) from error
        except Exception as error:
            if not is_unread_by_driver(error):
                raise
            raise invalid_response() from error

    def has_server(self, *, writing: bool, preference: ServerMode | None = None) -> bool:
        """Check if a server that accepts such commands is known."""
        topology = self.client.topology_description
        if writing:
            return topology.has_writable_server()
        return topology.has_readable_server(preference or self._read_preference)

    async def await_connection(self, deadline: Deadline) -> None:
        """Wait until a connection is free for a write; reads that wait for a turn have none."""
        most = self._pool.max_pool_size
        longest = deadline.find_patience(self._pool.wait_queue_timeout)
        loop = asyncio.get_running_loop()
        until = None if longest is None else loop.time() + longest
        with deadline.waiting():
            while self.waits.count_writes(self.client) >= most or not has_free_connection(
                self.client
            ):
                if until is not None and loop.time() > until:
                    raise PoolExhausted
                await asyncio.sleep(_LOOK_SECONDS)

    def was_pool_busy(self, since: float) -> bool:
        """Return whether a command lacks a connection, or a read has since that time."""
        has_waited = self._fast_path is not None and self._fast_path.has_waited(since)
        return has_waited or not has_free_connection(self.client)

    async def ping(
        self,
        seconds: float | None,
        deadline: Deadline = _NO_DEADLINE,
        *,
        writing: bool = False,
        db: str = "admin",
        preference: ServerMode | None = None,
    ) -> None:
        """Wait until a server that accepts such commands answers."""
        if preference is None:
            preference = ReadPreference.PRIMARY if writing else self.client.read_preference
        database = self._database(db)
        await self.within(
            seconds,
            lambda: database.command({"ping": 1}, read_preference=preference),
            deadline,
            writing=writing,
            preference=preference,
        )

    async def read_time(self, seconds: float) -> datetime:
        """Return the time of day of the server that accepts writes."""
        database = self._database("admin")
        reply: Document = await self.within(
            seconds, lambda: database.command({"hello": 1}, read_preference=ReadPreference.PRIMARY)
        )
        with reading_reply():
            time_of_day: datetime = reply["localTime"]
            time_of_day.replace(tzinfo=UTC).timestamp()
        return time_of_day

    async def read_snapshot_time(self, db: str, collection: str, deadline: Deadline) -> Any:
        """Return a cluster time that the primary can read at: not before any confirmed write."""
        command: Document = {"find": collection, "filter": {"_id": {"$in": []}}, "limit": 1}
        command |= {"singleBatch": True, "readConcern": {"level": "snapshot"}}
        seconds = self.limit(command, deadline)
        database, primary = self._database(db), ReadPreference.PRIMARY
        with Observed(db, command):
            reply = await self.within(
                seconds, lambda: self.send_by_driver(database, command, primary), deadline
            )
        with reading_reply():
            return reply["cursor"]["atClusterTime"]

    async def explain(
        self, db: str, command: Document, deadline: Deadline, verbosity: str = "queryPlanner"
    ) -> Document:
        """Return the plan of a read command; with `executionStats` the database executes it."""
        explain: Document = {"explain": dict(command), "verbosity": verbosity}
        seconds, preference = self.limit(explain, deadline), self._read_preference
        with Observed(db, {"explain": next(iter(command.values()))}) as seen:
            if seen.comment is not None:
                explain["comment"] = seen.comment
            reply, _ = await self.within(
                seconds,
                lambda: self._send(self._database(db), explain, preference, Wait(deadline)),
                deadline,
                preference=preference,
            )
            return reply

    async def _read(
        self,
        database: AsyncDatabase[Document],
        command: Document,
        preference: ServerMode,
        one_batch: bool,
        take: Take | None,
        wait: Wait,
    ) -> list[Document]:
        reply, server = await self._send(database, command, preference, wait)
        if wait.deadline.patience is not None:
            wait.deadline.patience.has_begun = True
        cursor: Document = reply["cursor"]
        if not cursor["id"]:
            return await hand_over(cursor["firstBatch"], take)
        if not one_batch and server is not None and self._fast_path is not None:
            place = (self._fast_path, server, database.name)
            return await read_on(
                *place, command, preference, cursor=cursor, take=take, deadline=wait.deadline
            )
        collection = cursor["ns"].partition(".")[2]  # `aggregate: 1` names none
        closing = {"killCursors": collection, "cursors": [cursor["id"]]}
        await database.command(closing, read_preference=preference)
        if one_batch:
            raise AnswerTooLarge("the answer exceeds 16 MiB")
        del reply, cursor  # they are large
        return await read_again(database, command, preference, self._options, take)

    async def _send(
        self,
        database: AsyncDatabase[Document],
        command: Document,
        preference: ServerMode,
        wait: Wait,
    ) -> tuple[Document, Server | None]:
        """Return the response and the server that sent it, if that is known."""
        pauses = iter(self._pauses)
        while True:
            try:
                if self._fast_path is not None:
                    return await self._fast_path.read(database.name, command, preference, wait)
                return await self.send_by_driver(database, command, preference), None
            except (AutoReconnect, OperationFailure) as error:
                pause = next(pauses, None)
                if pause is None or not is_worth_another_try(error):
                    raise
            await asyncio.sleep(pause)

    async def send_by_driver(
        self,
        database: AsyncDatabase[Document],
        command: Document,
        preference: ServerMode,
        session: AsyncClientSession | None = None,
    ) -> Document:
        """Send through the driver's normal path, the only one that supports sessions."""
        send: Callable[..., Awaitable[Any]] = partial(
            database.command, read_preference=preference, session=session
        )
        if not find_compared(command.get("filter")):
            with suppress(InvalidBSON):  # the driver adds to the command: a copy each time
                decoded: Document = await send(dict(command), codec_options=self._options)
                check_reply(decoded, command)
                return decoded
        raw: Any = await send(dict(command), codec_options=self._raw_options)
        reply: Document = decode_reply(raw.raw, self._options, database.name, command)
        check_reply(reply, command)
        mark_repeated(reply, raw.raw, command)
        return reply
