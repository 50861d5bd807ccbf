"""Change event security: stages for row filters and hidden properties before the author's stages.

Row filters remove events whose document is not known to be visible. Properties that are hidden from
everyone, or from this reader by a projection, are removed from every part of an event: the
document, the description of an update with its paths (`"keys.0.secret"`), the key. Parts that are
not known to be visible are removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_
from typing import Any, Final

from docgraph.exchange.data import Document, Filter
from docgraph.exchange.errors import NotSupported, SecurityViolation
from docgraph.store.guard.shown import (
    LOGICAL,
    Paths,
    Shown,
    build_projection,
    is_shown,
    shorten_paths,
)
from docgraph.store.names import walk

AFTER: Final = "fullDocument"
BEFORE: Final = "fullDocumentBeforeChange"
_UPDATE: Final = "updateDescription"
_FIELDS: Final = f"{_UPDATE}.updatedFields"
# They contain no document, and listeners must learn that there will be no more events.
OF_COLLECTIONS: Final = ("drop", "rename", "dropDatabase", "invalidate")
_OF_COLLECTIONS: Final = {"operationType": {"$in": OF_COLLECTIONS}}
# The parts of an event for readers with a list of shown properties.
_PLAIN: Final = ("operationType", "clusterTime", "wallTime", "ns", "documentKey", _UPDATE)
# The server applies a filter on computed values only after this stage. It rewrites other filters
# for its log, with errors: a `$nor` of two conditions on the document fails.
_SETTLE_DOCUMENT: Final = {
    "$set": {
        AFTER: {"$cond": [{"$eq": [{"$type": f"${AFTER}"}, "object"]}, f"${AFTER}", "$$REMOVE"]}
    }
}


def admit_found(row: Filter) -> list[Document]:
    """Return the stages for events whose current document the row filter admits.

    They remove the description of the update: it is about a state that no filter has checked.
    """
    admitted = [_OF_COLLECTIONS, match_below(row, AFTER)]
    return [_SETTLE_DOCUMENT, {"$match": {"$or": admitted}}, {"$unset": _UPDATE}]


def admit_either(row: Filter) -> Document:
    """Return the condition for events whose document the row filter admits before or after."""
    admitted = [_OF_COLLECTIONS, match_below(row, AFTER), match_below(row, BEFORE)]
    return {"$match": {"$or": admitted}}


def hide_in_events(
    hidden: Paths, shown: Shown | None = None, *, before: bool = False
) -> list[Document]:
    """Return the stages that remove what is hidden, from everyone or from this reader.

    The new name of a renamed collection is that of another collection, and is always hidden. The
    document before the change is hidden unless the reader requests it (`before`).
    """
    stages: list[Document] = [{"$unset": ["to"] if before else ["to", BEFORE]}]
    images = (AFTER, BEFORE) if before else (AFTER,)
    keys = [tuple(key.split(".")) for key in shown or ()]
    listed = shorten_paths(keys) if shown and any(shown.values()) else None
    hidden = shorten_paths(hidden if listed else (*hidden, *keys))
    if shown and listed:
        inside = [build_projection(shown, image) for image in images]
        stages.append({"$project": reduce(or_, inside, dict.fromkeys(_PLAIN, 1))})
    if hidden:
        parts = (*images, _FIELDS)
        stages.append({"$unset": [f"{part}.{'.'.join(path)}" for part in parts for path in hidden]})
    if listed or hidden:
        names = _ShownNames(hidden, listed)
        stages.append({"$set": {_UPDATE: names.filter_update(), "documentKey": names.filter_key()}})
    return stages


class _ShownNames:
    """Expressions that retain the shown names among names with dots."""

    def __init__(self, hidden: Paths, listed: Paths | None) -> None:
        self._hidden = hidden
        self._listed = listed

    def filter_update(self) -> Document:
        """Filter `updateDescription`, by its documented parts.

        The content of its first-level names needs no check: `$unset` has been applied to the
        values.
        """
        kept: Document = {
            "updatedFields": self._filter_object(f"${_FIELDS}", _containing_by_dots),
            "removedFields": self._filter_list(f"${_UPDATE}.removedFields", "$$this"),
            "truncatedArrays": self._filter_list(f"${_UPDATE}.truncatedArrays", "$$this.field"),
        }
        return _if_object(f"${_UPDATE}", kept)

    def filter_key(self) -> Document:
        """Filter `documentKey`: the id, and the shard key if there is one."""
        return _if_object("$documentKey", self._filter_object("$documentKey", _containing))

    def _filter_object(self, value: str, containing: Any) -> Document:
        patterns = [
            pattern for path in self._hidden for pattern in (_reaching(path), *containing(path))
        ]
        condition = self._is_kept("$$this.k", patterns)
        pairs = {"$filter": {"input": {"$objectToArray": value}, "cond": condition}}
        return {"$ifNull": [{"$arrayToObject": pairs}, "$$REMOVE"]}

    def _filter_list(self, value: str, name: str) -> Document:
        condition = self._is_kept(name, [_reaching(path) for path in self._hidden])
        return {"$ifNull": [{"$filter": {"input": value, "cond": condition}}, "$$REMOVE"]}

    def _is_kept(self, name: str, hidden: list[str]) -> Document:
        conditions: list[Document] = []
        if hidden:
            conditions.append({"$not": _matches(name, hidden)})
        if self._listed is not None:
            # The path or one below it, without positions: they could be names.
            exact = [re.escape(".".join(path)) + r"(\.|\z)" for path in self._listed]
            conditions.append(_matches(name, exact))
        return {"$and": conditions}


def _if_object(value: str, result: Document) -> Document:
    return {"$cond": [{"$eq": [{"$type": value}, "object"]}, result, "$$REMOVE"]}


def _matches(name: str, patterns: list[str]) -> Document:
    return {"$regexMatch": {"input": name, "regex": f"^({'|'.join(patterns)})"}}


def _reaching(path: tuple[str, ...]) -> str:
    """Return a pattern for the path or one below it; array positions may follow every name."""
    return r"\.".join(_steps(path)) + r"(\.|\z)"


def _containing(path: tuple[str, ...]) -> list[str]:
    """Return the paths whose value may contain that of the path."""
    steps = _steps(path)
    return [r"\.".join(steps[:length]) + r"\z" for length in range(1, len(path))]


def _containing_by_dots(path: tuple[str, ...]) -> list[str]:
    """Return the paths with dots whose value may contain that of the path."""
    return [re.escape(path[0]) + r"(\.\d+)+\z", *_containing(path)[1:]]


def _steps(path: tuple[str, ...]) -> list[str]:
    return [re.escape(name) + r"(\.\d+)*" for name in path]


_WHOLE: Final = "$$ROOT"


def match_below(filter: Filter, part: str) -> Document:
    """Return the condition that the part is a document and the filter matches it.

    The filter is on documents, and moves below a part, such as that of a change event. Every path
    moves below the part that contains the document; the filter matches the same documents. That
    part must be an object: otherwise a filter for a missing property would match if there is no
    document at all.
    """
    return {"$and": [{part: {"$type": "object"}}, move_below(filter, part)]}


def move_below(filter: Filter, part: str) -> Document:
    """Return the condition that the filter matches the part, which is a document."""
    conditions: list[Document] = []
    for key, condition in filter.items():
        if key in LOGICAL:
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


def find_roots(filter: Filter) -> set[str] | None:
    """Return the first names of the paths of a filter; None if it may depend on all properties."""
    roots: set[str] = set()
    for key, condition in filter.items():
        if key in LOGICAL:
            for branch in condition:
                inner = find_roots(branch)
                if inner is None:
                    return None
                roots |= inner
        elif not key.startswith("$"):
            roots.add(key.partition(".")[0])
        elif key != "$comment":
            return None
    return roots


def _move_expression(expression: Any, part: str) -> Document:
    """Move an expression: `$name` is short for `$$CURRENT.name`, and CURRENT can be set.

    ROOT cannot be set. Without a document nothing is computed, since that could fail.
    """
    if any(isinstance(inner, str) and inner.startswith(_WHOLE) for inner in walk(expression)):
        raise _immovable(f"$expr and {_WHOLE}")
    is_document = {"$eq": [{"$type": f"${part}"}, "object"]}
    moved = {"$let": {"vars": {"CURRENT": f"${part}"}, "in": expression}}
    return {"$cond": [is_document, moved, False]}


def _immovable(what: str) -> NotSupported:
    return NotSupported(
        f"a row filter with {what} cannot be applied to a change stream",
        hint="use comparisons of properties, or $expr on properties",
    )


_ID: Final = "_id"
# They are, or may be, the whole event.
_WHOLE_EVENT: Final = frozenset({"$$ROOT", "$$CURRENT", "$getField"})


def hides_ids(shown: Shown | None) -> bool:
    """Check if the `_id` of documents, or a part of it, is hidden.

    Then the id of an event (its resume token) is hidden, too. The id of an event contains the `_id`
    of its document. The database needs it in the event after all stages, so it cannot be removed
    before those of the author. The author's stages are checked instead.
    """
    return bool(shown) and not is_shown(_ID, shown or {})


def check_ids_unread(stages: Iterable[Mapping[str, Any]], shown: Shown | None) -> None:
    """Reject stages that could reveal the id of an event, by a copy or by a comparison."""
    if hides_ids(shown) and any(map(_reads_id, stages)):
        raise SecurityViolation(
            "the stages use the _id of events, which tells that of documents",
            hint="use documentKey and fullDocument",
        )


def _reads_id(value: Any) -> bool:
    if isinstance(value, str):
        return _names_id(value)
    if isinstance(value, Mapping):
        return any(
            (_names_id(key) and not _only_keeps(key, inner)) or _reads_id(inner)
            for key, inner in value.items()
        )
    return isinstance(value, list | tuple) and any(map(_reads_id, value))


def _names_id(text: str) -> bool:
    first = text.partition(".")[0]
    return first in _WHOLE_EVENT or first.removeprefix("$") == _ID


def _only_keeps(key: str, value: Any) -> bool:
    """Check for `{"_id": 1}` in a projection, or a filter that is `MATCH_NOTHING`."""
    if isinstance(value, Mapping):
        return key == _ID and dict(value) == {"$in": []}
    return key == _ID and isinstance(value, bool | int | float) and value == 1
