"""Exact encoding: documents as bytes that no other document has, as the database would get them.

JSON cannot distinguish an ObjectId from an object `{"$oid": …}`; these bytes can.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import bson

from docgraph.store.driver.errors import translated

__all__ = ["to_bytes"]


def to_bytes(document: Mapping[str, Any]) -> bytes:
    """Return equal bytes for equal names and values, of the same types, in the same order."""
    with translated():
        return bson.encode(document)
