"""The database's own plan of a query, as far as people need to know it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["QueryPlan", "read_plan"]

_PLACES: Final = ("queryPlan", "inputStage", "inputStages", "shards", "winningPlan", "queryPlanner")


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The stages of the plan that the database chooses, and the indexes that it uses."""

    stages: tuple[str, ...]
    indexes: tuple[str, ...]

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
    stages = dict.fromkeys(stage for stage, _ in found)
    indexes = dict.fromkeys(index for _, index in found if index)
    return QueryPlan(tuple(stages), tuple(indexes))


def _walk(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for one in value:
            yield from _walk(one)
    elif isinstance(value, Mapping):
        if isinstance(value.get("stage"), str):
            index = value.get("indexName") or ("_id_" if value["stage"] == "IDHACK" else "")
            yield value["stage"], str(index)
        for name in _PLACES:
            yield from _walk(value.get(name))
