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

from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

from graphql.execution.values import VariableValues

from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.definition.mapping import GroupMapping, QueryMapping
from docgraph.graphql.errors import Damaged, FieldFailure, describe_failure
from docgraph.graphql.execute.abstract_types import Group, sort_by_type
from docgraph.graphql.execute.complete import (
    CompletedValues,
    complete_block,
    complete_values,
    open_documents,
    render_objects,
    view,
)
from docgraph.graphql.execute.document_estimate import check_estimate
from docgraph.graphql.execute.embedded_lists import Elements
from docgraph.graphql.execute.entities import check_long_lists, prepare_entities, resolve_entities
from docgraph.graphql.execute.execution import KeptFetch, PreparedFetch, Run
from docgraph.graphql.execute.fetch_by_in import fetch_joined
from docgraph.graphql.execute.fetch_connections import fetch_connections
from docgraph.graphql.execute.introspect import introspect
from docgraph.graphql.execute.joined import JoinedFirsts
from docgraph.graphql.execute.list_arguments import compile_arguments, prepare_lists
from docgraph.graphql.execute.lookup_to_one import fetch_folding, unpack_lookup
from docgraph.graphql.execute.pages import prepare_pages
from docgraph.graphql.execute.per_parent import fetch_per_parent
from docgraph.graphql.execute.related_order import prepare_related_orders
from docgraph.graphql.execute.relations import resolve_relations
from docgraph.graphql.execute.report import report_causes, report_if_slow
from docgraph.graphql.execute.result import Result
from docgraph.graphql.execute.window import Window, order_window, read_window
from docgraph.graphql.plan.plan_tree import (
    Block,
    Column,
    Embedded,
    Entities,
    Fetch,
    Introspection,
    PlanTree,
    Selection,
)
from docgraph.runtime.tasks import concurrently
from docgraph.variables import Scope, Variables

__all__ = ["Result", "execute", "prepare"]

Documents = Sequence[Any]

_NO_VARIABLES = Variables()
_ROOT: Documents = ({},)


async def execute(run: Run) -> Result:
    """Execute a plan with the variables of a request."""
    try:
        tree = await prepare(run)
        if tree.fetches:
            await check_estimate(tree, run)
        if tree.listed_fetches:
            await resolve_relations(tree, run)
        (root,) = (await resolve_block(tree.block, _ROOT, None, run)).items
        errors = None
        if isinstance(root, Damaged):
            root, errors = root.value, root.errors
            report_causes(errors, run.exchange, run.store)
        result = Result.build(root, errors, run.commands, run.documents)
        if run.cuts is not None:
            result = result._replace(limits=run.cuts.list_entries(result.data, tree.block))
    except BaseException as error:
        report_if_slow(run, error)
        raise
    report_if_slow(run)
    return result


async def prepare(run: Run) -> PlanTree:
    """Prepare the execution up to its first command; return the tree to resolve."""
    plan = run.plan
    variables = plan.variables.read(run.variable_values)
    tree = plan.only_tree or plan.kept_tree(variables.coerced)
    if tree is None:
        tree = await plan.grow(variables.coerced, run.lane)
    predefined = _NO_VARIABLES
    if tree.variables:
        predefined = await Variables.resolve(tree.variables, run.exchange, run.resolvers)
    if tree.entities:
        prepare_entities(tree.entities, variables, run)
    check_long_lists(tree.entities, run.variable_values)
    if tree.fetches:
        prepare_fetches(tree, variables, predefined, run)
    if tree.listed_fetches:
        await prepare_lists(tree, run)
        await prepare_related_orders(tree, run)
    if tree.connections:
        await prepare_pages(tree, run)
    if tree.sorted_fetches:
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
    if source is not None and run.is_raw and bytes in map(type, documents):
        return await _resolve_raw(block, documents, run, source, ends)
    if not block.columns:
        return complete_block(block, documents, ())
    columns = await _resolve_columns(block, block.columns, documents, roots, run)
    return complete_block(block, documents, columns)


async def _resolve_columns(
    block: Block, columns: Sequence[Column], documents: Documents, roots: Documents | None, run: Run
) -> list[CompletedValues]:
    if block.is_concurrent:
        return await concurrently(
            [resolve_column(column, documents, roots, run) for column in columns]
        )
    return [await resolve_column(column, documents, roots, run) for column in columns]


