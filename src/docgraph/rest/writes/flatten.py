"""What a body of POST or PUT may say beyond plain JSON: dotted keys and `$currentDate`.

    {"a.b": 1}                           {"a": {"b": 1}}
    {"x.0": 1}                           {"x": [1]}
    {"$currentDate": {"at": true}}       {"at": <now>}

Keys of nested objects are taken as they are.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from docgraph.codec.types import Timestamp
from docgraph.exchange.data import Document
from docgraph.exchange.errors import RequestError

__all__ = ["prepare_document", "resolve_date", "set_path", "split_path"]

CURRENT_DATE = "$currentDate"

_LARGEST_INDEX = 10_000  # an array is filled up with nulls to its index


def prepare_document(body: Document) -> Document:
    """The document that a body of POST or PUT stands for."""
    dates = body.get(CURRENT_DATE)
    if any(key[:1] == "$" and key != CURRENT_DATE for key in body):
        raise RequestError(
            "update operators (but $currentDate) cannot be used on POST and PUT requests"
        )
    if dates is not None:
        body = {key: value for key, value in body.items() if key != CURRENT_DATE}
        body.update(_read_dates(dates))
    if not any("." in key for key in body):
        return body
    document: Document = {}
    for key, value in body.items():
        if "." in key:
            set_path(document, split_path(key), value, numbers_are_indexes=True)
        else:
            document[key] = value
    return document


def resolve_date(kind: Any) -> datetime | Timestamp:
    """The present instant in the form that `$currentDate` asks for."""
    match kind:
        case True | {"$type": "date"}:
            now = datetime.now(UTC).replace(tzinfo=None)
            return now.replace(microsecond=now.microsecond // 1000 * 1000)
        case {"$type": "timestamp"}:
            return Timestamp(int(time.time()), 1)
    raise RequestError("wrong $currentDate operator")


def _read_dates(dates: Any) -> Document:
    if not isinstance(dates, Mapping):
        raise RequestError("wrong $currentDate operator")
    return {path: resolve_date(kind) for path, kind in dates.items()}


def split_path(path: str) -> list[str]:
    """The names of a path in dot notation."""
    names = path.split(".")
    if not all(names):
        raise RequestError(f"a field key using the dot notation has an empty name: '{path}'")
    return names


def set_path(
    document: Document, names: list[str], value: Any, *, numbers_are_indexes: bool = False
) -> None:
    """Put the value at the path, making what is missing on the way.

    A number is an index where there is an array or nothing yet; in an object it is a key, unless
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


def _index_of(name: str) -> int:
    if not _is_index(name):
        raise RequestError(f"a field key using the dot notation names '{name}' in an array")
    index = int(name) if len(name) <= len(str(_LARGEST_INDEX)) else _LARGEST_INDEX + 1
    if index > _LARGEST_INDEX:
        raise RequestError(f"a field key using the dot notation has an index over {_LARGEST_INDEX}")
    return index
