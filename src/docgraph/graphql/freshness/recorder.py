"""Recorder of dependencies: what the commands of one execution read.

It remembers the filters and pipelines of the commands, and the `_id`s of the documents found where
they are needed. Nothing is computed about collections until the execution is over (`finish`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from docgraph.codec.bson_types import Binary, Int64, ObjectId
from docgraph.codec.equality import OWN_KEY, equality_key
from docgraph.exchange import Document, Exchange
from docgraph.graphql.freshness.dependency import (
    Dependency,
    merge_dependencies,
)
from docgraph.graphql.freshness.filter_keys import FixedKeys, drop_texts, find_keys
from docgraph.graphql.freshness.read_sources import ReadSource, Sources
from docgraph.graphql.freshness.trackability import (
    find_moving,
    find_moving_condition,
    find_untrackable,
    find_untrackable_request,
)
from docgraph.graphql.plan.plan_tree import PlanTree
from docgraph.plugins.kinds import Interceptor
from docgraph.store.guard.references import find_reference, nested_pipelines
from docgraph.store.guard.shield import Rows
from docgraph.variables import Resolvers

MAX_IDS: Final = 10_000  # of one command; more depend on the whole collection
MAX_READS: Final = 10_000  # of one execution
_ID: Final = "_id"
_IDS: Final = frozenset({str, int, Int64, float, bool, ObjectId, bytes, Binary, datetime})


@dataclass(slots=True)
class ReadRecord:
    """The documents that one command reads; until it is closed, every change matters.

    `command` is the namespace of the command: its collation applies to all that it reads.
    """

    namespace: str
    keys: FixedKeys
    command: str
    has_ids: bool = True
    ids: frozenset[Hashable] = frozenset()
    is_open: bool = True

    def project(self, projection: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Return the projection, with `_id` if it is needed."""
        if projection is None or projection.get(_ID) != 0 or not self._needs_ids:
            return projection
        return {**projection, _ID: 1}

    def close(self, documents: Sequence[Document]) -> None:
        """Record the documents of a command that returned all that match."""
        if not self._needs_ids or len(documents) > MAX_IDS:
            self.is_open = self.has_ids
            return
        ids = [document.get(_ID) for document in documents]
        types = set(map(type, ids))
        if types <= _IDS:
            self.ids = frozenset(ids if types <= OWN_KEY else map(equality_key, ids))
            self.is_open = False

    @property
    def _needs_ids(self) -> bool:
        """Whether deletions concern only the documents found; `_id` in the keys has all ids."""
        return self.has_ids and bool(self.keys) and _ID not in self.keys

    def build(self, sources: Mapping[str, ReadSource]) -> list[Dependency]:
        source = sources[self.namespace]
        if not source.has_keys:
            return list(map(Dependency, source.namespaces))
        has_texts = source.has_texts and sources[self.command].has_texts
        keys = self.keys if has_texts else drop_texts(self.keys)
        if _ID in keys:  # whatever matters has one of these ids
            return [Dependency(self.namespace, keys[_ID], {_ID: keys[_ID]}, is_open=False)]
        if not keys:
            return [Dependency(self.namespace)]
        return [Dependency(self.namespace, self.ids, keys, self.is_open)]


@dataclass(slots=True)
class DependencyRecorder:
    """Records what the commands of one execution read; pass it to `execute`.

    Without `has_ids` no command changes, and the dependencies are good for explanations only.
    """

    sources: Sources
    has_ids: bool = True
    untrackable: str | None = None
    _reads: list[ReadRecord] = field(default_factory=list)

    def record_find(
        self,
        namespace: str,
        filter_: Mapping[str, Any],
        rows: Rows | None,
        command: str | None = None,
    ) -> ReadRecord:
        """Record that documents of a filter are read; close the result if it is complete.

        `command` is the namespace of the command, if it is another one.
        """
        filters = [filter_, (rows or {}).get(namespace)]
        for each in filters:
            self._check(find_moving_condition(each) if each else None)
        keys = find_keys(filters)
        return self._add(ReadRecord(namespace, keys, command or namespace, self.has_ids))

    def record_pipeline(
        self, namespace: str, pipeline: Sequence[Mapping[str, Any]], rows: Rows | None
    ) -> None:
        """Record that a pipeline runs, with all collections that its stages read."""
        self._check(find_moving(pipeline))
        self._record_stages(namespace, pipeline, rows, namespace)

    def _record_stages(
        self, namespace: str, pipeline: Sequence[Any], rows: Rows | None, command: str
    ) -> None:
        filters: list[Any] = [(rows or {}).get(namespace)]
        for stage in pipeline:
            if "$match" not in stage:
                break
            filters.append(stage["$match"])
        self._add(ReadRecord(namespace, find_keys(filters), command))
        self._record_others(pipeline, rows, command)

    def _record_others(self, pipeline: Sequence[Any], rows: Rows | None, command: str) -> None:
        """Record the collections that stages read besides their own."""
        db = command.partition(".")[0]
        for name, body in (entry for stage in pipeline for entry in stage.items()):
            reference = find_reference(name, body, db)
            nested = [inner for _, inner in nested_pipelines(name, body)]
            if reference is None:
                for inner in nested:
                    self._record_others(inner, rows, command)
                continue
            if reference.db != db:
                self._reject(f"{name} reads another database")
            for inner in nested or [[]]:
                target = f"{reference.db}.{reference.collection}"
                self._record_stages(target, inner, rows, command)

    def _add(self, read: ReadRecord) -> ReadRecord:
        if len(self._reads) < MAX_READS:
            self._reads.append(read)
        else:
            self._reject(f"it reads more than {MAX_READS} times")
        return read

    def _check(self, moving: str | None) -> None:
        if moving is not None:
            self._reject(f"it uses {moving}, which can change without a change of documents")

    def _reject(self, reason: str) -> None:
        self.untrackable = self.untrackable or reason

    async def finish(self) -> tuple[Dependency, ...] | str:
        """Return the dependencies of the execution, or the reason why they cannot be tracked."""
        if self.untrackable is not None:
            return self.untrackable
        names = {name for read in self._reads for name in (read.namespace, read.command)}
        sources = await self.sources.find(names)
        reasons = (source.untrackable for source in sources.values())
        reason = next((reason for reason in reasons if reason), None)
        if reason is not None:
            return reason
        return merge_dependencies(each for read in self._reads for each in read.build(sources))


async def explain_freshness(
    tree: PlanTree,
    recorder: DependencyRecorder,
    exchange: Exchange,
    resolvers: Resolvers,
    interceptors: Iterable[Interceptor],
) -> dict[str, Any]:
    """Return `dependsOn`, the dependencies of an execution, or `notTrackable`, the reason."""
    reason = find_untrackable(tree, resolvers)
    reason = reason or find_untrackable_request(exchange, resolvers, interceptors)
    dependencies = reason or await recorder.finish()
    if isinstance(dependencies, str):
        return {"notTrackable": dependencies}
    return {"dependsOn": sorted({dependency.render() for dependency in dependencies})}


def render_freshness(freshness: Mapping[str, Any]) -> list[str]:
    """Return the lines of `explain_freshness` for a terminal."""
    if "notTrackable" in freshness:
        return [f"not trackable: {freshness['notTrackable']}"]
    return [f"depends on {line}" for line in freshness.get("dependsOn", ())]
