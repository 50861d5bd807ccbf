"""Exact encoding: documents as bytes that no other document has, as the database would get them.

JSON cannot distinguish an ObjectId from an object `{"$oid": …}`; these bytes can.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import bson
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import BSONError

from docgraph.exchange.data import Document
from docgraph.store.driver.errors import translated

__all__ = ["decode_exactly", "normalize", "to_bytes"]

# Those of the client.
_OPTIONS: Final[CodecOptions[Document]] = CodecOptions(
    datetime_conversion=DatetimeConversion.DATETIME_AUTO
)


def to_bytes(document: Mapping[str, Any]) -> bytes:
    """Return equal bytes for equal names and values, of the same types, in the same order."""
    with translated():
        return bson.encode(document)


def normalize(document: Mapping[str, Any]) -> Document:
    """Return the document as the database gets it: dates have milliseconds, numbers 64 bits."""
    with translated():
        return bson.decode(bson.encode(document), _OPTIONS)


def decode_exactly(data: bytes) -> Document | None:
    """Decode a stored document; return None if the decoded form differs from the stored one.

    It differs where a name occurs twice, where the driver replaces an old type (undefined, symbol,
    pointer), and where a value cannot be decoded. Only the database can compare such documents.
    """
    try:
        document = bson.decode(data, _OPTIONS)
        return document if bson.encode(document, codec_options=_OPTIONS) == data else None
    except (BSONError, OverflowError, RecursionError):
        return None
