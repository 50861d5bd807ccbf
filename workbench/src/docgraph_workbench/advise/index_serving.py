"""Missing indexes (collection scans): whether an index serves the queries of apps, by `explain`.

A query without an index is not reported if few documents are scanned: in a small collection, or if
most documents match and only the first ones are needed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from docgraph import Deadline, TimeLimitExceeded
from docgraph.tools.data import (
    CollectionName,
    Index,
    QueryPlan,
    RowFilter,
    Store,
    Want,
    find_alternatives,
    find_wants,
    order_as_sent,
    pinned_paths,
    plan_query,
    run_query,
)
from docgraph_workbench.advise.accesses import RuleAccess
from docgraph_workbench.advise.advice import Weight
from docgraph_workbench.advise.collection_sample import CollectionSample
from docgraph_workbench.advise.data_findings import is_unseen
from docgraph_workbench.advise.planned_queries import PlannedQuery
from docgraph_workbench.infer.survey import SCANNED

FEW: Final = 1_000  # documents that are scanned in a negligible time
MANY: Final = 100_000  # documents that should not be scanned to find a few
_SORTED: Final = 10_000  # documents found by an index that are sorted in a negligible time
_LARGE_SHARE: Final = 0.2  # of the documents: an index that finds so many does not help
_WASTE: Final = 10  # examined documents per matching one
_SPECIAL: Final = {"$text": "text", "$near": "2dsphere", "$nearSphere": "2dsphere"}
UNKNOWN: Final = "<property>"
_EXPLAIN_MS: Final = 2_000
_TRY_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Unserved:
    """A query that no index serves; `wants` are the indexes that would, all of them needed."""

    question: PlannedQuery
    weight: Weight
    kind: str
    what: str
    wants: tuple[Want, ...] = ()


@dataclass
class Serving:
    """Explains queries; `used` are the indexes that the database would choose."""

    store: Store
    default_limit: int
    used: dict[CollectionName, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._plans: dict[str, QueryPlan] = {}

    async def check(self, question: PlannedQuery, sample: CollectionSample) -> Unserved | None:
        """Return what is wrong with a query; None if an index serves it, or none is needed."""
        size = sample.documents
        if size is not None and size < FEW and find_special_index(question.filter) is None:
            return None
        if question.reads_on:
            return _find_full_read(question, sample)
        if sample.is_series:
            return _check_series(question, sample)
        sort = _find_order(question, sample)
        if "_id" in pinned_paths(question.filter) or not (question.filter or sort):
            return None
        plan = await self._plan(question, sort)
        self.used.setdefault(question.place, set()).update(plan.indexes)
        if not plan.is_known:
            return None
        is_walk = plan.is_scan or plan.reads_whole_index
        if is_walk and question.filter:
            return self._check_scan(question, sample, plan)
        if plan.sorts:
            return await self._check_sort(question, sample)
        if question.filter and not is_walk:
            return await self._check_waste(question, sample, sort, plan)
        return None

    async def _plan(self, question: PlannedQuery, sort: Mapping[str, Any]) -> QueryPlan:
        """Return the database's plan; cached for equal queries of other fields."""
        key = repr((question.place, question.filter, sort))
        plan = self._plans.get(key)
        if plan is None:
            deadline = Deadline.after_ms(_EXPLAIN_MS)
            plan = await plan_query(self.store, question.place, question.filter, sort, deadline)
            self._plans[key] = plan
        return plan

    def _check_scan(
        self, question: PlannedQuery, sample: CollectionSample, plan: QueryPlan
    ) -> Unserved | None:
        share = _estimate_share(question.filter, sample)
        if share is not None and share >= _LARGE_SHARE and not plan.sorts:
            return None  # matching documents are found soon
        if share is not None and share >= _LARGE_SHARE and question.options:
            return None
        wants = _find_wants(question, sample, is_scan=True)
        number = "" if sample.documents is None else f" {sample.documents}"
        way = "" if plan.is_scan else f" by the index {', '.join(plan.indexes)}"
        what = f"goes through all{number} documents of {sample.name}{way}{question.condition}"
        if not wants:
            text = f"{what}: no index could serve such a condition"
            return Unserved(question, Weight.NOTE, "no-index-possible", text)
        return Unserved(question, _weigh(question, sample, wants), "no-index", what, wants)

    async def _check_sort(
        self, question: PlannedQuery, sample: CollectionSample
    ) -> Unserved | None:
        count = sample.documents
        if question.filter:
            count = await self._count(question)
        if count is not None and count <= (_SORTED if question.filter else FEW):
            return None
        number = "all" if not question.filter else f"more than {_SORTED}"
        what = f"sorts {number} documents of {sample.name} in memory{question.condition}"
        wants = _find_wants(question, sample)
        return Unserved(question, _weigh(question, sample, wants), "sorts-in-memory", what, wants)

    async def _count(self, question: PlannedQuery) -> int | None:
        deadline = Deadline.after_ms(_TRY_MS)
        try:
            return await self.store.reads.count(
                *question.place, question.filter, limit=_SORTED + 1, deadline=deadline
            )
        except TimeLimitExceeded:
            return None

    async def _check_waste(
        self,
        question: PlannedQuery,
        sample: CollectionSample,
        sort: Mapping[str, Any],
        plan: QueryPlan,
    ) -> Unserved | None:
        """Return a finding if the index leads to many documents that do not match."""
        used = [index for index in sample.indexes if index.name in plan.indexes]
        covered = {path for index in used for path, _ in index.index.keys}
        wants = _find_wants(question, sample)
        if not used or all(want.equal <= covered for want in wants):
            return None
        names = ", ".join(plan.indexes)
        what = f"the index {names} leads to many documents that do not match{question.condition}"
        weight = _weigh(question, sample, wants)
        try:
            took = await run_query(
                self.store,
                question.place,
                question.filter,
                sort,
                limit=self.default_limit,
                deadline=Deadline.after_ms(_TRY_MS),
            )
        except TimeLimitExceeded:
            return Unserved(question, weight, "wasteful-index", what, wants)
        if took.documents <= FEW or took.documents <= took.returned * _WASTE:
            return None
        text = f"{what}: to {took.documents} for {took.returned} that do"
        return Unserved(question, weight, "wasteful-index", text, wants)


