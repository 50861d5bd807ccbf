"""Dotted keys and `$currentDate` in the body of POST or PUT.

    {"a.b": 1}                           {"a": {"b": 1}}
    {"x.0": 1}                           {"x": [1]}
    {"$currentDate": {"at": true}}       {"at": <now>}

Keys of nested objects are not changed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from docgraph.codec.bson_types import Timestamp
from docgraph.codec.decode import DEFAULT_DEPTH
from docgraph.exchange.data import Document
from docgraph.exchange.errors import BodyTooLarge, RequestError

CURRENT_DATE = "$currentDate"

_LARGEST_INDEX = 10_000  # an array is filled up with nulls to its index
_MAX_DIGITS = 10  # of a position: Python refuses to parse a number of some thousands of them
_MAX_STEPS = DEFAULT_DEPTH
_MAX_CREATED = 100_000
_LONGEST_SHOWN = 100  # characters of a path


class Expansion:
    """Counts the values that the dotted keys of one body create, before they are created.

    A key of a few bytes fills an array with thousands of nulls, or nests a hundred objects.
    """

    def __init__(self, limit: int = _MAX_CREATED) -> None:
        self._limit = limit
        self._created = 0

    def reserve(self, document: Document, names: list[str]) -> None:
        """Count the objects, arrays and nulls that `set_path` would create for the path."""
        self._created += _count_created(document, names)
        if self._created > self._limit:
            raise BodyTooLarge(
                f"the field keys using the dot notation create more than {self._limit} values",
                hint="send nested objects and arrays, or several requests",
            )


def prepare_document(body: Document, expansion: Expansion | None = None) -> Document:
    """Return the document that a body of POST or PUT describes.

    The documents of one body share an `expansion`.
    """
    dates = body.get(CURRENT_DATE)
    if any(key[:1] == "$" and key != CURRENT_DATE for key in body):
        raise RequestError(
            "update operators (but $currentDate) cannot be used on POST and PUT requests"
        )
    if dates is not None:
        body = {key: value for key, value in body.items() if key != CURRENT_DATE}
        if not isinstance(dates, Mapping):
            raise RequestError("wrong $currentDate operator")
        body.update({path: resolve_date(kind) for path, kind in dates.items()})
    if not any("." in key for key in body):
        return body
    document: Document = {}
    expansion = expansion or Expansion()
    for key, value in body.items():
        if "." in key:
            names = split_path(key)
            expansion.reserve(document, names)
            set_path(document, names, value, numbers_are_indexes=True)
        else:
            document[key] = value
    return document


def resolve_date(kind: Any) -> datetime | Timestamp:
    """Return the current time in the form that `$currentDate` requests."""
    match kind:
        case True | {"$type": "date"}:
            now = datetime.now(UTC).replace(tzinfo=None)
            return now.replace(microsecond=now.microsecond // 1000 * 1000)
        case {"$type": "timestamp"}:
            return Timestamp(int(time.time()), 1)
    raise RequestError("wrong $currentDate operator")


def split_path(path: str) -> list[str]:
    names = path.split(".", _MAX_STEPS)
    if len(names) > _MAX_STEPS:
        raise RequestError(
            f"a field key using the dot notation has more than {_MAX_STEPS} names: "
            f"'{path[:_LONGEST_SHOWN]}…'"
        )
    if not all(names):
        raise RequestError(f"a field key using the dot notation has an empty name: '{path}'")
    return names


def set_path(
    document: Document, names: list[str], value: Any, *, numbers_are_indexes: bool = False
) -> None:
    """Set the value at the path; create missing objects and arrays.

    A number is an index in an array or in a missing value; in an object it is a key, unless
    `numbers_are_indexes`.
    """
    container: Any = document
    for name, following in pairwise(names):
        inner = _get(container, name)
        if inner is None:
            inner = [] if _is_index(following) else {}
            _put(container, name, inner)
        elif numbers_are_indexes and _is_index(following) and not isinstance(inner, list):
            raise RequestError("a field key using the dot notation points to a non-array value")
        elif not isinstance(inner, dict | list):
            raise RequestError(
                "a field key using the dot notation points into a value that is neither object nor "
                f"array: '{'.'.join(names)}'"
            )
        container = inner
    _put(container, names[-1], value)


def _count_created(document: Document, names: list[str]) -> int:
    """Return how many values would be created along the path, without the value at its end."""
    container: Any = document
    for position, name in enumerate(names):
        if isinstance(container, list):
            missing = max(0, _index_of(name) - len(container))
        elif isinstance(container, dict):
            missing = 0
        else:  # a value that `set_path` refuses to step into
            return 0
        inner = _get(container, name)
        if inner is None:
            return missing + sum(
                1 + (_index_of(name) if _is_index(name) else 0) for name in names[position + 1 :]
            )
        container = inner
    return 0


def _get(container: Any, name: str) -> Any:
    if isinstance(container, dict):
        return container.get(name)
    index = _index_of(name)
    return container[index] if index < len(container) else None


def _put(container: Any, name: str, value: Any) -> None:
    if isinstance(container, dict):
        container[name] = value
        return
    index = _index_of(name)
    container.extend([None] * (index + 1 - len(container)))
    container[index] = value


def _is_index(name: str) -> bool:
    return name.isascii() and name.isdecimal()


def find_index(name: str) -> int | None:
    """Return the array position of the name; None: it is not a position."""
    return int(name) if _is_index(name) and len(name) <= _MAX_DIGITS else None


def _index_of(name: str) -> int:
    if not _is_index(name):
        raise RequestError(f"a field key using the dot notation names '{name}' in an array")
    index = find_index(name)
    if index is None or index > _LARGEST_INDEX:
        raise RequestError(f"a field key using the dot notation has an index over {_LARGEST_INDEX}")
    return index
