"""Truncation of tool results: any result is cut to fit, and every cut and list limit is reported.

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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from docgraph.exchange.errors import BodyError
from docgraph.graphql.definition.mapping import QueryMapping
from docgraph.graphql.http.body import GraphqlRequest
from docgraph.graphql.plan.plan import Plan
from docgraph.graphql.plan.plan_tree import Block, Embedded, Fetch
from docgraph.runtime import allocations
from docgraph.runtime.allocations import embed_json

ListPath = tuple[str, ...]

_LONGEST_CURSOR: Final = 1_024
_DEEPEST: Final = 64
_LEAST_ROOM: Final = 256  # bytes for data, whatever accompanies it


class CutPosition(NamedTuple):
    """Where a result continues: a list, by the digest of its path, and the offset in it."""

    path: str
    offset: int


@dataclass(frozen=True, slots=True)
class Fitted:
    """Data that fits into the limit, the cuts, and where to continue (None: complete)."""

    data: Any
    cuts: tuple[Cut, ...] = ()
    position: CutPosition | None = None


def fit(data: Any, limit: int, reserved: int = 0, position: CutPosition | None = None) -> Fitted:
    """Return as much of the data as `limit` bytes can hold, from the position on.

    `reserved` bytes are for what accompanies the data.
    """
    room = max(limit - reserved, _LEAST_ROOM)
    text = allocations.dumps(data, embed_json)
    if position is None and len(text) <= room:
        return Fitted(data)
    data = allocations.loads(text)  # values that were encoded earlier can be cut, too
    lists = dict(_find_lists(data, (), 0))
    first = 0  # the number of the list from which the result continues
    if position is not None:
        digests = [_digest_path(path) for path in lists]
        if position.path not in digests:
            raise BodyError("the result has changed since the cursor was made", hint="begin again")
        first = digests.index(position.path)
    cuts: list[Cut] = []
    # What is in no list comes with each part, so half of the room is left for the lists.
    share = room // 2 if lists else room
    outer = shorten(_replace(data, {path: [] for path in lists}), share, "", cuts)
    room -= measure(outer)
    parts: dict[ListPath, list[Any]] = {}
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


def _fit_elements(elements: list[Any], start: int, room: int) -> tuple[list[Any], int]:
    size = 0
    for number, element in enumerate(elements[start:]):
        length = measure(element) + 1
        if size + length > room:
            return elements[start : start + number], size
        size += length
    return elements[start:], size


def _find_lists(value: Any, path: ListPath, depth: int) -> Iterator[tuple[ListPath, list[Any]]]:
    """Yield the outermost lists: those that are in no other list."""
    if isinstance(value, list):
        yield path, value
    elif isinstance(value, dict) and depth < _DEEPEST:
        for key, inner in value.items():
            yield from _find_lists(inner, (*path, key), depth + 1)


def _replace(value: Any, lists: Mapping[ListPath, list[Any]], path: ListPath = ()) -> Any:
    if path in lists:
        return lists[path]
    if isinstance(value, dict) and len(path) < _DEEPEST:
        return {key: _replace(inner, lists, (*path, key)) for key, inner in value.items()}
    return value


def _digest_path(path: ListPath) -> str:
    return hashlib.blake2b(allocations.dumps(path), digest_size=6).hexdigest()


def render_cursor(app: str, request: GraphqlRequest, position: CutPosition) -> str:
    content = allocations.dumps({"q": _digest(app, request), "o": [*position]})
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
        content = allocations.loads(text)
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


AT_LIMIT: Final = (
    "these lists have more: do not count them, use fields that count or group, or raise the limit"
)
_MAX_ENTRIES: Final = 50  # an agent takes a list that is not named for complete
# Building the tree of a plan takes longer than most queries.
_arguments: WeakKeyDictionary[Plan, dict[tuple[str, ...], str | None]] = WeakKeyDictionary()


def describe_limits(plan: Plan, limits: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return path, limit and argument of each list that stopped; one entry for all its parents."""
    entries: dict[tuple[str, ...], dict[str, Any]] = {}
    arguments = _arguments.setdefault(plan, {})
    for cut in limits:
        keys = tuple(key for key in cut["path"] if isinstance(key, str))
        if keys in entries or len(entries) == _MAX_ENTRIES:
            continue
        entries[keys] = {"path": list(keys), "limit": cut["limit"]}
        if keys not in arguments:
            arguments[keys] = _find_argument(plan.widest_tree().block, keys)
        if (argument := arguments[keys]) is not None:
            entries[keys]["argument"] = argument
    return list(entries.values())


