"""What `projectResponse` hides cannot be asked for either, nor copied to where it is shown.

Judged are the reads and writes that the store is about to carry out, never the text of a request:
a second reading of its parameters would be another one some day. What cannot be told for certain
counts as using something hidden.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from docgraph.exchange import Document, Read, Write
from docgraph.exchange.errors import SecurityViolation
from docgraph.store.guard.shown import (
    Shown,
    asks_for_hidden,
    is_hidden_whole,
    is_partly_shown,
    is_shown,
)

__all__ = ["check_copies", "reads_hidden", "writes_by_hidden"]

_UNORDERED: Final = frozenset({"_id", "$natural"})  # the order that a list has anyway
_OWN_INDEX: Final = "_id_"
# What they do does not depend on what is stored.
_BLIND: Final = frozenset({"$set", "$setOnInsert", "$unset", "$currentDate"})
# An operand that takes a number out of its range makes the update fail, which tells the number by
# one try after another. Small steps never get there.
_CALCULATING: Final = frozenset({"$inc", "$mul", "$bit"})
_MOST_ADDED: Final = 1 << 31


def reads_hidden(read: Read, shown: Shown) -> bool:
    """Whether filter, order, hint or projection of a read use a property that is not shown."""
    projection = read.projection or {}
    return (
        asks_for_hidden(read.filter, shown)
        or _orders_by_hidden(read, shown)
        or _hints_at_hidden(read.hint)
        or any(_computes(path, value, shown) for path, value in projection.items())
    )


def writes_by_hidden(write: Write, shown: Shown) -> bool:
    """Whether a write finds its documents by a property that is not shown."""
    return bool(write.filter) and asks_for_hidden(write.filter, shown)


def check_copies(write: Write, shown: Shown) -> None:
    """Refuse a write that could make something hidden visible: by a copy, or by its effect."""
    if write.pipeline is not None:
        raise _refuse()
    for update, tells in ((write.update, _tells), (write.applied, _tells_by_check)):
        if update is not None and any(tells(*one, shown) for one in _operations(update)):
            raise _refuse()


def _refuse() -> SecurityViolation:
    return SecurityViolation("the update uses properties that are not available here")


def _operations(update: Document) -> Iterator[tuple[str, str, Any]]:
    for operator, fields in update.items():
        for path, operand in fields.items() if isinstance(fields, Mapping) else ():
            yield operator, path, operand


def _tells(operator: str, path: str, operand: Any, shown: Shown) -> bool:
    """Whether what the operator leaves to be seen depends on what is hidden.

    `$rename` moves it, and `$inc` overflows or does not. `$pull`, `$push` with `$sort`, `$max` and
    others look at whole elements, of which a part is hidden; where all is hidden, so is what they
    do.
    """
    if operator == "$rename" or (operator in _CALCULATING and not _counts(operator, operand)):
        return not is_shown(path, shown)
    return operator not in _BLIND and is_partly_shown(path, shown)


def _tells_by_check(operator: str, path: str, operand: Any, shown: Shown) -> bool:
    """The same where the whole document is checked, by a schema perhaps.

    Whether a number is in its bounds, or an element is there twice, tells what was there. What is
    put in place of something hidden, or takes it away, as a whole, depends on nothing.
    """
    if operator not in _BLIND:
        return not is_shown(path, shown)
    steps = path.split(".")
    around = (".".join(steps[:length]) for length in range(1, len(steps)))
    return any(is_hidden_whole(one, shown) for one in around)


def _counts(operator: str, operand: Any) -> bool:
    return operator == "$inc" and isinstance(operand, int) and abs(operand) < _MOST_ADDED


def _orders_by_hidden(read: Read, shown: Shown) -> bool:
    tells_keys = any(
        isinstance(value, Mapping) and "$meta" in value
        for value in (read.projection or {}).values()
    )
    return any(
        isinstance(direction, Mapping)  # by a score: of an index that may hold everything
        or not (is_shown(path, shown) or (path in _UNORDERED and not tells_keys))
        for path, direction in read.sort
    )


def _hints_at_hidden(hint: Any) -> bool:
    """An index orders what is read, and leaves out what its own condition does not match.

    Neither its name nor its keys say what that condition is about (`partialFilterExpression`).
    """
    if isinstance(hint, Mapping):
        return not all(path in _UNORDERED for path in hint)
    return hint is not None and hint != _OWN_INDEX


def _computes(path: str, value: Any, shown: Shown) -> bool:
    """Whether a projection says more than what to show and what not, or which part of an array."""
    if not isinstance(value, Mapping):
        return not isinstance(value, bool | int | float)
    match dict(value):
        case {"$slice": operand, **rest} if not rest:
            numbers = operand if isinstance(operand, list) else [operand]
            return not all(isinstance(number, int | float) for number in numbers)
        case {"$elemMatch": _, **rest} if not rest:
            return not is_shown(path, shown)
        case {"$meta": "sortKey", **rest} if not rest:
            return False  # of an order that uses nothing hidden
    return True
