"""Everything that is decided before the first command: variables, arguments, limits, estimates.

The estimate is the product of all limits on the way down: what a query could make of the database
and the answer, known before it makes anything of them (decision 26).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphql.execution.values import VariableValues, get_variable_values

from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.engine.run import Prepared, Run
from docgraph.graphql.engine.window import read_window
from docgraph.graphql.errors import (
    MAX_ERRORS,
    Classification,
    FieldFailure,
    GraphqlError,
    OperationRefused,
    describe_failure,
)
from docgraph.graphql.mapping import QueryMapping
from docgraph.graphql.plan import Plan
from docgraph.graphql.planning.tree import Block, Embedded, Fetch, Selection, Tree
from docgraph.variables import Scope, Variables

__all__ = ["check_estimate", "coerce_variables", "prepare_fetches"]


def coerce_variables(plan: Plan, values: Mapping[str, Any]) -> VariableValues:
    """The variables of the operation; raises `OperationRefused` for those that do not fit."""
    definitions = plan.operation.variable_definitions or ()
    coerced = get_variable_values(
        plan.app.schema, definitions, dict(values), max_errors=MAX_ERRORS, hide_suggestions=True
    )
    if isinstance(coerced, VariableValues):
        return coerced
    raise OperationRefused(
        [
            GraphqlError(
                error.message,
                Classification.VALIDATION,
                "bad-variable",
                tuple((place.line, place.column) for place in error.locations or ()),
            )
            for error in coerced
        ]
    )


def prepare_fetches(tree: Tree, variables: VariableValues, predefined: Variables, run: Run) -> None:
    """Coerce the arguments of every fetch, and read its window where all parents share it."""
    for fetch in tree.fetches:
        run.prepared[id(fetch)] = _prepare(fetch, variables, predefined, run)


def _prepare(fetch: Fetch, variables: VariableValues, predefined: Variables, run: Run) -> Prepared:
    scope = Scope(variables=predefined)
    mapping = fetch.mapping
    try:
        scope = Scope(fetch.arguments.coerce(variables), predefined)
        if not isinstance(mapping, QueryMapping):
            return Prepared(scope)
        parts = (mapping.sort, mapping.skip, mapping.limit)
        if any(part is not None and part.depends_on_parent for part in parts):
            return Prepared(scope)
        return Prepared(scope, read_window(mapping, scope, run.bounds, is_list=fetch.is_list))
    except FieldFailure as failure:
        return Prepared(scope, failure=failure)
    except DocgraphError as error:
        return Prepared(scope, failure=describe_failure(error))


def check_estimate(tree: Tree, run: Run) -> None:
    """Refuse what could become too much, before anything is asked."""
    estimated = _estimate_block(tree.block, run, {})
    if estimated > run.limits.estimated_documents:
        raise OperationRefused.because(
            f"the query could need {estimated} documents, more than the"
            f" {run.limits.estimated_documents} allowed: ask for less by smaller limits",
            "too-many-estimated-documents",
        )


def _estimate_block(block: Block, run: Run, known: dict[int, int]) -> int:
    total = 0
    for column in block.columns:
        if isinstance(column, Fetch):
            below = _estimate_selection(column.selection, run, known)
            total += _most_documents(column, run) * (1 + below)
        elif isinstance(column, Embedded):
            total += _estimate_selection(column.selection, run, known)
    return total


def _estimate_selection(selection: Selection | None, run: Run, known: dict[int, int]) -> int:
    if selection is None:
        return 0
    estimate = known.get(id(selection))
    if estimate is None:
        blocks = selection.blocks.values()
        estimate = max((_estimate_block(block, run, known) for block in blocks), default=0)
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
