"""Piecewise decoding: decode a very large document without blocking other requests.

The driver decodes a document in one call, and lets no other thread run meanwhile: half a second for
16 MiB of short values. Here its elements are decoded in groups, including those of large nested
documents and arrays, and other requests run between two groups.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Generator, Iterator
from typing import Any, Final, NamedTuple

import bson
from bson.errors import InvalidBSON

from docgraph.exchange.data import Document
from docgraph.store.driver.lenient_decode import Options, ResultReader, size_of

PIECE: Final = 64 * 1024  # bytes that are decoded in one call: some 10 ms, with finding them

_LENGTH: Final = struct.Struct("<i")
_DOCUMENT, _ARRAY = 0x03, 0x04
_WRAPPED: Final = b"\x04\0"  # an array with an empty name


class _Element(NamedTuple):
    """A part of a document: from the type of its first element to the end of its last one.

    `value` is the start of a large container's value; such a container is alone in its part.
    """

    start: int
    end: int
    value: int | None = None


async def read_piecewise(reader: ResultReader, data: bytes | memoryview) -> Document:
    """Decode one document of a response; one with an unreadable value is left to the reader."""
    raw = bytes(data)
    steps = _read_document(raw, 0, reader.options)
    try:
        while True:
            next(steps)
            await asyncio.sleep(0)
    except StopIteration as end:
        document: Document = end.value
        return document
    except (IndexError, InvalidBSON, ValueError, struct.error):
        return reader.read(raw)


def _read_document(raw: bytes, place: int, options: Options) -> Generator[None, None, Document]:
    document: Document = options.document_class()
    for part in _cut(raw, place):
        if part.value is None:
            document.update(bson.decode(_wrap(raw[part.start : part.end]), options))
        else:
            name = bson.decode(_wrap(b"\x0a" + raw[part.start + 1 : part.value]), options)
            (key,) = name
            document[key] = yield from _read_container(raw, part, options)
        yield
    return document


def _read_array(raw: bytes, place: int, options: Options) -> Generator[None, None, list[Any]]:
    values: list[Any] = []
    for part in _cut(raw, place):
        if part.value is None:
            array = _WRAPPED + _wrap(raw[part.start : part.end])
            values += bson.decode(_wrap(array), options)[""]
        else:
            values.append((yield from _read_container(raw, part, options)))
        yield
    return values


def _read_container(raw: bytes, part: _Element, options: Options) -> Generator[None, None, Any]:
    assert part.value is not None  # noqa: S101 - only such parts are containers
    read = _read_array if raw[part.start] == _ARRAY else _read_document
    return (yield from read(raw, part.value, options))


def _cut(raw: bytes, place: int) -> Iterator[_Element]:
    """Return the parts of the document at that position: groups of elements, large containers."""
    start = position = place + _LENGTH.size
    end = place + int(_LENGTH.unpack_from(raw, place)[0]) - 1
    while position < end:
        value = raw.index(0, position + 1) + 1
        following = value + size_of(raw[position], raw, value)
        if raw[position] in (_DOCUMENT, _ARRAY) and following - value > PIECE:
            if position > start:
                yield _Element(start, position)
            yield _Element(position, following, value)
            start = following
        elif following - start >= PIECE:
            yield _Element(start, following)
            start = following
        position = following
    if position > start:
        yield _Element(start, position)


def _wrap(elements: bytes) -> bytes:
    """Return the elements as a document of their own."""
    return _LENGTH.pack(len(elements) + _LENGTH.size + 1) + elements + b"\0"
