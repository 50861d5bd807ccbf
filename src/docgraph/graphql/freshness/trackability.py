"""Trackability: whether changes of the database say when an answer is outdated."""

from __future__ import annotations

from docgraph.graphql.plan.plan_tree import PlanTree
from docgraph.variables import Resolvers


def find_untrackable(tree: PlanTree, resolvers: Resolvers) -> str | None:
    """Return why answers of this tree cannot be tracked; None if they can."""
    raise NotImplementedError
