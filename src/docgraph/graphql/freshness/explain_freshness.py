"""Explain freshness: what an answer depends on, or why that cannot be tracked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from docgraph.exchange import Exchange
from docgraph.graphql.freshness.dependency import render_dependencies
from docgraph.graphql.freshness.recorder import DependencyRecorder
from docgraph.graphql.freshness.trackability import find_untrackable, find_untrackable_request
from docgraph.graphql.plan.plan_tree import PlanTree
from docgraph.plugins.kinds import Interceptor
from docgraph.variables import Resolvers


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
    found = reason or await recorder.finish()
    if isinstance(found, str):
        return {"notTrackable": found}
    return {"dependsOn": render_dependencies(found)}


def render_freshness(freshness: Mapping[str, Any]) -> list[str]:
    """Return the lines of `explain_freshness` for a terminal."""
    if "notTrackable" in freshness:
        return [f"not trackable: {freshness['notTrackable']}"]
    return [f"depends on {one}" for one in freshness.get("dependsOn", ())]
