"""Large answers of the database become objects a portion at a time.

A batch may have 16 MiB, and as objects of Python several times as much. Objects of all batches
that are here at once would scatter over the memory of the process, which then never becomes small
again. So a large batch stays as it came until somebody takes its documents, and whoever needs each
of them only once (to write it down as JSON) takes them in portions: those objects are gone before
the next ones are made, and other requests are served in between.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from bson import DBRef

from docgraph.exchange.data import Document
from docgraph.store.driver.salvage import ResultReader, find_end, size_of

__all__ = ["LARGE", "PORTION", "Batch", "Take", "hand_over", "take_apart"]

LARGE: Final = 256 * 1024  # bytes of an answer that is not decoded as a whole
PORTION: Final = 1024 * 1024  # bytes that become objects together

Take = Callable[[list[Document]], Awaitable[None]]

_LENGTH: Final = struct.Struct("<i")
_EMPTY: Final = b"\x05\0\0\0\0"
_DOCUMENT, _ARRAY = 0x03, 0x04
_BATCHES: Final = (b"firstBatch", b"nextBatch")


class Batch:
    """The documents of an answer as the database sent them.

    Whoever hands over a portion has the `turn` meanwhile, so that there is one at a time.
    """

    def __init__(self, raw: list[memoryview], reader: ResultReader, turn: asyncio.Lock) -> None:
        self._raw = raw
        self._reader = reader
        self._turn = turn

    @property
    def size(self) -> int:
        """How many bytes they have together."""
        return sum(len(data) for data in self._raw)

    def decode(self) -> list[Document]:
        """All documents."""
        documents = [self._reader.read(data) for data in self._raw]
        self._reader.finish()
        return documents

    async def hand_over(self, take: Take) -> None:
        """Let `take` have all documents, a portion at a time."""
        portion: list[memoryview] = []
        size = 0
        for data in self._raw:
            portion.append(data)
            size += len(data)
            if size >= PORTION:
                await self._hand_over(portion, take)
                portion, size = [], 0
                await asyncio.sleep(0)  # others are served
        if portion:
            await self._hand_over(portion, take)
        self._reader.finish()

    async def _hand_over(self, portion: list[memoryview], take: Take) -> None:
        async with self._turn:
            await take([self._reader.read(one) for one in portion])


async def hand_over(batch: Batch | list[Document], take: Take | None) -> list[Document]:
    """The documents of a batch; none of them where `take` has got them."""
    if isinstance(batch, list):
        batch = _undo_references(batch)
    if take is None:
        return batch if isinstance(batch, list) else batch.decode()
    if isinstance(batch, list):
        await take(batch)
    else:
        await batch.hand_over(take)
    return []


def _undo_references(batch: list[Any]) -> list[Document]:
    """Inside an answer, a document with `$ref` and `$id` is read as a reference; it is none."""
    if DBRef not in map(type, batch):
        return batch
    return [dict(one.as_doc()) if isinstance(one, DBRef) else one for one in batch]


def take_apart(answer: memoryview) -> tuple[bytes | memoryview, list[memoryview]]:
    """An answer without the documents of its batch, and these documents."""
    cursor = _find(answer, 0, _DOCUMENT, b"cursor")
    batch = None if cursor is None else _find(answer, cursor, _ARRAY, *_BATCHES)
    if cursor is None or batch is None:
        return answer, []
    documents = [answer[start:end] for start, end in _elements(answer, batch)]
    end = batch + _read_length(answer, batch)
    rest = bytearray(answer[:batch]) + _EMPTY + answer[end:]
    for place in (0, cursor):
        shortened = _read_length(answer, place) - (end - batch) + len(_EMPTY)
        _LENGTH.pack_into(rest, place, shortened)
    return bytes(rest), documents


def _find(data: memoryview, place: int, kind: int, *names: bytes) -> int | None:
    """Where a value of such a kind and name begins in the document at `place`."""
    position, end = place + _LENGTH.size, place + _read_length(data, place) - 1
    while position < end:
        stop = find_end(data, position + 1)
        if data[position] == kind and data[position + 1 : stop] in names:
            return stop + 1
        position = stop + 1 + size_of(data[position], data, stop + 1)
    return None


def _elements(data: memoryview, place: int) -> Iterator[tuple[int, int]]:
    """Where the documents of an array begin and end."""
    position, end = place + _LENGTH.size, place + _read_length(data, place) - 1
    while position < end:
        start = find_end(data, position + 1) + 1
        position = start + _read_length(data, start)
        yield start, position


def _read_length(data: memoryview, place: int) -> int:
    (length,) = _LENGTH.unpack_from(data, place)
    return int(length)
