"""The caller's `where` and `orderBy`: compiled for a fetch, and checked against the indexes.

Only the visible schema decides which fields a caller may use: a value with another field does not
pass the coercion. Error messages name fields of that schema only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from graphql import GraphQLInputObjectType, get_named_type

from docgraph.exchange.data import Filter
from docgraph.graphql.conditions import compile_order, is_served, list_served
from docgraph.graphql.definition.mapping import QueryMapping
from docgraph.graphql.errors import Classification, FieldFailure
from docgraph.graphql.execute.execution import PreparedFetch, Run
from docgraph.graphql.plan.plan_tree import Fetch, PlanTree
from docgraph.graphql.related import find_conditions, replace_conditions
from docgraph.graphql.where import NO_CONDITION, CompiledWhere, WhereField, WhereSpec, compile_where
from docgraph.store.collection_stats import Index
from docgraph.store.order import is_ordered_by, pinned_paths
from docgraph.variables import matches_nothing

_RELEVANCE: Final = {"score": {"$meta": "textScore"}}
_WRONG: Final = Classification.VALIDATION
_MAX_NAMED: Final = 20  # indexed fields in a message
_UNSERVED: Final[Filter] = {"$nor": []}  # a condition that no index serves


def compile_arguments(
    mapping: QueryMapping, given: Mapping[str, Any], relation_depth: int
) -> tuple[CompiledWhere, Mapping[str, Any] | None]:
    """Return the caller's conditions and order; an empty order is that of an index."""
    where = NO_CONDITION
    if mapping.where is not None:
        where = compile_where(mapping.where, given.get("where"), relation_depth)
    order: Mapping[str, Any] | None = None
    if mapping.order is not None:
        order = compile_order(mapping.order, given.get("orderBy"))
    if where.nearest and order is not None:
        what = "orderBy cannot be combined with nearestFirst, which is an order itself"
        raise FieldFailure(what, "bad-order", _WRONG)
    if where.nearest:
        return where, {}
    if where.is_search and order is None and mapping.sort is None:
        return where, _RELEVANCE
    return where, order


async def prepare_lists(tree: PlanTree, run: Run) -> None:
    """Reject conditions and orders that need an index which does not exist."""
    for fetch, mapping in tree.listed_fetches:
        prepared = run.prepared[id(fetch)]
        where, spec, order = prepared.where, mapping.where, mapping.order
        is_filtered = spec is not None and spec.indexed_only and bool(where.filter)
        is_ordered = order is not None and order.indexed_only and bool(prepared.order)
        if where.nearest or where.is_search or is_filtered or is_ordered:
            indexes = await run.store.stats.indexes(mapping.db, mapping.collection)
            try:
                if is_filtered and where.has_relations:
                    filter_ = await _replace_served(where.filter, run)
                    prepared = prepared._replace(where=where._replace(filter=filter_))
                far = await _find_served_fields(spec, run) if is_filtered and spec else []
                _check(fetch, mapping, prepared, indexes, far)
            except FieldFailure as failure:
                run.prepared[id(fetch)] = prepared._replace(failure=failure)


async def _replace_served(filter_: Filter, run: Run) -> Any:
    """Return the filter with conditions on keys in place of those on related documents.

    Where no index of the related collection serves a condition, it is one that none serves.
    """
    served: dict[int, Filter] = {}
    for condition in find_conditions(filter_):
        spec = condition.spec
        inner = await _replace_served(condition.filter, run)
        indexes = await run.store.stats.indexes(*spec.place) or ()
        pinned = frozenset(pinned_paths(spec.rest.source))
        is_found = is_served(inner, indexes, pinned)
        served[id(condition)] = {spec.joins[0].key: {"$in": []}} if is_found else _UNSERVED
    return replace_conditions(filter_, lambda condition: served[id(condition)])


async def _find_served_fields(spec: WhereSpec, run: Run) -> list[str]:
    """Return the declared fields of relations that an index of their collection serves."""
    names: list[str] = []
    for name, relation in spec.relations.items():
        indexes = await run.store.stats.indexes(*relation.place) or ()
        served = list_served(indexes, frozenset(pinned_paths(relation.rest.source)))
        names += [f"{name}.{key}" for key, field in relation.fields.items() if field.path in served]
    return names


