"""Text of document ids for lists and messages."""

from __future__ import annotations

from typing import Any

from docgraph.codec.bson_types import Code, ObjectId
from docgraph.codec.encode import EncodeError, encode
from docgraph.codec.forms import JsonMode


def name_id(id: Any) -> str:
    """Return a text unchanged, an ObjectId by its digits, others as JSON; never "None"."""
    if isinstance(id, str | ObjectId) and not isinstance(id, Code):
        return str(id)
    try:
        return encode(id, JsonMode.STANDARD).decode()
    except EncodeError:  # files can contain values that no document has
        return str(id)
