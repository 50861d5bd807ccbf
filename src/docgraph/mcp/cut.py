"""Truncation of tool results: long lists are cut, the cuts are reported, a cursor continues.

A cursor refers to no state on the server. It has the offsets from which the lists of the same query
continue, and nothing else: the query is run again, for the current caller, with the caller's own
permissions.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from docgraph.exchange.errors import BodyError
from docgraph.graphql.errors import Classification, OperationRefused
from docgraph.graphql.http.body import GraphqlRequest

Path = tuple[str, ...]
Offsets = Mapping[str, int]

_LONGEST_CURSOR: Final = 4_096
_DEEPEST: Final = 64


@dataclass(frozen=True, slots=True)
class Cut:
    """A list of which only a part is returned: `returned` of `total` elements from `start`."""

    path: str
    start: int
    returned: int
    total: int

    @property
    def end(self) -> int:
        """The first element that is not yet returned."""
        return self.start + self.returned

    def as_dict(self) -> dict[str, Any]:
        """Return the cut for the agent."""
        return {
            "path": self.path,
            "from": self.start,
            "returned": self.returned,
            "total": self.total,
        }


@dataclass(frozen=True, slots=True)
class Fitted:
    """Data that fits, and the lists that were cut for that."""

    data: Any
    cuts: tuple[Cut, ...] = ()
    offsets: Offsets = field(default_factory=dict)  # where to continue


def fit(data: Any, limit: int, reserved: int = 0, offsets: Offsets | None = None) -> Fitted:
    """Return as much of the data as `limit` bytes can hold, each list from its offset.

    `reserved` bytes are for what accompanies the data. With offsets, a list without one was already
    delivered. Raises `OperationRefused` if not even one element fits.
    """
    if offsets is None and _measure(data) <= limit - reserved:
        return Fitted(data)
    lists = dict(_find_lists(data, (), 0))
    room = limit - reserved - _measure(_replace(data, {path: [] for path in lists}))
    parts: dict[Path, list[Any]] = {}
    cuts: list[Cut] = []
    for path, elements in lists.items():
        name = ".".join(path)
        start = 0 if offsets is None else offsets.get(name, len(elements))
        taken, size = _fit(elements, start, room)
        room -= size
        parts[path] = taken
        if start + len(taken) < len(elements):
            cuts.append(Cut(name, start, len(taken), len(elements)))
            room = 0  # later lists wait for the next page
    if room < 0 or (cuts and not any(parts.values())):
        raise _too_large(limit, cuts)
    return Fitted(_replace(data, parts), tuple(cuts), {cut.path: cut.end for cut in cuts})


def _fit(elements: list[Any], start: int, room: int) -> tuple[list[Any], int]:
    size = 0
    for number, element in enumerate(elements[start:]):
        length = _measure(element) + 1
        if size + length > room:
            return elements[start : start + number], size
        size += length
    return elements[start:], size


def _find_lists(value: Any, path: Path, depth: int) -> Iterator[tuple[Path, list[Any]]]:
    """Yield the outermost lists: those that are in no other list."""
    if isinstance(value, list):
        yield path, value
    elif isinstance(value, dict) and depth < _DEEPEST:
        for key, inner in value.items():
            yield from _find_lists(inner, (*path, key), depth + 1)


def _replace(value: Any, lists: Mapping[Path, list[Any]], path: Path = ()) -> Any:
    if path in lists:
        return lists[path]
    if isinstance(value, dict) and len(path) < _DEEPEST:
        return {key: _replace(inner, lists, (*path, key)) for key, inner in value.items()}
    return value


def _measure(value: Any) -> int:
    return len(orjson.dumps(value))


def _too_large(limit: int, cuts: list[Cut]) -> OperationRefused:
    where = f" one element of {cuts[0].path}" if cuts else " the result"
    refusal = OperationRefused.because(
        f"{where.strip()} alone is larger than {limit} bytes",
        "response-too-large",
        Classification.ABORTED,
    )
    refusal.hint = "select fewer fields, or give the lists inside smaller limits"
    return refusal


def render_cursor(app: str, request: GraphqlRequest, offsets: Offsets) -> str:
    """Return the cursor that continues after these offsets."""
    content = orjson.dumps({"q": _digest(app, request), "o": offsets})
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def read_cursor(cursor: str, app: str, request: GraphqlRequest) -> Offsets:
    """Return the offsets of a cursor of the same query."""
    problem = BodyError(
        "the cursor is not one of this query",
        hint="send the cursor of the last answer with exactly the same other arguments",
    )
    if len(cursor) > _LONGEST_CURSOR:
        raise problem
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        content = orjson.loads(text)
    except (binascii.Error, ValueError):
        raise problem from None
    match content:
        case {"q": str(digest), "o": dict(offsets)} if digest == _digest(app, request):
            if all(type(one) is int and one >= 0 for one in offsets.values()):
                return offsets
    raise problem


def _digest(app: str, request: GraphqlRequest) -> str:
    parts = [app, request.query, request.variables, request.operation_name]
    content = json.dumps(parts, sort_keys=True).encode()
    return hashlib.blake2b(content, digest_size=9).hexdigest()
