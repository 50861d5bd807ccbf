"""Plain values, sorts and aggregation expressions in templates.

A supplied value is compared, counted, or wrapped in `$literal`. A comparison with an absent value
(a null from a default, a missing foreign key) is false, and so is its negation by `$not`; elsewhere
in an expression an absent value is null. A direction of a sort that is null is left out.

The field name of `$getField` and similar operators must be a literal of the author. A computed name
is rejected, too: newer servers accept any expression there, and a value can reach it in many ways
(`$let`, `$map`, a property that an earlier stage has set).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from docgraph.variables.compilation import (
    ConstantTemplate,
    Position,
    Render,
    TemplatePart,
    combine_document,
    combine_list,
    describe,
    unless_constant,
)
from docgraph.variables.errors import UnusableValue
from docgraph.variables.resolvers import Scope
from docgraph.variables.value_marks import NOTHING, CallerDocument, check_caller_document


def read_value(value: Any) -> Any:
    """Return a supplied value unchanged; a caller's document is always checked."""
    if isinstance(value, CallerDocument):
        check_caller_document(value)
    return value


def build_parts(part: TemplatePart) -> Render:
    """Compile documents and lists part by part, everything else unchanged."""
    if isinstance(part.value, Mapping):
        return combine_document(part.value, part.build_members(part.position))
    if isinstance(part.value, list):
        return combine_list(part.value, part.build_elements(part.position))
    return ConstantTemplate(part.value)


_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


def read_number(value: Any) -> Any:
    """Convert a value to a number where one is required: request parameters are always text."""
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    return read_value(value)


VALUE = Position(build_parts, read_value)
"""A value inside a condition: if it is missing, the condition matches nothing."""

PLAIN = Position(build_parts, read_value, absent=None)
"""A value outside of conditions: a null from a default is a null."""

NUMBER = Position(build_parts, read_number, absent=None)
"""A number outside of conditions, also given as text."""

LITERAL = Position(
    build_parts,
    read_value,
    closed="a name of a stage, operator, collection or field cannot be supplied from outside",
)


_NATURAL = "$natural"


def _read_direction(value: Any) -> int | None:
    if value is None:
        return None
    value = read_number(value)
    if isinstance(value, bool) or value not in (1, -1):
        raise UnusableValue("a sort direction must be 1 or -1")
    return int(value)


def _read_sort(value: Any) -> dict[str, int] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise UnusableValue(
            f"a sort must be an object of fields and directions, not {describe(value)}"
        )
    if any(key.startswith("$") for key in value):
        raise UnusableValue("a sort cannot contain operators")
    directions = {key: _read_direction(item) for key, item in value.items()}
    return {key: item for key, item in directions.items() if item is not None}


def _build_direction(part: TemplatePart) -> Render:
    value = part.value
    if isinstance(value, Mapping):
        is_direction = list(value) == ["$meta"]  # {"$meta": "textScore"}
    else:
        is_direction = not isinstance(value, bool) and value in (1, -1)
    if not is_direction:
        return part.flaw('a sort direction must be 1, -1 or {"$meta": "textScore"}')
    return ConstantTemplate(value)


def _build_sort(part: TemplatePart) -> Render:
    value = part.value
    if not isinstance(value, Mapping):
        return part.misfit("an object")
    for path in value:
        if path != _NATURAL and (path[:1] == "$" or not all(path.split("."))):
            part.at(path, None).flaw(f"{path!r} is not the path of a field")
    parts = part.build_members(_DIRECTION)
    if value and _NATURAL not in value:  # which only a find can have
        part.compilation.open_stages[part.where] = {"$sort": value}

    def render(scope: Scope) -> dict[str, Any]:
        directions = {key: direction(scope) for key, direction in parts.items()}
        return {key: item for key, item in directions.items() if item is not None}

    return unless_constant(value, parts.values(), render)


def _build_sort_by(part: TemplatePart) -> Render:
    return (_build_sort if isinstance(part.value, Mapping) else _build_direction)(part)


_DIRECTION = Position(_build_direction, _read_direction, absent=None)
SORT = Position(_build_sort, _read_sort, absent=None)
SORT_BY = Position(_build_sort_by, _read_sort, absent=None)
"""`sortBy` of an operator: in `$sortArray` it may be a direction alone."""


_COMPARISONS = frozenset(
    {"$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$setIsSubset", "$setEquals", "$regexMatch"}
)

# Operators whose argument is the name of a field, or has it under `field`.
_NAMING_FIELDS = frozenset({"$getField", "$setField", "$unsetField"})


@dataclass(frozen=True, slots=True)
class _Absent:
    """An expression that contains a null in place of an absent value."""

    value: Any


# A comparison with an absent value: false, and `$not` must not invert it.
_DENIED: Final = object()


