"""Documents as bytes that no other document has: what the database would get.

JSON cannot tell an ObjectId from an object `{"$oid": …}` of the same look; these bytes can.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import bson

from docgraph.store.driver.errors import translated

__all__ = ["to_bytes"]


def to_bytes(document: Mapping[str, Any]) -> bytes:
    """The same for the same names and values, of the same types, in the same order."""
    with translated():
        return bson.encode(document)
