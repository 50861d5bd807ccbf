"""Index security: reject indexes whose creation reveals hidden data.

Whether a unique index on passwords can be created depends on the stored hashes; with a condition,
on those that match it. So callers cannot create an index on data that they cannot see: hidden
properties, those that `projectResponse` leaves out, and, under a `readFilter`, values of other
rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from docgraph.exchange import Permission
from docgraph.store.guard.shield import Paths, check_filter_paths, check_path, reject
from docgraph.store.guard.shown import Shown, asks_for_hidden, is_shown

_WHAT: Final = "the index"
_WHOLE: Final = "$**"
_LANGUAGE: Final = "language"  # of each document, which a text index uses


def check_index(keys: Mapping[str, Any], options: Mapping[str, Any], hidden: Paths) -> None:
    """Reject an index that contains something hidden, or selects documents by it."""
    for path in _find_paths(keys, options):
        check_path(path, hidden, _WHAT)
    condition = options.get("partialFilterExpression")
    if condition is not None:
        check_filter_paths(condition, hidden, _WHAT)


def check_index_under(
    permission: Permission, namespace: str, keys: Mapping[str, Any], options: Mapping[str, Any]
) -> None:
    """Reject an index that reveals more than the permission of its author shows."""
    if permission.namespace == namespace and permission.project_response:
        _check_shown(keys, options, permission.project_response)
    if permission.read_filters.get(namespace):
        _check_blind(keys, options)


def _check_shown(keys: Mapping[str, Any], options: Mapping[str, Any], shown: Shown) -> None:
    condition = options.get("partialFilterExpression")
    if not all(is_shown(path, shown) for path in _find_paths(keys, options)) or (
        condition is not None and asks_for_hidden(condition, shown)
    ):
        raise reject(_WHAT)


def _check_blind(keys: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Reject an index that could fail because of rows that the author cannot see.

    Unique indexes fail on equal values, geo and text indexes on values of another type, and any
    index on two arrays, for which a condition could select the rows.
    """
    is_plain = all(isinstance(kind, int | float) for kind in keys.values())
    if not is_plain or options.get("unique") or "partialFilterExpression" in options:
        raise reject(_WHAT)


def _find_paths(keys: Mapping[str, Any], options: Mapping[str, Any]) -> Iterable[str]:
    """Return every path in an index; reject an index of everything."""
    projection = options.get("wildcardProjection")
    paths = [*_names(options.get("weights")), *_names(projection)]
    if "text" in keys.values() or "language_override" in options:
        paths.append(options.get("language_override", _LANGUAGE))
    for path in keys:
        if path != _WHOLE or not _names_all(projection):
            paths.append(path)
    for path in paths:
        if not isinstance(path, str) or path == _WHOLE:
            raise reject(_WHAT)
    return [path.removesuffix(f".{_WHOLE}") for path in paths]


def _names(value: Any) -> Iterable[str]:
    return value.keys() if isinstance(value, Mapping) else ()


def _names_all(projection: Any) -> bool:
    """Check if a projection lists the properties of an index, and not the excluded ones."""
    if not isinstance(projection, Mapping) or not projection:
        return False
    # `_id` can be excluded or included in either kind of projection.
    deciding = [one for key, one in projection.items() if key != "_id" or len(projection) == 1]
    return all(isinstance(one, int | float) and one for one in deciding)
