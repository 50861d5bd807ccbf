"""Ties of a sort: documents with equal keys need an order, too, or pages lose and repeat them.

A sort ends with `_id` (decision 12), but not at any price: where an index serves the sort and would
not serve the longer one, the database would have to sort all documents instead of reading a few.
There the sort stays as it is, and ties come in the order of the index. That an index could serve
the sort is not enough: where the database finds the documents another way it sorts them itself, and
puts ties into another order for each page. So it is asked, and held to the index that it names.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from pymongo.errors import OperationFailure

from docgraph.exchange.data import Document
from docgraph.exchange.errors import DocgraphError
from docgraph.store.driver.portions import Take
from docgraph.store.facts import Facts, Index

__all__ = [
    "Order",
    "advise_index",
    "find_in_order",
    "find_obstacle",
    "is_served",
    "order_ties",
    "pinned_paths",
    "serves_surely",
]

Sort = Mapping[str, Any]

_ID: Final = "_id"
_NATURAL: Final = "$natural"
_BAD_VALUE: Final = 2
_KEPT: Final = 1_000  # sorts whose obstacle is remembered
# Conditions that leave one value, or a few, of which each has its own part of an index. Operators
# of templates among them: a value will stand there.
_PINNING: Final = frozenset({"$eq", "$in", "$fk", "$arg", "$var"})
_EQUAL: Final = frozenset({"$eq"})


class Order(NamedTuple):
    """The order of the documents of a query, and the index that gives it, where one is named."""

    sort: Sort
    hint: Any = None


async def find_in_order(
    facts: Facts | None,
    place: tuple[str, str],
    order: Order,
    command: Document,
    send: Callable[[Order, Take | None], Awaitable[list[Document]]],
    take: Take | None = None,
) -> list[Document]:
    """What `send` finds for `command`, in an order that is the same for every page.

    Without facts no index is asked for. `take` gets each document once, or an error is raised.
    """
    if facts is None:
        extended = Order(_extend(order.sort), order.hint) if has_ties(order.sort) else order
        return await send(extended, take)
    settled = await _settle(facts, place, order, command)
    watched = None if take is None else _Watched(take)
    try:
        return await send(settled, watched)
    except DocgraphError as error:
        is_begun = watched is not None and watched.is_begun
        if settled.hint is order.hint or is_begun or not _is_refused(error):
            raise
    facts.forget()  # an index that is gone
    return await send(Order(_extend(order.sort), order.hint), take)


class _Watched:
    """Hands documents on and remembers that: a second try would hand them on again."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self.is_begun = False

    async def __call__(self, documents: list[Document]) -> None:
        self.is_begun = True
        await self._take(documents)


async def _settle(facts: Facts, place: tuple[str, str], order: Order, command: Document) -> Order:
    if not has_ties(order.sort):
        return order
    pinned = frozenset(pinned_paths(command["filter"]))
    if find_obstacle(order.sort, pinned, await facts.indexes(*place) or ()) is None:
        return Order(_extend(order.sort), order.hint)
    asked = {**command, "sort": order.sort, **({"hint": order.hint} if order.hint else {})}
    names = await facts.sorting_indexes(place, asked)
    if names is None:
        return order
    if not names:
        return Order(_extend(order.sort), order.hint)
    (name, *others) = names
    return order if order.hint or others else Order(order.sort, name)


def _is_refused(error: DocgraphError) -> bool:
    cause = error.__cause__
    return isinstance(cause, OperationFailure) and cause.code == _BAD_VALUE


def has_ties(sort: Sort) -> bool:
    """Whether the sort is one that `_id` could be added to."""
    return bool(sort) and _ID not in sort and _NATURAL not in sort


def order_ties(sort: Sort, pinned: frozenset[str], indexes: Sequence[Index] | None) -> Sort:
    """The sort for many filters at once, of which no more is known than what they pin.

    Only an index that leads to the pinned values first is one that the database is sure to take.
    """
    leading = [index for index in indexes or () if index.keys[0][0] in pinned]
    if not has_ties(sort) or find_obstacle(sort, pinned, leading) is not None:
        return sort
    return _extend(sort)


