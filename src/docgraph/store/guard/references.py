"""Pipeline visitor: every stage at any depth, and the collections that stages read.

All code that checks, rewrites or analyzes pipelines uses this one reading of `$lookup`,
`$graphLookup`, `$unionWith` and `$facet`: two readings that differ would be a security hole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from docgraph.exchange.data import CollectionName
from docgraph.exchange.errors import QueryError

READING_MORE: Final = frozenset({"$facet", "$graphLookup", "$lookup", "$unionWith"})

_TARGETS: Final = {"$lookup": "from", "$graphLookup": "from", "$unionWith": "coll"}
_TARGET_KEYS: Final = {"db", "coll"}
_WITH_PIPELINE: Final = ("$lookup", "$unionWith")
_SHOWN: Final = 200  # characters of a place


class ExpressionPath(NamedTuple):
    """A path in the expression: a key below another place."""

    above: ExpressionPath | None
    key: str | int

    def __str__(self) -> str:
        steps: list[str] = []
        place: ExpressionPath | None = self
        while place is not None:
            steps.append(f"[{place.key}]" if isinstance(place.key, int) else f".{place.key}")
            place = place.above
        return "".join(reversed(steps)).removeprefix(".")[:_SHOWN]


class CollectionReference(NamedTuple):
    """A collection that a stage reads; `dotted` is the database that its name seems to contain.

    The server reads `"other.users"` as a collection of that name in the same database. Authors who
    write it mean another database.
    """

    db: str
    collection: str
    dotted: str | None = None

    @property
    def place(self) -> CollectionName:
        return self.db, self.collection


class VisitedStage(NamedTuple):
    """A stage at any depth of a pipeline, with the database whose collections it names."""

    name: str
    body: Any
    place: ExpressionPath
    db: str

    @property
    def reference(self) -> CollectionReference | None:
        """The collection that it reads besides its own; raises `QueryError`."""
        return read_reference(self.name, self.body, self.db, self.place)


def visit_stages(pipeline: Any, db: str, place: ExpressionPath) -> Iterator[VisitedStage]:
    """Return every stage, each before its nested ones; raise `QueryError` for invalid pipelines."""
    if not isinstance(pipeline, list | tuple):
        raise QueryError(f"{place} must be a list of stages")
    for index, stage in enumerate(pipeline):
        position = ExpressionPath(place, index)
        # A dict is a mapping, and found to be one ten times as fast.
        if not isinstance(stage, (dict, Mapping)) or len(stage) != 1:
            raise QueryError(f"{position} must be an object with exactly one property")
        ((name, body),) = stage.items()
        yield VisitedStage(name, body, position, db)
        if name in READING_MORE:
            reference = find_reference(name, body, db)
            inner = db if reference is None else reference.db
            for key, nested in nested_pipelines(name, body):
                below = ExpressionPath(ExpressionPath(position, name), key)
                yield from visit_stages(nested, inner, below)


def find_references(pipeline: Any, db: str) -> Iterator[CollectionReference]:
    """Return every collection that the stages read besides their own, at any depth."""
    references = (
        stage.reference for stage in visit_stages(pipeline, db, ExpressionPath(None, "stages"))
    )
    return (reference for reference in references if reference is not None)


def find_reference(name: str, body: Any, db: str) -> CollectionReference | None:
    """Return the collection that the stage reads; None if it names none."""
    if name not in _TARGETS:
        return None
    target = _find_target(name, body)
    if isinstance(target, str):
        prefix, dot, _ = target.partition(".")
        return CollectionReference(db, target, prefix if dot else None)
    if isinstance(target, (dict, Mapping)) and target.keys() <= _TARGET_KEYS:
        other, collection = target.get("db", db), target.get("coll")
        if isinstance(other, str) and isinstance(collection, str):
            return CollectionReference(other, collection)
    return None


def read_reference(name: str, body: Any, db: str, location: object) -> CollectionReference | None:
    """Return the collection; raise `QueryError` if the stage must name one and does not.

    Return None if it reads none, or has its own documents: its pipeline starts with `$documents`.
    """
    reference = find_reference(name, body, db)
    is_missing = reference is None and name in _TARGETS
    if is_missing and (name == "$graphLookup" or _find_target(name, body) is not None):
        raise QueryError(f"{location}: {name} must name a collection")
    return reference


def _find_target(name: str, body: Any) -> Any:
    if not isinstance(body, (dict, Mapping)):
        return body if name == "$unionWith" else None
    if name == "$unionWith" and "db" in body:  # next to `coll`, not below it
        return {key: body[key] for key in _TARGET_KEYS if key in body}
    return body.get(_TARGETS[name])


def nested_pipelines(name: str, body: Any) -> list[tuple[str, Sequence[Any]]]:
    """Return the pipelines inside a stage, each with its location below the stage."""
    if name not in READING_MORE or not isinstance(body, (dict, Mapping)):
        return []
    if name == "$facet":
        return [(str(facet), pipeline) for facet, pipeline in body.items()]
    if name in _WITH_PIPELINE and body.get("pipeline") is not None:
        return [("pipeline", body["pipeline"])]
    return []


def change_nested(name: str, body: Any, change: Callable[[Any], Any]) -> Any:
    """Return the body of a stage with each pipeline inside it changed."""
    changed = {key: change(pipeline) for key, pipeline in nested_pipelines(name, body)}
    return {**body, **changed} if changed else body
