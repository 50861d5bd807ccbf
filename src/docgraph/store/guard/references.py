"""Which other collections a stage reads, and the pipelines that it carries inside.

One reading of `$lookup`, `$graphLookup`, `$unionWith` and `$facet` for the checker and the guard:
two readings that differ would be a hole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from docgraph.exchange.errors import QueryError

__all__ = [
    "READING_MORE",
    "Reference",
    "find_references",
    "nested_pipelines",
    "read_reference",
]

READING_MORE = frozenset({"$facet", "$graphLookup", "$lookup", "$unionWith"})

_TARGET_KEYS = {"db", "coll"}
_WITH_FROM = ("$lookup", "$graphLookup")
_WITH_PIPELINE = ("$lookup", "$unionWith")


class Reference(NamedTuple):
    """A collection that a stage reads; `dotted` is the database that its name seems to hold.

    The server takes `"other.users"` for a collection of that name in the same database. Authors
    who write it mean another database.
    """

    db: str
    collection: str
    dotted: str | None = None


def read_reference(name: str, body: Any, db: str, location: str) -> Reference | None:
    """The collection that the stage reads; None when it reads none or brings its own documents."""
    if name in _WITH_FROM:
        # The test for a dict is not needed, but ten times as fast as that for a mapping.
        target = body.get("from") if type(body) is dict or isinstance(body, Mapping) else None
    elif name == "$unionWith":
        target = body.get("coll") if isinstance(body, Mapping) else body
    else:
        return None
    if target is None and name != "$graphLookup":
        return None  # its pipeline starts with `$documents`
    if isinstance(target, str):
        prefix, dot, _ = target.partition(".")
        return Reference(db, target, prefix if dot else None)
    if isinstance(target, Mapping) and target.keys() <= _TARGET_KEYS:
        other, collection = target.get("db", db), target.get("coll")
        if isinstance(other, str) and isinstance(collection, str):
            return Reference(other, collection)
    raise QueryError(f"{location}: {name} must name a collection")


def nested_pipelines(name: str, body: Any) -> list[tuple[str, Sequence[Any]]]:
    """The pipelines inside a stage, each with its place below the stage."""
    if type(body) is not dict and not isinstance(body, Mapping):
        return []
    if name == "$facet":
        return [(str(facet), pipeline) for facet, pipeline in body.items()]
    if name in _WITH_PIPELINE and body.get("pipeline") is not None:
        return [("pipeline", body["pipeline"])]
    return []


def find_references(pipeline: Sequence[Mapping[str, Any]], db: str) -> Iterator[Reference]:
    """Every collection that the stages read beside their own, at any depth."""
    for stage in pipeline:
        for name, body in stage.items():
            inner = db
            reference = read_reference(name, body, db, name)
            if reference is not None:
                yield reference
                inner = reference.db
            for _, nested in nested_pipelines(name, body):
                yield from find_references(nested, inner)
