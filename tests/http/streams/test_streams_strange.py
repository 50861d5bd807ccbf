"""Rows of documents that the driver cannot decode exactly are those that a read shows."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest
from bson.raw_bson import RawBSONDocument

from tests.http.access_harness import ADA, ADMIN, allow, guarded
from tests.http.harness import Document, Mongo, Service
from tests.http.hosts import module_application
from tests.http.stream_harness import WEBSOCKET, Refused, emptied, listen, notes

pytestmark = pytest.mark.anyio

TEAM = "blue"
LAST = {"_id": "last", "team": TEAM}


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        streams = {"streams": [{"uri": "all", "stages": []}]}
        reply = await one.request("PUT", "/notes", headers=ADMIN, json=streams)
        assert reply.status in (200, 201), reply.text
        yield one


@pytest.fixture
async def service(server: Service) -> AsyncIterator[Service]:
    async with emptied(server, "notes"):
        yield server


def field(kind: int, name: str, data: bytes) -> bytes:
    return bytes([kind]) + name.encode() + b"\0" + data


def text(name: str, value: bytes, kind: int = 0x02) -> bytes:
    return field(kind, name, struct.pack("<i", len(value) + 1) + value + b"\0")


def build(*fields: bytes) -> bytes:
    body = b"".join(fields)
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def build_deep(levels: int) -> bytes:
    inner = build()
    for _ in range(levels - 2):
        inner = build(field(0x03, "a", inner))
    return field(0x03, "a", inner)


MINE, OTHER = text("team", b"blue"), text("team", b"red")
STRANGE: list[tuple[bytes, ...]] = [
    (OTHER, MINE),  # the same name twice
    (MINE, OTHER),
    (text("team", b"blue", kind=0x0E),),  # a symbol
    (field(0x06, "team", b""),),  # undefined
    (MINE, field(0x06, "x", b"")),
    (MINE, text("x", b"\xff\xfe")),  # no UTF-8
    (OTHER, text("x", b"\xff\xfe")),
    (text("team", b"blue\xff"),),
    (MINE, field(0x0C, "x", b"\2\0\0\0c\0" + b"docgraph-key")),  # a pointer
    (MINE, field(0x05, "x", b"\3\0\0\0\4abc")),  # a UUID of three bytes
    (field(0x04, "team", build(text("7", b"red"), text("7", b"blue"))),),
    (field(0x03, "team", build(text("$ref", b"c"), text("$id", b"blue"))),),
    (text("team.x", b"blue"), text("$team", b"blue"), text("", b"blue")),
    (text("$ref", b"c"), text("$id", b"x"), MINE),  # as a whole a reference
    (text("$ref", b"c"), text("$id", b"x"), OTHER),
    (MINE, build_deep(180)),  # as deep as a document may be
    (OTHER, build_deep(180)),
]
FILTERS: list[Document] = [
    {"$eq": TEAM},  # decided in memory
    {"$eq": TEAM, "$gt": ""},  # decided by the database
]


@pytest.mark.parametrize("condition", FILTERS)
async def test_rows_of_strange_documents_are_those_of_a_read(
    service: Service, condition: Document
) -> None:
    row = {"team": condition}
    await allow(service, "path-prefix('/notes')", "user", mongo={"readFilter": row})
    stored = [
        RawBSONDocument(build(field(0x10, "_id", struct.pack("<i", number)), *fields))
        for number, fields in enumerate(STRANGE)
    ]
    async with listen(service, "/notes/_streams/all", ADA, by=WEBSOCKET) as ada:
        notes(service).insert_many(stored)
        notes(service).insert_one(dict(LAST))
        told: list[Any] = []
        while not told or told[-1] != LAST["_id"]:
            told.append((await ada.next())["documentKey"]["_id"])
    found = [one["_id"] for one in notes(service).find(row, {"_id": 1}).sort("_id", 1)]
    assert told == found
    assert {1, 2, 4, 13} <= set(told)


@pytest.mark.parametrize(
    ("row", "status"),
    [
        ({"team": {"$near": [1, 2]}}, 400),
        ({"team": {"$regex": "("}}, 400),
        ({"$expr": {"$eq": ["$$ROOT.team", TEAM]}}, 501),
        ({"$text": {"$search": TEAM}}, 501),
    ],
)
async def test_a_row_filter_that_cannot_be_applied_is_rejected_at_the_handshake(
    service: Service, row: Document, status: int
) -> None:
    await allow(service, "path-prefix('/notes')", "user", mongo={"readFilter": row})
    with pytest.raises(Refused) as refused:
        async with listen(service, "/notes/_streams/all", ADA, by=WEBSOCKET):
            pass
    assert refused.value.status == status
