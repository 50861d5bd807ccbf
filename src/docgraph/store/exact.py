"""Exact encoding: documents as bytes that no other document has, as the database would get them.

JSON cannot distinguish an ObjectId from an object `{"$oid": …}`; these bytes can.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, Final

import bson
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import BSONError

from docgraph.exchange.data import Document
from docgraph.store.driver.lenient_decode import encode_bson, find_end, size_of
from docgraph.store.driver.malformed import translated

_HEAD: Final = 4  # bytes of the length of a document
_CONTAINERS: Final = (0x03, 0x04)
_MAX_SEARCHED: Final = 128 << 10
# Those of the client.
_OPTIONS: Final[CodecOptions[Document]] = CodecOptions(
    datetime_conversion=DatetimeConversion.DATETIME_AUTO
)


def to_bytes(document: Mapping[str, Any]) -> bytes:
    """Return equal bytes for equal names and values, of the same types, in the same order."""
    with translated():
        return encode_bson(document)


def normalize(document: Mapping[str, Any]) -> Document:
    """Return the document as the database gets it: dates have milliseconds, numbers 64 bits."""
    with translated():
        return bson.decode(encode_bson(document), _OPTIONS)


def decode_exactly(data: bytes) -> Document | None:
    """Decode a stored document; return None if comparing it in memory could be wrong.

    That is the case if a value cannot be decoded, or if a name occurs twice: the database compares
    the first value, and the last one is decoded. Only the database can compare such documents, and
    large ones that must be searched for such names.
    """
    try:
        document = bson.decode(data, _OPTIONS)
        if encode_bson(document, _OPTIONS) == data:
            return document
    except (BSONError, OverflowError, RecursionError):
        return None
    # The driver has replaced an old type, or sorted the names of a reference.
    return document if len(data) <= _MAX_SEARCHED and _has_unique_names(data) else None


def keep_names(data: bytes, names: Set[str]) -> bytes:
    """Return the document with these properties only, as they are stored."""
    kept = []
    position, wanted = _HEAD, {name.encode() for name in names}
    while kind := data[position]:
        end = find_end(data, position + 1)
        following = end + 1 + size_of(kind, data, end + 1)
        if data[position + 1 : end] in wanted:
            kept.append(data[position:following])
        position = following
    body = b"".join(kept)
    return (_HEAD + len(body) + 1).to_bytes(_HEAD, "little") + body + b"\0"


def _has_unique_names(data: bytes, start: int = 0) -> bool:
    """Return whether no name occurs twice, in the document or in one inside of it."""
    names: set[bytes] = set()
    count, position = 0, start + _HEAD
    while kind := data[position]:
        value = find_end(data, position + 1) + 1
        names.add(data[position + 1 : value])
        count += 1
        if kind in _CONTAINERS and not _has_unique_names(data, value):
            return False
        position = value + size_of(kind, data, value)
    return len(names) == count
