"""Planned queries: the filters and sorts that a field may send, with values from the data.

First with the arguments that are always given, then with each optional part. The value is the most
frequent one of the sample: if a scan is acceptable for it, it is for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from bson import Binary, Decimal128, Int64, ObjectId
from graphql import GraphQLEnumType, get_named_type, get_nullable_type, is_list_type

from docgraph import DocgraphError
from docgraph.tools.apps import (
    ORDERED,
    AggregationMapping,
    GroupMapping,
    QueryMapping,
    RelationSpec,
    Scope,
    build_query,
    build_scope,
    combine,
    matches_nothing,
)
from docgraph.tools.data import CollectionName, find_reference
from docgraph_workbench.advise.accesses import (
    SORT,
    Access,
    RuleAccess,
    Spot,
    find_groups,
    find_spots,
)

Guess = Callable[[CollectionName, str], Any]
"""A value that a property of a collection often has; None: none was seen."""

_MAX_GROUPS: Final = 24  # optional parts of one field that are explained
_LISTS: Final = frozenset({"$in", "$nin", "$all"})
_COMPARING: Final = frozenset({"$eq", "$ne", "$gt", "$gte", "$lt", "$lte"}) | _LISTS
_EQUAL_TO: Final = frozenset({"eq", "in", "has", "any"})
_RANGED: Final = frozenset({"lt", "lte", "gt", "gte", "prefix"})
_FINDING: Final = frozenset({"$geoNear", "$search", "$vectorSearch", "$documents"})
_BOUNDING: Final = frozenset({"$limit", "$sample", "$count"})
_BY_TYPE: Final[Mapping[str, Any]] = {
    "Int": 1,
    "Long": Int64(1),
    "Float": 1.0,
    "Boolean": True,
    "ObjectId": ObjectId("000000000000000000000000"),
    "DateTime": datetime(2020, 1, 1),
    "Decimal128": Decimal128("1"),
    "UUID": Binary(bytes(16), 4),
    "String": "x",
    "ID": "x",
}


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A query that a field may send; `options` are the arguments that are given.

    `reads_on`: all documents are scanned, as nothing bounds them.
    """

    access: Access | RuleAccess
    place: CollectionName
    filter: Mapping[str, Any]
    sort: Mapping[str, Any] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    part: str = "find"
    reads_on: bool = False

    @property
    def where(self) -> str:
        """The path in the definition."""
        mark = ": " if isinstance(self.access, RuleAccess) else "."
        return f"{self.access.where}{mark}{self.part}"

    @property
    def name(self) -> str:
        """The path with its app, and when the query is sent."""
        app = f"{self.access.app_id}: " if self.access.app_id else ""
        return f"{app}{self.where}{self.condition}"

    @property
    def condition(self) -> str:
        """When the query is sent."""
        if not self.options:
            return ""
        return f" when {', '.join(self.options)} {'is' if len(self.options) == 1 else 'are'} given"


def find_questions(access: Access, guess: Guess) -> Iterator[PlannedQuery | DocgraphError]:
    """Yield the queries of a field; an error in place of one that could not be built."""
    values = _Values(access, guess)
    for names in ((), *find_groups(access)[:_MAX_GROUPS]):
        try:
            yield from _plan_queries(access, values.fill(names), names, guess)
        except DocgraphError as error:
            yield error


def _plan_queries(
    access: Access, scope: Scope, names: tuple[str, ...], guess: Guess
) -> Iterator[PlannedQuery]:
    mapping = access.mapping
    if isinstance(mapping, AggregationMapping):
        stages = mapping.stages.render(scope)
        yield from _plan_stages(access, stages, names)
        for number, stage in enumerate(stages):
            yield from _plan_joined(
                PlannedQuery(access, access.place, {}, {}, names), stage, number, guess
            )
        return
    built = build_query(mapping, scope)
    if built.is_empty or not isinstance(built.filter, Mapping):
        return
    planned = PlannedQuery(access, access.place, built.filter, built.sort, names)
    yield planned
    if not names:
        yield from _plan_lists(planned, mapping, guess)


def _plan_lists(
    planned: PlannedQuery, mapping: QueryMapping, guess: Guess
) -> Iterator[PlannedQuery]:
    """Yield the query with each of the conditions and orders that callers may add."""
    fields = [] if mapping.where is None else list(_list_paths(mapping.where.fields))
    for name, path, operators in fields[:_MAX_GROUPS]:
        value = guess(planned.place, path)
        if operators & _EQUAL_TO:
            condition: Any = {"$eq": value}
        elif operators & _RANGED:
            condition = {"$gte": value}
        else:
            continue  # no ordinary index serves it
        filter_ = combine([planned.filter, {path: condition}])
        yield replace(planned, filter=filter_, options=(f"where.{name}",))
    if mapping.where is not None:
        yield from _plan_related(planned, mapping.where.relations, "where", guess)
    orders = [] if mapping.order is None else list(_list_orders(mapping.order.fields))
    for name, path in orders[:_MAX_GROUPS]:
        yield replace(planned, sort={path: 1}, options=(f"orderBy.{name}",))


