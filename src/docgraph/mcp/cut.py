"""Truncation of tool results: any result is cut to fit, the cuts are reported, a cursor continues.

The outermost lists are returned in order, as many elements as fit. The element that does not fit
even alone is shortened: its inner lists, texts and keys. A cursor refers to no state on the server.
It has the list and the offset from which the same query continues, and nothing else: the query is
run again, for the current caller, with the caller's own permissions.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from docgraph.exchange.errors import BodyError
from docgraph.graphql.http.body import GraphqlRequest
from docgraph.mcp.shorten import Cut, measure, shorten

Path = tuple[str, ...]

_LONGEST_CURSOR: Final = 1_024
_DEEPEST: Final = 64
_LEAST_ROOM: Final = 256  # bytes for data, whatever accompanies it


class CutPosition(NamedTuple):
    """Where a result continues: a list, by the digest of its path, and the offset in it."""

    path: str
    offset: int


@dataclass(frozen=True, slots=True)
class Fitted:
    """Data that fits, what was cut for that, and where to continue (None: nowhere)."""

    data: Any
    cuts: tuple[Cut, ...] = ()
    position: CutPosition | None = None


def fit(data: Any, limit: int, reserved: int = 0, position: CutPosition | None = None) -> Fitted:
    """Return as much of the data as `limit` bytes can hold, from the position on.

    `reserved` bytes are for what accompanies the data.
    """
    room = max(limit - reserved, _LEAST_ROOM)
    text = orjson.dumps(data)
    if position is None and len(text) <= room:
        return Fitted(data)
    data = orjson.loads(text)  # values that were encoded earlier can be cut, too
    lists = dict(_find_lists(data, (), 0))
    first = _find_first(lists, position)
    cuts: list[Cut] = []
    # What is in no list comes with each part, so half of the room is left for the lists.
    share = room // 2 if lists else room
    outer = shorten(_replace(data, {path: [] for path in lists}), share, "", cuts)
    room -= measure(outer)
    parts: dict[Path, list[Any]] = {}
    following: CutPosition | None = None
    for number, (path, elements) in enumerate(lists.items()):
        start = position.offset if position is not None and number == first else 0
        if number < first or (following is not None and start == len(elements)):
            continue  # was returned earlier, or is empty
        taken, size = ([], 0) if following is not None else _fit_elements(elements, start, room)
        name = ".".join(path)
        if start < len(elements) and not taken and not any(parts.values()) and following is None:
            taken = [shorten(elements[start], room - 1, f"{name}.{start}", cuts)]
            size = measure(taken)
        parts[path] = taken
        room -= size
        if start + len(taken) < len(elements):
            cuts.append(Cut(name, start, len(taken), len(elements)))
            following = following or CutPosition(_digest_path(path), start + len(taken))
    whole = {path: parts.get(path, []) for path in lists}
    return Fitted(_replace(outer, whole), tuple(cuts), following)


def _find_first(lists: Mapping[Path, Any], position: CutPosition | None) -> int:
    """Return the number of the list from which the result continues."""
    if position is None:
        return 0
    for number, path in enumerate(lists):
        if _digest_path(path) == position.path:
            return number
    raise BodyError("the result has changed since the cursor was made", hint="begin again")


def _fit_elements(elements: list[Any], start: int, room: int) -> tuple[list[Any], int]:
    size = 0
    for number, element in enumerate(elements[start:]):
        length = measure(element) + 1
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


def _digest_path(path: Path) -> str:
    return hashlib.blake2b(orjson.dumps(path), digest_size=6).hexdigest()


def render_cursor(app: str, request: GraphqlRequest, position: CutPosition) -> str:
    """Return the cursor that continues from this position."""
    content = orjson.dumps({"q": _digest(app, request), "o": [*position]})
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def read_cursor(cursor: str, app: str, request: GraphqlRequest) -> CutPosition:
    """Return the position of a cursor of the same query."""
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
        case {"q": str(digest), "o": [str(path), int(offset)]} if offset >= 0:
            if digest == _digest(app, request):
                return CutPosition(path, offset)
    raise problem


def _digest(app: str, request: GraphqlRequest) -> str:
    parts = [app, request.query, request.variables, request.operation_name]
    content = json.dumps(parts, sort_keys=True).encode()
    return hashlib.blake2b(content, digest_size=9).hexdigest()
