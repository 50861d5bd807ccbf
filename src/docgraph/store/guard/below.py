"""Nested filters: move a filter on documents below a part, such as a part of a change event.

Every path moves below the part that contains the document; the filter matches the same documents.
That part must be an object: otherwise a filter for a missing property would match if there is no
document at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from docgraph.exchange.data import Document
from docgraph.exchange.errors import NotSupported
from docgraph.store.guard.steps import walk

_LOGICAL: Final = frozenset({"$and", "$or", "$nor"})
_WHOLE: Final = "$$ROOT"


def match_below(filter: Mapping[str, Any], part: str) -> Document:
    """Return the condition that the part is a document and the filter matches it."""
    return {"$and": [{part: {"$type": "object"}}, move_below(filter, part)]}


def move_below(filter: Mapping[str, Any], part: str) -> Document:
    """Return the condition that the filter matches the part, which is a document."""
    conditions: list[Document] = []
    for key, condition in filter.items():
        if key in _LOGICAL:
            conditions.append({key: [move_below(branch, part) for branch in condition]})
        elif key == "$expr":
            conditions.append({"$expr": _move_expression(condition, part)})
        elif key == "$jsonSchema":
            conditions.append({"$jsonSchema": {"properties": {part: condition}}})
        elif key == "$comment":
            continue
        elif key.startswith("$"):
            raise _immovable(key)
        else:
            conditions.append({f"{part}.{key}": condition})
    return {"$and": conditions} if conditions else {}


def find_roots(filter: Mapping[str, Any]) -> set[str] | None:
    """Return the first names of the paths of a filter; None if it may depend on all properties."""
    roots: set[str] = set()
    for key, condition in filter.items():
        found: set[str] | None = {key.partition(".")[0]}
        if key in _LOGICAL:
            inner = [find_roots(branch) for branch in condition]
            found = None if None in inner else set().union(*(one or () for one in inner))
        elif key.startswith("$"):
            found = set() if key == "$comment" else None
        if found is None:
            return None
        roots |= found
    return roots


def _move_expression(expression: Any, part: str) -> Document:
    """Move an expression: `$name` is short for `$$CURRENT.name`, and CURRENT can be set.

    ROOT cannot be set. Without a document nothing is computed, since that could fail.
    """
    if _names_whole(expression):
        raise _immovable(f"$expr and {_WHOLE}")
    is_document = {"$eq": [{"$type": f"${part}"}, "object"]}
    moved = {"$let": {"vars": {"CURRENT": f"${part}"}, "in": expression}}
    return {"$cond": [is_document, moved, False]}


def _names_whole(value: Any) -> bool:
    return any(isinstance(one, str) and one.startswith(_WHOLE) for one in walk(value))


def _immovable(what: str) -> NotSupported:
    return NotSupported(
        f"a row filter with {what} cannot be applied to a change stream",
        hint="use comparisons of properties, or $expr on properties",
    )