def _check_series(question: PlannedQuery, sample: CollectionSample) -> Unserved | None:
    """Return a finding if a query reads all buckets of a time series: explain shows no index.

    Buckets are stored in the order of their time, and have the smallest and the largest value of
    each measured property: an index on one of those leads to many buckets.
    """
    listed = sample.listed
    wants = find_wants(question.filter, {}, sample.find_array)
    if listed is None or not wants:
        return None
    time, meta = listed.time_field, listed.meta_field
    heads = {index.keys[0][0] for index in sample.plain_indexes if index.complete}
    paths = [path for want in wants for path in (*want.equal, *want.ranges)]
    if time in paths or not heads.isdisjoint(paths):
        return None
    number = "" if sample.documents is None else f" of {sample.documents} documents"
    what = f"goes through all buckets{number} of {sample.name}{question.condition}"
    first = [path for path in paths if meta and (path == meta or path.startswith(f"{meta}."))]
    if not first:
        place = f"its meta field {meta}" if meta else "a meta field, which it does not have"
        text = f"{what}: an index finds buckets by its time field {time} and by {place}"
        return Unserved(question, Weight.NOTE, "no-index-possible", text)
    want = Want(frozenset(first), ((time, 1),))
    return Unserved(question, _weigh(question, sample, (want,)), "no-index", what, (want,))


def find_special_index(filter_: Any, path: str = UNKNOWN) -> dict[str, str] | None:
    """Return the keys of the index that the database requires for such a filter."""
    if isinstance(filter_, list):
        specials = (find_special_index(part) for part in filter_)
        return next((keys for keys in specials if keys is not None), None)
    for key, value in filter_.items() if isinstance(filter_, Mapping) else ():
        if key in _SPECIAL:
            is_flat = key == "$near" and isinstance(value, list)  # a point on a plane
            return {path: "2d" if is_flat else _SPECIAL[key]}
        keys = find_special_index(value, path if key.startswith("$") else key)
        if keys is not None:
            return keys
    return None


def _weigh(question: PlannedQuery, sample: CollectionSample, wants: Sequence[Want]) -> Weight:
    """Weigh optional queries less than those that are always sent, if a scan is acceptable.

    A selective index is worth it sooner than one by ranges or for a sort.
    """
    size = sample.documents
    if not question.options or size is None:
        return Weight.WARNING
    paths = [path for want in wants for path in want.equal]
    is_precise = any(sample.is_selective(path, FEW) for path in paths)
    return Weight.WARNING if size >= (MANY if is_precise else SCANNED) else Weight.NOTE