def _find_argument(block: Block, keys: tuple[str, ...]) -> str | None:
    """Return the argument of the field at this path that its limit is taken from."""
    blocks = [block]
    *outer, last = keys
    for key in outer:
        named = (column for each in blocks for column in each.columns if column.key == key)
        below = [column.selection for column in named if isinstance(column, Fetch | Embedded)]
        blocks = [inner for part in below if part is not None for inner in part.blocks.values()]
    for field in (column for each in blocks for column in each.columns if column.key == last):
        if isinstance(field, Fetch) and isinstance(field.mapping, QueryMapping):
            match field.mapping.limit and field.mapping.limit.source:
                case {"$arg": str(name)} | {"$arg": [str(name), *_]}:
                    return name
    return None


Entry = TypeVar("Entry")
_LEAST: Final = 8  # bytes: a mark in quotes


@dataclass(frozen=True, slots=True)
class Cut:
    """A value of which a part is returned: `returned` of `total` elements from `start`.

    `unit` is what is counted: elements of a list, characters of a text or keys of an object.
    """

    path: str
    start: int
    returned: int
    total: int
    unit: str = "elements"

    def as_dict(self) -> dict[str, Any]:
        content = {
            "path": self.path[:200],
            "from": self.start,
            "returned": self.returned,
            "total": self.total,
        }
        return content if self.unit == "elements" else {**content, "of": self.unit}


def measure(value: Any) -> int:
    """Return the length of the JSON of a value in bytes."""
    return len(allocations.dumps(value, embed_json))


def shorten(value: Any, room: int, path: str, cuts: list[Cut], depth: int = 0) -> Any:
    """Return the value, or as much of it as `room` bytes can hold; add what was cut to `cuts`.

    A number or a value that is nested too deep becomes null if it does not fit; the latter is a
    cut, too.
    """
    if measure(value) <= room:
        return value
    match value:
        case str():
            return _shorten_text(value, room, path, cuts)
        case list() if depth < _DEEPEST:
            return _shorten_list(value, room, path, cuts, depth)
        case dict() if depth < _DEEPEST:
            return _shorten_object(value, room, path, cuts, depth)
        case list() | dict():
            unit = "elements" if isinstance(value, list) else "keys"
            cuts.append(Cut(path, 0, 0, len(value), unit))
    return None


def keep_first(entries: Iterable[Entry], room: int) -> list[Entry]:
    """Return as many of the entries as `room` bytes can hold, from the first on."""
    kept: list[Entry] = []
    for entry in entries:
        room -= measure(entry) + 1
        if room < 0:
            break
        kept.append(entry)
    return kept


def _shorten_text(text: str, room: int, path: str, cuts: list[Cut]) -> str:
    # A character takes 6 bytes at most; halving finds a length that fits in a few steps.
    length = min(len(text), max(room - _LEAST, 0))
    while length and measure(text[:length]) > room - _LEAST + 2:
        length = length * 3 // 4
    cuts.append(Cut(path, 0, length, len(text), "characters"))
    return text[:length] + "…"


def _shorten_list(value: list[Any], room: int, path: str, cuts: list[Cut], depth: int) -> list[Any]:
    taken: list[Any] = []
    room -= 2
    for number, element in enumerate(value):
        length = measure(element) + 1
        if length > room:
            if not taken and room > _LEAST:
                taken.append(shorten(element, room - 1, f"{path}.{number}", cuts, depth + 1))
            break
        taken.append(element)
        room -= length
    cuts.append(Cut(path, 0, len(taken), len(value)))
    return taken


def _shorten_object(
    value: dict[str, Any], room: int, path: str, cuts: list[Cut], depth: int
) -> dict[str, Any]:
    """Share the room equally; what a small value leaves is for the larger ones."""
    room -= 2
    sizes = {key: measure(inner) for key, inner in value.items()}
    shortened: dict[str, Any] = {}
    waiting = sorted(value, key=lambda key: sizes[key])
    for number, key in enumerate(waiting):
        name = measure(key) + 2
        share = room // (len(waiting) - number) - name
        if share < min(sizes[key], _LEAST):
            continue
        place = f"{path}.{key}" if path else key
        shortened[key] = shorten(value[key], share, place, cuts, depth + 1)
        room -= measure(shortened[key]) + name
    if len(shortened) < len(value):
        cuts.append(Cut(path, 0, len(shortened), len(value), "keys"))
    return {key: shortened[key] for key in value if key in shortened}
