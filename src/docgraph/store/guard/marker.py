"""The marker of documents that are stored escaped: nobody asks for what nobody gets to see.

In a collection that is known it is hidden like anything else that is ours. Schema stores are in
every database: there, reads are looked at before they are made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docgraph.exchange.data import ESCAPING, Read
from docgraph.store.guard.rows import Guard, Key, refuse

__all__ = ["hide_marker", "refuse_marker", "refuse_marker_in_filter"]


def hide_marker(guard: Guard, db: str, collection: str) -> Key:
    """Hide the marker in a collection; the key is for those who have to understand documents."""
    return guard.hide(db, collection, ESCAPING, remade=True)


def refuse_marker(read: Read) -> None:
    """Raise `SecurityViolation` for a read that filters, sorts or computes by the marker."""
    refuse_marker_in_filter(read.filter)
    if any(_is_marker(path) for path, _ in read.sort) or _mentions(read.hint):
        raise refuse("the sort")
    # Its own place in a projection is harmless: it is taken out of what was read.
    if _mentions(list((read.projection or {}).values())):
        raise refuse("the projection")


def refuse_marker_in_filter(filter: Mapping[str, Any]) -> None:
    """Raise `SecurityViolation` for a filter that asks for the marker."""
    if _mentions(filter):
        raise refuse("the filter")


def _mentions(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_is_marker(key) or _mentions(inner) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return any(map(_mentions, value))
    # `$_escaping`, and `$$ROOT._escaping` however the root is called.
    return isinstance(value, str) and value[:1] == "$" and ESCAPING in value[1:].split(".")[:2]


def _is_marker(path: str) -> bool:
    return path.split(".", 1)[0] == ESCAPING
