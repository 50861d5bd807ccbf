"""Fenced find: a `find` under a row filter as a pipeline; and indexes that row filters need.

The pipeline returns the same documents in the same order. Queries that need no fence stay a `find`.

A pipeline cannot do everything that `find` does. It has no projections such as `$elemMatch`,
`$slice`, `items.$` and `$meta` next to all other properties, and no sort keys of a `$sort` behind
the fence. In these cases it finds the ids, and a `find` by these ids reads the documents.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from docgraph.exchange.data import CollectionName, Document, Filter, Stages
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import NotSupported
from docgraph.store.collection_stats import BY_BYTES, MISSING, CollectionStats
from docgraph.store.driver.lenient_decode import encode_bson
from docgraph.store.driver.portions import Take, hand_over
from docgraph.store.find import build_aggregate, build_find, check_skip
from docgraph.store.guard.fence import (
    FENCE,
    UNKNOWN,
    FilterParts,
    Ground,
    find_unsafe,
    holds_unsafe,
)
from docgraph.store.guard.shield import Shield, reject, shows_storage
from docgraph.store.guard.stage_checks import has_key
from docgraph.store.names import namespace_of
from docgraph.store.order import Order, is_served, serves_surely

Send = Callable[[Document, Take | None], Awaitable[list[Document]]]

_ID: Final = "_id"
_NATURAL: Final = "$natural"
_FIND_ONLY: Final = frozenset({"$slice", "$elemmatch"})  # in lower case, as `has_key` expects them


async def restrict(
    stats: CollectionStats,
    shield: Shield,
    place: CollectionName,
    filter: Filter,
    projection: Mapping[str, Any] | None = None,
) -> FilterParts:
    """Return the filter with the caller's row filter, and with a fence if it needs one."""
    if not shield.rows:  # as nearly always
        return FilterParts(filter)
    namespace = namespace_of(*place)
    is_restricted = bool(shield.rows.get(namespace))
    if is_restricted and shows_storage(projection):
        raise reject("the projection")
    if not is_restricted or find_unsafe(filter) is None:
        return shield.restrict(namespace, filter)
    ground = await _find_ground(stats, place)
    return shield.restrict(namespace, filter, by_bytes=ground.by_bytes)


async def find_grounds(
    stats: CollectionStats, shield: Shield, places: Sequence[CollectionName], pipeline: Stages
) -> dict[str, Ground]:
    """Load the grounds of collections with row filters, if the pipeline needs a fence."""
    if not shield.rows or not any(map(holds_unsafe, pipeline)):
        return {}
    return {
        namespace: await _find_ground(stats, place)
        for place in dict.fromkeys(places)
        if (namespace := namespace_of(*place)) in shield.rows
    }


async def check_collations(
    stats: CollectionStats, shield: Shield, places: Sequence[CollectionName], deadline: Deadline
) -> None:
    """Reject a pipeline that would compare a row filter by another collation than a `find` does.

    The collation of its first collection applies to all `places` that it reads.
    """
    for other in dict.fromkeys(places):
        if other == places[0] or not shield.rows.get(namespace_of(*other)):
            continue
        first = await stats.collation(*places[0], deadline)
        second = await stats.collation(*other, deadline)
        if first == MISSING:
            first = BY_BYTES  # it has no documents, but `$unionWith` adds others
        if first is None or second not in {first, MISSING}:
            raise NotSupported(
                "a row filter cannot be applied to a collection with another collation than that "
                "of the collection that the pipeline begins with",
                hint="give both collections the same collation",
            )


async def _find_ground(stats: CollectionStats, place: CollectionName) -> Ground:
    indexes = await stats.indexes(*place)
    if indexes is None:
        return UNKNOWN
    # The index of `_id` always has the collation of the collection.
    by_bytes = any(index.keys == ((_ID, 1),) and index.complete for index in indexes)
    return Ground(by_bytes, partial(serves_surely, indexes))


