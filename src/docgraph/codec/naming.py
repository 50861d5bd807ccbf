"""Ids of documents as people read them in lists and messages."""

from __future__ import annotations

from typing import Any

from docgraph.codec.encode import EncodeError, encode
from docgraph.codec.forms import JsonMode
from docgraph.codec.types import Code, ObjectId

__all__ = ["name_id"]


def name_id(id: Any) -> str:
    """A text as it is, an ObjectId by its digits, others as JSON; nothing is "None" or the like."""
    if isinstance(id, str | ObjectId) and not isinstance(id, Code):
        return str(id)
    try:
        return encode(id, JsonMode.STANDARD).decode()
    except EncodeError:  # in a file stands what no document has
        return str(id)
