"""Guarded pipelines: hidden properties and row filters in every collection that a pipeline reads.

The guard comes first: `$match` with the row filter and `$unset` of the hidden properties are the
first stages on a guarded collection, so all later stages (`$group`, `$$ROOT`, `$objectToArray`, a
rename) cannot see the removed data. The same applies inside `$lookup`, `$unionWith` and
`$graphLookup`. A stage that must itself be the first one is made safe in its own way, or rejected.
A fence (`fence.py`) prevents that later conditions are moved into the row filter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docgraph.exchange.data import Document, Filter, Stages, Write
from docgraph.store.guard.fence import UNKNOWN, FencedStages, Ground, check_searched
from docgraph.store.guard.references import READING_MORE, nested_pipelines, read_reference
from docgraph.store.guard.shield import (
    Shield,
    check_filter_paths,
    check_path,
    reaches,
    reject,
    shows_storage,
)
from docgraph.store.guard.shown import Paths
from docgraph.store.guard.stage_checks import (
    UPDATE_STAGES,
    Policy,
    check_filter,
    check_pipeline,
    has_key,
)
from docgraph.store.guard.write_effects import read_update
from docgraph.store.names import namespace_of, walk

_TEXT = frozenset({"$text"})
_SEARCHES = frozenset({"$search", "$searchMeta", "$vectorSearch"})
_FIELD_ACCESS = frozenset({"$getfield", "$setfield", "$unsetfield"})
_SETTERS = frozenset({"$set", "$setOnInsert", "$unset"})
_WHOLE_DOCUMENT = ("$$ROOT", "$$CURRENT")


def guard_pipeline(
    pipeline: Stages,
    db: str,
    collection: str,
    shield: Shield,
    grounds: Mapping[str, Ground] | None = None,
) -> list[Mapping[str, Any]]:
    """Return the pipeline on that collection with the guards of every collection that it reads.

    `grounds` has the known properties of these collections, by namespace.
    """
    return _Rewriter(shield, grounds or {}).on_collection(pipeline, db, collection).stages


class _Rewriter:
    def __init__(self, shield: Shield, grounds: Mapping[str, Ground]) -> None:
        self.shield = shield
        self.grounds = grounds

    def on_collection(self, pipeline: Stages, db: str, collection: str) -> FencedStages:
        namespace = namespace_of(db, collection)
        hidden = self.shield.hidden.get(namespace, ())
        row = self.shield.rows.get(namespace) or {}
        if (hidden or row) and shows_storage(pipeline):
            raise reject("the pipeline")
        stages = FencedStages(row, self.grounds.get(namespace, UNKNOWN), pipeline)
        if not hidden and not row:
            return self._add_all(pipeline, db, stages)
        is_begun = _begin(pipeline[0], hidden, row, stages) if pipeline else False
        if not is_begun:
            stages.restrict()
        if hidden:
            stages.add({"$unset": _dotted(hidden)})
        return self._add_all(pipeline[1:] if is_begun else pipeline, db, stages)

    def _add_all(self, pipeline: Stages, db: str, stages: FencedStages) -> FencedStages:
        """Add the stages; guard what they read of other collections."""
        for stage in pipeline:
            ((name, body),) = stage.items()
            if name not in READING_MORE:
                stages.add(stage)
            elif name == "$facet":
                facets = {key: self._add_all(inner, db, _free()) for key, inner in body.items()}
                guarded = {key: facet.stages for key, facet in facets.items()}
                stages.add({name: guarded}, is_open=any(facet.is_open for facet in facets.values()))
            elif name == "$graphLookup":
                self._add_graph(body, db, stages)
            else:
                self._add_join(name, body, db, stages)
        return stages

    def _add_join(self, name: str, body: Any, db: str, stages: FencedStages) -> None:
        """Add `$lookup` or `$unionWith`: the guards begin the pipeline on the other collection."""
        reference = read_reference(name, body, db, name)
        pipeline = next((nested for _, nested in nested_pipelines(name, body)), [])
        if reference is None:
            inner = self._add_all(pipeline, db, _free())
        else:
            inner = self.on_collection(pipeline, reference.db, reference.collection)
            # The equality of `foreignField` is evaluated before the pipeline runs.
            hidden = self.shield.hidden.get(namespace_of(*reference.place), ())
            if hidden and isinstance(body, Mapping) and "foreignField" in body:
                check_path(body["foreignField"], hidden, "$lookup")
        if inner.stages:
            body = body if isinstance(body, Mapping) else {"coll": body}
            body = {**body, "pipeline": inner.stages}
        stages.add({name: body}, is_open=inner.is_open)

    def _add_graph(self, body: Mapping[str, Any], db: str, stages: FencedStages) -> None:
        """Add `$graphLookup`, which has no pipeline: restrict its search, `$unset` its result."""
        reference = read_reference("$graphLookup", body, db, "$graphLookup")
        assert reference is not None  # noqa: S101 - it always names a collection
        hidden = self.shield.hidden.get(namespace_of(*reference.place), ())
        row = self.shield.rows.get(namespace_of(*reference.place))
        condition = body.get("restrictSearchWithMatch")
        if hidden:
            check_path(body.get("connectFromField"), hidden, "$graphLookup")
            check_path(body.get("connectToField"), hidden, "$graphLookup")
            if condition is not None:
                check_filter_paths(condition, hidden, "$graphLookup")
        if row:
            check_searched("$graphLookup", condition)
            body = {**body, "restrictSearchWithMatch": _both(row, condition)}
        stages.add({"$graphLookup": body}, is_open=bool(row))
        if hidden:
            stages.add({"$unset": _dotted(hidden, f"{body.get('as')}.")})


def _free() -> FencedStages:
    """Return stages that no row filter restricts."""
    return FencedStages({}, UNKNOWN)


def _begin(stage: Mapping[str, Any], hidden: Paths, row: Filter, stages: FencedStages) -> bool:
    """Add a stage that must be the first one, guarded in its own way; False: it need not be."""
    ((name, body),) = stage.items()
    if name in _SEARCHES:
        raise reject(name)  # it reads its own index, which our filters do not reach
    if name == "$geoNear":
        stages.begin({name: _guard_near(body, hidden, row)})
        return True
    if name == "$match" and has_key(body, _TEXT):
        if hidden:
            raise reject("$match")  # a text index may contain every property
        stages.begin_search(body)
        return True
    return False


def _guard_near(body: Any, hidden: Paths, row: Filter) -> Document:
    """Guard `$geoNear`, which has a condition; without a key it would use the only index."""
    if not isinstance(body, Mapping):
        raise reject("$geoNear")
    query = body.get("query") or {}
    if hidden:
        check_path(body.get("key"), hidden, "$geoNear")
        check_filter_paths(query, hidden, "$geoNear")
    if row:
        check_searched("$geoNear", query)
    return {**body, "query": _both(row, query)}


def _both(row: Filter, filter: Filter | None) -> Mapping[str, Any]:
    if row and filter:
        return {"$and": [row, filter]}
    return row or filter or {}


def _dotted(hidden: Paths, prefix: str = "") -> list[str]:
    return [prefix + ".".join(path) for path in hidden]


def check_update(update: Any, hidden: Paths) -> None:
    """Reject an update that copies a hidden property to a readable one.

    Setting it is allowed: someone has to, and interceptors decide which values may be set. Other
    operators cannot name it, since the count of changed documents answers a question (`$max`
    compares, `$addToSet` searches).
    """
    if isinstance(update, Mapping):
        for change in read_update(update):
            if change.operator not in _SETTERS:
                check_path(change.path, hidden, change.operator)
    elif has_key(update, _FIELD_ACCESS) or any(
        text.startswith(_WHOLE_DOCUMENT) if text[:2] == "$$" else reaches(text[1:], hidden)
        for text in walk(update)
        if isinstance(text, str) and text[:1] == "$"
    ):  # an expression reads a hidden property or a whole document
        raise reject("the update")


def check_write(write: Write, *, db: str, policy: Policy, hidden: Paths) -> None:
    """Raise for a forbidden write; `hidden` has the hidden properties of the collection."""
    check_filter(write.filter, policy=policy)
    if write.update is not None and "$pull" in write.update:
        check_filter(write.update["$pull"], policy=policy, origin="update.$pull")
    if write.pipeline is not None:
        check_pipeline(
            write.pipeline,
            db=db,
            policy=policy,
            origin="update",
            allowed=UPDATE_STAGES,
            trusted=False,
        )
    if hidden:
        check_filter_paths(write.filter, hidden)
        check_update(write.update or write.pipeline or {}, hidden)
