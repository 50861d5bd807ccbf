"""Hidden properties (`projectResponse`): detect reads and writes that would reveal them.

The checks inspect the reads and writes that the store is about to execute, never the text of a
request: a second parser of its parameters would differ from the first some day. A doubtful case
counts as using something hidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from docgraph.exchange import Read, Write
from docgraph.exchange.errors import SecurityViolation
from docgraph.store.guard.shown import (
    Shown,
    asks_for_hidden,
    is_hidden_whole,
    is_partly_shown,
    is_shown,
)
from docgraph.store.guard.write_effects import list_operations

_UNORDERED: Final = frozenset({"_id", "$natural"})  # the default order of a list
_OWN_INDEX: Final = "_id_"
# Their effect does not depend on stored values.
_BLIND: Final = frozenset({"$set", "$setOnInsert", "$unset", "$currentDate"})
# An operand that takes a number out of its range makes the update fail, which reveals the number by
# repeated attempts. Small steps never reach the limit.
_CALCULATING: Final = frozenset({"$inc", "$mul", "$bit"})
_MAX_ADDED: Final = 1 << 31


def reads_hidden(read: Read, shown: Shown) -> bool:
    """Return whether filter, sort, hint or projection of a read use a hidden property."""
    projection = read.projection or {}
    return (
        asks_for_hidden(read.filter, shown)
        or _orders_by_hidden(read, shown)
        or _hints_at_hidden(read.hint)
        or any(_computes(path, value, shown) for path, value in projection.items())
    )


def writes_by_hidden(write: Write, shown: Shown) -> bool:
    """Return whether a write selects its documents by a hidden property."""
    return bool(write.filter) and asks_for_hidden(write.filter, shown)


def check_copies(write: Write, shown: Shown) -> None:
    """Reject a write that could reveal something hidden: by a copy, or by its effect."""
    if write.pipeline is not None:
        raise _reject()
    for update, reveals in ((write.update, _reveals), (write.applied, _reveals_by_check)):
        if update is not None and any(reveals(*one, shown) for one in list_operations(update)):
            raise _reject()


def _reject() -> SecurityViolation:
    return SecurityViolation("the update uses properties that are not available here")


def _reveals(operator: str, path: str, operand: Any, shown: Shown) -> bool:
    """Return whether the visible result of the operator depends on hidden values.

    `$rename` moves them, and `$inc` overflows or does not. `$pull`, `$push` with `$sort`, `$max`
    and others compare whole elements that are hidden in part; where all is hidden, so is their
    result.
    """
    if operator == "$rename" or (operator in _CALCULATING and not _counts(operator, operand)):
        return not is_shown(path, shown)
    return operator not in _BLIND and is_partly_shown(path, shown)


def _reveals_by_check(operator: str, path: str, operand: Any, shown: Shown) -> bool:
    """Return whether the operator reveals hidden values by validation of the whole document.

    Whether a number is within its bounds, or an element exists twice, reveals the stored value. An
    operator that replaces or removes a hidden value as a whole depends on nothing.
    """
    if operator not in _BLIND:
        return not is_shown(path, shown)
    steps = path.split(".")
    around = (".".join(steps[:length]) for length in range(1, len(steps)))
    return any(is_hidden_whole(one, shown) for one in around)


def _counts(operator: str, operand: Any) -> bool:
    return operator == "$inc" and isinstance(operand, int) and abs(operand) < _MAX_ADDED


def _orders_by_hidden(read: Read, shown: Shown) -> bool:
    reveals_keys = read.keyset is not None or any(
        isinstance(value, Mapping) and "$meta" in value
        for value in (read.projection or {}).values()
    )
    return any(
        isinstance(direction, Mapping)  # by a score: of an index that may contain everything
        or not (is_shown(path, shown) or (path in _UNORDERED and not reveals_keys))
        for path, direction in read.sort
    )


def _hints_at_hidden(hint: Any) -> bool:
    """Return whether the hint could reveal hidden values.

    An index orders the documents, and omits those that its own condition does not match. Neither
    its name nor its keys show the fields of that condition (`partialFilterExpression`).
    """
    if isinstance(hint, Mapping):
        return not all(path in _UNORDERED for path in hint)
    return hint is not None and hint != _OWN_INDEX


def _computes(path: str, value: Any, shown: Shown) -> bool:
    """Return whether a projection does more than include, exclude or slice."""
    if not isinstance(value, Mapping):
        return not isinstance(value, bool | int | float)
    match dict(value):
        case {"$slice": operand, **rest} if not rest:
            numbers = operand if isinstance(operand, list) else [operand]
            return not all(isinstance(number, int | float) for number in numbers)
        case {"$elemMatch": _, **rest} if not rest:
            return not is_shown(path, shown)
        case {"$meta": "sortKey", **rest} if not rest:
            return False  # of a sort that uses nothing hidden
    return True
