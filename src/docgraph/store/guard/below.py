"""A filter on documents as a filter on what holds a document, such as an event of a change stream.

Every path moves below the part that holds the document; what matches is the same. That part must be
an object: a filter that asks for what is missing would match where there is no document at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from docgraph.exchange.data import Document
from docgraph.exchange.errors import NotSupported

__all__ = ["match_below"]

_LOGICAL: Final = frozenset({"$and", "$or", "$nor"})
_WHOLE: Final = "$$ROOT"


def match_below(filter: Mapping[str, Any], part: str) -> Document:
    """The condition that the part is a document and the filter matches it."""
    return {"$and": [{part: {"$type": "object"}}, _move(filter, part)]}


def _move(filter: Mapping[str, Any], part: str) -> Document:
    conditions: list[Document] = []
    for key, condition in filter.items():
        if key in _LOGICAL:
            conditions.append({key: [_move(branch, part) for branch in condition]})
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


def _move_expression(expression: Any, part: str) -> Document:
    """`$name` is short for `$$CURRENT.name`, and what CURRENT stands for can be said.

    ROOT cannot. Without a document nothing is computed, since that could fail.
    """
    if _names_whole(expression):
        raise _immovable(f"$expr and {_WHOLE}")
    is_document = {"$eq": [{"$type": f"${part}"}, "object"]}
    moved = {"$let": {"vars": {"CURRENT": f"${part}"}, "in": expression}}
    return {"$cond": [is_document, moved, False]}


def _names_whole(value: Any) -> bool:
    if isinstance(value, str):
        return value.startswith(_WHOLE)
    if isinstance(value, Mapping):
        return any(_names_whole(inner) for inner in value.values())
    return isinstance(value, (list, tuple)) and any(_names_whole(inner) for inner in value)


def _immovable(what: str) -> NotSupported:
    return NotSupported(
        f"a row filter with {what} cannot be applied to a change stream",
        hint="use comparisons of properties, or $expr on properties",
    )
