"""Equality of stored values, as type resolvers and enums need it (decision 18).

Numbers compare by value (1, 1.0, Int64 1 and Decimal128 1 are equal), true is not 1, documents
compare by their keys and values in any order.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from docgraph.codec.types import Decimal128

__all__ = ["equality_key"]


def equality_key(value: Any) -> Hashable:
    """A hashable that is the same for equal values and for no others."""
    if type(value) is str:
        return ("str", value)  # first: most values that are compared are texts
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, int | float | Decimal128):
        return _number_key(value)
    if isinstance(value, Mapping):
        return ("object", frozenset((key, equality_key(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return ("array", tuple(equality_key(item) for item in value))
    if isinstance(value, Hashable):
        return (type(value).__name__, value)
    return (type(value).__name__, repr(value))


def _number_key(value: int | float | Decimal128) -> Hashable:
    if isinstance(value, Decimal128):
        decimal = value.to_decimal()
        return ("number", "NaN" if decimal.is_nan() else decimal)
    return ("number", "NaN" if value != value else value)  # noqa: PLR0124 - NaN alone differs