async def _resolve_raw(
    block: Block, documents: Documents, run: Run, source: Fetch, ends: Sequence[int] | None
) -> CompletedValues:
    """Return the JSON of the objects, or the objects if the documents must be decoded."""
    fetched: list[CompletedValues] = []
    if block.fetches:
        parents = await view(documents, block.key_names, run, source)
        fetched = await _resolve_columns(block, block.fetches, parents, None, run)
    rendered = await render_objects(block.program, documents, fetched, run, ends)
    if rendered is not None:
        return rendered
    completed = dict(zip(map(id, block.fetches), fetched, strict=True))
    documents = await open_documents(documents, run, source)
    columns = [
        completed[id(column)]
        if id(column) in completed
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
    if isinstance(column, Entities):
        return await resolve_entities(column, run, partial(resolve_column, roots=None, run=run))
    if isinstance(column, Embedded):
        values: Sequence[Any] = [column.get(parent) for parent in parents]
    else:
        values = await fetch_values(column, parents, roots, run)
    if column.selection is None:
        completed = complete_values(column, values)
    else:
        elements = Elements(column, column.selection, values, roots)
        objects = await resolve_selection(column.selection, elements, run, column)
        completed = elements.rebuild(objects)
    if run.cuts is not None:
        run.cuts.follow(values, completed.items)
    return completed


async def resolve_selection(
    selection: Selection, elements: Elements, run: Run, column: Embedded | Fetch
) -> CompletedValues:
    """Return the objects below a field; documents of an interface or union by their type."""
    documents, roots, ends = elements.documents, elements.roots, elements.ends
    source = column if isinstance(column, Fetch) else None
    if not documents:
        return CompletedValues([])
    if selection.resolve is None:
        return await resolve_block(selection.only_block, documents, roots, run, source, ends)
    read: Documents = documents
    if source is not None:
        if run.is_raw and (choice := selection.choice.program) is not None:
            rendered = await render_objects(choice, documents, (), run, ends)
            if rendered is not None:
                return rendered
        read = await view(documents, selection.resolver_names, run, source)
    groups = sort_by_type(selection, read)

    def resolve(group: Group) -> Coroutine[Any, Any, CompletedValues]:
        members = group.pick(documents), roots and group.pick(roots)
        return resolve_block(group.block, *members, run, source)

    if any([group.block.needs_fetch for group in groups.typed]):
        return groups.merge(await concurrently(map(resolve, groups.typed)))
    return groups.merge([await resolve(group) for group in groups.typed])


def prepare_fetches(
    tree: PlanTree, variables: VariableValues, predefined: Variables, run: Run
) -> None:
    """Coerce the arguments of every fetch, and read its window if all parents share it."""
    for fetch in tree.fetches:
        kept: KeptFetch | None = fetch.kept.get(run.extra)
        if kept is not None and kept.bounds is not run.bounds:
            kept = None
        is_shared = predefined is _NO_VARIABLES
        if kept is not None and kept.prepared is not None and is_shared:
            run.prepared[id(fetch)] = kept.prepared
            continue
        prepared = _prepare(
            fetch, variables, predefined, run, None if kept is None else kept.window
        )
        run.prepared[id(fetch)] = prepared
        is_shared = is_shared and fetch.arguments.is_fixed
        if kept is None and prepared.failure is None and (is_shared or fetch.has_constant_window):
            window = prepared.window if fetch.has_constant_window else None
            fetch.kept[run.extra] = KeptFetch(run.bounds, window, prepared if is_shared else None)


async def prepare_orders(tree: PlanTree, run: Run) -> None:
    """Ensure that documents with equal sort keys have an order (decision 12).

    The filter of a root field is known only when it is sent, and its order is decided then.
    """
    for fetch in tree.sorted_fetches:
        prepared, mapping = run.prepared[id(fetch)], fetch.mapping
        if prepared.failure is None and (fetch.folds or not fetch.is_root):
            indexes = await run.store.stats.indexes(mapping.db, mapping.collection)
            kept: KeptFetch | None = fetch.kept.get(run.extra)
            if kept is not None and kept.prepared is not prepared:
                kept = None
            if kept is not None and kept.ordered is not None and kept.ordered.indexes is indexes:
                run.prepared[id(fetch)] = kept.ordered
                continue
            window = prepared.window and order_window(
                prepared.window, fetch, prepared.scope, indexes, prepared.where.filter
            )
            ordered = run.prepared[id(fetch)] = prepared._replace(indexes=indexes, window=window)
            if kept is not None:
                kept.ordered = ordered


def _prepare(
    fetch: Fetch,
    variables: VariableValues,
    predefined: Variables,
    run: Run,
    constant: Window | None,
) -> PreparedFetch:
    try:
        given, mapping = fetch.arguments.coerce(variables), fetch.mapping
        scope = Scope(given, predefined)
        if constant is not None:
            return PreparedFetch(scope, constant)
        if isinstance(mapping, GroupMapping) and fetch.is_list and not fetch.has_own_windows:
            window = read_window(mapping, scope, run.bounds, is_list=True, extra=run.extra)
            return PreparedFetch(scope, window)
        if not isinstance(mapping, QueryMapping):
            return PreparedFetch(scope)
        where, order = compile_arguments(mapping, given, run.limits.relation_depth)
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
    values = [
        (answer[0] if answer else None) if type(answer) is list else answer for answer in answers
    ]
    return values if empty is None else [empty if value is None else value for value in values]


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