def _find_full_read(question: PlannedQuery, sample: CollectionSample) -> Unserved | None:
    if sample.documents is None or sample.documents < MANY:
        return None
    all_ = f"all {sample.documents} documents of {sample.name}"
    text = f"goes through {all_}: its first stage is no $match"
    return Unserved(question, Weight.NOTE, "reads-everything", text)


def _find_order(question: PlannedQuery, sample: CollectionSample) -> Mapping[str, Any]:
    """Return the sort as it is sent: with `_id` at its end, unless that prevents an index."""
    sort = question.sort
    if not sort or question.part != "find":
        return sort
    is_root = question.access.is_root
    return order_as_sent(question.filter, sort, sample.plain_indexes, is_root=is_root)


def _find_wants(
    question: PlannedQuery, sample: CollectionSample, *, is_scan: bool = False
) -> tuple[Want, ...]:
    """Return the indexes that would serve the query, also with `_id` at the end of its sort."""
    sort = question.sort
    if question.part == "find":
        sort = order_as_sent(question.filter, sort, (), is_root=False)
    return tuple(find_wants(question.filter, sort, sample.find_array, is_scan=is_scan))


def _estimate_share(filter_: Mapping[str, Any], sample: CollectionSample) -> float | None:
    """Return the estimated share of matching documents, by the most selective condition."""
    shares = [
        share
        for path, condition in _list_conditions(filter_)
        if (share := _find_share(path, condition, sample)) is not None
    ]
    return min(shares, default=None)


def _list_conditions(filter_: Any) -> list[tuple[str, Any]]:
    conditions: list[tuple[str, Any]] = []
    for key, value in filter_.items() if isinstance(filter_, Mapping) else ():
        if key == "$and" and isinstance(value, list):
            conditions += [condition for part in value for condition in _list_conditions(part)]
        elif key[:1] != "$":
            conditions.append((key, value))
    return conditions


def _find_share(path: str, condition: Any, sample: CollectionSample) -> float | None:
    values = [condition]
    if isinstance(condition, Mapping):
        values = condition.get("$in", [condition["$eq"]] if "$eq" in condition else [])
    if not isinstance(values, list) or not values or not sample.profile.documents:
        return None
    seen = sample.find_seen(path)
    leaf = seen.elements or seen if seen is not None else None
    if leaf is None or not all(isinstance(value, Hashable) for value in values):
        return None
    return sum(leaf.values.get(value, 0) for value in values) / sample.profile.documents


def find_unserved_rows(
    rows: Iterable[RowFilter], samples: Mapping[CollectionName, CollectionSample]
) -> Iterator[Unserved]:
    """Yield the row filters that make requests scan rows of other callers."""
    for row in rows:
        sample = samples.get(row.place)
        if sample is None or not sample.is_indexed or (sample.documents or 0) < FEW:
            continue
        missing = find_unindexed(row.filter, sample.plain_indexes)
        if not missing or any(is_unseen(path, sample) for _, paths in missing for path in paths):
            continue
        wants = tuple(
            replace(want, ranges=())
            for branch, _ in missing
            for want in find_wants(branch, {}, sample.find_array)
        )
        names = ", and none with ".join(" or ".join(paths) for _, paths in missing)
        what = (
            f"no index of {sample.name} begins with {names}: requests under this row filter may go "
            f"through all {sample.documents} documents"
        )
        question = PlannedQuery(RuleAccess(row.rule), row.place, row.filter, part=row.part)
        yield Unserved(question, Weight.WARNING, "no-row-filter-index", what, wants)


def find_unindexed(
    filter: Mapping[str, Any], indexes: Iterable[Index]
) -> list[tuple[Mapping[str, Any], list[str]]]:
    """Return the branches of a filter that no index serves, each with its fixed properties.

    Return nothing if a branch fixes no property by `$eq` or `$in`: no index could serve it.
    """
    leading = [index.keys[0] for index in indexes if index.complete]
    first = {path for path, order in leading if order == "hashed" or not isinstance(order, str)}
    branches = list(_find_branches(filter))
    if not all(paths for _, paths in branches):
        return []
    return [(branch, paths) for branch, paths in branches if first.isdisjoint(paths)]


def _find_branches(filter: Any) -> Iterator[tuple[Mapping[str, Any], list[str]]]:
    """Return the alternatives of a filter; one that fixes a property does not need its `$or`."""
    paths = list(dict.fromkeys(pinned_paths(filter)))
    alternatives = None if paths else next(find_alternatives(filter), None)
    if alternatives is None:
        yield filter, paths
        return
    for alternative in alternatives:
        yield from _find_branches(alternative)
