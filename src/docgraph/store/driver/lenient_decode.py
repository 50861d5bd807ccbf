"""Lenient decode: documents with invalid UTF-8 or other values that the driver cannot decode.

The driver decodes a response completely or not at all. A UUID of three bytes or a string that is
not UTF-8 (other drivers write both, and the server stores them) would make the whole response
unreadable. Only such responses come here. They are parsed element by element: the driver decodes
the readable values, and the others are returned as raw bytes. Each of them is reported. A response
whose lengths or types contradict each other is `InvalidBSON`: no server sends it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final, cast

import bson
from bson import Binary, DBRef
from bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions
from bson.errors import InvalidBSON

from docgraph.exchange.data import CollectionName, Document, FieldPath
from docgraph.observe import emit
from docgraph.observe.events import UnreadableValue
from docgraph.store.driver.driver_internals import encode_in_python

Options = CodecOptions[Document]

_MAX_REPORTED: Final = 10  # documents of one answer
_MAX_PATHS: Final = 1000  # of further flaws, only the document is stored
_FEW: Final = 8  # values that are decoded one by one after they failed together
_DOCUMENT_PATH: Final = 3  # cursor.firstBatch.<index>
_LONGEST: Final = 200
_LENGTH: Final = struct.Struct("<i")
_HEAD: Final = _LENGTH.size
_NAME: Final = b"v\0"
_START: Final = struct.Struct("<i8si")  # the length, the first name, and its length
_CURSOR: Final = b"\x03cursor\0"
_OK: Final = b"\x01ok\0" + struct.pack("<d", 1.0)
_BEFORE: Final = (b"cursor", b"ok")
_CURSOR_COMMANDS: Final = frozenset(
    {"find", "aggregate", "getMore", "listCollections", "listIndexes"}
)
_DOCUMENTS: Final = frozenset({dict, DBRef})  # a document may look like a reference
_OBJECT, _ARRAY, _BINARY = 0x03, 0x04, 0x05
_TEXTS: Final = frozenset({0x02, 0x0D, 0x0E})  # text, code, symbol
_FIXED: Final = {
    0x01: 8,
    0x06: 0,
    0x07: 12,
    0x08: 1,
    0x09: 8,
    0x0A: 0,
    0x10: 4,
    0x11: 8,
    0x12: 8,
    0x13: 16,
    0x7F: 0,
    0xFF: 0,
}


class _RawValue(bytes):
    """The bytes of a value that cannot be decoded."""


class _RawBinary(Binary):
    """Binary data that does not match its subtype."""


class _RawName(str):
    """A name with escapes in place of the invalid bytes."""

    __slots__ = ()


def is_readable(value: Any) -> bool:
    """Check if the value is the stored one: raw bytes are not, nor is a container of some."""
    if isinstance(value, Mapping):
        return all(map(is_readable_name, value)) and all(map(is_readable, value.values()))
    if isinstance(value, list):
        return all(map(is_readable, value))
    return not isinstance(value, _RawValue | _RawBinary)


def is_readable_name(name: str) -> bool:
    """Check if the name is the stored one."""
    return type(name) is not _RawName


def decode_reply(
    payload: bytes | memoryview, options: Options, db: str, command: Document
) -> Document:
    """Return the response to a read command; without the times of the cluster, if it succeeded."""
    try:
        return _decode_cursor(payload, options) or bson.decode(payload, options)
    except InvalidBSON:
        reply, flaws = salvage(bytes(payload), options)
    _report((db, _collection_of(command)), _by_document(reply, flaws))
    return reply


def _decode_cursor(payload: bytes | memoryview, options: Options) -> Document | None:
    """Decode only the cursor of a response in the usual form; None for others."""
    if len(payload) <= _START.size:
        return None
    size, name, length = _START.unpack_from(payload)
    end = _START.size - _HEAD + length
    is_usual = name == _CURSOR and size == len(payload) and not payload[-1]
    if not is_usual or payload[end : end + len(_OK)] != _OK:
        return None
    # The elements behind `ok`: their lengths are right, and none replaces what came before.
    elements, position = bytes(payload[end + len(_OK) : -1]), 0
    try:
        while position < len(elements):
            stop = elements.index(0, position + 1)
            if elements[position + 1 : stop] in _BEFORE:
                return None
            position = stop + 1 + size_of(elements[position], elements, stop + 1)
    except (IndexError, ValueError, InvalidBSON, struct.error):
        return None  # the driver reports what is wrong with it
    if position != len(elements):
        return None
    return {"cursor": bson.decode(payload[_START.size - _HEAD : end], options), "ok": 1.0}


def _by_document(reply: Document, flaws: list[FieldPath]) -> dict[str, list[FieldPath]]:
    """Group the flaws by document id: they are at `cursor.firstBatch.<index>.<path>`."""
    by_id: dict[str, list[FieldPath]] = {}
    cursor = reply.get("cursor")
    batch = cursor.get("firstBatch") if isinstance(cursor, dict) else None
    entries = batch if isinstance(batch, list) else []
    documents = {str(index): document for index, document in enumerate(entries)}
    for flaw in flaws:
        match flaw:
            case ("cursor", "firstBatch", index, *path) if index in documents:
                by_id.setdefault(_id_of(documents[index]), []).append(tuple(path))
            case _:
                by_id.setdefault("", []).append(flaw)
    return by_id


def check_reply(reply: Document, command: Document) -> None:
    """Raise `InvalidBSON` if the response lacks what every response to the command has."""
    if not reply.get("ok"):
        code, labels = reply.get("code", 0), reply.get("errorLabels", [])
        if not (isinstance(reply.get("errmsg"), str) and isinstance(code, int)):
            raise InvalidBSON("an error without a code and a message")
        if not (isinstance(labels, list) and all(isinstance(label, str) for label in labels)):
            raise InvalidBSON("an error with labels that are no texts")
    elif next(iter(command)) in _CURSOR_COMMANDS:
        cursor = reply.get("cursor")
        if not (
            type(cursor) is dict
            and isinstance(cursor.get("id"), int)
            and type(cursor.get("ns")) is str
        ):
            raise InvalidBSON("a response without a cursor")
        batch = cursor.get("nextBatch" if "getMore" in command else "firstBatch")
        if type(batch) is not list or not _DOCUMENTS.issuperset(map(type, batch)):
            raise InvalidBSON("a response without documents")


def _collection_of(command: Document) -> str:
    return str(next(iter(command.values())))


class ResultReader:
    """Decodes the documents of one response, one by one, and reports unreadable values."""

    def __init__(self, options: Options, db: str, command: Document) -> None:
        self.options = options
        self.filter = command.get("filter")
        self._namespace = (db, _collection_of(command))
        self._reported = 0
        self._rest = 0  # flaws in documents beyond the reported ones

    def read(self, data: bytes | memoryview) -> Document:
        try:
            return bson.decode(data, self.options)
        except InvalidBSON:
            document, flaws = salvage(bytes(data), self.options)
        if self._reported < _MAX_REPORTED:
            self._reported += 1
            _report(self._namespace, {_id_of(document): flaws})
        else:
            self._rest += len(flaws)
        return document

    def finish(self) -> None:
        """Report the number of further flaws."""
        if self._rest:
            emit(UnreadableValue(*self._namespace, "", "", self._rest))
            self._rest = 0


def decode_event(data: bytes | memoryview, options: Options, db: str) -> Document:
    """Decode one event of a change stream."""
    try:
        return bson.decode(data, options)
    except InvalidBSON:
        event, flaws = salvage(bytes(data), options)
    collection = str(event.get("ns", {}).get("coll", ""))
    _report((db, collection), {_id_of(event.get("documentKey")): flaws})
    return event


def _id_of(document: Any) -> str:
    return str(document.get("_id"))[:_LONGEST] if isinstance(document, Mapping) else ""


def _report(namespace: CollectionName, flaws: Mapping[str, list[FieldPath]]) -> None:
    for id, paths in islice(flaws.items(), _MAX_REPORTED):
        emit(UnreadableValue(*namespace, id, ".".join(paths[0])[:_LONGEST], len(paths)))
    rest = sum(len(paths) for paths in islice(flaws.values(), _MAX_REPORTED, None))
    if rest:
        emit(UnreadableValue(*namespace, "", "", rest))


def encode_bson(
    document: Mapping[str, Any], options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS
) -> bytes:
    """Encode a document; the driver's extension fails for binary data of subtype 255."""
    try:
        return bson.encode(document, False, options)
    except SystemError:
        return encode_in_python(document, options)


