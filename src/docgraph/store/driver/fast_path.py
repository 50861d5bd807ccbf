"""The fast path of reads: the driver's connections, without what it does around each message.

The driver picks the server, keeps the pool, signs in, and learns of every error, as always. Only
the message itself is sent and awaited here: the driver would start two tasks for it, to look for a
time limit and for the end of the connection's server, and attach a session that a single read has
no use for. Both cost more than the rest of a small read together (0.26 ms of CPU against 0.07).
The caller limits the time (`command.py`). A timer looks for servers that the driver has given up
meanwhile, and ends the reads that wait for them.

Reads wait for a connection in the order they came: in the driver's own queue those that come later
may be faster, so that some of many wait in vain. A tenth of the connections is left to what does
not come by here, such as writes.

What is used of the driver has no promise of stability, so all of it is in this file, and used only
with the versions it was tried with. With others, and where an option of the client asks for what
only the driver's normal path does, `find` returns None.
"""

from __future__ import annotations

import asyncio
import struct
from itertools import count
from math import inf
from typing import Final
from weakref import WeakKeyDictionary

import bson
from pymongo import version, version_tuple
from pymongo.asynchronous.mongo_client import AsyncMongoClient
from pymongo.asynchronous.pool import AsyncConnection, Pool
from pymongo.asynchronous.server import Server
from pymongo.asynchronous.topology import Topology
from pymongo.errors import DocumentTooLarge, ProtocolError
from pymongo.helpers_shared import _check_command_response
from pymongo.pool_shared import PoolState
from pymongo.read_preferences import _ServerMode
from pymongo.topology_description import TopologyDescription

from docgraph.exchange.data import Document
from docgraph.exchange.errors import Overloaded
from docgraph.observe import emit
from docgraph.observe.events import FastPathOff
from docgraph.runtime import Gate
from docgraph.store.driver.errors import no_connection
from docgraph.store.driver.portions import LARGE, Batch, take_apart
from docgraph.store.driver.salvage import ResultReader, decode_reply

__all__ = ["FastPath", "has_free_connection", "report_untried_version"]

_TRIED: Final = {(4, 19)}
_HEADER: Final = struct.Struct("<iiiiIB")  # length, id, answer to, operation, flags, section
_OP_MSG: Final = 2013
_BODY: Final = 5  # where the document begins in an answer without its header
_OVERHEAD: Final = 16 * 1024  # what a command may have beside the largest document
_LARGEST_ID: Final = 2**31 - 1
_LOOK_SECONDS: Final = 0.5  # between two looks for servers that were given up
_UNBOUNDED: Final = 2**31
_SHARE: Final = 10  # one of so many connections is left to others
_RENEWED: Final = "MONGODB-OIDC"  # logins that end in the middle of things


def report_untried_version() -> None:
    """Emit an event where the version of the driver, and nothing configured, turns this off."""
    if version_tuple[:2] not in _TRIED:
        tried = ", ".join(f"{major}.{minor}" for major, minor in sorted(_TRIED))
        emit(FastPathOff(version, tried))


def _find_topology(client: AsyncMongoClient[Document]) -> Topology | None:
    """What the driver knows of the servers; None until the name server has told them (SRV)."""
    return client._topology


def has_free_connection(client: AsyncMongoClient[Document]) -> bool:
    """Whether the pool of a server that takes writes has room for one more."""
    topology = _find_topology(client)
    servers = topology._servers.values() if topology is not None else ()
    pools = [one.pool for one in servers if one.description.is_writable]
    return not pools or any(pool.requests < pool.max_pool_size for pool in pools)


