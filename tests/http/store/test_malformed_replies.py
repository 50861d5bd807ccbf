"""Responses that no server sends: they are errors of the database, and end their connection.

The server of these tests speaks the wire protocol: it greets correctly, and answers every other
command with the bytes of the test.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import bson
import pytest
from bson import Int64, Timestamp

from docgraph.exchange.data import Document, Resource, ResourceType, Write, WriteKind
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import DocgraphError, OutcomeUnknown, StoreError
from docgraph.runtime.native import find_native
from docgraph.store import Store
from docgraph.store.administration import Administration
from docgraph.store.catalog import Inventory
from docgraph.store.driver import portions
from docgraph.store.driver.client import build_client
from docgraph.store.driver.connection_status import ConnectionStatus
from docgraph.store.driver.login import log_in
from docgraph.store.driver.malformed import translated
from docgraph.store.driver.portions import LARGE, RawTake
from docgraph.store.driver.rights import Right
from docgraph.store.sections import MClient
from docgraph.tools.data import read_index_stats, run_query

pytestmark = pytest.mark.anyio

OP_MSG = 2013
HEADER = struct.Struct("<iiii")
GREETING = {
    "helloOk": True,
    "ismaster": True,
    "isWritablePrimary": True,
    "maxBsonObjectSize": 16777216,
    "maxMessageSizeBytes": 48000000,
    "maxWriteBatchSize": 100000,
    "minWireVersion": 0,
    "maxWireVersion": 17,
    "ok": 1.0,
}
LONG = "x" * 2 * LARGE


class FakeServer:
    """Answers each message but greetings with `reply`: the bytes after the flags of OP_MSG."""

    def __init__(self) -> None:
        self.reply = b""
        self.asked: list[int] = []  # connections that commands came by

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                length, request, _, operation = HEADER.unpack(await reader.readexactly(16))
                body = await reader.readexactly(length - 16)
                is_greeting = b"ismaster" in body.lower() or b"hello" in body
                if not is_greeting:
                    self.asked.append(writer.get_extra_info("peername")[1])
                writer.write(self._answer(request, operation, is_greeting=is_greeting))
        writer.close()

    def _answer(self, request: int, operation: int, *, is_greeting: bool) -> bytes:
        if is_greeting and operation != OP_MSG:  # an old greeting has an old answer
            rest = struct.pack("<iqii", 8, 0, 0, 1) + bson.encode(GREETING)
            return HEADER.pack(16 + len(rest), 1, request, 1) + rest
        content = b"\0" + bson.encode(GREETING) if is_greeting else self.reply
        return HEADER.pack(20 + len(content), 1, request, OP_MSG) + b"\0\0\0\0" + content


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[FakeServer, Store]]:
    fake = FakeServer()
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    options = "directConnection=true&retryReads=false&minPoolSize=0"
    async with build_client(MClient(), f"mongodb://127.0.0.1:{port}/?{options}") as client:
        yield fake, Store(client)
    server.close()


@pytest.fixture(params=["native", "python"])
def lane(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "python":
        monkeypatch.setattr(portions, "find_native", lambda: None)
    elif find_native() is None:
        pytest.skip("the native extension is not installed")
    return str(request.param)


def build_cursor(batch: Any = (), **more: Any) -> Document:
    return {"firstBatch": list(batch), "id": Int64(0), "ns": "db.letters", **more}


def encode(**reply: Any) -> bytes:
    return b"\0" + bson.encode({"ok": 1.0, **reply})


def replace(old: bytes, new: bytes, **reply: Any) -> bytes:
    encoded = encode(**reply)
    assert encoded.count(old) == 1
    return encoded.replace(old, new)


def list_replies() -> Iterator[tuple[str, bytes]]:
    """Responses without what every response to `find` has."""
    yield "nothing", b""
    yield "no document", b"\0"
    yield "another section", b"\1" + bson.encode({"ok": 1.0})
    yield "an empty document", b"\0" + bson.encode({})
    yield "no cursor", encode()
    yield "a cursor that is none", encode(cursor=1)
    yield "a cursor that is a reference", encode(cursor={"$ref": "a", "$id": 1})
    yield "an id that is a text", encode(cursor=build_cursor(id="0"))
    yield "no namespace", encode(cursor={"firstBatch": [], "id": 0})
    yield "a namespace that is a number", encode(cursor=build_cursor(ns=1, id=5))
    yield "no batch", encode(cursor={"id": 0, "ns": "db.letters"})
    yield "a batch that is a document", encode(cursor={**build_cursor(), "firstBatch": {"a": 1}})
    yield "a batch of numbers", encode(cursor=build_cursor([1, 2]))
    yield "a large batch of texts", encode(cursor=build_cursor([LONG]))
    yield "an error without a message", b"\0" + bson.encode({"ok": 0.0, "code": 5})
    yield "an error with a list as code", encode(ok=0.0, errmsg="no", code=[1])
    yield "an error with labels that are none", encode(ok=0.0, errmsg="no", errorLabels=[{}])


def list_damaged() -> Iterator[tuple[str, bytes]]:
    """Responses whose bytes contradict each other."""
    whole = encode(cursor=build_cursor([{"_id": 1, "name": "a"}]))
    yield "half of it", whole[: len(whole) // 2]
    yield "without its end", whole[:-1]
    yield "with another end", whole[:-1] + b"\1"
    yield "more than it says", whole + b"\0\0\0"
    for size in (0, 4, -1, -(2**31), 2**31 - 1):
        yield f"{size} bytes, it says", b"\0" + struct.pack("<i", size) + whole[5:]
    for text in ("short", LONG):
        cursor = build_cursor([{"_id": 1, "name": text}])
        length = struct.pack("<i", len(text) + 1)
        for size in (-1, -(2**31), 2**31 - 1, len(text) + 500):
            wrong = b"\x02name\0" + struct.pack("<i", size) + text[:5].encode()
            right = b"\x02name\0" + length + text[:5].encode()
            yield f"a text of {size} of {len(text)} bytes", replace(right, wrong, cursor=cursor)
        yield (
            f"an unknown type next to {len(text)} bytes",
            replace(b"\x02name\0" + length, b"\x77name\0" + length, cursor=cursor),
        )


REPLIES = [*list_replies(), *list_damaged()]


@pytest.mark.parametrize(("name", "reply"), REPLIES, ids=[name for name, _ in REPLIES])
async def test_malformed_response_is_an_error_of_the_database(
    lane: str, name: str, reply: bytes
) -> None:
    async with serving() as (fake, store):
        fake.reply = reply
        with pytest.raises(StoreError) as raised:
            await find(store)
        with pytest.raises(StoreError):
            await find(store)

        assert raised.value.message in {
            "the database sent an invalid response",
            "a stored document cannot be read",
        }


@pytest.mark.parametrize(("name", "reply"), REPLIES, ids=[name for name, _ in REPLIES])
async def test_malformed_response_is_such_an_error_where_documents_stay_encoded(
    lane: str, name: str, reply: bytes
) -> None:
    async with serving() as (fake, store):
        fake.reply = reply
        with pytest.raises(StoreError):
            await find_raw(store)


async def test_connection_of_a_malformed_response_is_closed(lane: str) -> None:
    async with serving() as (fake, store):
        fake.reply = encode(cursor=build_cursor([{"_id": 1}]))[:-1]
        with pytest.raises(StoreError):
            await find(store)
        fake.reply = encode(cursor=build_cursor([{"_id": 1}]))

        assert await find(store) == [{"_id": 1}]
        assert await find(store) == [{"_id": 1}]
        first, second, third = fake.asked
        assert first != second == third


async def test_values_that_cannot_be_decoded_are_no_malformed_response(lane: str) -> None:
    async with serving() as (fake, store):
        cursor = build_cursor([{"_id": 1, "name": "abc"}, {"_id": 2}])
        fake.reply = replace(b"abc\0", b"\xff\xfe\xfd\0", cursor=cursor)

        assert await find(store) == [{"_id": 1, "name": b"\xff\xfe\xfd"}, {"_id": 2}]
        assert await find_raw(store) == [{"_id": 1, "name": b"\xff\xfe\xfd"}, {"_id": 2}]
        assert len(set(fake.asked)) == 1


@pytest.mark.parametrize(
    "reply",
    [
        encode(),
        encode(cursor=1),
        encode(cursor={"id": 0}),
        encode(cursor=build_cursor([1, 2])),
        encode(cursor=build_cursor([{"name": "letters", "options": 1, "info": 1}])),
    ],
    ids=["no cursor", "a number", "no batch", "numbers", "no options"],
)
async def test_what_the_driver_cannot_read_is_such_an_error(reply: bytes) -> None:
    async with serving() as (fake, store):
        deadline = Deadline.after_ms(300_000)
        fake.reply = reply
        with pytest.raises(StoreError):
            await store.streams.find_collation("db", "letters", images=True)
        with suppress(StoreError):
            await store.streams.has_images("db", "letters", deadline=deadline)
        with suppress(StoreError):
            await store.stats.exists("db", "letters")


RESOURCE = Resource(ResourceType.COLLECTION, "db", "letters")
FAILED = {"index": 0, "code": 11000, "errmsg": "no"}
INDEX = {"v": 2, "key": {"a": 1}, "name": "a_1"}
COLLECTION = {
    "name": "letters",
    "type": "view",
    "options": {"viewOn": "a", "pipeline": [], "timeseries": {"timeField": "t"}},
    "info": {"uuid": bson.Binary(b"1" * 16, 4)},
}
IXSCAN = {"stage": "IXSCAN", "indexName": "a", "keyPattern": {"a": 1}}
PLAN = {
    "queryPlanner": {"winningPlan": {"stage": "FETCH", "inputStage": IXSCAN}},
    "executionStats": {"nReturned": 1, "totalDocsExamined": 1, "totalKeysExamined": 1},
}
PRIVILEGE = {"resource": {"db": "db", "collection": ""}, "actions": ["find"]}
LOGIN = {
    "authenticatedUsers": [{"user": "ada", "db": "admin"}],
    "authenticatedUserPrivileges": [PRIVILEGE],
}


async def log_in_to(store: Store) -> None:
    with translated():
        contact = ConnectionStatus.read(
            "mongodb://localhost", "", [Right("db", "", ("find",), "reads")]
        )
        await log_in(store.client, contact)


def write(kind: WriteKind, **more: Any) -> Callable[[Store], Awaitable[Any]]:
    return lambda store: store.writes.write(RESOURCE, Write(kind, **more), deadline=soon())


def soon() -> Deadline:
    return Deadline.after_ms(300_000)


# Each reader of a response, and a valid response. Those of a greeting are in test_reply_shapes.py:
# here the server answers every `hello` with its own.
READERS: dict[str, tuple[Callable[[Store], Awaitable[Any]], Document]] = {
    "count": (
        lambda store: store.reads.count("db", "letters", {}, limit=3, deadline=soon()),
        {"cursor": build_cursor([{"n": 1}])},
    ),
    "explain": (lambda store: store.reads.explain("db", "letters", {}, deadline=soon()), PLAN),
    "execution": (
        lambda store: run_query(store, ("db", "letters"), {}, {}, limit=1, deadline=soon()),
        PLAN,
    ),
    "snapshot": (
        lambda store: store.reads.find_snapshot("db", "letters", soon()),
        {"cursor": build_cursor(atClusterTime=Timestamp(1, 1))},
    ),
    "clock": (
        lambda store: store.streams.has_happened({"_data": "82000000010000000129"}),
        {"$clusterTime": {"clusterTime": Timestamp(1, 1)}},
    ),
    "connections": (
        lambda store: store.count_free_connections(),
        {"connections": {"available": 1}},
    ),
    "login": (log_in_to, {"authInfo": LOGIN}),
    "databases": (
        lambda store: Inventory(store).list_databases(soon()),
        {"databases": [{"name": "a"}]},
    ),
    "collections": (
        lambda store: Inventory(store).list_collections("db", soon()),
        {"cursor": build_cursor([COLLECTION])},
    ),
    "collation": (
        lambda store: store.streams.find_collation("db", "letters", images=True),
        {"cursor": build_cursor([COLLECTION])},
    ),
    "size": (
        lambda store: Inventory(store).measure("db", "letters", soon()),
        {"cursor": build_cursor([{"storageStats": {"count": 1, "size": 1}}])},
    ),
    "indexes": (
        lambda store: Administration(store).list_indexes("db", "letters", soon()),
        {"cursor": build_cursor([INDEX])},
    ),
    "uses": (
        lambda store: read_index_stats(store, ("db", "letters"), soon()),
        {"cursor": build_cursor([{"name": "a", "accesses": {"ops": 1}}])},
    ),
    "insert": (
        write(WriteKind.INSERT, documents=({"_id": 1},)),
        {"n": 1, "writeErrors": [FAILED]},
    ),
    "insert several": (
        write(WriteKind.INSERT, documents=({"_id": 1}, {"_id": 2})),
        {"n": 1, "writeErrors": [FAILED], "writeConcernError": {"code": 1, "errmsg": "a"}},
    ),
    "replace several": (
        write(WriteKind.REPLACE, documents=({"_id": 1}, {"_id": 2}), upsert=True),
        {"n": 1, "nModified": 1, "upserted": [{"index": 1, "_id": 1}], "writeErrors": [FAILED]},
    ),
    "update": (
        write(WriteKind.UPDATE, filter={"_id": 1}, update={"$set": {"a": 1}}, upsert=True),
        {"n": 1, "nModified": 1, "upserted": [{"index": 0, "_id": 1}]},
    ),
}


def list_changed(value: Any) -> Iterator[Any]:
    """Return the value with each of its parts left out, or of another type."""
    yield from (1, "x", [1], {"a": 1}, None)
    if isinstance(value, dict):
        for name, one in value.items():
            yield {key: other for key, other in value.items() if key != name}
            for changed in list_changed(one):
                yield {**value, name: changed}
    elif isinstance(value, list):
        for place, one in enumerate(value):
            for changed in list_changed(one):
                yield [*value[:place], changed, *value[place + 1 :]]


def list_malformed(valid: Document) -> Iterator[bytes]:
    """Return such responses; those that name a cursor would have a next batch without end."""
    for changed in list_changed({"ok": 1.0, **valid}):
        if not isinstance(changed, dict) or "ok" not in changed:
            continue
        cursor = changed.get("cursor")
        if not isinstance(cursor, dict) or not cursor.get("id"):
            with suppress(bson.errors.InvalidDocument):
                yield b"\0" + bson.encode(changed)


@pytest.mark.parametrize("name", READERS)
async def test_no_reader_of_responses_fails_in_its_own_way(name: str) -> None:
    reader, valid = READERS[name]
    async with serving() as (fake, store):
        for fake.reply in list_malformed(valid):
            with suppress(DocgraphError):
                await reader(store)


async def test_outcome_of_a_write_with_a_malformed_response_is_unknown() -> None:
    """It was sent: whoever repeats it could do it twice."""
    async with serving() as (fake, store):
        written: list[str] = []
        store.writes.on_written = written.extend
        fake.reply = encode(n=2, writeErrors=[1])
        with pytest.raises(OutcomeUnknown):
            await write(WriteKind.INSERT, documents=({"_id": 1}, {"_id": 2}))(store)
    assert written == ["db.letters"]


async def find(store: Store) -> list[Document]:
    return await store.find("db", "letters", {}, limit=10, deadline=Deadline.after_ms(300_000))


async def find_raw(store: Store) -> list[Document]:
    """Find documents as they were sent, then decode them."""
    found: list[Any] = []
    deadline = Deadline.after_ms(300_000)

    async def add(portion: list[Any]) -> None:
        found.extend(portion)

    reads = store.reads
    found += await reads.find("db", "letters", {}, limit=10, deadline=deadline, take=RawTake(add))
    return await reads.decode("db", "letters", [bytes(one) for one in found], deadline)
