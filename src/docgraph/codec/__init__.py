"""BSON to JSON and back: modes of output, lenient input, escaping of keys."""

from docgraph.codec.decode import decode, decode_json
from docgraph.codec.encode import EncodeError, JsonMode, encode, fragment, to_json
from docgraph.codec.escape import escape_keys, escape_path, unescape_keys
from docgraph.codec.scalars import BadValue

__all__ = [
    "BadValue",
    "EncodeError",
    "JsonMode",
    "decode",
    "decode_json",
    "encode",
    "escape_keys",
    "escape_path",
    "fragment",
    "to_json",
    "unescape_keys",
]
