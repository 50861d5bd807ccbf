"""Fast path of reads: use the driver's connections without its overhead per message.

The driver selects the server, manages the pool, logs in, and is notified of every error, as always.
Only the message itself is sent and awaited here. The driver would start two tasks for it, to check
a time limit and the end of the connection's server, and attach a session that a single read does
not need. Both cost more than the rest of a small read together (0.26 ms of CPU against 0.07). The
caller limits the time (`command.py`). A timer checks for servers that the driver has given up in
the meantime, and ends the reads that wait for them.

Reads wait for a connection in the order of their arrival (`lanes.py`): in the driver's own queue
later reads may be faster, so that some of many wait in vain. A tenth of the connections, at least
one, is reserved for work that does not use this path, such as writes.

The driver's internals used here are those of `driver_internals.py`, and only with the versions that
were tested. With other versions, and if an option of the client needs the driver's normal path,
`find` returns None.
"""

from __future__ import annotations

import asyncio
import struct
import time
from functools import lru_cache
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from bson.errors import InvalidBSON
from pymongo.asynchronous.mongo_client import AsyncMongoClient
from pymongo.errors import DocumentTooLarge, ExecutionTimeout, ProtocolError
from pymongo.topology_description import TopologyDescription

from docgraph.exchange.data import Document
from docgraph.exchange.deadline import Deadline
from docgraph.runtime.loop_share import LoopShare
from docgraph.store.driver.driver_internals import (
    ServerMode,
    adapt_preference,
    check_in,
    check_in_failed,
    check_out,
    check_out_idle,
    count_openable,
    fail_connection,
    find_obstacle,
    is_ready,
    raise_error,
    select_server,
)
from docgraph.store.driver.lanes import NO_WAIT, PoolLanes, ReadCost, ReadCosts, Wait, build_trial
from docgraph.store.driver.lenient_decode import (
    ResultReader,
    check_reply,
    decode_reply,
    encode_bson,
)
from docgraph.store.driver.portions import LARGE, Encoded, build_batch, split_batch, weigh
from docgraph.store.repeated_names import mark_repeated

if TYPE_CHECKING:
    from pymongo.asynchronous.pool import AsyncConnection, Pool
    from pymongo.asynchronous.server import Server

_HEADER: Final = struct.Struct("<iiiiIB")  # length, id, response to, operation, flags, section
_OP_MSG: Final = 2013
_BODY: Final = 5  # where the document begins in a response without its header
_OVERHEAD: Final = 16 * 1024  # of a command, in addition to the largest document
_LARGEST_ID: Final = 2**31 - 1
_LOOK_SECONDS: Final = 0.5  # between two checks for servers that were given up
_MANY: Final = 100  # connections of a pool without a bound
_SHARE: Final = 10  # one of this many connections is reserved for others
_SHARED: Final = 32 * 1024  # bytes of a response that waits for its share of the event loop
_MAX_WAITING: Final = 32 * 1024 * 1024  # bytes of responses that wait without a turn at the pool
_TURN_BYTES: Final = 128 * 1024  # of responses per turn of the event loop: some 1 ms of work


def find_pool_size(client: AsyncMongoClient[Document]) -> int:
    """Return how many connections a client opens to a server at most; 0: any number."""
    size = client.options.pool_options.max_pool_size
    return int(size) if size and size != inf else 0


def _count_usable(pool: Pool) -> int:
    """Return how many reads may have a connection: open ones, and those that may be opened now."""
    usable = len(pool.conns) + len(pool.active_contexts) + count_openable(pool)
    if pool.max_pool_size != inf:
        usable = min(usable, _count_readers(pool.max_pool_size))
    return max(1, usable)


