"""The argument `orderBy`: a caller's order by declared fields, as a sort of MongoDB."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from docgraph.graphql.lists.where import BadWhere

MAX_KEYS: Final = 16  # a sort of MongoDB has 32 at most


@dataclass(frozen=True, slots=True)
class OrderSpec:
    """What `orderBy` of a field may contain: paths by field, or fields of embedded objects."""

    fields: Mapping[str, str | Mapping[str, Any]]
    indexed_only: bool = False
    ascending: Any = "ASC"  # the author may have an enum SortOrder that stores other values


def list_orders(fields: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, str]]:
    """Yield name and path of each field."""
    for key, own in fields.items():
        if isinstance(own, str):
            yield f"{name}{key}", own
        else:
            yield from list_orders(own, f"{name}{key}.")


def compile_order(spec: OrderSpec, entries: Sequence[Any] | None) -> dict[str, int] | None:
    """Compile the coerced value of `orderBy`; None: the order of the mapping.

    Raises `FieldFailure` for a value that is not allowed.
    """
    if not entries:
        return None
    sort: dict[str, int] = {}
    for number, entry in enumerate(entries):
        try:
            path, direction = _read_entry(entry, spec.fields)
            if path in sort:
                raise BadWhere("orders by a field that comes before")
        except BadWhere as bad:
            raise bad.under(f"[{number}]").located("orderBy", "bad-order") from None
        sort[path] = 1 if direction == spec.ascending else -1
    if len(sort) > MAX_KEYS:
        raise BadWhere(f"has more than {MAX_KEYS} fields").located("orderBy", "bad-order")
    return sort


def _read_entry(entry: Any, fields: Mapping[str, Any]) -> tuple[str, Any]:
    given = [] if entry is None else list(entry.items())
    if len(given) != 1:
        names = ", ".join(name for name, _ in given) or "none"
        raise BadWhere(f"needs exactly one field, and has {names}")
    ((name, value),) = given
    own = fields[name]
    try:
        if not isinstance(own, str):
            return _read_entry(value, own)
        if value is None:
            raise BadWhere("must be ASC or DESC")
    except BadWhere as bad:
        raise bad.under(f".{name}") from None
    return own, value