def _drop_missing(value: Any) -> Any:
    if value is _DENIED:
        return False
    return value.value if isinstance(value, _Absent) else value


def _build(part: TemplatePart) -> Render:
    rendered = _build_part(part)
    if isinstance(rendered, ConstantTemplate):
        return rendered
    return lambda scope: _drop_missing(rendered(scope))


def _build_condition(part: TemplatePart) -> Render:
    rendered = _build_part(part)
    if isinstance(rendered, ConstantTemplate):
        return rendered

    def render(scope: Scope) -> Any:
        result = rendered(scope)
        return NOTHING if result is _DENIED or isinstance(result, _Absent) else result

    return render


def _build_part(part: TemplatePart) -> Render:
    """Return the closure of a part that may render to `_Absent` or `_DENIED`."""
    value = part.value
    if isinstance(value, list):
        return _combine(value, dict(enumerate(part.build_elements(_PART))))
    if not isinstance(value, Mapping):
        return ConstantTemplate(value)
    if len(value) == 1 and (operator := next(iter(value))).startswith("$"):
        return _build_operator(operator, part.at(operator, value[operator]))
    return _combine(value, part.build_members(_PART))


def _build_operator(operator: str, part: TemplatePart) -> Render:
    compilation, value = part.compilation, part.value
    compilation.see_operator(operator, "expression", part.where)
    if operator in _SHAPED:
        compilation.open_stages[part.where] = {operator: value}
    if operator in ("$literal", "$meta"):
        # `$meta` returns what the server knows about a document, including the entry of an index.
        plain = PLAIN if operator == "$literal" else LITERAL
        return _wrap(operator, compilation.build(value, part.where, plain))
    if operator in _NAMING_FIELDS:
        _check_field(part)
    if operator == "$not" and isinstance(value, list) and len(value) == 1:
        value = value[0]  # [x] and x mean the same, and a denied x must be detected
    argument = _build_argument(replace(part, value=value))
    if isinstance(argument, ConstantTemplate):
        return ConstantTemplate({operator: argument.value})

    def render(scope: Scope) -> Any:
        operand = argument(scope)
        if operand is _DENIED:
            return _DENIED if operator == "$not" else {operator: False}
        if not isinstance(operand, _Absent):
            return {operator: operand}
        if operator == "$not" or operator in _COMPARISONS:
            return _DENIED
        expression = {operator: operand.value}
        return expression if operator == "$ifNull" else _Absent(expression)

    return render


def _check_field(part: TemplatePart) -> None:
    """Record a flaw if the name of a field is not a literal of the author."""
    if isinstance(part.value, Mapping) and "field" in part.value:
        part = part.at("field", part.value["field"])
    name = part.value
    if isinstance(name, Mapping) and list(name) == ["$literal"]:
        name = name["$literal"]
    elif isinstance(name, str) and name.startswith("$"):
        name = None  # an expression
    if not isinstance(name, str):
        part.flaw(
            "the name of a field must be written here: it cannot be supplied from outside, "
            "nor computed"
        )


def _build_argument(part: TemplatePart) -> Render:
    """Return the closure of an argument: `sortBy` is a sort, and `as` the name of a variable."""
    value = part.value
    if not isinstance(value, Mapping) or not _PARTS.keys() & value.keys():
        return part.compilation.build(value, part.where, _PART)
    parts = {key: part.build(key, item, _PARTS.get(key, _PART)) for key, item in value.items()}
    return _combine(value, parts)


def _wrap(operator: str, part: Render) -> Render:
    if isinstance(part, ConstantTemplate):
        return ConstantTemplate({operator: part.value})
    return lambda scope: {operator: part(scope)}


def _combine(source: Any, parts: Mapping[Any, Render]) -> Render:
    """Return a document or list of parts; one absent part makes it absent."""
    is_list = isinstance(source, list)

    def render(scope: Scope) -> Any:
        rendered = {key: part(scope) for key, part in parts.items()}
        settled = {key: _drop_missing(value) for key, value in rendered.items()}
        result = list(settled.values()) if is_list else settled
        absent = any(isinstance(value, _Absent) for value in rendered.values())
        return _Absent(result) if absent else result

    return unless_constant(source, parts.values(), render)


# Operators whose arguments the database checks late or not on their own (`shapes.py`).
_SHAPED = frozenset({"$meta", "$mergeObjects"})
_PART = Position(
    _build_part,
    lambda value: {"$literal": read_value(value)},
    absent=_Absent({"$literal": None}),
)
EXPRESSION = replace(_PART, literal=_build, absent={"$literal": None})
CONDITION_EXPRESSION = replace(_PART, literal=_build_condition, absent=NOTHING)
_PARTS = {"sortBy": SORT_BY, "as": LITERAL}
