"""Escaping marker: hide the marker of documents that are stored escaped.

In known collections it is hidden like other internal properties. Schema stores exist in every
database: there, reads are checked before they run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docgraph.exchange.data import ESCAPING, Read
from docgraph.store.guard.shield import Guard, RevealKey, reject


def hide_marker(guard: Guard, db: str, collection: str) -> RevealKey:
    """Hide the marker in a collection; the key is for code that must interpret the documents."""
    return guard.hide(db, collection, ESCAPING, remade=True)


def reject_marker(read: Read) -> None:
    """Raise `SecurityViolation` for a read that filters, sorts or computes by the marker."""
    reject_marker_in_filter(read.filter)
    if any(_is_marker(path) for path, _ in read.sort) or _mentions(read.hint):
        raise reject("the sort")
    # Its own entry in a projection is harmless: it is removed from the result.
    if _mentions(list((read.projection or {}).values())):
        raise reject("the projection")


def reject_marker_in_filter(filter: Mapping[str, Any]) -> None:
    """Raise `SecurityViolation` for a filter that uses the marker."""
    if _mentions(filter):
        raise reject("the filter")


def _mentions(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_is_marker(key) or _mentions(inner) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return any(map(_mentions, value))
    # `$_escaping`, and `$$ROOT._escaping` under any name of the root.
    return isinstance(value, str) and value[:1] == "$" and ESCAPING in value[1:].split(".")[:2]


def _is_marker(path: str) -> bool:
    return path.split(".", 1)[0] == ESCAPING
