"""Query plan (explain plan): parse the database's `explain` output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from docgraph.store.driver.malformed import reading_reply

_PLACES: Final = ("queryPlan", "inputStage", "inputStages", "shards", "winningPlan", "queryPlanner")
_WHOLE: Final = (["[MinKey, MaxKey]"], ["[MaxKey, MinKey]"])


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The stages of the plan that the database chooses, and the indexes that it uses."""

    stages: tuple[str, ...]
    indexes: tuple[str, ...]
    reads_whole_index: bool = False  # from one end to the other: for its order, not for a search

    @property
    def is_scan(self) -> bool:
        """Whether documents are examined one after the other, without an index."""
        return "COLLSCAN" in self.stages

    @property
    def is_empty(self) -> bool:
        """Whether the database knows without reading that nothing matches."""
        return self.stages == ("EOF",)

    @property
    def is_known(self) -> bool:
        """Whether the database returned a plan."""
        return bool(self.stages)

    @property
    def sorts(self) -> bool:
        """Whether all found documents must be sorted before the first one is returned."""
        return "SORT" in self.stages

    def sorting(self) -> QueryPlan:
        """Return the same plan with a sort of its results."""
        return replace(self, stages=(*self.stages, "SORT"))


@dataclass(frozen=True, slots=True)
class Execution:
    """The execution statistics of a command, as the database reports them."""

    plan: QueryPlan
    keys: int  # examined index entries
    documents: int  # examined documents
    returned: int
    milliseconds: int

    def as_dict(self) -> dict[str, Any]:
        return {
            "indexes": list(self.plan.indexes),
            "scan": self.plan.is_scan,
            "sortsInMemory": self.plan.sorts,
            "keysExamined": self.keys,
            "documentsExamined": self.documents,
            "returned": self.returned,
            "ms": self.milliseconds,
        }


def read_execution(reply: Mapping[str, Any]) -> Execution:
    """Parse an `explain` response with `executionStats`, summed over all stages and members."""
    with reading_reply():
        totals = list(_find_all(reply, "totalDocsExamined"))
        planners = [part["queryPlanner"] for part in _find_all(reply, "queryPlanner")]
        plans = [read_plan({"queryPlanner": planner}) for planner in planners]
        joined = [name for part in _find_all(reply, "indexesUsed") for name in part["indexesUsed"]]
        stages = dict.fromkeys(stage for plan in plans for stage in plan.stages)
        if any(total.get("collectionScans") for total in totals):
            stages["COLLSCAN"] = None
        if any(_find_all(reply.get("stages", reply.get("shards")), "$sort")):
            stages["SORT"] = None
        indexes = dict.fromkeys([*(name for plan in plans for name in plan.indexes), *joined])
        is_whole = any(plan.reads_whole_index for plan in plans)
        last = reply["stages"][-1] if reply.get("stages") else reply.get("executionStats", {})
        times = (
            part.get("executionTimeMillis", part.get("executionTimeMillisEstimate", 0))
            for part in (*totals, last)
        )
        return Execution(
            QueryPlan(tuple(stages), tuple(map(str, indexes)), is_whole),
            sum(int(total.get("totalKeysExamined", 0)) for total in totals),
            sum(int(total["totalDocsExamined"]) for total in totals),
            int(last.get("nReturned", 0)),
            max(map(int, times), default=0),
        )


def _find_all(value: Any, name: str) -> Iterator[Mapping[str, Any]]:
    """Return the outermost documents that have a member of that name."""
    if isinstance(value, Mapping) and name in value:
        yield value
    elif isinstance(value, list | Mapping):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _find_all(inner, name)


def read_plan(reply: Mapping[str, Any]) -> QueryPlan:
    """Parse an `explain` response; the plan of one member of a cluster represents all."""
    with reading_reply():
        plan = list(_walk(reply.get("queryPlanner")))
        stages = dict.fromkeys(str(stage["stage"]) for stage in plan)
        indexes = dict.fromkeys(
            str(stage.get("indexName") or "_id_")
            for stage in plan
            if stage.get("indexName") or stage["stage"] == "IDHACK"
        )
        is_whole = any(map(_reads_whole_index, plan))
        return QueryPlan(tuple(stages), tuple(indexes), is_whole)


def _reads_whole_index(stage: Mapping[str, Any]) -> bool:
    bounds = stage.get("indexBounds")
    if stage["stage"] != "IXSCAN" or not isinstance(bounds, Mapping) or not bounds:
        return False
    return all(list(bound) in _WHOLE for bound in bounds.values() if isinstance(bound, list))


def _walk(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        for item in value:
            yield from _walk(item)
    elif isinstance(value, Mapping):
        if isinstance(value.get("stage"), str):
            yield value
        for name in _PLACES:
            yield from _walk(value.get(name))
