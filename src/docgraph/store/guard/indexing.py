"""Whether an index can be made answers questions about what is stored.

An index on passwords is unique or not, by how the hashes compare; one with a condition, on what
matches it. So nobody makes an index of what they may not see: hidden properties, those that
`projectResponse` leaves out, and, under a `readFilter`, the values of rows that are not theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from docgraph.exchange import Permission
from docgraph.store.guard.rows import Paths, check_filter_paths, check_path, refuse
from docgraph.store.guard.shown import Shown, asks_for_hidden, is_shown

__all__ = ["check_index", "check_index_under"]

_WHAT: Final = "the index"
_WHOLE: Final = "$**"
_LANGUAGE: Final = "language"  # of each document, which an index of texts goes by


def check_index(keys: Mapping[str, Any], options: Mapping[str, Any], hidden: Paths) -> None:
    """Refuse an index that holds something hidden, or is made of documents by it."""
    for path in _find_paths(keys, options):
        check_path(path, hidden, _WHAT)
    condition = options.get("partialFilterExpression")
    if condition is not None:
        check_filter_paths(condition, hidden, _WHAT)


def check_index_under(
    permission: Permission, namespace: str, keys: Mapping[str, Any], options: Mapping[str, Any]
) -> None:
    """Refuse an index that tells more than the permission of its author shows."""
    if permission.namespace == namespace and permission.project_response:
        _check_shown(keys, options, permission.project_response)
    if permission.read_filters.get(namespace):
        _check_blind(keys, options)


def _check_shown(keys: Mapping[str, Any], options: Mapping[str, Any], shown: Shown) -> None:
    condition = options.get("partialFilterExpression")
    if not all(is_shown(path, shown) for path in _find_paths(keys, options)) or (
        condition is not None and asks_for_hidden(condition, shown)
    ):
        raise refuse(_WHAT)


def _check_blind(keys: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Rows that the author does not see must not make it fail.

    Unique ones fail by equal values, those of places and texts by values that are none, and any on
    two arrays, for which a condition could choose the rows.
    """
    is_plain = all(isinstance(kind, int | float) for kind in keys.values())
    if not is_plain or options.get("unique") or "partialFilterExpression" in options:
        raise refuse(_WHAT)


def _find_paths(keys: Mapping[str, Any], options: Mapping[str, Any]) -> Iterable[str]:
    """Every path that goes into an index; an index of everything is refused."""
    projection = options.get("wildcardProjection")
    paths = [*_names(options.get("weights")), *_names(projection)]
    if "text" in keys.values() or "language_override" in options:
        paths.append(options.get("language_override", _LANGUAGE))
    for path in keys:
        if path != _WHOLE or not _names_all(projection):
            paths.append(path)
    for path in paths:
        if not isinstance(path, str) or path == _WHOLE:
            raise refuse(_WHAT)
    return [path.removesuffix(f".{_WHOLE}") for path in paths]


def _names(value: Any) -> Iterable[str]:
    return value.keys() if isinstance(value, Mapping) else ()


def _names_all(projection: Any) -> bool:
    """Whether a projection says what goes into an index, and not what stays out of it."""
    if not isinstance(projection, Mapping) or not projection:
        return False
    # `_id` can be left out or put in beside either.
    deciding = [one for key, one in projection.items() if key != "_id" or len(projection) == 1]
    return all(isinstance(one, int | float) and one for one in deciding)
