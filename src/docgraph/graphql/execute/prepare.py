"""Everything that is decided before the first command: arguments, limits, estimates.

The estimate is the product of all limits on the way down: what a query could make of the database
and the answer, known before it makes anything of them (decision 26).
"""

from __future__ import annotations

from collections.abc import Mapping

from graphql.execution.values import VariableValues

from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.definition.mapping import QueryMapping
from docgraph.graphql.errors import FieldFailure, OperationRefused, describe_failure
from docgraph.graphql.execute.run import Prepared, Run
from docgraph.graphql.execute.window import read_window
from docgraph.graphql.plan.tree import Block, Embedded, Fetch, Selection, Tree
from docgraph.variables import Scope, Variables

__all__ = ["check_estimate", "prepare_fetches"]

_KEPT_ESTIMATES = 64


def prepare_fetches(tree: Tree, variables: VariableValues, predefined: Variables, run: Run) -> None:
    """Coerce the arguments of every fetch, and read its window where all parents share it."""
    for fetch in tree.fetches:
        run.prepared[id(fetch)] = _prepare(fetch, variables, predefined, run)


def _prepare(fetch: Fetch, variables: VariableValues, predefined: Variables, run: Run) -> Prepared:
    try:
        scope = Scope(fetch.arguments.coerce(variables), predefined)
        mapping = fetch.mapping
        if not isinstance(mapping, QueryMapping) or fetch.has_own_windows:
            return Prepared(scope)
        return Prepared(scope, read_window(mapping, scope, run.bounds, is_list=fetch.is_list))
    except FieldFailure as failure:
        return Prepared(Scope(variables=predefined), failure=failure)
    except DocgraphError as error:
        return Prepared(Scope(variables=predefined), failure=describe_failure(error))


def check_estimate(tree: Tree, run: Run) -> None:
    """Refuse what could become too much, before anything is asked."""
    most = {id(fetch): _most_documents(fetch, run) for fetch in tree.fetches}
    # The numbers are the same for almost all requests of an operation.
    key = tuple(most.values())
    estimated = tree.estimates.get(key)
    if estimated is None:
        if len(tree.estimates) >= _KEPT_ESTIMATES:
            tree.estimates.clear()
        estimated = tree.estimates[key] = _estimate_block(tree.block, most, {})
    if estimated > run.limits.estimated_documents:
        raise OperationRefused.because(
            f"the query could need {estimated} documents, more than the"
            f" {run.limits.estimated_documents} allowed: ask for less by smaller limits",
            "too-many-estimated-documents",
        )


def _estimate_block(block: Block, most: Mapping[int, int], known: dict[int, int]) -> int:
    total = 0
    for column in block.columns:
        if isinstance(column, Fetch):
            below = _estimate_selection(column.selection, most, known)
            total += most[id(column)] * (1 + below)
        elif isinstance(column, Embedded):
            total += _estimate_selection(column.selection, most, known)
    return total


def _estimate_selection(
    selection: Selection | None, most: Mapping[int, int], known: dict[int, int]
) -> int:
    if selection is None:
        return 0
    estimate = known.get(id(selection))
    if estimate is None:
        blocks = selection.blocks.values()
        estimate = max((_estimate_block(block, most, known) for block in blocks), default=0)
        known[id(selection)] = estimate
    return estimate


def _most_documents(fetch: Fetch, run: Run) -> int:
    prepared = run.prepared[id(fetch)]
    if prepared.failure is not None:
        return 0
    if not fetch.is_list:
        return 1
    if prepared.window is not None:
        return prepared.window.limit
    return _most_results(fetch, run)


def _most_results(fetch: Fetch, run: Run) -> int:
    """Of an aggregation: as many as are allowed, unless its last stage says less."""
    limit = run.bounds.max_limit
    stages = getattr(fetch.mapping, "stages", None)
    match stages.source[-1] if stages is not None and stages.source else None:
        case {"$limit": int(own)}:
            return min(own, limit)
        case {"$count": _} | {"$group": {"_id": None}}:
            return 1
    return limit