def _count_usable(pool: Pool) -> int:
    """How many reads may have a connection: those that are open, and that may be opened now."""
    room = pool._max_connecting - pool._pending
    usable = len(pool.conns) + len(pool.active_contexts) + max(0, room)
    most = pool.max_pool_size
    if most != inf:
        usable = min(usable, int(most - most // _SHARE))
    return max(1, usable)


async def _await_turn(gate: Gate) -> None:
    try:
        await gate.enter()
    except Overloaded:
        raise no_connection() from None


def _leave(gate: Gate, pool: Pool) -> None:
    if gate.waiting:  # whoever comes later looks by itself
        gate.resize(_count_usable(pool))
    gate.leave()


class FastPath:
    """Sends commands that read, one message each."""

    def __init__(self, client: AsyncMongoClient[Document]) -> None:
        self._client = client
        self._options = client.codec_options
        self._ids = count(1)
        self._primary: Server | None = None
        self._known: TopologyDescription | None = None  # the state of things it was chosen in
        self._waiting: dict[int, AsyncConnection] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._turn = asyncio.Lock()  # of those who make objects of a large answer
        self._gates: WeakKeyDictionary[Pool, Gate] = WeakKeyDictionary()

    @classmethod
    def find(cls, client: AsyncMongoClient[Document]) -> FastPath | None:
        """The fast path of a client; None if its options or the driver's version rule it out."""
        if version_tuple[:2] not in _TRIED:
            return None
        options, pool = client.options, client.options.pool_options
        compression, listeners = pool._compression_settings, pool._event_listeners
        credentials = pool._credentials
        special = (
            options.auto_encryption_opts,
            options.timeout,
            options.load_balanced,
            pool.socket_timeout,
            pool.server_api,
            compression and compression.compressors,
            listeners and listeners.enabled_for_commands,
            credentials and credentials.mechanism == _RENEWED,
        )
        return None if any(special) else cls(client)

    async def read(
        self, db: str, command: Document, preference: _ServerMode
    ) -> tuple[Document, Server]:
        """The answer to a command, and who gave it; errors are those of the driver.

        A server that is given up while the read waits for its turn is not asked: it is not the
        fault of the read, which would be tried again once only.
        """
        while True:
            server = await self._select(preference, next(iter(command)))
            gate, has_waited = await self._enter(server.pool)
            if not has_waited or server.pool.state == PoolState.READY:
                return await self._ask(server, gate, db, command, preference), server
            _leave(gate, server.pool)

    async def ask(
        self, server: Server, db: str, command: Document, preference: _ServerMode
    ) -> Document:
        """The answer of that server; a large batch in it is a `Batch`."""
        gate, _ = await self._enter(server.pool)
        return await self._ask(server, gate, db, command, preference)

    async def _enter(self, pool: Pool) -> tuple[Gate, bool]:
        """Have one's turn at the connections of a server, and know whether that took waiting."""
        gate = self._gates.get(pool) or self._open_gate(pool)
        gate.resize(_count_usable(pool))
        if gate.try_enter():
            return gate, False
        await _await_turn(gate)
        return gate, True

    def _open_gate(self, pool: Pool) -> Gate:
        """The way to the connections of a server."""
        longest = self._client.options.pool_options.wait_queue_timeout
        gate = self._gates[pool] = Gate(1, _UNBOUNDED, "", longest)
        return gate

    async def _ask(
        self, server: Server, gate: Gate, db: str, command: Document, preference: _ServerMode
    ) -> Document:
        """The answer for one whose turn it is; it is over then."""
        try:
            reply, documents = await self._send(server, gate, db, command, preference)
        finally:
            _leave(gate, server.pool)
        if documents:
            cursor: Document = reply["cursor"]
            place = "firstBatch" if "firstBatch" in cursor else "nextBatch"
            reader = ResultReader(self._options, db, command)
            cursor[place] = Batch(documents, reader, self._turn)
        return reply

    async def _send(
        self, server: Server, gate: Gate, db: str, command: Document, preference: _ServerMode
    ) -> tuple[Document, list[memoryview]]:
        checkout = self._client._conn_from_server(preference, server, None)
        async with checkout as (connection, effective):
            if gate.waiting:
                gate.resize(_count_usable(server.pool))  # it may be a new one: open the next
            document = {**command, "$db": db}
            if effective.mode:  # anything but the primary
                document["$readPreference"] = effective.document
            payload = await self._exchange(connection, bson.encode(document, False, self._options))
            reply, documents = self._open(payload, db, command)
            if not reply.get("ok"):
                _check_command_response(reply, connection.max_wire_version)
        return reply, documents

    def _open(
        self, payload: memoryview, db: str, command: Document
    ) -> tuple[Document, list[memoryview]]:
        """The answer; documents of a large one are not decoded, and stand beside it."""
        documents: list[memoryview] = []
        rest: bytes | memoryview = payload
        if len(payload) > LARGE:
            rest, documents = take_apart(payload)
        return decode_reply(rest, self._options, db, command), documents

    def knows_server(self, preference: _ServerMode) -> bool:
        """Whether the server for such a read is known, so that it does not wait for one."""
        return (
            self._primary is not None
            and self._known is self._client._topology.description
            and not preference.mode
        )

    async def _select(self, preference: _ServerMode, name: str) -> Server:
        """The server to ask; the primary stays the same until the topology changes."""
        if self._primary is not None and self.knows_server(preference):
            return self._primary
        if _find_topology(self._client) is None:
            return await self._client._select_server(preference, None, name)
        known = self._client._topology.description
        server = await self._client._select_server(preference, None, name)
        if not preference.mode and known is self._client._topology.description:
            self._primary, self._known = server, known
        return server

    async def _exchange(self, connection: AsyncConnection, body: bytes) -> memoryview:
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
            # Also when cancelled: the late answer must not be taken for that of another read.
            await connection._raise_connection_failure(error)
        finally:
            del self._waiting[request]
        if operation != _OP_MSG or answer[_BODY - 1] != 0:
            await connection._raise_connection_failure(ProtocolError("an answer of unknown form"))
        return memoryview(answer)[_BODY:]

    def _watch(self) -> None:
        """Look again in a moment, as long as a read waits."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_LOOK_SECONDS, self._look) if self._waiting else None

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """End the waiting for servers that the driver has found not to answer any more."""
        for connection in list(self._waiting.values()):
            if connection.cancel_context.cancelled:
                connection.conn.get_conn.close(OSError("the server does not answer any more"))
        for pool, gate in list(self._gates.items()):
            if gate.waiting:
                gate.resize(_count_usable(pool))  # a write may have given a connection back
        self._watch()
