"""What is decided before the first command: the arguments and windows of every fetch."""

from __future__ import annotations

from graphql.execution.values import VariableValues

from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.definition.mapping import QueryMapping
from docgraph.graphql.errors import FieldFailure, describe_failure
from docgraph.graphql.execute.run import Prepared, Run
from docgraph.graphql.execute.window import order_window, read_window
from docgraph.graphql.plan.tree import Fetch, Tree
from docgraph.variables import Scope, Variables

__all__ = ["prepare_fetches", "prepare_orders"]


def prepare_fetches(tree: Tree, variables: VariableValues, predefined: Variables, run: Run) -> None:
    """Coerce the arguments of every fetch, and read its window where all parents share it."""
    for fetch in tree.fetches:
        run.prepared[id(fetch)] = _prepare(fetch, variables, predefined, run)


async def prepare_orders(tree: Tree, run: Run) -> None:
    """See to it that documents with equal keys have an order (decision 12).

    The one filter of a root field is known when it is sent, and its order settled then.
    """
    for fetch in tree.sorted_fetches:
        prepared, mapping = run.prepared[id(fetch)], fetch.mapping
        if prepared.failure is None and (fetch.folds or not fetch.is_root):
            indexes = await run.store.facts.indexes(mapping.db, mapping.collection)
            window = prepared.window and order_window(prepared.window, fetch, indexes)
            run.prepared[id(fetch)] = prepared._replace(indexes=indexes, window=window)


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
