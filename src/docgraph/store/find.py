"""`find` and `aggregate` as commands: pure functions from arguments to the document that is sent.

An answer is one batch where it can be: `batchSize` is one more than the limit, since a server that
has filled a batch exactly keeps the cursor open until it is asked again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from docgraph.exchange.data import Document
from docgraph.exchange.errors import QueryError

__all__ = [
    "MAX_LIMIT",
    "Sort",
    "build_aggregate",
    "build_count",
    "build_find",
    "check_limit",
    "check_skip",
    "read_sort",
]

MAX_LIMIT = (1 << 31) - 2
_MAX_SKIP = (1 << 63) - 1

Sort = Mapping[str, Any] | Sequence[tuple[str, Any]]


def check_limit(limit: int) -> None:
    """Every read has a limit, and 0 is none."""
    if type(limit) is not int or not 1 <= limit <= MAX_LIMIT:
        raise QueryError(f"limit must be a whole number from 1 to {MAX_LIMIT}")


def check_skip(skip: int) -> None:
    """The database takes no more than 63 bits."""
    if type(skip) is not int or not 0 <= skip <= _MAX_SKIP:
        raise QueryError("skip must be a whole number, not less than 0")


def read_sort(sort: Sort | None) -> dict[str, Any]:
    """A sort in either form as the document that the database wants."""
    if not sort:
        return {}
    try:
        return dict(sort)
    except (TypeError, ValueError):
        raise QueryError("a sort is a list of pairs of property and order") from None


def build_find(
    collection: str,
    filter: Mapping[str, Any],
    *,
    limit: int,
    skip: int = 0,
    options: Mapping[str, Any],
) -> Document:
    """The command `find`; of `options` (projection, sort, hint, comment) what is given."""
    check_limit(limit)
    command: Document = {"find": collection, "filter": filter}
    command["limit"] = limit
    command["batchSize"] = limit + 1
    if skip:
        check_skip(skip)
        command["skip"] = skip
    for name, value in options.items():
        if value:
            command[name] = value
    return command


def build_aggregate(
    collection: str,
    pipeline: Sequence[Mapping[str, Any]],
    *,
    limit: int,
    allow_disk_use: bool = False,
    comment: Any = None,
) -> Document:
    """The command `aggregate`, with a last stage that bounds its results."""
    check_limit(limit)
    command: Document = {"aggregate": collection, "pipeline": [*pipeline, {"$limit": limit}]}
    command["cursor"] = {"batchSize": limit + 1}
    if allow_disk_use:
        command["allowDiskUse"] = True
    if comment:
        command["comment"] = comment
    return command


def build_count(
    collection: str, matching: Sequence[Mapping[str, Any]], *, limit: int, comment: Any = None
) -> Document:
    """Counting as an aggregation: exact on every topology, where the command `count` is not."""
    check_limit(limit)
    stages: list[Mapping[str, Any]] = [*matching, {"$limit": limit}, {"$count": "n"}]
    return build_aggregate(collection, stages, limit=1, comment=comment)
