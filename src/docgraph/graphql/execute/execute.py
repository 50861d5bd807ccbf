"""Execution of a GraphQL plan: plan and store to data and errors.

    coerce variables → pick the tree → prepare every fetch → check the estimate
    → resolve the root block, and with it everything below

Resolvers work on lists, never on one object: a block gets all its documents, resolves its columns
concurrently (a fetch sends one command for all of them, so there is no N+1), and completes all its
objects together. Objects are built bottom up, so what many parents share is fetched and completed
once.

A field that fails is null with an error at its position. A lost database, an expired deadline and
an operation over its limits end the whole request, and are raised.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from math import inf
from typing import Any

from graphql.execution.values import VariableValues

from docgraph.exchange import Exchange
from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.definition.mapping import GroupMapping, QueryMapping
from docgraph.graphql.errors import Damaged, FieldFailure, describe_failure
from docgraph.graphql.execute.abstract_types import Group, sort_by_type
from docgraph.graphql.execute.complete import (
    CompletedValues,
    complete_block,
    complete_values,
    has_raw,
    open_documents,
    render_objects,
    view,
)
from docgraph.graphql.execute.cursor_keys import KeyRing
from docgraph.graphql.execute.document_estimate import check_estimate
from docgraph.graphql.execute.embedded_lists import Elements
from docgraph.graphql.execute.execution import PreparedFetch, Run
from docgraph.graphql.execute.fetch_by_in import fetch_joined
from docgraph.graphql.execute.fetch_connections import fetch_connections
from docgraph.graphql.execute.introspect import introspect
from docgraph.graphql.execute.introspection_cache import IntrospectionCache
from docgraph.graphql.execute.joined import JoinedFirsts
from docgraph.graphql.execute.list_arguments import compile_arguments, prepare_lists
from docgraph.graphql.execute.lookup_to_one import fetch_folding, unpack_lookup
from docgraph.graphql.execute.pages import prepare_pages
from docgraph.graphql.execute.per_parent import fetch_per_parent
from docgraph.graphql.execute.report import report_causes, report_if_slow
from docgraph.graphql.execute.result import CutLists, Result
from docgraph.graphql.execute.window import PageLimits, order_window, read_window
from docgraph.graphql.freshness.recorder import DependencyRecorder
from docgraph.graphql.plan.plan import Plan
from docgraph.graphql.plan.plan_tree import (
    Block,
    Column,
    Embedded,
    Fetch,
    Introspection,
    PlanTree,
    Selection,
    needs_fetch,
)
from docgraph.graphql.sections import GraphqlLimits
from docgraph.runtime import Lane
from docgraph.runtime.native import find_native
from docgraph.runtime.tasks import concurrently
from docgraph.store import Store
from docgraph.variables import Resolvers, Scope, Variables

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
    settings: PageLimits,
    limits: GraphqlLimits,
    lane: Lane | None = None,
    answers: IntrospectionCache | None = None,
    key_ring: KeyRing | None = None,
    slow_after: float = inf,
    report_limits: bool = False,
    dependencies: DependencyRecorder | None = None,
    is_raw: bool = False,
) -> Result:
    """Execute a plan; `variable_values` are the raw JSON values of the request.

    Work that would block the event loop runs in the `lane`. `answers` caches introspection,
    `key_ring` has the key of cursors. Operations of `slow_after` seconds or more are logged.
    `report_limits`: the result names the lists that their limit cut. `dependencies` records what
    the result depends on. `is_raw`: values in the result may be JSON (bytes), where the native
    extension renders it.
    """
    run = Run(plan, store, exchange, settings, limits, variable_values, lane, answers, key_ring)
    run.cuts = CutLists() if report_limits else None
    run.dependencies = dependencies
    run.is_raw = is_raw and not report_limits and find_native() is not None
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
        report_causes(root.errors, run.exchange, run.store)
        result = Result.build(root.value, root.errors, run.commands, run.documents)
    else:
        result = Result.build(root, None, run.commands, run.documents)
    return (
        result
        if run.cuts is None
        else result._replace(limits=run.cuts.list_entries(result.data, tree.block))
    )


async def prepare(run: Run, variables_resolver: Resolvers) -> PlanTree:
    """Prepare the execution up to its first command; return the tree to resolve."""
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
        await prepare_lists(tree, run)
        if tree.connections:
            await prepare_pages(tree, run)
        await prepare_orders(tree, run)
    return tree


async def resolve_block(
    block: Block,
    documents: Documents,
    roots: Documents | None,
    run: Run,
    source: Fetch | None = None,
    ends: Sequence[int] | None = None,
) -> CompletedValues:
    """Return the objects of a block: its columns concurrently, then all objects together.

    The `source` is where the documents are from; those of an embedded field have none. `ends`:
    the objects are in lists that end there, and each list may be one value.
    """
    if source is not None and run.is_raw and has_raw(documents):
        return await _resolve_raw(block, documents, run, source, ends)
    if not block.columns:
        return complete_block(block, documents, ())
    columns = await _resolve_columns(block.columns, documents, roots, run)
    return complete_block(block, documents, columns)


async def _resolve_columns(
    columns: Sequence[Column], documents: Documents, roots: Documents | None, run: Run
) -> list[CompletedValues]:
    if sum(map(needs_fetch, columns)) > 1:
        return await concurrently([resolve_column(one, documents, roots, run) for one in columns])
    return [await resolve_column(one, documents, roots, run) for one in columns]


async def _resolve_raw(
    block: Block, documents: Documents, run: Run, source: Fetch, ends: Sequence[int] | None
) -> CompletedValues:
    """Return the JSON of the objects, or the objects if the documents must be decoded."""
    fetched: list[CompletedValues] = []
    if block.fetches:
        parents = await view(documents, block.key_names, run, source)
        fetched = await _resolve_columns(block.fetches, parents, None, run)
    rendered = await render_objects(block.program, documents, fetched, run, ends)
    if rendered is not None:
        return rendered
    known = dict(zip(map(id, block.fetches), fetched, strict=True))
    documents = await open_documents(documents, run, source)
    columns = [
        known[id(column)]
        if id(column) in known
        else await resolve_column(column, documents, None, run)
        for column in block.columns
    ]
    return complete_block(block, documents, columns)


async def resolve_column(
    column: Column, parents: Documents, roots: Documents | None, run: Run
) -> CompletedValues:
    """Return the completed values of one field, for all parents."""
    if isinstance(column, Introspection):
        value = await introspect(column, run)
        return complete_values(column, [value] * len(parents))
    if isinstance(column, Embedded):
        values: Sequence[Any] = [column.get(parent) for parent in parents]
    else:
        values = await fetch_values(column, parents, roots, run)
    if column.selection is None:
        completed = complete_values(column, values)
    else:
        elements = Elements(column, column.selection, values, roots)
        objects = await resolve_selection(
            column.selection,
            elements.documents,
            elements.roots,
            run,
            column if isinstance(column, Fetch) else None,
            elements.ends,
        )
        completed = elements.rebuild(objects)
    if run.cuts is not None:
        run.cuts.follow(values, completed.items)
    return completed


async def resolve_selection(
    selection: Selection,
    documents: Documents,
    roots: Documents | None,
    run: Run,
    source: Fetch | None,
    ends: Sequence[int] | None = None,
) -> CompletedValues:
    """Return the objects below a field; documents of an interface or union by their type."""
    if not documents:
        return CompletedValues([])
    if selection.resolve is None:
        block = selection.only_block
        return await resolve_block(block, documents, roots, run, source, ends)
    read = documents
    if source is not None:
        if run.is_raw and (choice := selection.choice.program) is not None:
            rendered = await render_objects(choice, documents, (), run, ends)
            if rendered is not None:
                return rendered
        read = await view(documents, selection.resolver_names, run, source)
    groups = sort_by_type(selection, read)

    def resolve(group: Group) -> Coroutine[Any, Any, CompletedValues]:
        own = group.pick(documents), roots and group.pick(roots)
        return resolve_block(group.block, *own, run, source)

    if any([group.block.needs_fetch for group in groups.known]):
        return groups.merge(await concurrently(map(resolve, groups.known)))
    return groups.merge([await resolve(group) for group in groups.known])


def prepare_fetches(
    tree: PlanTree, variables: VariableValues, predefined: Variables, run: Run
) -> None:
    """Coerce the arguments of every fetch, and read its window if all parents share it."""
    for fetch in tree.fetches:
        run.prepared[id(fetch)] = _prepare(fetch, variables, predefined, run)


async def prepare_orders(tree: PlanTree, run: Run) -> None:
    """Ensure that documents with equal sort keys have an order (decision 12).

    The filter of a root field is known only when it is sent, and its order is decided then.
    """
    for fetch in tree.sorted_fetches:
        prepared, mapping = run.prepared[id(fetch)], fetch.mapping
        if prepared.failure is None and (fetch.folds or not fetch.is_root):
            indexes = await run.store.stats.indexes(mapping.db, mapping.collection)
            window = prepared.window and order_window(
                prepared.window, fetch, prepared.scope, indexes, prepared.where.filter
            )
            run.prepared[id(fetch)] = prepared._replace(indexes=indexes, window=window)


def _prepare(
    fetch: Fetch, variables: VariableValues, predefined: Variables, run: Run
) -> PreparedFetch:
    try:
        given, mapping = fetch.arguments.coerce(variables), fetch.mapping
        scope = Scope(given, predefined)
        if isinstance(mapping, GroupMapping) and fetch.is_list and not fetch.has_own_windows:
            window = read_window(mapping, scope, run.bounds, is_list=True, extra=run.extra)
            return PreparedFetch(scope, window)
        if not isinstance(mapping, QueryMapping):
            return PreparedFetch(scope)
        where, order = compile_arguments(mapping, given)
        if fetch.has_own_windows:
            return PreparedFetch(scope, where=where, order=order)
        window = read_window(
            mapping, scope, run.bounds, is_list=fetch.is_list, order=order, extra=run.extra
        )
        return PreparedFetch(scope, window, where=where, order=order)
    except FieldFailure as failure:
        return PreparedFetch(Scope(variables=predefined), failure=failure)
    except DocgraphError as error:
        return PreparedFetch(Scope(variables=predefined), failure=describe_failure(error))


# The method of fetching never changes the values. A plain join of several parents uses one `$in`
# and a join in memory, everything else one query per parent; a to-one relation of a single root
# document may already be part of its command.


async def fetch_values(
    fetch: Fetch, parents: Sequence[Any], roots: Sequence[Any] | None, run: Run
) -> Sequence[Any]:
    """Return the value per parent: documents, a document, null, or a failure."""
    prepared = run.prepared[id(fetch)]
    if prepared.failure is not None:
        return [prepared.failure] * len(parents)
    run.parents[id(fetch)] = len(parents)
    if fetch.connection is not None:
        return await fetch_connections(fetch, parents, roots, run, fetch_documents)
    answers = await fetch_documents(fetch, parents, roots, run)
    if fetch.is_list or type(answers) is JoinedFirsts:
        return answers
    empty = fetch.empty
    values = [_first(answer) if type(answer) is list else answer for answer in answers]
    return values if empty is None else [empty if one is None else one for one in values]


async def fetch_documents(
    fetch: Fetch, parents: Sequence[Any], roots: Sequence[Any] | None, run: Run
) -> Sequence[Any]:
    """Return the documents of each parent, by the method that fits."""
    if id(fetch) in run.folded and (answer := unpack_lookup(fetch, parents[0])) is not None:
        return [answer]
    if fetch.folds:
        return await fetch_folding(fetch, run)
    if fetch.is_plain_join and len(parents) > 1:
        return await fetch_joined(fetch, parents, run)
    return await fetch_per_parent(fetch, parents, roots, run)


def _first(documents: list[Any]) -> Any:
    return documents[0] if documents else None