@dataclass(frozen=True)
class FencedFind:
    """A `find` of one caller with a part behind the fence; `send` sends a command."""

    _place: CollectionName
    _parts: FilterParts
    _projection: Mapping[str, Any]
    _skip: int
    _limit: int
    _comment: Any

    async def run(
        self, send: Send, stats: CollectionStats | None, order: Order, take: Take | None
    ) -> list[Document]:
        """Return the documents in this order; without stats no index is used."""
        served = stats is not None and await is_served(stats, self._place, order, self._parts.front)
        needs_find = _is_find_only(self._projection) or (
            not served and _has_sort_key(self._projection)
        )
        shown = {_ID: 1} if needs_find else self._projection
        command = self._build(order, served, shown)
        if not needs_find:
            return await send(command, take)
        ids = [document[_ID] for document in await send(command, None) if _ID in document]
        documents = await self._read(ids, order, send) if ids else []
        return await hand_over(documents, take)

    def _build(self, order: Order, served: bool, projection: Mapping[str, Any]) -> Document:
        """Return the pipeline; if no index serves the order, it sorts what passed the fence."""
        hint, sort = order.hint, dict(order.sort)
        if _NATURAL in sort and hint in (None, sort):  # the database rejects both together
            hint, sort = sort, {}
        stages = self._parts.stages
        if sort:
            stages.insert(stages.index(FENCE) if served else len(stages), {"$sort": sort})
        if self._skip:
            check_skip(self._skip)
            stages.append({"$skip": self._skip})
        stages.append({"$limit": self._limit})
        if projection:
            stages.append({"$project": projection})
        command = build_aggregate(self._place[1], stages, limit=self._limit, comment=self._comment)
        return {**command, "hint": hint} if hint else command

    async def _read(self, ids: list[Any], order: Order, send: Send) -> list[Document]:
        """Return the documents with these ids, in order, if they still match the safe part."""
        conditions = [self._parts.front, {_ID: {"$in": ids}}]
        options: Document = {"comment": self._comment}
        if _is_positional(self._projection):
            # Which element matches depends on all conditions. They see no documents but these.
            conditions.append(self._parts.behind)
            options["hint"] = {_ID: 1}
        if _has_sort_key(self._projection):
            options["sort"] = order.sort
        hides_id = _ID in self._projection and not self._projection[_ID]
        options["projection"] = {
            path: shown for path, shown in self._projection.items() if path != _ID or not hides_id
        }
        command = build_find(self._place[1], {"$and": conditions}, limit=len(ids), options=options)
        by_key = {_key_of(document[_ID]): document for document in await send(command, None)}
        documents = [by_key[key] for key in map(_key_of, ids) if key in by_key]
        if hides_id:
            for document in documents:
                del document[_ID]
        return documents


def _is_find_only(projection: Mapping[str, Any]) -> bool:
    if has_key(projection, _FIND_ONLY) or _is_positional(projection):
        return True
    # `$meta` is added to documents that retain the rest.
    values = [value for path, value in projection.items() if path != _ID]
    kept = [value for value in values if not (isinstance(value, Mapping) and "$meta" in value)]
    return len(kept) < len(values) and not any(kept)


def _is_positional(projection: Mapping[str, Any]) -> bool:
    return any(path.endswith(".$") for path in projection)


def _has_sort_key(projection: Mapping[str, Any]) -> bool:
    values = projection.values()
    return any(isinstance(value, Mapping) and value.get("$meta") == "sortKey" for value in values)


def _key_of(id: Any) -> bytes:
    """Return a hashable key for an id: an id that is a document is not hashable."""
    return encode_bson({_ID: id})


class RowFilter(NamedTuple):
    """A filter of a rule for the rows of a collection, as it is written; `part` names it.

    Each needs an index that begins with a property of the filter. With such an index a request
    under the filter examines the caller's rows, and not those of others.
    """

    place: CollectionName
    rule: str
    part: str
    filter: Filter
