"""Filters and sorts of lists for MongoDB, and whether an index serves them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from docgraph.codec.bson_types import Regex
from docgraph.codec.equality import OWN_KEY
from docgraph.exchange.data import Filter
from docgraph.graphql.errors import Classification, FieldFailure
from docgraph.store.collection_stats import Index

_EQUAL: Final = frozenset({"$eq", "$in"})
_ORDERED: Final = _EQUAL | {"$lt", "$lte", "$gt", "$gte"}
_WITHIN: Final = frozenset({"$geoWithin", "$nearSphere"})
_GEO: Final = frozenset({"2dsphere", "2d"})
_NULL: Final = frozenset({"null"})  # next to the operators: documents without a value
# The database uses an index with one of these for its own conditions only.
_SPECIAL: Final = frozenset({"2dsphere", "text"})


def combine(filters: Sequence[Any]) -> Any:
    """Return one filter that matches when all of these match."""
    filters = [item for item in filters if item]
    merged: dict[str, Any] = {}
    for item in filters:
        if merged.keys() & item.keys() or any(key.startswith("$") for key in item):
            return filters[0] if len(filters) == 1 else {"$and": filters}
        merged.update(item)
    return merged


def match_values(path: str, values: Sequence[Any]) -> dict[str, Any]:
    """Return the condition that the field equals one of these values; one alone is an equality."""
    return {path: {"$eq": values[0]}} if len(values) == 1 else match_any(path, values)


def match_any(name: str, values: Sequence[Any]) -> dict[str, Any]:
    """Return the condition that the field equals one of these values, whatever they are."""
    if OWN_KEY.issuperset(map(type, values)):
        return {name: {"$in": values}}
    plain = [value for value in values if is_comparable(value)]
    if len(plain) == len(values):
        return {name: {"$in": plain}}
    odd = [value for value in values if not is_comparable(value)]
    return {"$or": [{name: {"$in": plain}}, *({name: {"$eq": value}} for value in odd)]}


def is_comparable(value: Any) -> bool:
    """Return whether a value can be in `$in` and is compared literally there.

    A pattern would match strings, and a document of `$…` keys would be read as operators.
    """
    if isinstance(value, dict):
        return not next(iter(value), "").startswith("$")
    return type(value) is not Regex


def is_served(filter_: Filter, indexes: Iterable[Index], pinned: frozenset[str]) -> bool:
    """Return whether each alternative of the filter has a condition that an index finds.

    Negations, patterns and `exists` never count. `pinned` are paths that equal one value anyway.
    """
    return _is_served(filter_, "", dict(_list_leading(indexes, pinned)))


def list_served(indexes: Iterable[Index], pinned: frozenset[str]) -> frozenset[str]:
    """Return the paths that an index begins with, after the pinned ones."""
    return frozenset(path for path, _ in _list_leading(indexes, pinned))


def _list_leading(
    indexes: Iterable[Index], pinned: frozenset[str]
) -> Iterable[tuple[str, frozenset[str]]]:
    leading: dict[str, frozenset[str]] = {}
    for index in indexes:
        if not index.finds_all:
            continue
        for path, direction in index.keys:
            leading[path] = leading.get(path, frozenset()) | _find_served(index, direction)
            if path not in pinned:
                break
    return [(path, served) for path, served in leading.items() if served]


def _find_served(index: Index, direction: Any) -> frozenset[str]:
    if direction in _GEO:
        return _WITHIN
    if any(kind in _SPECIAL for _, kind in index.keys):
        return frozenset()
    null = _NULL if index.finds_null else frozenset()
    if isinstance(direction, int | float):
        return _ORDERED | null
    return _EQUAL | null if direction == "hashed" else frozenset()


def _is_served(filter_: Filter, prefix: str, leading: Mapping[str, frozenset[str]]) -> bool:
    return any(_is_entry_served(key, value, prefix, leading) for key, value in filter_.items())


def _is_entry_served(
    key: str, value: Any, prefix: str, leading: Mapping[str, frozenset[str]]
) -> bool:
    if key == "$text":
        return True
    if key == "$and":
        return any(_is_served(branch, prefix, leading) for branch in value)
    if key == "$or":
        return all(_is_served(branch, prefix, leading) for branch in value)
    if key[:1] == "$" or not isinstance(value, Mapping):
        return False
    path = f"{prefix}{key}"
    served = leading.get(path, frozenset())
    if served & value.keys() and (value.get("$eq", path) is not None or served >= _NULL):
        return True
    inner = value.get("$elemMatch")
    return isinstance(inner, Mapping) and _is_served(inner, f"{path}.", leading)


class BadWhere(FieldFailure):
    """A wrong condition; `path` is where it is, from the inside out."""

    def __init__(self, what: str, code: str = "") -> None:
        super().__init__(what, code, Classification.VALIDATION)
        self.path: list[str] = []

    def under(self, step: str) -> BadWhere:
        """Add the step around the condition."""
        self.path.append(step)
        return self

    def located(self, argument: str, code: str) -> FieldFailure:
        """Return the failure with its location in the message; `code` if it has none itself."""
        where = "".join((argument, *reversed(self.path)))
        return FieldFailure(f"{where}: {self.message}", self.code or code, self.classification)


MAX_KEYS: Final = 16  # a sort of MongoDB has 32 at most


@dataclass(frozen=True, slots=True)
class OrderSpec:
    """Allowed values of `orderBy`: paths by field, or fields of objects and related documents."""

    fields: Mapping[str, str | Mapping[str, Any]]
    indexed_only: bool = False
    ascending: Any = "ASC"  # the author may have an enum SortOrder that stores other values
    related: Mapping[str, Any] = field(default_factory=dict)  # `RelatedOrder` by computed property


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
    target = fields[name]
    try:
        if not isinstance(target, str):
            return _read_entry(value, target)
        if value is None:
            raise BadWhere("must be ASC or DESC")
    except BadWhere as bad:
        raise bad.under(f".{name}") from None
    return target, value
