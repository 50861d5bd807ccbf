"""Pipelines under guard: hidden properties and row filters, in every collection that they read.

The guard stands in front: `$match` with the row filter and `$unset` of the hidden properties are
the first stages on a guarded collection, so that whatever follows (`$group`, `$$ROOT`,
`$objectToArray`, a rename) cannot see what is not there any more. The same is done inside
`$lookup`, `$unionWith` and `$graphLookup`. Where a stage must itself be the first one, it is made
safe in its own way, or refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from docgraph.exchange.data import Document
from docgraph.store.guard.references import READING_MORE, nested_pipelines, read_reference
from docgraph.store.guard.rows import Paths, Shield, check_filter_paths, check_path, refuse
from docgraph.store.guard.stages import has_key
from docgraph.store.names import namespace_of

__all__ = ["check_update", "guard_pipeline"]

_TEXT = frozenset({"$text"})
_SEARCHES = frozenset({"$search", "$searchMeta", "$vectorSearch"})
_FIELD_ACCESS = frozenset({"$getfield", "$setfield", "$unsetfield"})
_SETTERS = frozenset({"$set", "$setOnInsert", "$unset"})
_WHOLE_DOCUMENT = ("$$ROOT", "$$CURRENT")


def guard_pipeline(
    pipeline: Sequence[Mapping[str, Any]], db: str, collection: str, shield: Shield
) -> list[Mapping[str, Any]]:
    """The pipeline on that collection with the guards of every collection that it reads."""
    return _Rewriter(shield).on_collection(pipeline, db, collection)


class _Rewriter:
    def __init__(self, shield: Shield) -> None:
        self.shield = shield

    def on_collection(
        self, pipeline: Sequence[Mapping[str, Any]], db: str, collection: str
    ) -> list[Mapping[str, Any]]:
        namespace = namespace_of(db, collection)
        hidden = self.shield.hidden.get(namespace, ())
        row = self.shield.rows.get(namespace)
        stages = self.inside(pipeline, db)
        if hidden and _shows_index_keys(stages):
            raise refuse("the pipeline")
        if not hidden and not row:
            return stages
        return _put_in_front(stages, hidden, row or {})

    def inside(self, pipeline: Sequence[Mapping[str, Any]], db: str) -> list[Mapping[str, Any]]:
        """The stages with what they read of other collections guarded."""
        stages: list[Mapping[str, Any]] = []
        for stage in pipeline:
            ((name, body),) = stage.items()
            if name not in READING_MORE:
                stages.append(stage)
            elif name == "$facet":
                facets = {key: self.inside(nested, db) for key, nested in body.items()}
                stages.append({name: facets})
            elif name == "$graphLookup":
                stages += self._guard_graph(body, db)
            else:
                stages.append({name: self._guard_join(name, body, db)})
        return stages

    def _guard_join(self, name: str, body: Any, db: str) -> Any:
        """`$lookup` and `$unionWith`: the guards open the pipeline on the other collection."""
        reference = read_reference(name, body, db, name)
        pipeline = next((nested for _, nested in nested_pipelines(name, body)), [])
        if reference is None:
            return {**body, "pipeline": self.inside(pipeline, db)} if pipeline else body
        guarded = self.on_collection(pipeline, reference.db, reference.collection)
        if not guarded:
            return body
        if not isinstance(body, Mapping):
            return {"coll": body, "pipeline": guarded}
        # The equality of `foreignField` is looked up before the pipeline is run.
        hidden = self._hidden(reference.db, reference.collection)
        if hidden and "foreignField" in body:
            check_path(body["foreignField"], hidden, "$lookup")
        return {**body, "pipeline": guarded}

    def _guard_graph(self, body: Mapping[str, Any], db: str) -> list[Mapping[str, Any]]:
        """`$graphLookup` has no pipeline: a condition on the way, and `$unset` on the result."""
        reference = read_reference("$graphLookup", body, db, "$graphLookup")
        assert reference is not None  # noqa: S101 - it always names a collection
        hidden = self._hidden(reference.db, reference.collection)
        row = self.shield.rows.get(namespace_of(reference.db, reference.collection))
        condition = body.get("restrictSearchWithMatch")
        if hidden:
            check_path(body.get("connectFromField"), hidden, "$graphLookup")
            check_path(body.get("connectToField"), hidden, "$graphLookup")
            if condition is not None:
                check_filter_paths(condition, hidden, "$graphLookup")
        if row:
            body = {**body, "restrictSearchWithMatch": _both(row, condition)}
        stages: list[Mapping[str, Any]] = [{"$graphLookup": body}]
        if hidden:
            stages.append({"$unset": _dotted(hidden, f"{body.get('as')}.")})
        return stages

    def _hidden(self, db: str, collection: str) -> Paths:
        return self.shield.hidden.get(namespace_of(db, collection), ())


def _put_in_front(
    stages: list[Mapping[str, Any]], hidden: Paths, row: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    matches: list[Mapping[str, Any]] = [{"$match": row}] if row else []
    unsets: list[Mapping[str, Any]] = [{"$unset": _dotted(hidden)}] if hidden else []
    ((name, body),) = stages[0].items() if stages else (("", None),)
    if name in _SEARCHES:
        raise refuse(name)  # it reads an index of its own, which no filter of ours reaches
    if name == "$geoNear":
        return [{name: _guard_near(body, hidden, row)}, *unsets, *stages[1:]]
    if name == "$match" and has_key(body, _TEXT):
        if hidden:
            raise refuse("$match")  # a text index may hold every property
        return [{name: _both(row, body)}, *stages[1:]]
    return [*matches, *unsets, *stages]


def _guard_near(body: Any, hidden: Paths, row: Mapping[str, Any]) -> Document:
    """`$geoNear` takes a condition; without a key it would take the only index there is."""
    if not isinstance(body, Mapping):
        raise refuse("$geoNear")
    query = body.get("query") or {}
    if hidden:
        check_path(body.get("key"), hidden, "$geoNear")
        check_filter_paths(query, hidden, "$geoNear")
    return {**body, "query": _both(row, query)}


def _both(row: Mapping[str, Any], filter: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if row and filter:
        return {"$and": [row, filter]}
    return row or filter or {}


def _dotted(hidden: Paths, prefix: str = "") -> list[str]:
    return [prefix + ".".join(path) for path in hidden]


def _shows_index_keys(value: Any) -> bool:
    """`{"$meta": "indexKey"}` shows the entry of the index that was used, whatever it holds."""
    if isinstance(value, Mapping):
        if value.get("$meta") == "indexKey":
            return True
        return any(_shows_index_keys(inner) for inner in value.values())
    if isinstance(value, (list, tuple)):
        return any(_shows_index_keys(inner) for inner in value)
    return False


def check_update(update: Any, hidden: Paths) -> None:
    """Refuse an update that copies a hidden property to where it could be read.

    Setting it is allowed: somebody has to, and what may be set is the business of interceptors.
    Other operators may not name it, since the count of changed documents answers a question
    (`$max` compares, `$addToSet` looks for).
    """
    if isinstance(update, Mapping):
        for operator, fields in update.items():
            if operator not in _SETTERS and isinstance(fields, Mapping):
                _check_fields(operator, fields, hidden)
    elif has_key(update, _FIELD_ACCESS) or _reads_hidden(update, hidden):
        raise refuse("the update")


def _check_fields(operator: str, fields: Mapping[str, Any], hidden: Paths) -> None:
    for path, operand in fields.items():
        check_path(path, hidden, operator)
        if operator == "$rename":
            check_path(operand, hidden, operator)


def _reads_hidden(value: Any, hidden: Paths) -> bool:
    """Whether an expression in an update pipeline reads a hidden property or all of a document."""
    if isinstance(value, str):
        return _names_hidden(value, hidden)
    if isinstance(value, Mapping):
        return any(_reads_hidden(inner, hidden) for inner in value.values())
    if isinstance(value, (list, tuple)):
        return any(_reads_hidden(inner, hidden) for inner in value)
    return False


def _names_hidden(text: str, hidden: Paths) -> bool:
    if text.startswith(_WHOLE_DOCUMENT):
        return True
    if not text.startswith("$") or text.startswith("$$"):
        return False
    segments = [part for part in text[1:].split(".") if not part.isdigit()]
    return any(
        all(ours == theirs for ours, theirs in zip(segments, secret, strict=False))
        for secret in hidden
    )