def _plan_related(
    near: PlannedQuery, relations: Mapping[str, RelationSpec], option: str, guess: Guess
) -> Iterator[PlannedQuery]:
    """Yield the queries of conditions on related documents: of their keys, and by these keys."""
    for name, spec in relations.items():
        options = (f"{option}.{name}",)
        key = {spec.joins[0].key: {"$in": [guess(near.place, spec.joins[0].key)]}}
        yield replace(near, filter=combine([near.filter, key]), options=options)
        rest = {} if spec.rest.names else spec.rest.source
        far = replace(near, place=spec.place, filter=rest, sort={}, options=options)
        for inner, path, operators in _list_paths(spec.fields):
            if operators & (_EQUAL_TO | _RANGED):
                condition = {path: {"$eq": guess(spec.place, path)}}
                named = (f"{option}.{name}.{inner}",)
                yield replace(far, filter=combine([rest, condition]), options=named)
        yield from _plan_related(far, spec.relations, options[0], guess)


def _plan_stages(
    access: Access, stages: Sequence[Mapping[str, Any]], names: tuple[str, ...]
) -> Iterator[PlannedQuery]:
    filters: list[Any] = []
    rest = list(stages)
    while rest and "$match" in rest[0]:
        filters.append(rest.pop(0)["$match"])
    sort = rest[0][SORT] if rest and SORT in rest[0] else {}
    first = next(iter(rest[0]), "") if rest else ""
    if first not in _FINDING and not any(map(matches_nothing, filters)):
        filter_ = filters[0] if len(filters) == 1 else {"$and": filters} if filters else {}
        reads_on = not filter_ and not sort and first not in _BOUNDING
        part = "find" if isinstance(access.mapping, GroupMapping) else "stages"
        yield PlannedQuery(access, access.place, filter_, sort, names, part, reads_on)


def _plan_joined(
    asked: PlannedQuery, stage: Mapping[str, Any], number: int, guess: Guess
) -> Iterator[PlannedQuery]:
    """Yield the queries that `$lookup` and `$graphLookup` send to other collections."""
    for name, key in (("$lookup", "foreignField"), ("$graphLookup", "connectToField")):
        body = stage.get(name)
        if not isinstance(body, Mapping) or not isinstance(body.get(key), str):
            continue
        reference = find_reference(name, body, asked.place[0])
        if reference is not None:
            place = (reference.db, reference.collection)
            filter_ = {body[key]: {"$in": [guess(place, body[key])]}}
            part = f"stages[{number}].{name}"
            yield replace(asked, place=place, filter=filter_, part=part)


class _Values:
    """Sample values for the arguments and keys of a mapping."""

    def __init__(self, access: Access, guess: Guess) -> None:
        self._access = access
        self._guess = guess
        self._spots = list(_find_all_spots(access))
        self._optional = {name for names in find_groups(access) for name in names}

    def fill(self, given: tuple[str, ...]) -> Scope:
        """Return a scope with everything that is always given, and these optional names."""
        left_out = self._optional.difference(given)
        named = [spot for spot in self._spots if not spot.is_key and spot.name not in left_out]
        keys = [spot for spot in self._spots if spot.is_key]
        return build_scope(
            [(spot.name, self._find_value(spot)) for spot in named],
            [(spot.name, self._find_value(spot)) for spot in keys],
            given,
        )

    def _find_value(self, spot: Spot) -> Any:
        value = None
        if spot.path and spot.operator in _COMPARING:
            value = self._guess(self._access.place, spot.path)
        if value is None:
            return self._find_by_type(spot)
        argument = self._access.field.args.get(spot.name)
        is_list = argument is not None and is_list_type(get_nullable_type(argument.type))
        return [value] if spot.operator in _LISTS or is_list else value

    def _find_by_type(self, spot: Spot) -> Any:
        """Return a value that the argument may have; an id if there is no argument."""
        argument = self._access.field.args.get(spot.name)
        if argument is None:
            id = _BY_TYPE["ObjectId"]
            return [id] if spot.operator in _LISTS else id
        named = get_named_type(argument.type)
        value: Any = _BY_TYPE.get(named.name, {})
        if isinstance(named, GraphQLEnumType):
            stored = list(self._access.app.enums[named.name].stored.values())
            value = stored[0] if stored else "x"
        elif spot.operator == SORT and spot.path:
            value = 1
        return [value] if is_list_type(get_nullable_type(argument.type)) else value


def _find_all_spots(access: Access) -> Iterator[Spot]:
    mapping = access.mapping
    if isinstance(mapping, AggregationMapping):
        yield from find_spots(mapping.stages.source)
        return
    yield from find_spots(mapping.find.source)
    if mapping.sort is not None:
        yield from find_spots(mapping.sort.source, operator=SORT)


def _list_paths(
    fields: Mapping[str, Any], name: str = "", path: str = ""
) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield name, path and operators of each field that has some."""
    for key, filterable in fields.items():
        if filterable.operators:
            yield f"{name}{key}", f"{path}{filterable.path}", filterable.operators
        yield from _list_paths(filterable.fields, f"{name}{key}.", f"{path}{filterable.path}.")


def _list_orders(fields: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, str]]:
    """Yield name and path of each field."""
    for key, order in fields.items():
        if isinstance(order, str):
            if not order.startswith(ORDERED):  # no index has values of related documents
                yield f"{name}{key}", order
        else:
            yield from _list_orders(order, f"{name}{key}.")
