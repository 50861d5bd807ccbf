"""Fields of `Query` for a collection: one document by key, and a list with filters and sorts.

Filters and sorts follow the existing indexes. For a collection that is not too large, other useful
properties become filters, too: a full scan takes a moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from docgraph_workbench.infer.candidates import is_plain
from docgraph_workbench.infer.field_names import (
    NamePool,
    camel,
    is_name,
    pascal,
    safe_name,
    singular,
    split_words,
)
from docgraph_workbench.infer.model import Argument, EnumType, Field, Model, ScalarProperty
from docgraph_workbench.infer.survey import Surveyed

SORT_ORDER: Final = "SortOrder"
_DEFAULT_LIMIT: Final = 20
_MAX_FILTERS: Final = 14
_MAX_SORTS: Final = 8
_DEEPEST: Final = 3  # levels of a property that can become a filter
_NUMBERS: Final = frozenset({"Int", "Long", "Float", "Decimal128"})
_COUNTS: Final = frozenset({"Int", "Long"})
_FILTERED: Final = frozenset({"String", "Boolean", "ObjectId", "UUID", "ID", "DateTime", *_NUMBERS})
_CALLED: Final = frozenset(
    "name title label subject headline firstname lastname fullname displayname".split()
)
_TELLING: Final = _CALLED | frozenset(
    "code slug sku status type kind category country city state language currency email username "
    "year date number brand genre tag rated no login handle phone serial reference barcode isbn "
    "ean iata icao symbol ticker vin pnr".split()
)
_PROSE: Final = frozenset(
    "text body content description bio plot summary message comment html markdown note".split()
)
_NAMING: Final = frozenset("id ids number no code zip zipcode postcode key".split())
_WORDS_OF_WHERE: Final = frozenset({"and", "or", "not", "search"})
_UNASKED: Final = frozenset({"BsonDocument", "Regex", "Timestamp"})
_SELECTIVE: Final = 0.5  # a string that is repeated this often can become a filter
_FOUND_BY: Final = "text"  # kind of an index

_FilterArguments = tuple[
    tuple[Argument, ...], dict[str, Any]
]  # the condition when all arguments are given


@dataclass(frozen=True, slots=True)
class ListBuilder:
    """Builds the fields of `Query` for one collection."""

    collection: Surveyed
    type_name: str
    leaves: Sequence[ScalarProperty]
    names: Mapping[tuple[str, ...], str]  # of the fields
    references: frozenset[tuple[str, ...]]
    model: Model

    def build_list(self, name: str) -> Field:
        """Build the field for all documents, with filters and with sorts that an index serves."""
        names = NamePool(("limit", "skip", "where", "orderBy"))
        conditions: list[Any] = []
        arguments: list[Argument] = []
        for given, condition in self._filters(names):
            arguments += [argument for argument in given if argument not in arguments]
            wanted = [argument.name for argument in given]
            conditions.append({"$ifarg": [wanted if len(wanted) > 1 else wanted[0], condition]})
        sorts = self.build_sorts(names, _MAX_SORTS)
        mapping = self.build_mapping({"$and": conditions} if conditions else {}, sorts)
        arguments += [argument for argument, _ in sorts]
        return Field(
            name,
            f"[{self.type_name}!]!",
            {**page_mapping(mapping), **self._build_indexed()},
            [*arguments, *page_arguments()],
            description="Each argument that is given narrows the list" if conditions else "",
        )

    def build_mapping(
        self, find: dict[str, Any], sorts: Sequence[tuple[Argument, str]] = ()
    ) -> dict[str, Any]:
        """Build a query on the collection."""
        mapping: dict[str, Any] = {"db": self.collection.db, "collection": self.collection.name}
        mapping["find"] = find
        if sorts:
            mapping["sort"] = {path: {"$arg": [argument.name, None]} for argument, path in sorts}
        return mapping

    def build_single(self, name: str, leaf: ScalarProperty, argument: str) -> Field:
        """Build the field for the document with that value of a key."""
        find = {leaf.text: {"$arg": argument}}
        mapping = self.build_mapping(find)
        return Field(name, self.type_name, mapping, [Argument(argument, f"{leaf.type}!")])

    def find_keys(self) -> Iterator[ScalarProperty]:
        """Yield properties with a unique index of their own."""
        for leaf in self.leaves:
            is_key = leaf.path != ("_id",) and self.collection.is_unique(leaf.text)
            if is_key and not leaf.is_repeated and leaf.type in _FILTERED:
                yield leaf

    def _build_indexed(self) -> dict[str, Any]:
        """Build `filter` and `orderBy` from the indexed properties."""
        operators: dict[str, list[str]] = {}
        orders: list[str] = []
        for leaf in self.leaves:
            type_ = self._find_type(leaf) if self.collection.has_index(leaf.text) else None
            name = ".".join(self._words_of(leaf))
            if type_ is None or name in _WORDS_OF_WHERE:
                continue
            base = type_.strip("[]!")
            possible = _list_operators(base, is_enum=base in self.model.enums)
            if type_.startswith("["):
                operators[name] = ["has", "any"]
            elif possible:
                operators[name] = [
                    operator for operator in possible if operator != "range" or not leaf.arrays
                ]
                orders.append(name)
        generated: dict[str, Any] = {}
        if operators and self._is_free("Where"):
            generated["filter"] = {"fields": operators, "indexed-only": True}
        if orders and self._is_free("Order"):
            generated["orderBy"] = {"fields": orders, "indexed-only": True}
        return generated

    def _is_free(self, suffix: str) -> bool:
        """Return whether no type is called like one that `filter` or `orderBy` generates."""
        name = f"{self.type_name}{suffix}"
        return not any(taken.startswith(name) for taken in (*self.model.types, *self.model.enums))

    def _find_type(self, leaf: ScalarProperty) -> str | None:
        """Return the type of the field of a property; None: it has none, or one of lists."""
        if not self._is_askable(leaf):
            return None
        type_name, field_type = self.type_name, ""
        for name in self._words_of(leaf):
            owner = self.model.types.get(type_name)
            field = None if owner is None else owner.fields.get(name)
            if field is None or isinstance(field.mapping, dict):
                return None
            field_type, type_name = field.type, field.type.strip("!")
        return (
            None
            if field_type.startswith("[[") or field_type.strip("[]!") in _UNASKED
            else field_type
        )

    def build_sorts(self, names: NamePool, most: int) -> list[tuple[Argument, str]]:
        """Build the arguments for the sort, each with its property."""
        sorts = [
            (Argument(names.claim(f"sortBy{pascal(_words(leaf.path))}"), SORT_ORDER), leaf.text)
            for leaf in self._sorted_leaves()[:most]
        ]
        if sorts:
            values = {"ASC": 1, "DESC": -1}
            description = "Ascending or descending"
            self.model.enums.setdefault(SORT_ORDER, EnumType(SORT_ORDER, values, description))
        return sorts

    def _sorted_leaves(self) -> list[ScalarProperty]:
        """Return properties with an index, and in small collections dates, numbers and names."""
        able = [
            leaf
            for leaf in self.leaves
            if not leaf.is_repeated
            and self._is_askable(leaf)
            and leaf.path not in self.references
            and leaf.type not in ("ObjectId", "UUID", "ID")
        ]
        first = [leaf for leaf in able if self.collection.has_index(leaf.text)]
        others = [leaf for leaf in able if leaf not in first and self.collection.is_scanned]
        wanted = ("DateTime", *_NUMBERS)
        telling = [
            leaf
            for leaf in others
            if len(leaf.path) < _DEEPEST and (leaf.type in wanted or _is_called(leaf))
        ]
        telling.sort(key=lambda leaf: (leaf.type != "DateTime", not _is_called(leaf)))
        sortable = [
            leaf for leaf in (*first, *telling) if leaf.path != ("_id",) and leaf.distinct != 1
        ]
        return sorted(sortable, key=lambda leaf: (len(leaf.path), leaf.type != "DateTime"))

    def _filters(self, names: NamePool) -> Iterator[_FilterArguments]:
        if any(kind == _FOUND_BY for index in self.collection.indexes for _, kind in index.keys):
            name = names.claim("search")
            yield (Argument(name, "String"),), {"$text": {"$search": {"$arg": name}}}
        ranked = sorted(
            ((rank, leaf) for leaf in self.leaves if (rank := self._rank(leaf)) is not None),
            key=lambda pair: pair[0],
        )
        for _, leaf in ranked[:_MAX_FILTERS]:
            yield from self._filter(leaf, names)

    def _filter(self, leaf: ScalarProperty, names: NamePool) -> Iterator[_FilterArguments]:
        path, base = leaf.path, self._name_filter(leaf)
        is_key = path in self.references or _is_number_of(path)
        if leaf.type not in ("DateTime", "Float", "Decimal128") or is_key:
            name = names.claim(base)
            yield (Argument(name, leaf.type),), {leaf.text: {"$arg": name}}
        if leaf.type == "String" and _is_called(leaf) and self.collection.is_scanned:
            name = names.claim(_join([base, "matches"]))
            yield (Argument(name, "Regex"),), {leaf.text: {"$arg": name}}
        if (leaf.type in _NUMBERS or leaf.type == "DateTime") and not is_key:
            yield from _filter_range(leaf, base, names)

    def _name_filter(self, leaf: ScalarProperty) -> str:
        """Name a filter: `tags` is queried by `tag`, unless another property has that name."""
        words = self._words_of(leaf)
        single = _join([*words[:-1], _one_of(words[-1])])
        is_free = all(_join(self._words_of(other)) != single for other in self.leaves)
        return single if leaf.is_list and is_free else _join(words)

    def _words_of(self, leaf: ScalarProperty) -> list[str]:
        path = leaf.path
        return [self.names.get(path[:end], path[end - 1]) for end in range(1, len(path) + 1)]

    def _is_askable(self, leaf: ScalarProperty) -> bool:
        return all(map(is_plain, leaf.path)) and (
            leaf.type in _FILTERED or leaf.type in self.model.enums
        )

    def _rank(self, leaf: ScalarProperty) -> tuple[int, int] | None:
        """Return the priority of a property as a filter; None: never."""
        if not self._is_askable(leaf) or leaf.path == ("_id",):
            return None
        keys = [key for index in self.collection.indexes for key, _ in index.keys]
        if leaf.text in keys:
            return (0 if self.collection.has_index(leaf.text) else 1, keys.index(leaf.text))
        if not self.collection.is_scanned or len(leaf.path) > _DEEPEST:
            return None
        rank = self._rank_by_look(leaf)
        return None if rank is None else (rank + len(leaf.path), 0)

    def _rank_by_look(self, leaf: ScalarProperty) -> int | None:
        """Return the priority of a property without an index, by its values."""
        if leaf.path in self.references:
            return 2
        if leaf.distinct == 1 or (leaf.is_list and leaf.type in _NUMBERS):
            return None
        if leaf.type in self.model.enums or leaf.type == "Boolean" or _is_telling(leaf):
            return 3
        if leaf.type == "DateTime":
            return 4
        if leaf.type in _COUNTS or leaf.type in _NUMBERS:
            return 6
        if not _PROSE.isdisjoint(split_words(leaf.path[-1])):
            return None
        if leaf.type != "String" or leaf.is_prose:
            return None
        is_selective = not leaf.is_varied and leaf.distinct <= leaf.filled * _SELECTIVE
        return 5 if is_selective else 7


def _list_operators(type_: str, *, is_enum: bool) -> list[str]:
    if type_ == "String":
        return ["eq", "in", "range", "prefix"]
    if type_ in _NUMBERS or type_ == "DateTime":
        return ["eq", "in", "range"]
    return ["eq", "in"] if is_enum or type_ in _FILTERED else []


def _filter_range(leaf: ScalarProperty, base: str, names: NamePool) -> Iterator[_FilterArguments]:
    """Yield a filter for each end of a range.

    Below an array one element must be within both ends: two conditions would also match a document
    in which one element satisfies the first and another element the second.
    """
    is_date = leaf.type == "DateTime"
    ends = {"from": "$gte", "before": "$lt"} if is_date else {"min": "$gte", "max": "$lte"}
    arguments = [Argument(names.claim(_join([base, end])), leaf.type) for end in ends]
    bounds = [
        {operator: {"$arg": argument.name}}
        for argument, operator in zip(arguments, ends.values(), strict=True)
    ]
    for argument, bound in zip(arguments, bounds, strict=True):
        yield (argument,), {leaf.text: bound}
    if leaf.arrays:
        yield tuple(arguments), _match_one(leaf.path, leaf.arrays, bounds[0] | bounds[1])


def _match_one(
    path: Sequence[str],
    arrays: Sequence[tuple[int, bool]],
    condition: dict[str, Any],
    start: int = 0,
) -> dict[str, Any]:
    """Build the filter for documents with one value that satisfies all of the condition."""
    if not arrays:
        return {".".join(path[start:]): condition} if path[start:] else condition
    (end, is_mixed), *inner = arrays
    array = ".".join(path[start:end])
    element = {array: {"$elemMatch": _match_one(path, inner, condition, end)}}
    if not is_mixed:
        return element
    single = _match_one(path, inner, condition, start)
    return {"$or": [element, {"$and": [{array: {"$not": {"$type": "array"}}}, single]}]}


def page_arguments() -> list[Argument]:
    """Return the arguments for pagination: limit and skip."""
    return [Argument("limit", "Int", str(_DEFAULT_LIMIT)), Argument("skip", "Int", "0")]


def page_mapping(mapping: dict[str, Any]) -> dict[str, Any]:
    """Return the same query with pagination."""
    return {**mapping, "skip": {"$arg": "skip"}, "limit": {"$arg": "limit"}}


def _is_called(leaf: ScalarProperty) -> bool:
    """Return whether the property is a name or title of the document."""
    words = split_words(leaf.path[-1])
    return bool(words) and words[-1] in _CALLED and leaf.type == "String"


def _is_telling(leaf: ScalarProperty) -> bool:
    words = split_words(leaf.path[-1])
    return bool(words) and singular(words[-1]) in _TELLING


def _is_number_of(path: Sequence[str]) -> bool:
    """Return whether the property is an identifying number: ranges make no sense."""
    return not _NAMING.isdisjoint(split_words(path[-1])[-1:])


def _one_of(name: str) -> str:
    """Return the singular: `tags` is queried by `tag`."""
    words = split_words(name)
    last = words[-1] if words else ""
    if not last or not name.lower().endswith(last):
        return name
    single, start = singular(last), len(name) - len(last)
    return name[:start] + (single.capitalize() if name[start].isupper() else single)


def _words(path: Sequence[str]) -> list[str]:
    return [word for name in path for word in split_words(name)] or ["field"]


def _join(names: Sequence[str]) -> str:
    """Return the names of a path as one, in the style of the first."""
    if len(names) == 1:
        return safe_name(names[0])
    if any("_" in name.strip("_") for name in names):
        return safe_name("_".join(name.strip("_") for name in names))
    first = names[0] if is_name(names[0]) else camel(_words(names[:1]))
    return safe_name(first + "".join(name[:1].upper() + name[1:] for name in names[1:]))
