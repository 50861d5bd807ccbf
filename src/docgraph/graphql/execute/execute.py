"""Plan + store → data and errors.

    coerce variables → pick the tree → prepare every fetch → check the estimate
                     → resolve the root block, and with it everything below

Resolving works on lists, never on one object: a block gets all its documents, works out its
columns side by side (a fetch sends one command for all of them), and completes all its objects in
one go. Objects are built bottom up, so what many parents share is fetched and completed once.

A field that fails is null with an error in its place; a database that is gone, time that is up
and an operation that asks too much end the whole request, and are raised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from docgraph.exchange import Exchange
from docgraph.graphql.errors import Damaged
from docgraph.graphql.execute.answers import Answers
from docgraph.graphql.execute.complete import Values, complete_block, complete_values
from docgraph.graphql.execute.elements import Elements
from docgraph.graphql.execute.estimate import check_estimate
from docgraph.graphql.execute.fetch import fetch_values
from docgraph.graphql.execute.introspect import introspect
from docgraph.graphql.execute.prepare import prepare_fetches, prepare_orders
from docgraph.graphql.execute.report import report_causes
from docgraph.graphql.execute.result import Result
from docgraph.graphql.execute.run import Run
from docgraph.graphql.execute.slow import report_if_slow
from docgraph.graphql.execute.types import sort_by_type
from docgraph.graphql.execute.window import Bounds
from docgraph.graphql.plan.plan import Plan
from docgraph.graphql.plan.tree import Block, Column, Embedded, Introspection, Selection, Tree
from docgraph.graphql.sections import GraphqlLimits
from docgraph.runtime import Lane
from docgraph.runtime.concurrent import concurrently
from docgraph.store import Store
from docgraph.variables import Resolvers, Variables

__all__ = ["Result", "execute", "prepare"]

Documents = Sequence[Any]

_NO_VARIABLES = Variables()


async def execute(  # noqa: PLR0913 - what an execution depends on
    plan: Plan,
    *,
    store: Store,
    exchange: Exchange,
    variable_values: Mapping[str, Any],
    variables_resolver: Resolvers,
    settings: Bounds,
    limits: GraphqlLimits,
    lane: Lane | None = None,
    answers: Answers | None = None,
    slow_after: float = inf,
) -> Result:
    """Carry out a plan; `variable_values` are the raw JSON values of the request.

    What would hold the event loop is done in the `lane`; `answers` keep those of introspection.
    What takes `slow_after` seconds or more stands in the log.
    """
    run = Run(plan, store, exchange, settings, limits, variable_values, lane, answers)
    try:
        result = await _carry_out(run, variables_resolver)
    except BaseException as error:
        report_if_slow(run, slow_after, error)
        raise
    report_if_slow(run, slow_after)
    return result


async def _carry_out(run: Run, variables_resolver: Resolvers) -> Result:
    tree = await prepare(run, variables_resolver)
    if tree.fetches:
        await check_estimate(tree, run)
    values = await resolve_block(tree.block, [{}], None, run)
    (root,) = values.items
    if isinstance(root, Damaged):
        report_causes(root.errors, run.exchange)
        return Result.build(root.value, root.errors, run.commands, run.documents)
    return Result.build(root, None, run.commands, run.documents)


async def prepare(run: Run, variables_resolver: Resolvers) -> Tree:
    """Everything that is decided before the first command; the tree that will be resolved."""
    plan = run.plan
    variables = plan.variables.read(run.variable_values)
    tree = plan.kept_tree(variables.coerced)
    if tree is None:
        tree = await plan.grow(variables.coerced, run.lane)
    predefined = _NO_VARIABLES
    if tree.variables:
        predefined = await Variables.resolve(tree.variables, run.exchange, variables_resolver)
    if tree.fetches:
        prepare_fetches(tree, variables, predefined, run)
        await prepare_orders(tree, run)
    return tree


async def resolve_block(
    block: Block, documents: Documents, roots: Documents | None, run: Run
) -> Values:
    """The objects of a block: its columns side by side, then all objects at once."""
    if not block.columns:
        return complete_block(block, documents, ())
    if block.is_concurrent:
        columns = await concurrently(
            [resolve_column(column, documents, roots, run) for column in block.columns]
        )
    else:
        columns = [await resolve_column(column, documents, roots, run) for column in block.columns]
    return complete_block(block, documents, columns)


async def resolve_column(
    column: Column, parents: Documents, roots: Documents | None, run: Run
) -> Values:
    """The completed values of one field, for all parents."""
    if isinstance(column, Introspection):
        value = await introspect(column, run)
        return complete_values(column, [value] * len(parents))
    if isinstance(column, Embedded):
        values: list[Any] = [column.get(parent) for parent in parents]
    else:
        values = await fetch_values(column, parents, roots, run)
    if column.selection is None:
        return complete_values(column, values)
    elements = Elements(column, column.selection, values, roots)
    objects = await resolve_selection(column.selection, elements.documents, elements.roots, run)
    return elements.rebuild(objects)


async def resolve_selection(
    selection: Selection, documents: Documents, roots: Documents | None, run: Run
) -> Values:
    """The objects below a field; documents of an interface or union go each to its type."""
    if not documents:
        return Values([])
    if selection.resolve is None:
        return await resolve_block(selection.only_block, documents, roots, run)
    groups = sort_by_type(selection, documents)
    parts = await concurrently(
        [
            resolve_block(group.block, group.pick(documents), roots and group.pick(roots), run)
            for group in groups.known
        ]
    )
    return groups.merge(parts)
