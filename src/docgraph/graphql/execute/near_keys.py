"""Keys of near documents: the conditions and stages that relate them to those of a relation.

Documents are related as their field shows it: a null is no key, an array is compared as a whole
unless the mapping has `$in`, and a stored array of the relation is compared by its elements, too.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import product
from typing import Any, Final

from docgraph.codec.equality import SINGLE_TYPES, equality_key, reach_values
from docgraph.exchange import Document
from docgraph.exchange.data import Filter, Stages
from docgraph.graphql.conditions import combine, match_any
from docgraph.graphql.joins import Join
from docgraph.graphql.list_conditions import match_element, match_no_array
from docgraph.graphql.related import COUNTED, RelationSpec
from docgraph.variables import MATCH_NOTHING

Key = tuple[Any, ...]  # a value for each join

MAX_BRANCHES: Final = 1_000  # alternatives of one condition
_KEY: Final = "_docgraph_k"
_FOUND: Final = "_docgraph_r"
_WITHOUT_TEXT: Final = SINGLE_TYPES - {str}


def read_keys(joins: Sequence[Join], documents: Sequence[Document]) -> list[Key]:
    """Return the distinct keys that near documents of these related ones have."""
    keys: dict[Hashable, Key] = {}
    for document in documents:
        values = [reach_values(document, join.path) for join in joins]
        for key in product(*([value for value in each if value is not None] for each in values)):
            keys.setdefault(tuple(map(equality_key, key)), key)
    return list(keys.values())


def has_texts(keys: Sequence[Key]) -> bool:
    """Return whether a collation could compare some of the values."""
    return any(not _WITHOUT_TEXT.issuperset(map(type, key)) for key in keys)


def match_keys(joins: Sequence[Join], keys: Sequence[Key]) -> Filter | None:
    """Return the condition that a near document has one of these keys; None: it is too long."""
    if not keys:
        return MATCH_NOTHING
    if len(joins) == 1:
        return _match_key(joins[0], [value for (value,) in keys])
    groups: dict[Hashable, list[Key]] = {}
    for key in keys:
        groups.setdefault(equality_key(key[0]), []).append(key)
    if len(groups) > MAX_BRANCHES:
        return None
    branches: list[Filter] = []
    for group in groups.values():
        first = _match_key(joins[0], [group[0][0]])
        others = match_keys(joins[1:], [key[1:] for key in group])
        if first is None or others is None:
            return None
        branches.append(combine([first, others]))
    return _join_or(branches)


def _match_key(join: Join, values: Sequence[Any]) -> Filter | None:
    path, branches = join.key, list[Filter]()
    single = [value for value in values if type(value) is not list]
    arrays = [value for value in values if type(value) is list]
    if len(arrays) > MAX_BRANCHES:
        return None
    if single and join.many and "." not in path:
        branches.append(match_any(path, single))
    elif single:
        if join.many:
            branches.append(match_element("", path, single))
        bare = [] if path == "_id" else match_no_array(path)
        branches.append(combine([match_any(path, single), *bare]))
    if arrays and join.many:
        branches.append({path: {"$elemMatch": {"$in": arrays}}})
    else:
        branches += [{path: {"$eq": a, "$not": {"$elemMatch": {"$eq": a}}}} for a in arrays]
    return _join_or(branches)


def _join_or(branches: list[Filter]) -> Filter:
    return branches[0] if len(branches) == 1 else {"$or": branches}


def is_countable(spec: RelationSpec) -> bool:
    """Return whether the related documents can be counted by the value that they are joined by."""
    (join, *others) = spec.joins
    return not others and not join.many and len(join.path) == 1


def group_keys(spec: RelationSpec) -> list[Document]:
    """Return the stages that leave what the keys of near documents are compared with."""
    targets = [join.target for join in spec.joins]
    if any("." in target for target in targets):
        return [{"$project": {"_id": 0, **dict.fromkeys(targets, 1)}}]
    if "_id" in targets:  # there is nothing to group
        return [{"$project": dict.fromkeys(targets, 1)}]
    if len(targets) == 1:
        return [{"$group": {"_id": f"${targets[0]}"}}, {"$project": {"_id": 0, targets[0]: "$_id"}}]
    group = {f"k{place}": f"${target}" for place, target in enumerate(targets)}
    shown = {target: f"$_id.k{place}" for place, target in enumerate(targets)}
    return [{"$group": {"_id": group}}, {"$project": {"_id": 0, **shown}}]


def count_by_key(spec: RelationSpec) -> list[Document]:
    """Return the stages that count related documents by key: the key as `_id`, the number."""
    return [*spread_counts(spec), {"$group": {"_id": "$_id", COUNTED: {"$sum": f"${COUNTED}"}}}]


def spread_counts(spec: RelationSpec, name: str = COUNTED) -> list[Document]:
    """Return the same stages, with several numbers (`name`) for a key that arrays have."""
    (join,) = spec.joins
    distinct = {"$setUnion": [{"$concatArrays": ["$_id", ["$_id"]]}, []]}
    keys = {"$filter": {"input": distinct, "cond": {"$not": [_is_null("$$this")]}}}
    return [
        {"$group": {"_id": f"${join.target}", name: {"$sum": 1}}},
        {"$set": {"_id": {"$cond": [{"$isArray": "$_id"}, keys, "$_id"]}}},
        {"$unwind": "$_id"},  # null and missing values are no keys
    ]


def list_key(join: Join) -> Document:
    """Return the expression for the list of values that related documents may have."""
    value = f"${join.key}"
    single = {"$cond": [_is_null(value), [], [value]]}
    if not join.many:
        return single
    elements = {"$filter": {"input": value, "cond": {"$not": [_is_null("$$this")]}}}
    return {"$cond": [{"$isArray": value}, elements, single]}


def build_lookup(number: int, spec: RelationSpec, inner: Stages) -> tuple[list[Document], Filter]:
    """Return the stages that look related documents up, and the condition that there are any.

    Without a key nothing is related, though `$lookup` finds missing values then.
    """
    names = [f"{_KEY}{number}_{place}" for place in range(len(spec.joins))]
    lookup: Document = {
        "from": spec.place[1],
        "localField": names[0],
        "foreignField": spec.joins[0].target,
        "pipeline": [*match_others(spec.joins[1:]), *inner],
        "as": f"{_FOUND}{number}",
    }
    if len(names) > 1:
        lookup["let"] = {f"k{place}": f"${name}" for place, name in enumerate(names[1:])}
    keys = {name: list_key(join) for name, join in zip(names, spec.joins, strict=True)}
    present = {name: {"$not": {"$size": 0}} for name in (*names, lookup["as"])}
    return [{"$set": keys}, {"$lookup": lookup}], present


def match_others(joins: Sequence[Join]) -> list[Document]:
    """Return the stage that compares the other keys, `k0` and so on, with those of `$lookup`."""
    equal = [
        {"$gt": [{"$size": {"$setIntersection": [_list_candidates(j.target), f"$$k{n}"]}}, 0]}
        for n, j in enumerate(joins)
    ]
    return [{"$match": {"$expr": {"$and": equal}}}] if equal else []


def _list_candidates(path: str) -> Document:
    """Return the expression for all values that an equality compares with."""
    value = f"${path}"
    return {"$cond": [{"$isArray": value}, {"$concatArrays": [value, [value]]}, [value]]}


def _is_null(value: str) -> Mapping[str, Any]:
    return {"$eq": [{"$ifNull": [value, None]}, None]}
