"""BSON and extended JSON codec: output modes, lenient input, key escaping."""

from docgraph.codec.decode import decode, decode_json
from docgraph.codec.encode import EncodeError, JsonMode, encode, fragment, to_json
from docgraph.codec.escape import (
    as_meant,
    as_written,
    escape_keys,
    to_stored,
    unescape_keys,
)
from docgraph.codec.id_text import name_id

__all__ = [
    "EncodeError",
    "JsonMode",
    "as_meant",
    "as_written",
    "decode",
    "decode_json",
    "encode",
    "escape_keys",
    "fragment",
    "name_id",
    "to_json",
    "to_stored",
    "unescape_keys",
]
