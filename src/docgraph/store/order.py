"""Stable sort order for pagination: append `_id`, so that pages neither lose nor repeat documents.

A sort ends with `_id` (decision 12), with one exception: if an index serves the sort and would not
serve the longer one, the database would have to sort all documents instead of reading a few. Then
the sort is unchanged, and ties come in the order of the index. That an index could serve the sort
is not enough: if the database finds the documents in another way, it sorts them itself, and orders
ties differently for each page. So docgraph requests the plan, and pins the index that it names.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from pymongo.errors import OperationFailure

from docgraph.exchange.data import CollectionName, Document, Filter
from docgraph.exchange.errors import DocgraphError
from docgraph.store.collection_stats import CollectionStats, Index
from docgraph.store.driver.portions import RawTake, Take

Sort = Mapping[str, Any]

_ID: Final = "_id"
_NATURAL: Final = "$natural"
_BAD_VALUE: Final = 2
_KEPT: Final = 1_000  # sorts whose obstacle is cached
# Conditions that leave one value, or a few, of which each has its own part of an index. They
# include operators of templates: a value will replace them.
_PINNING: Final = frozenset({"$eq", "$in", "$fk", "$arg", "$var"})
_NOTHING: Final[frozenset[str]] = frozenset()
_EQUAL: Final = frozenset({"$eq"})
_SPECIAL: Final = frozenset({"text", "2dsphere"})  # for their own conditions, in no order


class Order(NamedTuple):
    """The order of the documents of a query, and the index that produces it, if one is named."""

    sort: Sort
    hint: Any = None


async def find_in_order(
    stats: CollectionStats | None,
    place: CollectionName,
    order: Order,
    command: Document,
    send: Callable[[Order, Take | None], Awaitable[list[Document]]],
    take: Take | None = None,
) -> list[Document]:
    """Return what `send` finds for `command`, in an order that is the same for every page.

    Without stats no index is used. `take` gets each document once, or an error is raised.
    """
    if stats is None:
        extended = Order(_extend(order.sort), order.hint) if has_ties(order.sort) else order
        return await send(extended, take)
    settled = await _choose_order(stats, place, order, command)
    watched = None if take is None else _Watched(take)
    try:
        return await send(settled, watched and RawTake.like(watched, watched.take))
    except DocgraphError as error:
        is_begun = watched is not None and watched.is_begun
        cause = error.__cause__
        is_refused = isinstance(cause, OperationFailure) and cause.code == _BAD_VALUE
        if settled.hint is order.hint or is_begun or not is_refused:
            raise
    stats.forget()  # the index no longer exists
    return await send(Order(_extend(order.sort), order.hint), take)


class _Watched:
    """Passes documents on, and records that: a retry would pass them on twice."""

    def __init__(self, take: Take) -> None:
        self.take = take
        self.is_begun = False

    async def __call__(self, documents: list[Document]) -> None:
        self.is_begun = True
        await self.take(documents)


async def _choose_order(
    stats: CollectionStats, place: CollectionName, order: Order, command: Document
) -> Order:
    if not has_ties(order.sort):
        return order
    pinned = frozenset(pinned_paths(filter)) if (filter := command["filter"]) else _NOTHING
    if find_obstacle(order.sort, pinned, await stats.indexes(*place) or ()) is None:
        return Order(_extend(order.sort), order.hint)
    asked = {**command, "sort": order.sort, **({"hint": order.hint} if order.hint else {})}
    names = await stats.sorting_indexes(place, asked)
    if names is None:
        return order
    if not names:
        return Order(_extend(order.sort), order.hint)
    (name, *others) = names
    return order if order.hint or others else Order(order.sort, name)


def has_ties(sort: Sort) -> bool:
    """Check if `_id` could be added to the sort."""
    return bool(sort) and _ID not in sort and _NATURAL not in sort


def order_ties(sort: Sort, pinned: frozenset[str], indexes: Sequence[Index] | None) -> Sort:
    """Return the sort for many filters together, of which only the pinned paths are known.

    The database is only certain to use an index that begins with the pinned values.
    """
    leading = [index for index in indexes or () if index.keys[0][0] in pinned]
    if not has_ties(sort) or find_obstacle(sort, pinned, leading) is not None:
        return sort
    return _extend(sort)


def serves_surely(indexes: Sequence[Index] | None, sort: Mapping[str, Any], filter: Filter) -> bool:
    """Check if an index begins with the values of the filter, and continues in this order."""
    if not _has_directions(sort):
        return False
    equal = frozenset(pinned_paths(filter, _EQUAL))
    leading = [index for index in indexes or () if index.keys[0][0] in equal]
    return any(_serves(index, sort, equal) for index in leading)


async def is_served(
    stats: CollectionStats, place: CollectionName, order: Order, filter: Filter
) -> bool:
    """Check if the database reads the matching documents in this order without sorting."""
    if not order.sort or not _has_directions(order.sort):
        return False
    indexes = await stats.indexes(*place) or ()
    if order.hint is None and serves_surely(indexes, order.sort, filter):
        return True
    pinned = frozenset(pinned_paths(filter))
    if not any(_serves(index, order.sort, pinned) for index in indexes):
        return False
    command: Document = {"find": place[1], "filter": filter, "sort": order.sort}
    if order.hint:
        command["hint"] = order.hint
    return bool(await stats.sorting_indexes(place, command))


def is_ordered_by(sort: Sort, pinned: frozenset[str], indexes: Sequence[Index]) -> bool:
    """Check if an index has the order of the sort, after the pinned paths."""
    return any(_serves(index, sort, pinned) for index in indexes)


def find_obstacle(sort: Sort, pinned: frozenset[str], indexes: Sequence[Index]) -> Index | None:
    """Return the index that serves the sort, if none would with `_id` at its end."""
    if not has_ties(sort) or not _has_directions(sort):
        return None  # no index is in the order of a score
    return _find_obstacle(tuple(sort.items()), pinned, tuple(indexes))


@lru_cache(_KEPT)
def _find_obstacle(
    sort: tuple[tuple[str, float], ...], pinned: frozenset[str], indexes: tuple[Index, ...]
) -> Index | None:
    keys = dict(sort)
    longer = _extend(keys)
    if any(_serves(index, longer, pinned) for index in indexes):
        return None
    return next((index for index in indexes if _serves(index, keys, pinned)), None)


async def advise_index(
    stats: CollectionStats, place: CollectionName, sort: Sort, pinned: frozenset[str]
) -> str:
    """Return the index that would order ties of this sort at no cost; empty: none is needed."""
    obstacle = find_obstacle(sort, pinned, await stats.indexes(*place) or ())
    if obstacle is None or (obstacle.unique and {path for path, _ in obstacle.keys} <= {*sort}):
        return ""
    keys = {path: int(direction) for path, direction in obstacle.keys if path != _ID}
    last = list(keys.values())[-1]
    shown = ", ".join(f"{path}: {direction}" for path, direction in {**keys, _ID: last}.items())
    return f"{{{shown}}}"


def _has_directions(sort: Sort) -> bool:
    return all(isinstance(direction, int | float) for direction in sort.values())


def _extend(sort: Sort) -> dict[str, Any]:
    last = list(sort.values())[-1]
    is_descending = isinstance(last, int | float) and last < 0
    return {**sort, _ID: -1 if is_descending else 1}


def _serves(index: Index, sort: Sort, pinned: frozenset[str]) -> bool:
    """Check if the index has this order, read forwards or backwards."""
    if not index.complete or any(kind in _SPECIAL for _, kind in index.keys):
        return False
    wanted = [(path, direction) for path, direction in sort.items() if path not in pinned]
    directions: set[bool] = set()
    for path, direction in index.keys:
        if not wanted:
            break
        if not isinstance(direction, int | float):
            return False  # hashed, 2d: no order
        if path == wanted[0][0]:
            directions.add((direction < 0) == (wanted.pop(0)[1] < 0))
        elif path not in pinned:
            return False
    return not wanted and len(directions) < 2  # noqa: PLR2004 - not both ways at once


def pinned_paths(filter: Any, pinning: frozenset[str] = _PINNING) -> Iterator[str]:
    """Return the properties that a filter, or its template, restricts to few values."""
    for key, condition in filter.items() if isinstance(filter, Mapping) else ():
        if key == "$and" and isinstance(condition, list):
            for part in condition:
                yield from pinned_paths(part, pinning)
        elif key[:1] != "$" and _is_pinning(condition, pinning):
            yield key


def find_alternatives(filter: Any) -> Iterator[list[Any]]:
    """Return the lists of `$or` of a filter, also those in `$and`."""
    for key, value in filter.items() if isinstance(filter, Mapping) else ():
        if key == "$or" and isinstance(value, list) and value:
            yield value
        elif key == "$and" and isinstance(value, list):
            for part in value:
                yield from find_alternatives(part)


def _is_pinning(condition: Any, pinning: frozenset[str]) -> bool:
    if not isinstance(condition, Mapping):
        return not hasattr(condition, "pattern")
    return not any(key[:1] == "$" and key not in pinning for key in condition)
