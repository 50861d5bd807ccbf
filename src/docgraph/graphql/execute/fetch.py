"""Fetching a field for all its parents: the choice of the way. The answer never depends on it.

A plain join of several parents goes by one `$in` and a join in memory, everything else by the
queries that the parents have; a to-one relation of a single root document may have come along
with it already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from docgraph.graphql.execute.folded import fetch_folding, take_folded
from docgraph.graphql.execute.joined import fetch_joined
from docgraph.graphql.execute.per_parent import fetch_per_parent
from docgraph.graphql.execute.run import Run
from docgraph.graphql.plan.tree import Fetch

__all__ = ["fetch_values"]


async def fetch_values(
    fetch: Fetch, parents: Sequence[Any], roots: Sequence[Any] | None, run: Run
) -> list[Any]:
    """The value of the field for each parent: documents, a document, null, or a failure."""
    prepared = run.prepared[id(fetch)]
    if prepared.failure is not None:
        return [prepared.failure] * len(parents)
    run.parents[id(fetch)] = len(parents)
    if id(fetch) in run.folded and (answer := take_folded(fetch, parents[0])) is not None:
        answers: list[Any] = [answer]
    elif fetch.folds:
        answers = await fetch_folding(fetch, run)
    elif fetch.is_plain_join and len(parents) > 1:
        answers = await fetch_joined(fetch, parents, run)
    else:
        answers = await fetch_per_parent(fetch, parents, roots, run)
    if fetch.is_list:
        return answers
    return [_take_first(answer) if type(answer) is list else answer for answer in answers]


def _take_first(documents: list[Any]) -> Any:
    return documents[0] if documents else None