def serves_surely(
    indexes: Sequence[Index] | None, sort: Mapping[str, Any], filter: Mapping[str, Any]
) -> bool:
    """Whether an index leads to the values of the filter first, and from there on is in order."""
    if not all(isinstance(one, int | float) for one in sort.values()):
        return False
    equal = frozenset(pinned_paths(filter, _EQUAL))
    leading = [index for index in indexes or () if index.keys[0][0] in equal]
    return any(_serves(index, sort, equal) for index in leading)


async def is_served(
    facts: Facts, place: tuple[str, str], order: Order, filter: Mapping[str, Any]
) -> bool:
    """Whether the database reads what matches in this order, and need not sort it."""
    if not order.sort or not all(isinstance(one, int | float) for one in order.sort.values()):
        return False
    indexes = await facts.indexes(*place) or ()
    if order.hint is None and serves_surely(indexes, order.sort, filter):
        return True
    pinned = frozenset(pinned_paths(filter))
    if not any(_serves(index, order.sort, pinned) for index in indexes):
        return False
    command: Document = {"find": place[1], "filter": filter, "sort": order.sort}
    if order.hint:
        command["hint"] = order.hint
    return bool(await facts.sorting_indexes(place, command))


def find_obstacle(sort: Sort, pinned: frozenset[str], indexes: Sequence[Index]) -> Index | None:
    """The index that serves the sort, where none would with `_id` at its end."""
    if not has_ties(sort) or not all(isinstance(one, int | float) for one in sort.values()):
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
    facts: Facts, place: tuple[str, str], sort: Sort, pinned: frozenset[str]
) -> str:
    """The index that would give ties of this sort an order for nothing; empty: none is needed."""
    obstacle = find_obstacle(sort, pinned, await facts.indexes(*place) or ())
    if obstacle is None or (obstacle.unique and {path for path, _ in obstacle.keys} <= {*sort}):
        return ""
    keys = {path: int(direction) for path, direction in obstacle.keys if path != _ID}
    last = list(keys.values())[-1]
    shown = ", ".join(f"{path}: {direction}" for path, direction in {**keys, _ID: last}.items())
    return f"{{{shown}}}"


def _extend(sort: Sort) -> dict[str, Any]:
    last = list(sort.values())[-1]
    is_descending = isinstance(last, int | float) and last < 0
    return {**sort, _ID: -1 if is_descending else 1}


def _serves(index: Index, sort: Sort, pinned: frozenset[str]) -> bool:
    """Whether the documents of the index come in this order, read forwards or backwards."""
    if not index.complete:
        return False
    wanted = [(path, direction) for path, direction in sort.items() if path not in pinned]
    directions: set[bool] = set()
    for path, direction in index.keys:
        if not wanted:
            break
        if not isinstance(direction, int | float):
            return False  # hashed, text, 2dsphere: no order
        if path == wanted[0][0]:
            directions.add((direction < 0) == (wanted.pop(0)[1] < 0))
        elif path not in pinned:
            return False
    return not wanted and len(directions) < 2  # noqa: PLR2004 - not both ways at once


def pinned_paths(filter: Any, pinning: frozenset[str] = _PINNING) -> Iterator[str]:
    """The properties that a filter, or the template of one, leaves few values of."""
    for key, condition in filter.items() if isinstance(filter, Mapping) else ():
        if key == "$and" and isinstance(condition, list):
            for part in condition:
                yield from pinned_paths(part, pinning)
        elif key[:1] != "$" and _is_pinning(condition, pinning):
            yield key


def _is_pinning(condition: Any, pinning: frozenset[str]) -> bool:
    if not isinstance(condition, Mapping):
        return not hasattr(condition, "pattern")
    return not any(key[:1] == "$" and key not in pinning for key in condition)
