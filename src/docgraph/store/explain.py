"""The database's own plan of a query, as far as people need to know it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["QueryPlan", "read_plan"]

_PLACES: Final = ("queryPlan", "inputStage", "inputStages", "shards", "winningPlan", "queryPlanner")
_WHOLE: Final = (["[MinKey, MaxKey]"], ["[MaxKey, MinKey]"])


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The stages of the plan that the database chooses, and the indexes that it uses."""

    stages: tuple[str, ...]
    indexes: tuple[str, ...]
    reads_whole_index: bool = False  # from one end to the other: for its order, not to find

    @property
    def is_scan(self) -> bool:
        """Whether documents are looked at one after the other, without an index."""
        return "COLLSCAN" in self.stages

    @property
    def is_known(self) -> bool:
        """Whether the database said what it would do."""
        return bool(self.stages)

    @property
    def sorts(self) -> bool:
        """Whether all documents found have to be sorted before the first one is there."""
        return "SORT" in self.stages


def read_plan(reply: Mapping[str, Any]) -> QueryPlan:
    """What an answer of `explain` says; the words of one member of a cluster count as all's."""
    found = list(_walk(reply.get("queryPlanner")))
    stages = dict.fromkeys(str(stage["stage"]) for stage in found)
    indexes = dict.fromkeys(name for stage in found if (name := _name_index(stage)))
    is_whole = any(map(_reads_whole_index, found))
    return QueryPlan(tuple(stages), tuple(indexes), is_whole)


def _name_index(stage: Mapping[str, Any]) -> str:
    return str(stage.get("indexName") or ("_id_" if stage["stage"] == "IDHACK" else ""))


def _reads_whole_index(stage: Mapping[str, Any]) -> bool:
    bounds = stage.get("indexBounds")
    if stage["stage"] != "IXSCAN" or not isinstance(bounds, Mapping) or not bounds:
        return False
    return all(list(one) in _WHOLE for one in bounds.values() if isinstance(one, list))


def _walk(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        for one in value:
            yield from _walk(one)
    elif isinstance(value, Mapping):
        if isinstance(value.get("stage"), str):
            yield value
        for name in _PLACES:
            yield from _walk(value.get(name))
