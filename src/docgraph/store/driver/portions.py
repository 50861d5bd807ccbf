"""Large responses: decode the documents of a batch in portions.

A batch may have 16 MiB, and several times as much as Python objects. If the objects of all batches
existed at the same time, they would fragment the memory of the process, which would then never
shrink. So a large batch stays encoded until its documents are used. Code that needs each document
only once (to encode it as JSON) receives them in portions: the objects of one portion are freed
before the next ones are created, and other requests run in between.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bson import DBRef
from bson.errors import InvalidBSON

from docgraph.exchange.data import Document
from docgraph.exchange.deadline import Deadline
from docgraph.runtime.native import Decode, NativeBatch, NativeLane, find_native
from docgraph.store.driver.lenient_decode import ResultReader, find_end, size_of
from docgraph.store.driver.piecewise import read_piecewise
from docgraph.store.repeated_names import find_compared, mark_document

LARGE: Final = 256 * 1024  # bytes of a response that is not decoded as a whole
PORTION: Final = 1024 * 1024  # bytes that are decoded together
_COPIES: Final = 3  # of a response in memory: as it came, its JSON in parts, and joined
_DECODED: Final = 5  # times the size of a response that its documents have as objects

Take = Callable[[list[Any]], Awaitable[None]]
Encoded = Sequence[bytes | memoryview] | NativeBatch


class MissingField:
    """Marks a document that does not have a field."""


_MISSING: Final = MissingField()

_NO_DEADLINE: Final = Deadline()
_LENGTH: Final = struct.Struct("<i")
_EMPTY: Final = b"\x05\0\0\0\0"
_DOCUMENT, _ARRAY = 0x03, 0x04
_BATCHES: Final = (b"firstBatch", b"nextBatch")


class RawTake:
    """A `take` that accepts documents as the database sent them: `bytes` among decoded ones.

    A `take` around this one (that hides properties, or runs interceptors) is no `RawTake`, so that
    it receives decoded documents.
    """

    __slots__ = ("_take",)

    def __init__(self, take: Take) -> None:
        self._take = take

    def __call__(self, documents: list[Any]) -> Awaitable[None]:
        return self._take(documents)

    @classmethod
    def like(cls, take: Take, other: Take) -> Take:
        """Return `take`, which accepts raw documents if the other one does."""
        return cls(take) if isinstance(other, RawTake) else take


class OneField(Sequence[Any]):
    """Documents of which only one field was decoded; they are built when code reads them."""

    __slots__ = ("_documents", "_values", "name")

    def __init__(self, name: str, values: list[Any]) -> None:
        self.name = name
        self._values = values  # MissingField where a document does not have the field
        self._documents: list[Document] | None = None

    @classmethod
    def decode(
        cls, native: NativeLane, documents: Sequence[bytes], name: str, decode: Decode
    ) -> OneField:
        return cls(name, native.read_field(documents, name, decode, _MISSING))

    def read(self, name: str) -> list[Any] | None:
        """Return the value of each document, None where there is none; None for other fields."""
        if name != self.name:
            return None
        if MissingField not in map(type, self._values):
            return self._values
        return [None if type(value) is MissingField else value for value in self._values]

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: Any) -> Any:
        if self._documents is None:
            name = self.name
            self._documents = [
                {} if type(value) is MissingField else {name: value} for value in self._values
            ]
        return self._documents[index]


class LargePortion(list[Document]):
    """Documents of which one is larger than a portion: process it in a thread."""


@dataclass(eq=False)
class RawBatch:
    """The documents of a response, encoded; the lock `turn` is held to decode a portion."""

    _raw: Sequence[bytes | memoryview]
    _reader: ResultReader
    _turn: asyncio.Lock
    _deadline: Deadline = _NO_DEADLINE

    @property
    def size(self) -> int:
        return sum(len(data) for data in self._raw)

    @property
    def _largest(self) -> int:
        return max(map(len, self._raw), default=0)

    async def decode(self) -> list[Document]:
        """Return all documents, when there is memory for them."""
        await self._deadline.acquire(_DECODED * self.size)
        documents: list[Document] = LargePortion() if self._largest > PORTION else []

        async def add(portion: list[Document]) -> None:
            documents.extend(portion)

        await self.hand_over(add)
        return documents

    async def hand_over(self, take: Take) -> None:
        """Pass all documents to `take`, a portion at a time."""
        for number, portion in enumerate(self._cut()):
            if number:
                await asyncio.sleep(0)  # let other requests run
            async with self._turn:
                is_raw = isinstance(take, RawTake)
                await take(self._copy(portion) if is_raw else await self._read(portion))
        self._reader.finish()

    def _cut(self) -> Iterator[Sequence[bytes | memoryview]]:
        """Return the documents, a portion at a time."""
        portion: list[bytes | memoryview] = []
        size = 0
        for data in self._raw:
            portion.append(data)
            size += len(data)
            if size >= PORTION:
                yield portion
                portion, size = [], 0
        if portion:
            yield portion

    def _copy(self, portion: Sequence[bytes | memoryview]) -> list[Any]:
        return list(map(bytes, portion))

    async def _read(self, portion: Sequence[bytes | memoryview]) -> list[Document]:
        documents: list[Document]
        if all(len(data) <= PORTION for data in portion):
            documents = [self._reader.read(data) for data in portion]
        else:
            documents = LargePortion([await read_piecewise(self._reader, data) for data in portion])
        if paths := find_compared(self._reader.filter):
            pairs = zip(documents, portion, strict=True)
            documents[:] = [mark_document(document, data, paths) for document, data in pairs]
        return documents


class SplitBatch(RawBatch):
    """The documents of a response that the native extension has taken apart."""

    def __init__(
        self, batch: NativeBatch, reader: ResultReader, turn: asyncio.Lock, deadline: Deadline
    ) -> None:
        super().__init__((), reader, turn, deadline)
        self._batch = batch

    @property
    def size(self) -> int:
        return self._batch.size

    @property
    def _largest(self) -> int:
        return self._batch.largest

    def _cut(self) -> Iterator[Sequence[bytes | memoryview]]:
        """Return copies of the documents, a portion at a time."""
        for start, stop in self._batch.cut(PORTION):
            yield self._batch.part(start, stop).documents()

    def _copy(self, portion: Sequence[bytes | memoryview]) -> list[Any]:
        return portion if isinstance(portion, list) else list(portion)


def build_batch(
    documents: Encoded, reader: ResultReader, turn: asyncio.Lock, deadline: Deadline
) -> RawBatch:
    """Build the batch of a large response."""
    if isinstance(documents, Sequence):
        return RawBatch(documents, reader, turn, deadline)
    return SplitBatch(documents, reader, turn, deadline)


def weigh(size: int) -> int:
    """Return the memory that a response of this size needs; 0 for small ones."""
    return _COPIES * size if size > LARGE else 0


async def hand_over(batch: RawBatch | list[Document], take: Take | None) -> list[Document]:
    """Return the documents of a batch; none if `take` received them."""
    if isinstance(batch, RawBatch):
        if take is None:
            return await batch.decode()
        await batch.hand_over(take)
        return []
    documents: list[Any] = batch
    if DBRef in map(type, documents):
        # Convert them back: inside a response, a document with `$ref` and `$id` is not one.
        documents = [dict(each.as_doc()) if isinstance(each, DBRef) else each for each in documents]
    if take is None:
        return documents
    await take(documents)
    return []


def split_batch(answer: memoryview) -> tuple[bytes | memoryview, Encoded]:
    """Return a response without the documents of its batch, and these documents."""
    if (native := find_native()) is not None:
        try:
            split = native.split_reply(answer)
        except native.misfit:
            return answer, ()  # the driver reports what is wrong with it
        return split.head, split.documents() if len(answer) <= LARGE else split
    try:
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
    except (IndexError, InvalidBSON, struct.error):
        return answer, ()  # as above
    return bytes(rest), documents


def _find(data: memoryview, place: int, kind: int, *names: bytes) -> int | None:
    """Return where a value of this type and name begins in the document at `place`."""
    position, end = place + _LENGTH.size, place + _read_length(data, place) - 1
    while position < end:
        stop = find_end(data, position + 1)
        if data[position] == kind and data[position + 1 : stop] in names:
            return stop + 1
        position = stop + 1 + size_of(data[position], data, stop + 1)
    return None


def _elements(data: memoryview, place: int) -> Iterator[tuple[int, int]]:
    """Return where the documents of an array begin and end."""
    position, end = place + _LENGTH.size, place + _read_length(data, place) - 1
    while position < end:
        start = find_end(data, position + 1) + 1
        if data[position] != _DOCUMENT:
            raise InvalidBSON("a batch of other values than documents")
        position = start + size_of(_DOCUMENT, data, start)
        yield start, position
    if position != end or end >= len(data):
        raise InvalidBSON("a batch of another length")


def _read_length(data: memoryview, place: int) -> int:
    (length,) = _LENGTH.unpack_from(data, place)
    return int(length)
