"""Filters in templates (`find`, `$match`): documents of conditions, and conditions.

A supplied value is compared, never run: a document or list from outside is wrapped in `$eq`. Only
an argument of the type Regex is a pattern; a stored regular expression is a value like others. A
missing value (a null from a default) makes the smallest condition around it match nothing (decision
9): an alternative of `$or` is removed, a conjunction with it matches nothing, `$nor` over it loses
it. A negated condition (`$ne`, `$nin`, `$not`) is one condition like any other and matches nothing,
too: a filter without its value fails closed. A missing foreign key makes the whole filter match
nothing, wherever it is (decision 11).

Null elements of a foreign key that is an array are dropped under a plain `$in`, which joins. Under
every other operator, and so under an `$in` inside `$not`, `$nor` or `$elemMatch`, they have the
database's meaning (decision 11): dropping one there would widen the condition.

An optional condition (`$ifarg`) is a whole filter or a member of `$and`, where its removal is
unambiguous. Elsewhere it is not allowed: a removed alternative of `$or` could mean two things.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from docgraph.exchange.data import SeveralKinds, TrustedDocument
from docgraph.variables.compilation import (
    ConstantTemplate,
    Position,
    Render,
    TemplatePart,
    build_optional,
    combine_document,
    combine_list,
    describe,
    unless_constant,
)
from docgraph.variables.compile_expressions import (
    CONDITION_EXPRESSION,
    LITERAL,
    VALUE,
    build_parts,
    read_value,
)
from docgraph.variables.errors import UnusableValue
from docgraph.variables.resolvers import Scope
from docgraph.variables.value_marks import (
    LEFT_OUT,
    NOTHING,
    CallerDocument,
    KindChoices,
    check_caller_document,
    check_regex_length,
)

_LOGICAL = frozenset({"$and", "$or", "$nor"})
_LIST_OF = {"$eq": "$in", "$ne": "$nin"}


def _read_filter(value: Any) -> Any:
    if isinstance(value, CallerDocument):
        check_caller_document(value)
        return value
    if isinstance(value, TrustedDocument):
        return value
    if not isinstance(value, dict):
        raise UnusableValue(f"a filter must be an object, not {describe(value)}")
    for key in value:
        if key.startswith("$"):
            raise UnusableValue(f"{key} cannot come from a value")
    return {key: _read_condition(item) for key, item in value.items()}


def _read_condition(value: Any) -> Any:
    if isinstance(value, CallerDocument | TrustedDocument):
        return read_value(value)
    if isinstance(value, SeveralKinds):
        choices = KindChoices(value.candidates)
        return choices[0] if len(choices) == 1 else {"$in": choices}
    return {"$eq": value} if isinstance(value, dict | list) else value


def _read_stored_condition(value: Any) -> Any:
    return {"$eq": value} if _is_pattern(value) else _read_condition(value)


def _read_negated(value: Any) -> Any:
    return read_value(value) if _is_pattern(value) else _read_stored_negated(value)


def _read_stored_negated(value: Any) -> Any:
    if isinstance(value, CallerDocument | TrustedDocument):
        return read_value(value)
    return {"$in": list(value.candidates)} if isinstance(value, SeveralKinds) else {"$eq": value}


def _is_pattern(value: Any) -> bool:
    return hasattr(value, "pattern")


def _read_list(value: Any) -> Any:
    if value is None:
        raise UnusableValue("a list of values is needed, not null")
    return [read_value(item) for item in value] if isinstance(value, list) else [read_value(value)]


def _read_choices(value: Any) -> Any:
    return _list_kinds(_read_list(value))


def _list_kinds(values: list[Any]) -> list[Any]:
    """Replace each value of an `ID` or `UUID` by all stored values that it may mean."""
    if not any(isinstance(value, SeveralKinds) for value in values):
        return values
    if len(values) == 1:
        return KindChoices(values[0].candidates)
    return [
        kind
        for value in values
        for kind in (value.candidates if isinstance(value, SeveralKinds) else (value,))
    ]


def _read_stored_choices(value: Any) -> Any:
    """Drop regular expressions under `$in`: they would match texts instead of being compared."""
    return [item for item in _read_list(value) if not _is_pattern(item)] or NOTHING


def _read_key_choices(value: Any) -> Any:
    values = value if isinstance(value, list) else [value]
    return _read_stored_choices([item for item in values if item is not None])


def _read_stored_list(value: Any) -> Any:
    """Reject regular expressions in negations and `$all`: dropping one changes the meaning."""
    values = _read_list(value)
    if any(map(_is_pattern, values)):
        raise UnusableValue("a stored regular expression cannot be compared in $nin, $not or $all")
    return values


def _read_filters(value: Any) -> Any:
    return [_read_filter(item) for item in _read_list(value)]


def _read_pattern(value: Any) -> Any:
    if isinstance(value, str):
        check_regex_length(value)
    elif not _is_pattern(value):
        raise UnusableValue(f"a regular expression must be a string, not {describe(value)}")
    return value


def _build_filter(part: TemplatePart) -> Render:
    if not isinstance(part.value, Mapping):
        return part.misfit("an object")
    parts = {}
    for key, item in part.value.items():
        place = (*part.where, key)
        if key.startswith("$"):
            part.compilation.see_operator(key, "filter", place)
        parts[key] = part.build(key, item, _position_of(key, part.position))
        if isinstance(parts[key], ConstantTemplate):
            part.compilation.constants[place] = {"$match": {key: item}}
    render = combine_document(part.value, parts)
    return _without_empty(render) if parts.keys() & {"$and", "$nor"} else render


def _position_of(key: str, around: Position) -> Position:
    if key == "$expr":
        return CONDITION_EXPRESSION
    if key == "$jsonSchema":
        return LITERAL  # nearly every value in it is the name of a field, or a condition on one
    if key == "$nor":
        return _NEITHER
    if key in _LOGICAL:
        return replace(_ALTERNATIVES if key == "$or" else _CONJUNCTION, choices=around.choices)
    return VALUE if key.startswith("$") else replace(CONDITION, choices=around.choices)


def _without_empty(render: Render) -> Render:
    """Remove a `$nor` or `$and` that lost its members; the database rejects empty ones."""
    if isinstance(render, ConstantTemplate):
        return render

    def without(scope: Scope) -> Any:
        document = render(scope)
        if document is NOTHING:
            return NOTHING
        if not document.get("$nor", True):
            del document["$nor"]
        if document.get("$and") is LEFT_OUT:
            del document["$and"]
        return document

    return without


def _build_conjunction(part: TemplatePart) -> Render:
    conjunction = combine_list(part.value, _build_filters(part, WHOLE_FILTER))
    if isinstance(conjunction, ConstantTemplate):
        return conjunction

    def render(scope: Scope) -> Any:
        filters = conjunction(scope)
        return NOTHING if filters is NOTHING else list(filter(None, filters)) or LEFT_OUT

    return render


def _build_alternatives(part: TemplatePart) -> Render:
    parts, is_negated = _build_filters(part, FILTER), part.where[-1] == "$nor"

    def render(scope: Scope) -> Any:
        filters = [item for part in parts if (item := part(scope)) is not NOTHING]
        return filters if filters or is_negated else NOTHING

    return unless_constant(part.value, parts, render)


def _build_filters(part: TemplatePart, each: Position) -> list[Render]:
    if not isinstance(part.value, list) or not part.value:
        return [part.flaw("must be an array of one filter or more")]
    return part.build_elements(replace(each, choices=part.position.choices))


def _build_optional(part: TemplatePart) -> Render:
    conjunction = replace(_CONJUNCTION, choices=part.position.choices)

    def build_branch(step: int, branch: Any) -> Render:
        if not isinstance(branch, list):
            return part.build(step, branch, part.position)
        several = part.build(step, branch, conjunction)

        def join(scope: Scope) -> Any:
            filters = several(scope)
            if filters is NOTHING:
                return NOTHING
            return {} if filters is LEFT_OUT else {"$and": filters}

        return join

    return build_optional(part, "condition", build_branch, dict)


def _build_condition(part: TemplatePart) -> Render:
    if isinstance(part.value, Mapping) and any(key.startswith("$") for key in part.value):
        return _build_operators(part)
    return build_parts(replace(part, position=VALUE))


def _build_operators(part: TemplatePart) -> Render:
    if not isinstance(part.value, Mapping):
        return build_parts(replace(part, position=VALUE))
    parts = {}
    for key, item in part.value.items():
        if key.startswith("$"):
            part.compilation.see_operator(key, "condition", (*part.where, key))
        parts[key] = part.build(key, item, _operator_position(key, part.position))
    render = combine_document(part.value, parts)
    return _compare_kinds(render) if parts.keys() & _LIST_OF.keys() else render


def _compare_kinds(render: Render) -> Render:
    """Compare an `ID` or `UUID` under `$eq` and `$ne` with all stored values that it may mean."""
    if isinstance(render, ConstantTemplate):
        return render

    def compare(scope: Scope) -> Any:
        document = render(scope)
        for single, several in _LIST_OF.items() if document is not NOTHING else ():
            value = document.get(single)
            if not isinstance(value, SeveralKinds) or len(value.candidates) == 1:
                continue  # a text with one meaning stays an equality
            del document[single]
            if single == "$eq" and several in document:
                # One of these kinds, next to an `$in` of other values.
                if "$not" in document:
                    text = "$eq with an ID next to $in and $not: write them as members of $and"
                    raise UnusableValue(text)
                document["$not"] = {"$nin": list(value.candidates)}
            else:
                document[several] = KindChoices([*document.get(several, ()), *value.candidates])
        return document

    return compare


def _operator_position(key: str, around: Position) -> Position:
    if key == "$in":
        return around.choices or _CHOICES
    if key == "$elemMatch":
        return replace(_ELEMENT_MATCH, choices=around.choices or _ELEMENT_CHOICES)
    return _OPERATORS.get(key, VALUE)


def _build_element_match(part: TemplatePart) -> Render:
    keys = part.value if isinstance(part.value, Mapping) else ()
    if keys and all(key.startswith("$") and key not in _LOGICAL for key in keys):
        return _build_operators(part)
    return _build_filter(part)


def _build_in(part: TemplatePart) -> Render:
    """Compile `$in`: an element without value is dropped; an empty list matches nothing."""
    if not isinstance(part.value, list):
        return part.misfit("an array")
    choices = part.build_elements(_CHOICE)

    def render(scope: Scope) -> Any:
        items = [item for choice in choices if (item := choice(scope)) is not NOTHING]
        return _list_kinds(items) or NOTHING

    return unless_constant(part.value, choices, render)


def _build_list(part: TemplatePart) -> Render:
    if not isinstance(part.value, list):
        return part.misfit("an array")
    inner = build_parts(replace(part, position=VALUE))
    if isinstance(inner, ConstantTemplate):
        return inner

    def render(scope: Scope) -> Any:
        items = inner(scope)
        return NOTHING if items is NOTHING else _list_kinds(items)

    return render


def _build_all(part: TemplatePart) -> Render:
    """Compile `$all`: values, or conditions on elements (`$elemMatch`)."""
    if not isinstance(part.value, list):
        return part.misfit("an array")
    conditions = replace(VALUE, literal=_build_condition, choices=_ELEMENT_CHOICES)
    return combine_list(part.value, part.build_elements(conditions))


FILTER = Position(_build_filter, _read_filter)
WHOLE_FILTER = replace(FILTER, optional=_build_optional)
CONDITION = Position(_build_condition, _read_condition, _read_stored_condition)
_CONJUNCTION = Position(_build_conjunction, _read_filters)
_ALTERNATIVES = Position(_build_alternatives, _read_filters)
_CHOICE = Position(
    build_parts, read_value, lambda value: NOTHING if _is_pattern(value) else read_value(value)
)

_CHOICES = Position(
    _build_in,
    lambda value: _read_choices(value) or NOTHING,
    _read_stored_choices,
    _read_key_choices,
)
_ELEMENT_CHOICES = replace(_CHOICES, adapt_key=None)
_NEITHER_CHOICES = Position(_build_in, _read_choices, _read_stored_list)
_WHOLE_LIST = Position(_build_list, _read_choices, _read_stored_list)

_NEITHER = replace(_ALTERNATIVES, choices=_NEITHER_CHOICES)
_ELEMENT_MATCH = Position(_build_element_match, _read_filter)
_OPERATORS = {
    "$nin": _WHOLE_LIST,
    "$all": Position(_build_all, _read_list, _read_stored_list),
    "$not": Position(_build_operators, _read_negated, _read_stored_negated, choices=_WHOLE_LIST),
    "$regex": Position(build_parts, _read_pattern),
}
