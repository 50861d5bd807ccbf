"""Stage trials: find stages that fail for every document (unknown format, type, time zone).

MongoDB finds some errors only when it evaluates an expression. So it evaluates the stage over
synthetic documents in which the fields of the stage have values of every type. An error that is the
same for all of them does not depend on the values. A stage in which values decide what is evaluated
is not tried: it may work for documents that are not among these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from bson import ObjectId, Timestamp

from docgraph.exchange.data import Document, Stages

# Stages that evaluate all of their expressions for every document.
_EVALUATING: Final = frozenset(
    {"$addFields", "$group", "$project", "$redact", "$replaceRoot", "$replaceWith", "$set"}
)
# These read fields that no path names, or depend on chance.
_NEVER_RUN: Final = frozenset({"$getField", "$setField", "$unsetField", "$rand", "$sampleRate"})
# Operators that may get fields: whether they fail depends on types, never on a comparison.
_BY_TYPE: Final = frozenset(
    {
        *("$top", "$topN", "$bottom", "$bottomN", "$first", "$firstN", "$last", "$lastN"),
        *("$max", "$maxN", "$min", "$minN", "$sum", "$avg", "$push", "$addToSet", "$count"),
        *("$convert", "$toBool", "$toDate", "$toDecimal", "$toDouble", "$toInt", "$toLong"),
        *("$toObjectId", "$toString", "$toLower", "$toUpper", "$concat", "$mergeObjects"),
        *("$dateAdd", "$dateSubtract", "$dateDiff", "$dateTrunc", "$dateToString", "$dateToParts"),
        *("$dateFromString", "$dateFromParts", "$year", "$month", "$week", "$hour", "$minute"),
        *("$second", "$millisecond", "$dayOfMonth", "$dayOfWeek", "$dayOfYear"),
        *("$isoWeek", "$isoWeekYear", "$isoDayOfWeek", "$add", "$subtract", "$multiply"),
        *("$literal", "$expr"),
    }
)
_ACTIONS: Final = frozenset({"$$KEEP", "$$PRUNE", "$$DESCEND", "$$REMOVE"})
_DOCUMENTS: Final = frozenset({"$$ROOT", "$$CURRENT"})
_VALUES: Final[tuple[Any, ...]] = (
    *(None, 1, "x", [1], {"x": 1}, True, -1.5, "2020-01-01"),
    *(datetime(2020, 1, 1, tzinfo=UTC), ObjectId("0" * 24), [["x", 1]]),
)


def can_be_run(stage: Mapping[str, Any]) -> bool:
    """Return whether the stage evaluates the same expressions for every document."""
    ((name, body),) = stage.items()
    is_condition = name == "$match" and isinstance(body, Mapping) and [*body] == ["$expr"]
    if name not in _EVALUATING and not is_condition:
        return False
    operators = {key for key in _find_keys(body) if key[:1] == "$"}
    if not _NEVER_RUN.isdisjoint(operators):
        return False
    return operators <= _BY_TYPE or not any(_find_references(body))


def build_documents(stage: Mapping[str, Any]) -> list[Document]:
    """Return documents with values of every type: equal in all fields, then different."""
    paths = sorted(set(_find_paths(stage)))
    same = [_build_document(paths, [value] * len(paths)) for value in _VALUES]
    count = len(_VALUES)
    mixed = [
        _build_document(paths, [_VALUES[(start + step) % count] for step in range(len(paths))])
        for start in range(count if len(paths) > 1 else 0)
    ]
    return [{}, *same, *mixed]


def build_run(stages: Stages, document: Mapping[str, Any], collection: str) -> Document:
    """Return the command that evaluates each stage for the document; it reads no data."""
    facets = {f"f{number}": [stage] for number, stage in enumerate(stages)}
    return _build([document], [{"$facet": facets}] if facets else [], collection)


def build_run_over(
    stage: Mapping[str, Any], documents: Sequence[Mapping[str, Any]], collection: str
) -> Document:
    """Return the command that returns the results of one stage for the documents."""
    return _build({"$literal": documents}, [stage], collection)


def _build(documents: Any, stages: Stages, collection: str) -> Document:
    nothing: Document = {"$match": {"_id": {"$in": []}}}
    inner: list[Mapping[str, Any]] = [{"$documents": documents}, *stages]
    pipeline = [nothing, {"$unionWith": {"pipeline": inner}}]
    return {"aggregate": collection, "pipeline": pipeline, "cursor": {}}


def build_events(db: str, collection: str) -> list[Document]:
    """Return a change event of each kind, for a document that has only its `_id`."""
    key: Document = {"_id": ObjectId("0" * 24)}
    update = {"updatedFields": {"x": 1}, "removedFields": [], "truncatedArrays": []}
    parts: Mapping[str, Document] = {
        "insert": {"documentKey": key, "fullDocument": key},
        "update": {"documentKey": key, "fullDocument": key, "updateDescription": update},
        "replace": {"documentKey": key, "fullDocument": key},
        "delete": {"documentKey": key},
        "drop": {},
        "rename": {"to": {"db": db, "coll": "x"}},
        "dropDatabase": {},
        "invalidate": {},
    }
    return [
        {
            "_id": {"_data": f"82{number:08X}"},
            "operationType": kind,
            "clusterTime": Timestamp(number, 1),
            "wallTime": datetime(2020, 1, 1, tzinfo=UTC),
            "ns": {"db": db, "coll": collection},
            **part,
        }
        for number, (kind, part) in enumerate(parts.items(), start=1)
    ]


def _find_keys(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from value
        value = [*value.values()]
    for item in value if isinstance(value, list) else ():
        yield from _find_keys(item)


def _find_references(value: Any) -> Iterator[str]:
    """Yield the fields and variables that an expression reads."""
    if isinstance(value, str):
        if value[:1] == "$" and value not in _ACTIONS:
            yield value
        return
    entries = [*value.values()] if isinstance(value, Mapping) else value
    for entry in entries if isinstance(entries, list) else ():
        yield from _find_references(entry)


def _find_paths(stage: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for reference in _find_references(stage):
        head, *rest = reference.split(".")
        path = rest if head in _DOCUMENTS else [head[1:], *rest]
        if path and all(path) and (head in _DOCUMENTS or head[:2] != "$$"):
            yield tuple(path)


def _build_document(paths: Sequence[tuple[str, ...]], values: Sequence[Any]) -> Document:
    document: Document = {}
    for path, value in zip(paths, values, strict=True):
        inner = document
        for name in path[:-1]:
            if not isinstance(inner.get(name), dict):
                inner[name] = {}
            inner = inner[name]
        inner.setdefault(path[-1], value)
    return document
