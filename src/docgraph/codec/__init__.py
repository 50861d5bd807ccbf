"""BSON to JSON and back: modes of output, lenient input, escaping of keys."""

from docgraph.codec.decode import decode, decode_json
from docgraph.codec.encode import EncodeError, JsonMode, encode, fragment, to_json
from docgraph.codec.escape import (
    as_meant,
    as_written,
    escape_keys,
    escape_path,
    to_stored,
    unescape_keys,
)
from docgraph.codec.naming import name_id
from docgraph.codec.scalars import BadValue

__all__ = [
    "BadValue",
    "EncodeError",
    "JsonMode",
    "as_meant",
    "as_written",
    "decode",
    "decode_json",
    "encode",
    "escape_keys",
    "escape_path",
    "fragment",
    "name_id",
    "to_json",
    "to_stored",
    "unescape_keys",
]
