"""What the database says of how it would carry out a query (`explain`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["read_sorting_indexes"]


def read_sorting_indexes(explained: Mapping[str, Any]) -> frozenset[str]:
    """The indexes of a plan that reads documents in their order; none where they are sorted.

    Plans of another form than that of an ordinary query (a view, a time series) are sorted ones.
    """
    plan = explained.get("queryPlanner", {}).get("winningPlan", {})
    stages = list(_stages(plan))
    if any(stage["stage"] == "SORT" for stage in stages):
        return frozenset()
    return frozenset(stage["indexName"] for stage in stages if "indexName" in stage)


def _stages(plan: Any) -> Iterator[Mapping[str, Any]]:
    """The stages of a plan, those of all shards included, and not those of plans that lost."""
    if isinstance(plan, list):
        for part in plan:
            yield from _stages(part)
    elif isinstance(plan, Mapping):
        if isinstance(plan.get("stage"), str):
            yield plan
        for name, part in plan.items():
            if name != "rejectedPlans":
                yield from _stages(part)
