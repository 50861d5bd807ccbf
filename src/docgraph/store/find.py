"""Commands `find` and `aggregate`: pure functions that build the document to send.

A response is one batch if possible: `batchSize` is one more than the limit, since a server that has
filled a batch exactly keeps the cursor open until the next request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from docgraph.exchange.data import Document, Filter, Stages
from docgraph.exchange.errors import QueryError

MAX_LIMIT = (1 << 31) - 2
_MAX_SKIP = (1 << 63) - 1
# A number in a path is a position and a name, also of each element: on nested arrays the database
# tries all combinations, and does not stop at `maxTimeMS`.
_MAX_NUMBERS: Final = 3

SortArgument = Mapping[str, Any] | Sequence[tuple[str, Any]]


def check_limit(limit: int) -> None:
    """Reject 0 and negative limits: every read needs a limit, and 0 means none."""
    if type(limit) is not int or not 1 <= limit <= MAX_LIMIT:
        raise QueryError(f"limit must be a whole number from 1 to {MAX_LIMIT}")


def check_skip(skip: int) -> None:
    """Reject a skip that the database does not accept: at most 63 bits."""
    if type(skip) is not int or not 0 <= skip <= _MAX_SKIP:
        raise QueryError("skip must be a whole number, not less than 0")


def read_sort(sort: SortArgument | None) -> dict[str, Any]:
    """Convert a sort in either form to the document that the database expects."""
    if not sort:
        return {}
    try:
        order = dict(sort)
    except (TypeError, ValueError):
        raise QueryError("a sort is a list of pairs of property and order") from None
    for path in order:
        steps = str(path).split(".")
        if len(steps) > _MAX_NUMBERS and sum(map(str.isdecimal, steps)) > _MAX_NUMBERS:
            raise QueryError(
                f"a path of a sort has more than {_MAX_NUMBERS} numbers",
                hint="sort by a property that is not inside arrays of arrays",
            )
    return order


def build_find(
    collection: str, filter: Filter, *, limit: int, skip: int = 0, options: Mapping[str, Any]
) -> Document:
    """Return the command `find` with the given `options` (projection, sort, hint, comment)."""
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
    pipeline: Stages,
    *,
    limit: int,
    allow_disk_use: bool = False,
    comment: Any = None,
) -> Document:
    """Return the command `aggregate`, with a last stage that bounds its results."""
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
    """Return an aggregation that counts: exact on every topology, unlike the command `count`."""
    check_limit(limit)
    stages: list[Mapping[str, Any]] = [*matching, {"$limit": limit}, {"$count": "n"}]
    return build_aggregate(collection, stages, limit=1, comment=comment)
