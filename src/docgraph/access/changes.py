"""What an update makes of a permission document, to check it before it is written.

Understands the operators that people use on rules; with others nobody can say what would be stored,
and the whole document has to be written instead.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final

from docgraph.exchange import Document
from docgraph.exchange.errors import NotSupported

__all__ = ["apply_update"]

Change = Callable[[dict[str, Any], str, Any], None]


def apply_update(document: Document, update: Document, *, is_new: bool = False) -> Document:
    """The document after the update; raises `NotSupported` for operators that it cannot foresee."""
    changed = deepcopy(document)
    for operator, fields in update.items():
        change = _OPERATORS.get(operator)
        if change is None or not isinstance(fields, dict):
            raise NotSupported(
                f"a permission cannot be updated with {operator}",
                hint=f"write the whole permission, or use {', '.join(sorted(_OPERATORS))}",
            )
        if operator == "$setOnInsert" and not is_new:
            continue
        for path, value in fields.items():
            holder, key = _find_holder(changed, path)
            change(holder, key, value)
    return changed


def _find_holder(document: Document, path: str) -> tuple[dict[str, Any], str]:
    *steps, key = path.split(".")
    holder: Any = document
    for step in steps:
        holder = holder.setdefault(step, {}) if isinstance(holder, dict) else None
    if not isinstance(holder, dict) or key[:1] == "$":
        raise NotSupported(
            f"the part {path!r} of a permission cannot be updated alone",
            hint="write the whole permission",
        )
    return holder, key


def _set(holder: dict[str, Any], key: str, value: Any) -> None:
    holder[key] = value


def _unset(holder: dict[str, Any], key: str, value: Any) -> None:
    holder.pop(key, None)


def _push(holder: dict[str, Any], key: str, value: Any) -> None:
    items = value["$each"] if isinstance(value, dict) and value.keys() == {"$each"} else [value]
    present = holder.get(key, [])
    holder[key] = [*present, *items] if isinstance(present, list) else items


def _pull(holder: dict[str, Any], key: str, value: Any) -> None:
    present = holder.get(key)
    if isinstance(present, list) and not isinstance(value, dict):
        holder[key] = [item for item in present if item != value]


_OPERATORS: Final[dict[str, Change]] = {
    "$set": _set,
    "$setOnInsert": _set,
    "$unset": _unset,
    "$push": _push,
    "$addToSet": _push,
    "$pull": _pull,
    "$currentDate": _set,
}