def _check(
    fetch: Fetch,
    mapping: QueryMapping,
    prepared: PreparedFetch,
    stored: Sequence[Index] | None,
    far: Sequence[str],
) -> None:
    """Check the indexes; where they are not known, as of a view, none counts."""
    where, order = prepared.where, prepared.order
    indexes = stored or ()
    if stored is not None:  # else the database decides about a search or `near`
        keys = [key for index in indexes for key in index.keys]
        if where.is_search and not any(kind == "text" for _, kind in keys):
            what = "where.search: the collection has no text index"
            raise FieldFailure(what, "not-indexed", _WRONG)
        if where.nearest and (where.nearest, "2dsphere") not in keys:
            what = "where: nearestFirst needs a 2dsphere index of the field"
            raise FieldFailure(what, "not-indexed", _WRONG)
    pinned = frozenset(pinned_paths(mapping.find.decide(prepared.scope).source))
    if mapping.where is not None and mapping.where.indexed_only and where.filter:
        joined = {join.target for join in fetch.relation.joins}
        served = list_served(indexes, pinned)
        if not (
            matches_nothing(where.filter)
            or joined & served
            or is_served(where.filter, indexes, pinned)
        ):
            names = [name for name, path in _list_fields(fetch, "where") if path in served]
            names += [name for name in far if _is_visible(fetch, name)]
            what = (
                "where: every alternative needs a condition on an indexed field"
                f" (ne, nin, not, exists and contains do not count); {_name(names)}"
            )
            raise FieldFailure(what, "not-indexed", _WRONG)
    if mapping.order is not None and mapping.order.indexed_only and order and order != _RELEVANCE:
        equal = pinned.union(pinned_paths(where.filter))
        if not is_ordered_by(order, equal, indexes):
            served = list_served(indexes, equal)
            names = [name for name, path in _list_fields(fetch, "orderBy") if path in served]
            what = f"orderBy: no index has this order; {_name(names)}"
            raise FieldFailure(what, "not-indexed", _WRONG)


def _name(names: Sequence[str]) -> str:
    if not names:
        return "no field is indexed"
    shown = ", ".join(names[:_MAX_NAMED])
    return f"indexed: {shown}" + (", …" if len(names) > _MAX_NAMED else "")


def _list_fields(fetch: Fetch, argument: str) -> Iterator[tuple[str, str]]:
    """Yield name and path of each field that the caller sees in the argument."""
    mapping, given = fetch.mapping, fetch.arguments.definition.args.get(argument)
    if given is None or not isinstance(mapping, QueryMapping):
        return
    type_ = get_named_type(given.type)
    if argument == "where" and mapping.where is not None:
        yield from _list_where(mapping.where.fields, type_, "", "")
    elif mapping.order is not None:
        yield from _list_order(mapping.order.fields, type_, "")


def _is_visible(fetch: Fetch, name: str) -> bool:
    """Return whether the caller sees a field of a relation in `where`."""
    relation, field = name.split(".")
    type_: Any = get_named_type(fetch.arguments.definition.args["where"].type)
    inner: Any = get_named_type(type_.fields[relation].type) if relation in type_.fields else None
    fields = getattr(inner, "fields", {})
    if "some" in fields:
        fields = get_named_type(fields["some"].type).fields
    return field in fields


def _list_where(
    fields: Mapping[str, WhereField], type_: Any, name: str, path: str
) -> Iterator[tuple[str, str]]:
    visible = type_.fields if isinstance(type_, GraphQLInputObjectType) else {}
    for key, declared in fields.items():
        if key not in visible:
            continue
        shown, place = f"{name}{key}", f"{path}{declared.path}"
        inner: Any = get_named_type(visible[key].type)
        if declared.operators:
            yield shown, place
        if declared.is_list and declared.fields:
            inner = get_named_type(inner.fields["any"].type)
        yield from _list_where(declared.fields, inner, f"{shown}.", f"{place}.")


def _list_order(fields: Mapping[str, Any], type_: Any, name: str) -> Iterator[tuple[str, str]]:
    visible = type_.fields if isinstance(type_, GraphQLInputObjectType) else {}
    for key, declared in fields.items():
        if key in visible and isinstance(declared, str):
            yield f"{name}{key}", declared
        elif key in visible:
            yield from _list_order(declared, get_named_type(visible[key].type), f"{name}{key}.")