@lru_cache(16)
def _count_readers(most: float) -> int:
    """Return how many connections reads may have: at least one is left for others, if possible."""
    return _MANY if most == inf else max(1, int(most - max(1, most // _SHARE)))


def _leave(lanes: PoolLanes, pool: Pool, *, is_heavy: bool) -> None:
    if lanes.has_waiting:  # a later read checks it itself
        lanes.resize(_count_usable(pool))
    lanes.leave(is_heavy=is_heavy)


class FastPath:
    """Sends read commands, one message each."""

    def __init__(self, client: AsyncMongoClient[Document]) -> None:
        self._client = client
        self._options = client.codec_options
        self._ids = count(1)
        self._primary: Server | None = None
        self._topology: TopologyDescription | None = None  # that it was selected in
        self._waiting: dict[int, AsyncConnection] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._turn = asyncio.Lock()  # of the requests that decode a large response
        self._share = LoopShare(_TURN_BYTES)
        self._lanes: WeakKeyDictionary[Pool, PoolLanes] = WeakKeyDictionary()
        self._costs = ReadCosts()

    @classmethod
    def find(cls, client: AsyncMongoClient[Document]) -> FastPath | None:
        """Return the fast path of a client; None if its options or the driver forbid it."""
        return None if find_obstacle(client) else cls(client)

    async def read(
        self, db: str, command: Document, preference: ServerMode, wait: Wait = NO_WAIT
    ) -> tuple[Document, Server]:
        """Return the response to a command and its server; errors are those of the driver.

        Memory for the response is acquired before the command is sent, as much as earlier responses
        needed; a request that waits for memory has no connection. A trial acquires it afterwards.
        """
        deadline = wait.deadline
        cost = None if deadline.patience is None else self._costs.find(db, command)
        if cost is not None and not cost.is_known:
            tried = await self._try(db, command, preference, wait, cost)
            if tried is not None:
                await deadline.correct(0, weigh(tried[2]))
                return tried[:2]
        reserved = 0 if cost is None else weigh(cost.expect_size(command))
        if reserved:
            await deadline.acquire(reserved)
        try:
            reply, server, size = await self._send_in_lane(db, command, preference, wait, cost)
        except BaseException:
            deadline.release(reserved)
            raise
        if reserved or size > LARGE:
            await deadline.correct(reserved, weigh(size))
        return reply, server

    async def send(
        self,
        server: Server,
        db: str,
        command: Document,
        preference: ServerMode,
        deadline: Deadline = NO_WAIT.deadline,
    ) -> Document:
        """Return the response of that server; a large batch in it is a `RawBatch`."""
        lanes = self._find_lanes(server.pool)
        await lanes.enter(NO_WAIT, is_heavy=False)
        try:
            reply, size = await self._send(server, lanes, db, command, preference, Wait(deadline))
            is_crowded = size > _SHARED and await self._share_if_crowded(size)
        finally:
            _leave(lanes, server.pool, is_heavy=False)
        if size > _SHARED and not is_crowded:
            await self._share.enter(size)
        await deadline.correct(0, weigh(size))
        return reply

    async def _try(
        self, db: str, command: Document, preference: ServerMode, wait: Wait, cost: ReadCost
    ) -> tuple[Document, Server, int] | None:
        """Run a trial of a new shape; return None if the read must be repeated as a normal one.

        The database ends a trial that takes long, if there are others. Its time limit also holds
        for all batches of its cursor: a result of several batches is read again, too.
        """
        lanes = self._find_lanes((await self._find_server(preference, command)).pool)
        if not await lanes.begin_trial(cost, wait, is_first="find" in command):
            return None
        trial = build_trial(command) if lanes.has_other_trials else command
        is_shorter = trial.get("maxTimeMS") != command.get("maxTimeMS")
        try:
            tried = await self._send_in_lane(db, trial, preference, wait, cost, is_trial=True)
        except ExecutionTimeout:
            if not is_shorter:
                raise  # it is the time limit of the request
            cost.has_failed = True
            wait.start(command)  # it has the time that is left
            return None
        finally:
            lanes.end_trial(cost)
        cursor = tried[0].get("cursor") or {}
        if not is_shorter or not cursor.get("id"):
            return tried
        closing = {"killCursors": cursor["ns"].partition(".")[2], "cursors": [cursor["id"]]}
        await self.send(tried[1], db, closing, preference)
        wait.start(command)
        return None

    async def _send_in_lane(
        self,
        db: str,
        command: Document,
        preference: ServerMode,
        wait: Wait,
        cost: ReadCost | None,
        *,
        is_trial: bool = False,
    ) -> tuple[Document, Server, int]:
        """Return the response of a server, and its size.

        If a server is given up while the read is queued, the read is not sent to it: that would use
        up a retry of the read without its fault.
        """
        while True:
            server = await self._find_server(preference, command)
            is_heavy = cost is not None and cost.is_heavy and not is_trial
            lanes = self._find_lanes(server.pool)
            has_waited = await lanes.enter(wait, is_heavy=is_heavy)
            if not has_waited or is_ready(server.pool):
                break
            _leave(lanes, server.pool, is_heavy=is_heavy)
        try:
            if has_waited:
                wait.start(command)
            started, beside = time.monotonic(), lanes.running
            reply, size = await self._send(server, lanes, db, command, preference, wait)
            if cost is not None:
                beside = (beside + lanes.running) // 2
                slowness = cost.record(time.monotonic() - started, beside, size)
                if is_heavy:
                    lanes.adapt(slowness)
            is_crowded = size > _SHARED and await self._share_if_crowded(size)
        finally:
            _leave(lanes, server.pool, is_heavy=is_heavy)
        if size > _SHARED and not is_crowded:
            await self._share.enter(size)
        return reply, server, size

    async def _share_if_crowded(self, size: int) -> bool:
        """Wait for a turn of the event loop while holding the connection, to slow down reads."""
        if is_crowded := self._share.waiting_size > _MAX_WAITING:
            await self._share.enter(size)
        return is_crowded

    def _find_lanes(self, pool: Pool) -> PoolLanes:
        """Return the lanes of a pool, with as many reads as it has connections for."""
        lanes = self._lanes.get(pool)
        if lanes is None:
            longest = self._client.options.pool_options.wait_queue_timeout
            lanes = self._lanes[pool] = PoolLanes(_count_readers(pool.max_pool_size), longest)
        lanes.resize(_count_usable(pool))
        return lanes

    def has_waited(self, since: float) -> bool:
        """Return whether a read waits for a connection, or has since that time."""
        return any(lanes.has_waited(since) for lanes in self._lanes.values())

    async def _send(
        self,
        server: Server,
        lanes: PoolLanes,
        db: str,
        command: Document,
        preference: ServerMode,
        wait: Wait,
    ) -> tuple[Document, int]:
        """Return the response and its size; the documents of a large one are not decoded."""
        pool, client = server.pool, self._client
        request = (db, command, wait.is_raw)
        connection = check_out_idle(pool)
        if connection is None:
            async with check_out(client, server, preference) as (opened, effective):
                if lanes.has_waiting:
                    lanes.resize(_count_usable(pool))  # it may be new: open the next one
                reply, documents, size = await self._converse(opened, effective, *request)
        else:
            try:
                effective = adapt_preference(client, connection, preference)
                reply, documents, size = await self._converse(connection, effective, *request)
            except BaseException as error:
                await check_in_failed(client, server, connection, error)
                raise
            await check_in(pool, connection)
        if documents:
            cursor: Document = reply["cursor"]
            place = "firstBatch" if "firstBatch" in cursor else "nextBatch"
            if size <= LARGE:
                cursor[place] = documents
            else:
                reader = ResultReader(self._options, db, command)
                cursor[place] = build_batch(documents, reader, self._turn, wait.deadline)
        return reply, size

    async def _converse(
        self,
        connection: AsyncConnection,
        preference: ServerMode,
        db: str,
        command: Document,
        is_raw: bool,
    ) -> tuple[Document, Encoded, int]:
        """Return the response of a connection, the documents of a large one encoded, its size."""
        document = {**command, "$db": db}
        if preference.mode:  # anything but the primary
            document["$readPreference"] = preference.document
        body = encode_bson(document, self._options)
        if len(body) > connection.max_bson_size + _OVERHEAD:
            raise DocumentTooLarge(f"a command of {len(body)} bytes")
        request = next(self._ids) & _LARGEST_ID
        header = _HEADER.pack(_HEADER.size + len(body), request, 0, _OP_MSG, 0, 0)
        wire = connection.conn.get_conn
        self._waiting[request] = connection
        if self._timer is None:
            self._watch()
        try:
            await wire.write(header + body)
            answer, operation = await wire.read(request, connection.max_message_size)
        except BaseException as error:
            # Also if cancelled: the late response must not be mistaken for that of another read.
            await fail_connection(connection, error)
        finally:
            del self._waiting[request]
        if operation != _OP_MSG or len(answer) <= _BODY or answer[_BODY - 1] != 0:
            await fail_connection(connection, ProtocolError("an answer of unknown form"))
        payload = memoryview(answer)[_BODY:]
        rest: bytes | memoryview = payload
        documents: Encoded = ()
        try:
            if is_raw or len(payload) > LARGE:
                rest, documents = split_batch(payload)
            reply = decode_reply(rest, self._options, db, command)
            check_reply(reply, command)
            mark_repeated(reply, payload, command)
        except InvalidBSON as error:
            await fail_connection(connection, ProtocolError(str(error)))
        if not reply.get("ok"):
            raise_error(reply, connection)
        return reply, documents, len(payload)

    async def _find_server(self, preference: ServerMode, command: Document) -> Server:
        """Return the server to use: the same primary as before, until the topology changes."""
        topology = self._client.topology_description
        if not preference.mode and self._primary is not None and self._topology is topology:
            return self._primary
        server = await select_server(self._client, preference, next(iter(command)))
        if not preference.mode and topology is self._client.topology_description:
            self._primary, self._topology = server, topology
        return server

    def _watch(self) -> None:
        """Check again in a moment, as long as a read waits."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_LOOK_SECONDS, self._end_waiting) if self._waiting else None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_waiting(self) -> None:
        """End the reads that wait for servers which the driver has given up."""
        for connection in list(self._waiting.values()):
            if connection.cancel_context.cancelled:
                connection.conn.get_conn.close(OSError("the server does not answer any more"))
        for pool, lanes in list(self._lanes.items()):
            if lanes.has_waiting:
                lanes.resize(_count_usable(pool))  # a write may have returned a connection
        self._watch()
