"""What `projectResponse` hides cannot be asked for either.

A filter, an order or a renaming on a hidden property answers questions about it just as a read
would: by the number of matches, by their order, under another name. Requests that try are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from docgraph.codec import decode
from docgraph.exchange import Request, Write
from docgraph.exchange.errors import RequestError, SecurityViolation

__all__ = ["check_copies", "is_shown", "uses_hidden"]

_FILTERS: Final = ("filter", "shardkey")
_ORDERS: Final = ("sort", "sort_by", "hint")
_LOGICAL: Final = frozenset({"$and", "$or", "$nor"})
_HARMLESS: Final = frozenset({"$comment"})
_PLAIN: Final = frozenset({"$slice", "$elemMatch"})
_ALWAYS: Final = frozenset({"_id", "$natural"})  # who has a document's path has its id


def uses_hidden(request: Request, shown: Mapping[str, int]) -> bool:
    """Whether the parameters of the request use a property that is not shown."""
    query = request.query
    try:
        filters = [decode(text) for name in _FILTERS for text in query.get_list(name)]
        orders = [
            path for name in _ORDERS for text in query.get_list(name) for path in _order(text)
        ]
        keys = [decode(text) for text in query.get_list("keys")]
    except RequestError:
        return False  # the service tells what is wrong with them
    return (
        any(not is_shown(path, shown) for one in filters for path in _paths(one))
        or any(not is_shown(path, shown) for path in orders)
        or any(_renames(one) for one in keys)
    )


def is_shown(path: str, shown: Mapping[str, int]) -> bool:
    """Whether nothing at the path, below it or around it is hidden."""
    steps = [step for step in path.split(".") if not step.isdigit() and step[:1] != "$"]
    if not steps:
        return path in _ALWAYS
    listed = [key.split(".") for key in shown]
    if any(shown.values()):
        return path in _ALWAYS or any(steps[: len(one)] == one for one in listed)
    return not any(_overlap(steps, one) for one in listed)


def check_copies(write: Write, shown: Mapping[str, int]) -> None:
    """Refuse a write that could copy something hidden to where it is shown."""
    moved = (write.update or {}).get("$rename", {})
    renames = moved if isinstance(moved, Mapping) else {}
    if write.pipeline is not None or any(not is_shown(path, shown) for path in renames):
        raise SecurityViolation("the update uses properties that are not available here")


def _overlap(left: list[str], right: list[str]) -> bool:
    length = min(len(left), len(right))
    return left[:length] == right[:length]


def _paths(filter: Any) -> Iterator[str]:
    """Every path that a filter looks at; operators that look at anything come as they are."""
    if not isinstance(filter, Mapping):
        return
    for key, condition in filter.items():
        if key in _LOGICAL and isinstance(condition, list):
            for branch in condition:
                yield from _paths(branch)
        elif key not in _HARMLESS:
            yield key


def _order(text: str) -> Iterator[str]:
    """The paths of `-a`, `a,b`, `{"a": 1}` and `[{"a": 1}]`."""
    if text.lstrip()[:1] in ("{", "["):
        decoded = decode(text)
        for one in decoded if isinstance(decoded, list) else [decoded]:
            yield from one if isinstance(one, Mapping) else ()
    else:
        yield from (part.strip().lstrip("+-") for part in text.split(",") if part.strip())


def _renames(projection: Any) -> bool:
    """Whether a projection computes something: values other than 0, 1 and parts of arrays."""
    if not isinstance(projection, Mapping):
        return True
    return any(
        not (value.keys() <= _PLAIN if isinstance(value, Mapping) else value in (0, 1))
        for value in projection.values()
    )
