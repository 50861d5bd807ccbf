"""Combine two permissions: what both of them show, and what both of them let a caller write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from docgraph.exchange import Permission
from docgraph.exchange.exchange import RowFilters


class Contradiction(ValueError):
    """No permission has the conditions of both; the text is the reason."""


def combine(outer: Permission | None, inner: Permission | None) -> Permission | None:
    """Combine two permissions: that of the inner request, without rows that the outer one hides."""
    if outer is None or not outer.read_filters:
        return inner
    if inner is None:
        filters, variables = outer.read_filters, outer.variables
        return Permission(outer.rule, read_filters=filters, variables=variables)
    merged = RowFilters(outer.read_filters)
    for namespace, rows in inner.read_filters.items():
        merged[namespace] = _both(merged.get(namespace), rows) or rows
    named = [_find_named(permission) for permission in (outer, inner) if permission.read_filters]
    merged.unnamed = frozenset(merged).difference(frozenset.intersection(*named))
    return replace(inner, read_filters=merged, variables=outer.variables | inner.variables)


def bound(key: Permission | None, owner: Permission | None) -> Permission | None:
    """Return the permission of a key under the conditions of its owner, too (decision 72).

    Raises `Contradiction` where their values or properties cannot be combined.
    """
    if key is None or owner is None:
        return owner if key is None else key
    conditions = owner.read_filter, owner.write_filter, owner.merge_request, owner.project_response
    if not owner.read_filters and not any(conditions):
        return key
    return replace(
        combine(owner, key) or key,
        read_filter=_both(owner.read_filter, key.read_filter),
        write_filter=_both(owner.write_filter, key.write_filter),
        merge_request=_join(owner.merge_request, key.merge_request),
        project_response=_join(owner.project_response, key.project_response, is_shown=True),
    )


def _both(
    first: Mapping[str, Any] | None, second: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    if not first or not second or first == second:
        return first or second
    return {"$and": [first, second]}


def _join(
    first: Mapping[str, Any] | None, second: Mapping[str, Any] | None, *, is_shown: bool = False
) -> Mapping[str, Any] | None:
    """Return the entries of both: values for different properties, or what neither shows."""
    if not first or not second or first == second:
        return first or second
    heads = [{path.split(".", 1)[0] for path in paths} for paths in (first, second)]
    shows = any(first.values()) or any(second.values())
    if shows if is_shown else not heads[0].isdisjoint(heads[1]):
        raise Contradiction("the rules of the key and of its owner change documents differently")
    return {**first, **second}


def _find_named(permission: Permission) -> frozenset[str]:
    rows = permission.read_filters
    return frozenset(rows).difference(rows.unnamed if isinstance(rows, RowFilters) else ())
