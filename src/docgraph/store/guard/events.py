"""What a reader may be told of events: stages in front of those of a stream's author.

Row filters leave out events whose document is not shown to be visible. Properties that are hidden
from everybody, or from this reader by a projection, are taken out of every part of an event: the
document, the description of an update with its paths (`"keys.0.secret"`), the key. What cannot be
told for certain to be shown is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from docgraph.exchange.data import Document
from docgraph.store.guard.below import match_below
from docgraph.store.guard.rows import Shield
from docgraph.store.guard.shown import Paths, Shown, build_projection, shorten_paths

__all__ = [
    "AFTER",
    "BEFORE",
    "OF_COLLECTIONS",
    "admit_either",
    "admit_found",
    "guard_database",
    "hide_in_events",
]

AFTER: Final = "fullDocument"
BEFORE: Final = "fullDocumentBeforeChange"
_UPDATE: Final = "updateDescription"
_FIELDS: Final = f"{_UPDATE}.updatedFields"
# They hold no document, and whoever listens has to know that there will be no more events.
OF_COLLECTIONS: Final = ("drop", "rename", "dropDatabase", "invalidate")
_OF_COLLECTIONS: Final = {"operationType": {"$in": OF_COLLECTIONS}}
# Of an event, for those who are shown listed properties only.
_PLAIN: Final = ("operationType", "clusterTime", "wallTime", "ns", "documentKey", _UPDATE)
# The server applies a filter on what it has to compute only then. Others it rewrites for its log,
# and it makes mistakes there: a `$nor` of two conditions on the document ends as an error.
_SETTLE_DOCUMENT: Final = {
    "$set": {
        AFTER: {"$cond": [{"$eq": [{"$type": f"${AFTER}"}, "object"]}, f"${AFTER}", "$$REMOVE"]}
    }
}


# --- rows -----------------------------------------------------------------------------------------


def admit_found(row: Mapping[str, Any]) -> list[Document]:
    """Events whose document, as it is now, the row filter admits.

    The description of an update goes: it tells of a state that nobody has judged.
    """
    admitted = [_OF_COLLECTIONS, match_below(row, AFTER)]
    return [_SETTLE_DOCUMENT, {"$match": {"$or": admitted}}, {"$unset": _UPDATE}]


def admit_either(row: Mapping[str, Any]) -> Document:
    """Events whose document the row filter admits as it was before, or as it was after."""
    admitted = [_OF_COLLECTIONS, match_below(row, AFTER), match_below(row, BEFORE)]
    return {"$match": {"$or": admitted}}


def guard_database(db: str, shield: Shield) -> list[Document]:
    """The stages in front of a stream over a whole database.

    Such a stream says what changed; whoever wants the content watches the collection. Events of a
    collection with hidden properties come without their documents.
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


def hide_in_events(hidden: Paths, shown: Shown | None = None) -> list[Document]:
    """The events of a collection without what is hidden, from everybody or from this reader.

    The name that a collection gets by a rename is that of another one, and hidden always.
    """
    stages: list[Document] = [{"$unset": ["to", BEFORE]}]
    keys = [tuple(key.split(".")) for key in shown or ()]
    listed = shorten_paths(keys) if shown and any(shown.values()) else None
    hidden = shorten_paths(hidden if listed else (*hidden, *keys))
    if shown and listed:
        inside = build_projection(shown, AFTER)
        stages.append({"$project": {**dict.fromkeys(_PLAIN, 1), **inside}})
    if hidden:
        stages.append(
            {"$unset": [f"{part}.{'.'.join(path)}" for part in (AFTER, _FIELDS) for path in hidden]}
        )
    if listed or hidden:
        names = _Names(hidden, listed)
        stages.append({"$set": {_UPDATE: names.filter_update(), "documentKey": names.filter_key()}})
    return stages


class _Names:
    """Expressions that keep, of names with dots, those that are shown."""

    def __init__(self, hidden: Paths, listed: Paths | None) -> None:
        self._hidden = hidden
        self._listed = listed

    def filter_update(self) -> Document:
        """`updateDescription`, of what is known to be in one.

        Its first names need no look for what they contain: `$unset` has been in their values.
        """
        kept: Document = {
            "updatedFields": self._filter_object(f"${_FIELDS}", _containing_by_dots),
            "removedFields": self._filter_list(f"${_UPDATE}.removedFields", "$$this"),
            "truncatedArrays": self._filter_list(f"${_UPDATE}.truncatedArrays", "$$this.field"),
        }
        return _if_object(f"${_UPDATE}", kept)

    def filter_key(self) -> Document:
        """`documentKey`: the id, and the shard key where there is one."""
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
    r"""The path or one below it; a position could be a name, so that none stands inside of it."""
    return re.escape(".".join(path)) + r"(\.|\z)"


def _reaching(path: tuple[str, ...]) -> str:
    """The path or one below it; positions of arrays may stand behind every name."""
    return r"\.".join(_steps(path)) + r"(\.|\z)"


def _containing(path: tuple[str, ...]) -> list[str]:
    """Paths whose value may contain that of the path."""
    steps = _steps(path)
    return [r"\.".join(steps[:length]) + r"\z" for length in range(1, len(path))]


def _containing_by_dots(path: tuple[str, ...]) -> list[str]:
    """The same without the first name alone."""
    return [re.escape(path[0]) + r"(\.\d+)+\z", *_containing(path)[1:]]


def _steps(path: tuple[str, ...]) -> list[str]:
    return [re.escape(name) + r"(\.\d+)*" for name in path]
