"""The argument `where`: filters, full-text search and geospatial conditions of a caller.

Values stay values: an operand is the operand of one comparison, never a document of operators, and
paths come from the mapping. All conditions except `contains` and `search` cannot fail (decision
49): `prefix` is a range. Whatever a caller sends, its size is bounded here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final, NamedTuple

from docgraph.exchange.data import Filter, SeveralKinds
from docgraph.graphql.conditions import BadWhere, combine, match_values
from docgraph.graphql.list_conditions import match_element, match_list, match_object
from docgraph.graphql.related import (
    COUNTED,
    QUANTIFIERS,
    RELATION,
    RelatedCondition,
    RelationSpec,
    find_conditions,
    holds_for_zero,
)
from docgraph.variables import MATCH_NOTHING

MAX_DEPTH: Final = 10  # of `and`, `or` and `not` in each other
MAX_CONDITIONS: Final = 200
MAX_VALUES: Final = 1_000  # in all lists together
MAX_TEXT: Final = 65_536  # characters of all values together
FEWEST_CONTAINED: Final = 3
MAX_CONTAINED: Final = 256
EARTH_RADIUS: Final = 6_378_100.0  # meters, as in MongoDB
MAX_DISTANCE: Final = 20_000_000.0  # meters: nearly half of the circumference

LOGICAL: Final = ("and", "or", "not")
SEARCH: Final = "search"
RANGE: Final = ("lt", "lte", "gt", "gte")
OPERATORS: Final = (
    *("eq", "ne", "in", "nin", *RANGE, "exists", "prefix", "contains", "has", "any", "near"),
)

_LAST: Final = "\U0010ffff"
_BEFORE_SURROGATES, _AFTER_SURROGATES = "\ud7ff", "\ue000"


@dataclass(frozen=True, slots=True)
class WhereField:
    """A declared field: its path in the document, and its operators.

    `fields` are those of an embedded object, or, with `is_list`, of each of several. `fit` is what
    each element of a list satisfies, because the list is null otherwise.
    """

    path: str
    operators: frozenset[str] = frozenset()
    is_list: bool = False
    fields: Mapping[str, WhereField] = field(default_factory=dict)
    fit: Filter | None = None


@dataclass(frozen=True, slots=True)
class WhereSpec:
    """Allowed conditions of `where`; `is_root`: the field is one of Query."""

    fields: Mapping[str, WhereField]
    search: bool = False
    indexed_only: bool = False
    is_root: bool = False
    relations: Mapping[str, RelationSpec] = field(default_factory=dict)


class CompiledWhere(NamedTuple):
    """A filter, which is `MATCH_NOTHING` or empty where that is certain, and what it needs.

    `nearest` is the path whose distance orders the documents; a search orders them by relevance.
    `has_relations`: the filter has conditions on related documents, which are not resolved yet.
    """

    filter: Filter
    nearest: str = ""
    is_search: bool = False
    has_relations: bool = False


NO_CONDITION: Final = CompiledWhere({})


def compile_where(
    spec: WhereSpec, value: Mapping[str, Any] | None, relation_depth: int = 0
) -> CompiledWhere:
    """Compile the coerced value of `where`; raise `FieldFailure` for one that is not allowed."""
    if not value:
        return NO_CONDITION
    compiler = _Compiler(spec, relation_depth)
    try:
        filter_ = compiler.compile(value, 0)
    except BadWhere as bad:
        raise bad.located("where", "bad-where") from None
    if filter_ is None:
        filter_ = MATCH_NOTHING
    has_relations = bool(spec.relations) and any(True for _ in find_conditions(filter_))
    return CompiledWhere(filter_, compiler.nearest, compiler.is_search, has_relations)


class _Compiler:
    """Compiles one value. A filter is None where nothing matches, and empty where everything does.

    An operator that is not given is no condition; so is a variable without value.
    """

    def __init__(self, spec: WhereSpec, relation_depth: int) -> None:
        self._spec: WhereSpec | RelationSpec = spec
        self._relation_depth = relation_depth
        self._relations: list[str] = []  # around the current condition
        self._left = MAX_CONDITIONS
        self._values = MAX_VALUES
        self._text = MAX_TEXT
        self.nearest = ""
        self.is_search = False

    def compile(self, value: Mapping[str, Any], depth: int) -> Filter | None:
        """Return the conjunction of everything in the value."""
        if depth > MAX_DEPTH:
            raise BadWhere(f"and, or and not are nested deeper than {MAX_DEPTH} levels")
        given = ((name, part) for name, part in value.items() if part is not None)
        return _join([self._compile_entry(name, part, depth) for name, part in given])

    def _compile_entry(self, name: str, part: Any, depth: int) -> Filter | None:
        try:
            declared = self._spec.fields.get(name)
            if declared is not None:
                return self._compile_field(declared, "", part, is_top=not depth)
            relation = self._spec.relations.get(name)
            if relation is not None:
                return self._compile_relation(relation, part, depth)
            if name == SEARCH and depth:
                raise BadWhere(
                    "a search is only possible at the top of where, not in and, or and not:"
                    " the text index must find the documents"
                )
            if name == SEARCH:
                self._order_by_index(SEARCH)
                self._spend_text(part)
                self.is_search = True
                return {"$text": {"$search": part}}
            if name == "not":
                return _negate(self.compile(part, depth + 1))
            branches = self._compile_branches(part, depth)
        except BadWhere as bad:
            raise bad.under(f".{name}") from None
        if name == "and":
            return _join(branches)
        possible = [branch for branch in branches if branch is not None]
        if not possible or {} in possible:
            return {} if possible else None
        return possible[0] if len(possible) == 1 else {"$or": possible}

    def _compile_branches(self, parts: Sequence[Any], depth: int) -> list[Filter | None]:
        branches: list[Filter | None] = []
        self._spend(len(parts))
        for number, part in enumerate(parts):
            try:
                branches.append(self.compile(part, depth + 1))
            except BadWhere as bad:
                raise bad.under(f"[{number}]") from None
        return branches

    def _compile_relation(
        self, relation: RelationSpec, value: Mapping[str, Any], depth: int
    ) -> Filter | None:
        """Return the conditions on the documents of a relation, or on their number."""
        if len(self._relations) >= self._relation_depth:
            raise BadWhere(f"relations are nested deeper than {self._relation_depth} levels")
        self._relations.append(relation.name)
        outer, self._spec = self._spec, relation
        if relation.is_count:
            condition = self._compile_count(relation, value)
        elif relation.is_list:
            condition = self._compile_quantifiers(relation, value, depth)
        else:
            condition = self._compile_single(relation, value, depth)
        self._spec = outer
        self._relations.pop()
        return condition

    def _compile_single(
        self, relation: RelationSpec, value: Mapping[str, Any], depth: int
    ) -> Filter | None:
        """Return the conditions on one document: without it, only `exists: false` holds."""
        conditions: list[Filter | None] = []
        if "exists" in value:
            self._spend(1)
            present = self._relate(relation, {})
            conditions.append(present if _read_flag(value["exists"]) else _negate(present))
        before = self._left
        inner = self.compile({k: v for k, v in value.items() if k != "exists"}, depth + 1)
        if inner is None or inner or self._left < before:  # else no condition is given
            conditions.append(None if inner is None else self._relate(relation, inner))
        return _join(conditions)

    def _compile_quantifiers(
        self, relation: RelationSpec, value: Mapping[str, Any], depth: int
    ) -> Filter | None:
        conditions: list[Filter | None] = []
        for name in QUANTIFIERS:
            if value.get(name) is None:
                continue
            self._spend(1)
            try:
                inner = self.compile(value[name], depth + 1)
            except BadWhere as bad:
                raise bad.under(f".{name}") from None
            if name == "every":  # none of them satisfies the opposite
                inner = _negate(inner)
            condition = None if inner is None else self._relate(relation, inner)
            conditions.append(condition if name == "some" else _negate(condition))
        return _join(conditions)

    def _compile_count(self, relation: RelationSpec, value: Mapping[str, Any]) -> Filter | None:
        """Return the condition on a number; if zero satisfies it, that no other number does not."""
        number = WhereField(COUNTED, relation.operators)
        condition = self._compile_field(number, "", value, is_top=False)
        if condition == {}:
            return {}
        is_negated = holds_for_zero(value)
        count = _negate(condition) if is_negated else condition
        related = None if count is None else self._relate(relation, {}, count)
        return _negate(related) if is_negated else related

    def _relate(
        self, relation: RelationSpec, filter_: Filter, count: Filter | None = None
    ) -> Filter:
        path = ".".join(self._relations)
        return {RELATION: RelatedCondition(relation, filter_, path, count)}

    def _order_by_index(self, name: str) -> None:
        if self.is_search or self.nearest:
            raise BadWhere(f"{name} cannot be combined with another search or nearestFirst")

    def _compile_field(
        self, declared: WhereField, prefix: str, value: Mapping[str, Any], *, is_top: bool
    ) -> Filter | None:
        """Return the conditions on a field, or on the fields of an embedded object."""
        path = f"{prefix}{declared.path}"
        conditions: list[Filter | None] = []
        for name, operand in value.items():
            try:
                if declared.is_list and name != "near":
                    conditions.append(self._compile_list(declared, prefix, name, operand))
                else:
                    conditions.append(
                        self._compile_condition(declared, path, name, operand, is_top)
                    )
            except BadWhere as bad:
                raise bad.under(f".{name}") from None
        return _join(conditions)

    def _compile_condition(
        self, declared: WhereField, path: str, name: str, operand: Any, is_top: bool
    ) -> Filter | None:
        inner = declared.fields.get(name)
        if inner is not None:
            if operand is None:
                return {}
            return self._compile_field(inner, path and f"{path}.", operand, is_top=is_top)
        self._spend(1)
        if name == "near":
            return self._compile_near(path, operand, is_top)
        if name == "exists":
            return {path: {"$ne" if _read_flag(operand) else "$eq": None}}
        self._spend_text(operand)
        return _CONDITIONS[name](self, path, operand)

    def _compile_list(
        self, declared: WhereField, prefix: str, name: str, operand: Any
    ) -> Filter | None:
        """Return the condition on a list, or that one of its objects satisfies all conditions."""
        path, fit = declared.path, declared.fit
        if declared.fields and name == "any":
            if operand is None:
                return {}
            element = WhereField("", fields=declared.fields)
            inner = self._compile_field(element, "", operand, is_top=False)
            return None if inner is None else match_object(prefix, path, inner, fit)
        self._spend(1)
        if name == "exists":
            return match_list(prefix, path, _read_flag(operand), fit)
        self._spend_text(operand)
        kinds = _list_kinds([operand]) if name == "has" else self._read_list(operand)
        return match_element(prefix, path, kinds, fit) if kinds else None

    def _compile_near(self, path: str, value: Any, is_top: bool) -> Filter:
        if value is None:
            raise BadWhere("cannot be null")
        point = [float(value["longitude"]), float(value["latitude"])]
        distance = float(value["maxDistance"])
        if not (isfinite(distance) and 0 < distance <= MAX_DISTANCE):
            raise BadWhere(f"maxDistance must be above 0 and at most {MAX_DISTANCE:.0f} meters")
        if not (abs(point[0]) <= 180 and abs(point[1]) <= 90):  # noqa: PLR2004 - degrees
            raise BadWhere("longitude must be from -180 to 180, latitude from -90 to 90")
        if not value.get("nearestFirst"):
            return {path: {"$geoWithin": {"$centerSphere": [point, distance / EARTH_RADIUS]}}}
        if not is_top or not self._spec.is_root:
            raise BadWhere(
                "nearestFirst is only possible at the top of where of a field of Query,"
                " not in relations, and, or, not and any: the index must find the documents"
            )
        self._order_by_index("nearestFirst")
        self.nearest = path
        geometry = {"type": "Point", "coordinates": point}
        return {path: {"$nearSphere": {"$geometry": geometry, "$maxDistance": distance}}}

    def _equal(self, path: str, value: Any) -> Filter:
        return match_values(path, _list_kinds([value]))

    def _differ(self, path: str, value: Any) -> Filter:
        return _exclude(path, _list_kinds([value]))

    def _one_of(self, path: str, values: Any) -> Filter | None:
        kinds = self._read_list(values)
        return match_values(path, kinds) if kinds else None

    def _none_of(self, path: str, values: Any) -> Filter:
        kinds = self._read_list(values)
        return _exclude(path, kinds) if kinds else {}

    def _prefix(self, path: str, value: Any) -> Filter:
        if value is None:
            raise BadWhere("cannot be null")
        end = find_end(value)
        return {path: {"$gte": value} if end is None else {"$gte": value, "$lt": end}}

    def _contains(self, path: str, value: Any) -> Filter:
        if value is None or len(value) < FEWEST_CONTAINED:
            raise BadWhere(f"needs at least {FEWEST_CONTAINED} characters")
        if len(value) > MAX_CONTAINED:
            raise BadWhere(f"takes at most {MAX_CONTAINED} characters")
        if "\0" in value:
            raise BadWhere("cannot contain the character U+0000")
        return {path: {"$regex": re.escape(value)}}

    def _read_list(self, values: Any) -> list[Any]:
        if values is None:
            raise BadWhere("cannot be null")
        self._values -= len(values)
        if self._values < 0:
            raise BadWhere(
                f"the lists of where have more than {MAX_VALUES} values", "where-too-large"
            )
        return _list_kinds(values)

    def _spend(self, conditions: int) -> None:
        self._left -= conditions
        if self._left < 0:
            raise BadWhere(f"where has more than {MAX_CONDITIONS} conditions", "where-too-large")

    def _spend_text(self, value: Any) -> None:
        self._text -= _measure(value)
        if self._text < 0:
            raise BadWhere(
                f"the values of where have more than {MAX_TEXT} characters", "where-too-large"
            )


def _join(conditions: Sequence[Filter | None]) -> Filter | None:
    """Return the condition that matches when all of these match."""
    return None if None in conditions else combine(conditions)


def _negate(condition: Filter | None) -> Filter | None:
    if not condition:  # what always matches, negated, and what never does
        return {} if condition is None else None
    return {"$nor": [condition]}


def _build_range(operator: str) -> Callable[[_Compiler, str, Any], Filter]:
    def build(compiler: _Compiler, path: str, value: Any) -> Filter:
        if value is None:
            raise BadWhere("cannot be null")
        return {path: {operator: value}}

    return build


_CONDITIONS: Final[Mapping[str, Callable[[_Compiler, str, Any], Filter | None]]] = {
    "eq": _Compiler._equal,
    "ne": _Compiler._differ,
    "in": _Compiler._one_of,
    "nin": _Compiler._none_of,
    "prefix": _Compiler._prefix,
    "contains": _Compiler._contains,
    **{name: _build_range(f"${name}") for name in RANGE},
}


def _measure(value: Any) -> int:
    """Return how large a value is, in characters; numbers and dates hardly count."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(key) + _measure(item) for key, item in value.items())
    return sum(map(_measure, value)) if isinstance(value, list) else 1


def _list_kinds(values: Sequence[Any]) -> list[Any]:
    """Return the stored values that may be meant: those of an `ID` or `UUID` have several kinds."""
    return [
        kind
        for value in values
        for kind in (value.candidates if isinstance(value, SeveralKinds) else (value,))
    ]


def _exclude(path: str, values: list[Any]) -> Filter:
    condition = match_values(path, values)
    match condition.get(path):
        case {"$eq": value} if not hasattr(value, "pattern"):  # the database takes none in $ne
            return {path: {"$ne": value}}
        case {"$in": list(several)}:
            return {path: {"$nin": several}}
    return {"$nor": [condition]}


def _read_flag(value: Any) -> bool:
    if value is None:
        raise BadWhere("must be true or false")
    return bool(value)


def find_end(prefix: str) -> str | None:
    """Return the first text after all texts with this prefix; None: no text comes after them."""
    kept = prefix.rstrip(_LAST)
    if not kept:
        return None
    last = kept[-1]
    after = _AFTER_SURROGATES if last == _BEFORE_SURROGATES else chr(ord(last) + 1)
    return kept[:-1] + after