def salvage(data: bytes, options: Options) -> tuple[Document, list[FieldPath]]:
    """Return the readable part of the document, and the paths of the unreadable values."""
    salvaged = _Salvage(data, options)
    try:
        return dict(salvaged.read(0, len(data), (), len(data))), salvaged.flaws
    except (IndexError, RecursionError, ValueError, struct.error) as error:
        raise InvalidBSON("lengths that contradict each other") from error


class _Salvage:
    """Decodes runs of elements, and splits those that cannot be decoded.

    A run inside of one that failed is decoded if it has half of its bytes at most, and is split
    otherwise. So a document of many levels is not decoded again at each of them.
    """

    def __init__(self, data: bytes, options: Options) -> None:
        self._data = data
        self._options = options
        self.flaws: list[FieldPath] = []

    def read(
        self, start: int, end: int, place: FieldPath, failed: int
    ) -> Iterable[tuple[str, Any]]:
        """Return names and values of a container inside of a run of this size that failed."""
        names, bounds = self._split(start, end)
        values: list[Any] = []
        runs = [(0, len(names), failed)]
        while runs:
            first, last, failed = runs.pop()
            size, has_failed = bounds[last] - bounds[first], False
            if size <= failed // 2:
                try:
                    values += self._decode(bounds[first], bounds[last])
                    self._record_names(names[first:last], place)
                    continue
                except InvalidBSON:
                    failed, has_failed = size, True
            if last - first == 1:
                self._record_names(names[first:last], place)
                path = (*place, names[first])
                at = bounds[first], bounds[last]
                values.append(self._read_value(*at, path, failed, has_failed=has_failed))
            elif last - first <= _FEW:
                runs += ((index, index + 1, failed) for index in reversed(range(first, last)))
            else:
                middle = (first + last) // 2
                runs += (middle, last, failed), (first, middle, failed)
        return zip(names, values, strict=True)

    def _split(self, start: int, end: int) -> tuple[list[str], list[int]]:
        """Return the names of the elements, and the positions where each begins and ends."""
        data = self._data
        position = start + _HEAD
        names: list[str] = []
        bounds = [position]
        if _LENGTH.unpack_from(data, start)[0] != end - start or data[end - 1]:
            raise InvalidBSON("a document of another length")
        while position < end - 1:
            stop = data.index(0, position + 1)
            raw = data[position + 1 : stop]
            try:
                names.append(raw.decode())
            except UnicodeDecodeError:
                names.append(_RawName(raw.decode(errors="backslashreplace")))
            position = stop + 1 + size_of(data[position], data, stop + 1)
            if position >= end:
                raise InvalidBSON("a value that is longer than its document")
            bounds.append(position)
        return names, bounds

    def _decode(self, start: int, end: int) -> list[Any]:
        """Let the driver decode a run of values, as an array: names are ignored."""
        size = _LENGTH.pack(_HEAD + end - start + 1)
        body = bytes([_ARRAY]) + _NAME + size + self._data[start:end] + b"\0\0"
        document = bson.decode(_LENGTH.pack(_HEAD + len(body)) + body, self._options)
        return cast(list[Any], document["v"])

    def _read_value(
        self, start: int, end: int, place: FieldPath, failed: int, *, has_failed: bool
    ) -> Any:
        kind, value = self._data[start], self._data.index(0, start + 1) + 1
        if kind == _OBJECT:
            return dict(self.read(value, end, place, failed))
        if kind == _ARRAY:
            return [value for _, value in self.read(value, end, place, failed)]
        with suppress(InvalidBSON):
            if not has_failed:
                return self._decode(start, end)[0]
        self._record(place)
        raw = self._data[value:end]
        if kind == _BINARY:
            return _RawBinary(raw[_HEAD + 1 :], raw[_HEAD])
        return _RawValue(raw[_HEAD:-1] if kind in _TEXTS else raw)

    def _record_names(self, names: list[str], place: FieldPath) -> None:
        if _RawName in map(type, names):
            for name in names:
                if not is_readable_name(name):
                    self._record((*place, name))

    def _record(self, place: FieldPath) -> None:
        self.flaws.append(place if len(self.flaws) < _MAX_PATHS else place[:_DOCUMENT_PATH])


def find_end(data: bytes | memoryview, start: int) -> int:
    """Return the position of the NUL of the string that begins there."""
    while data[start]:
        start += 1
    return start


def size_of(kind: int, data: bytes | memoryview, start: int) -> int:
    """Return the size of a value in bytes, which may be beyond the end of the data."""
    fixed = _FIXED.get(kind)
    if fixed is not None:
        return fixed
    if kind == 0x0B:  # noqa: PLR2004 - a regular expression: two texts that end in NUL
        return find_end(data, find_end(data, start) + 1) + 1 - start
    (length,) = _LENGTH.unpack_from(data, start)
    if length < 0:
        raise InvalidBSON("a negative length")
    if kind in (_OBJECT, _ARRAY, 0x0F):
        return int(length)
    if kind == _BINARY:
        return int(length) + _HEAD + 1
    if kind in _TEXTS:
        return int(length) + _HEAD
    if kind == 0x0C:  # noqa: PLR2004 - a pointer: a text and an ObjectId
        return int(length) + _HEAD + 12
    raise InvalidBSON(f"unknown type {kind}")
