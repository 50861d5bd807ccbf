"""Change event security: stages for row filters and hidden properties before the author's stages.

Row filters remove events whose document is not known to be visible. Properties that are hidden from
everyone, or from this reader by a projection, are removed from every part of an event: the
document, the description of an update with its paths (`"keys.0.secret"`), the key. Parts that are
not known to be visible are removed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Any, Final

from docgraph.exchange.data import Document
from docgraph.store.guard.below import match_below
from docgraph.store.guard.shield import Shield
from docgraph.store.guard.shown import Paths, Shown, build_projection, shorten_paths

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


# --- rows -----------------------------------------------------------------------------------------


def admit_found(row: Mapping[str, Any]) -> list[Document]:
    """Return the stages for events whose current document the row filter admits.

    They remove the description of the update: it is about a state that no filter has checked.
    """
    admitted = [_OF_COLLECTIONS, match_below(row, AFTER)]
    return [_SETTLE_DOCUMENT, {"$match": {"$or": admitted}}, {"$unset": _UPDATE}]


def admit_either(row: Mapping[str, Any]) -> Document:
    """Return the condition for events whose document the row filter admits before or after."""
    admitted = [_OF_COLLECTIONS, match_below(row, AFTER), match_below(row, BEFORE)]
    return {"$match": {"$or": admitted}}


def guard_database(db: str, shield: Shield) -> list[Document]:
    """Return the first stages of a stream over a whole database.

    Such a stream reports what changed; watch a collection to get the content. Events of a
    collection with hidden properties have no documents.
    """
    rows = {name: row for name, row in _of_database(db, shield.rows) if row}
    hiding = [name for name, hidden in _of_database(db, shield.hidden) if hidden]
    if not rows and not hiding:
        return []
    stages: list[Document] = []
    if rows:
        stages.append(_SETTLE_DOCUMENT)
        admitted = [
            {"$and": [{"ns.coll": name}, match_below(row, AFTER)]} for name, row in rows.items()
        ]
        others: Document = {"ns.coll": {"$nin": list(rows)}}
        stages.append({"$match": {"$or": [_OF_COLLECTIONS, others, *admitted]}})
    parts = {AFTER: hiding, _UPDATE: [*hiding, *rows]}
    kept = {part: _unless_of(names, f"${part}") for part, names in parts.items()}
    return [*stages, {"$unset": ["to", BEFORE]}, {"$set": kept}]


def _unless_of(collections: list[str], value: str) -> Document:
    return {"$cond": [{"$in": ["$ns.coll", collections]}, "$$REMOVE", value]}


def _of_database(db: str, by_namespace: Mapping[str, Any]) -> list[tuple[str, Any]]:
    prefix = f"{db}."
    return [
        (namespace.removeprefix(prefix), value)
        for namespace, value in by_namespace.items()
        if namespace.startswith(prefix)
    ]


# --- properties -----------------------------------------------------------------------------------


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
            conditions.append(_matches(name, [_exactly(path) for path in self._listed]))
        return {"$and": conditions}


def _if_object(value: str, result: Document) -> Document:
    return {"$cond": [{"$eq": [{"$type": value}, "object"]}, result, "$$REMOVE"]}


def _matches(name: str, patterns: list[str]) -> Document:
    return {"$regexMatch": {"input": name, "regex": f"^({'|'.join(patterns)})"}}


def _exactly(path: tuple[str, ...]) -> str:
    r"""Return a pattern for the path or one below it, without positions: they could be names."""
    return re.escape(".".join(path)) + r"(\.|\z)"


def _reaching(path: tuple[str, ...]) -> str:
    """Return a pattern for the path or one below it; array positions may follow every name."""
    return r"\.".join(_steps(path)) + r"(\.|\z)"


def _containing(path: tuple[str, ...]) -> list[str]:
    """Return the paths whose value may contain that of the path."""
    steps = _steps(path)
    return [r"\.".join(steps[:length]) + r"\z" for length in range(1, len(path))]


def _containing_by_dots(path: tuple[str, ...]) -> list[str]:
    """Return the same paths without the first name alone."""
    return [re.escape(path[0]) + r"(\.\d+)+\z", *_containing(path)[1:]]


def _steps(path: tuple[str, ...]) -> list[str]:
    return [re.escape(name) + r"(\.\d+)*" for name in path]
