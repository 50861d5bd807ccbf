"""Pipelines in templates: which part of which stage is a filter, an expression, a pipeline.

Stage names and operator names are the author's. A caller can supply values in filters, expressions,
sorts and numbers. Optional stages can be in every list of stages (decision 9).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from docgraph.store.guard.references import change_nested
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
    EXPRESSION,
    LITERAL,
    NUMBER,
    PLAIN,
    SORT,
    read_value,
)
from docgraph.variables.filters import FILTER, WHOLE_FILTER
from docgraph.variables.resolvers import Scope
from docgraph.variables.value_marks import MATCH_NOTHING, NOTHING

# Stages whose fields the database can check one by one.
_COMPUTED = frozenset({"$project", "$addFields", "$set", "$group"})
_CLOSED = "stages cannot be supplied from outside"


def _build_stages(part: TemplatePart) -> Render:
    if not isinstance(part.value, list):
        return part.misfit("an array of stages")
    entries = [_build_entry(part.at(step, entry)) for step, entry in enumerate(part.value)]

    def render(scope: Scope) -> list[Any]:
        return [stage for entry in entries for stage in entry(scope)]

    return unless_constant(part.value, entries, render)


def _build_entry(part: TemplatePart) -> Render:
    """Compile an entry of a list of stages: it renders to no, one or several stages."""
    optional = part.compilation.vocabulary.optional
    if isinstance(part.value, Mapping) and optional in part.value:
        inner = part.at(optional, part.value[optional])
        if len(part.value) != 1:
            return inner.flaw(f"{optional} must be the only key")

        def build_branch(step: int, branch: Any) -> Render:
            if isinstance(branch, list):
                return inner.build(step, branch, STAGES)
            return _build_entry(inner.at(step, branch))

        return build_optional(inner, "stage", build_branch, list)
    stage = part.compilation.build(part.value, part.where, _STAGE)
    if isinstance(stage, ConstantTemplate):
        return ConstantTemplate([stage.value])
    return lambda scope: [] if (rendered := stage(scope)) is NOTHING else [rendered]


def _build_stage(part: TemplatePart) -> Render:
    value = part.value
    if not isinstance(value, Mapping):
        return part.flaw(f"a stage must be an object, not {describe(value)}")
    if len(value) != 1 or not (name := next(iter(value))).startswith("$"):
        return part.flaw("a stage must have exactly one key, the name of the stage")
    body = part.build(name, value[name], _BODIES.get(name, PLAIN))
    place = (*part.where, name)
    if isinstance(body, ConstantTemplate):
        part.compilation.constants[place] = value
        return ConstantTemplate(value)
    part.compilation.open_stages[place] = value

    def render(scope: Scope) -> Any:
        rendered = body(scope)
        if rendered is NOTHING:
            rendered = MATCH_NOTHING
        # the server would reject a sort without fields
        return NOTHING if name == "$sort" and not rendered else {name: rendered}

    return render


def _document(positions: Mapping[str, Position], others: Position) -> Position:
    """Return the position of the body of a stage with named parts."""

    def build(part: TemplatePart) -> Render:
        if not isinstance(part.value, Mapping):
            return part.compilation.build(part.value, part.where, others)
        stage, parts = str(part.where[-1]), {}
        for key, item in part.value.items():
            member = part.build(key, item, positions.get(key, others))
            if isinstance(member, ConstantTemplate) and stage in _COMPUTED:
                group = {"_id": None} if stage == "$group" else {}
                part.compilation.constants[(*part.where, key)] = {stage: {**group, key: item}}
            parts[key] = member if isinstance(member, ConstantTemplate) else _never_nothing(member)
        return combine_document(part.value, parts)

    return Position(build, read_value, closed="the body of this stage cannot come from outside")


def _never_nothing(part: Render) -> Render:
    return lambda scope: MATCH_NOTHING if (value := part(scope)) is NOTHING else value


def _build_facets(part: TemplatePart) -> Render:
    if not isinstance(part.value, Mapping):
        return part.misfit("an object of pipelines")
    facets = part.build_members(STAGES)

    def render(scope: Scope) -> Any:  # the server requires at least one stage in each
        return {key: facet(scope) or [{"$match": {}}] for key, facet in facets.items()}

    return unless_constant(part.value, facets.values(), render)


def flatten_stages(stages: Any, optional: str) -> list[Any]:
    """Return every stage that could run, optional ones and their alternatives in sequence.

    This is the input of a checker; it is not a meaningful pipeline. Values that do not have the
    shape of a stage are left out.
    """
    flat: list[Any] = []
    for stage in stages if isinstance(stages, list) else [stages]:
        if not isinstance(stage, Mapping) or len(stage) != 1:
            continue
        ((name, body),) = stage.items()
        if name == optional:
            for branch in body[1:] if isinstance(body, list) else ():
                flat += flatten_stages(branch, optional)
        else:
            flat.append(
                {name: change_nested(name, body, partial(flatten_stages, optional=optional))}
            )
    return flat


STAGES = Position(_build_stages, read_value, closed=_CLOSED)
_STAGE = Position(_build_stage, read_value, closed=_CLOSED)
_EXPRESSIONS = _document({}, EXPRESSION)
_OUTPUT = _document({"window": PLAIN}, EXPRESSION)


def _build_outputs(part: TemplatePart) -> Render:
    if not isinstance(part.value, Mapping):
        return part.misfit("an object")
    for name, output in part.value.items():
        for key in output if isinstance(output, Mapping) else ():
            if key[:1] == "$":
                part.compilation.see_operator(key, "expression", (*part.where, name, key))
    return combine_document(part.value, part.build_members(_OUTPUT))


# What a caller may supply to a search: the searched values, never the properties (`path`, the
# fields of `like`, or the `field:` in the language of `queryString`).
_SEARCHED = frozenset({"query", "value", "gt", "gte", "lt", "lte", "origin", "pivot"})


def _build_search(part: TemplatePart) -> Render:
    if isinstance(part.value, list):
        return combine_list(part.value, part.build_elements(_SEARCH))
    if not isinstance(part.value, Mapping):
        return ConstantTemplate(part.value)
    is_text = part.where[-1] == "queryString"
    named: dict[str, Render] = {}
    for key, item in part.value.items():
        inner = LITERAL if is_text else PLAIN if key in _SEARCHED else _SEARCH
        named[key] = part.build(key, item, inner)
    return combine_document(part.value, named)


_SEARCH = Position(_build_search, read_value, closed=LITERAL.closed)

_BODIES: dict[str, Position] = {
    "$match": WHOLE_FILTER,
    "$sort": SORT,
    "$limit": NUMBER,
    "$skip": NUMBER,
    "$sample": NUMBER,
    "$count": LITERAL,
    "$unset": LITERAL,
    "$unwind": LITERAL,
    "$facet": Position(_build_facets, read_value, closed=_CLOSED),
    "$lookup": _document({"let": _EXPRESSIONS, "pipeline": STAGES}, LITERAL),
    "$unionWith": _document({"pipeline": STAGES}, LITERAL),
    "$graphLookup": _document(
        {"startWith": EXPRESSION, "restrictSearchWithMatch": FILTER, "maxDepth": NUMBER}, LITERAL
    ),
    "$geoNear": _document(
        {"query": FILTER, "key": LITERAL, "distanceField": LITERAL, "includeLocs": LITERAL}, PLAIN
    ),
    "$search": _SEARCH,
    "$searchMeta": _SEARCH,
    "$vectorSearch": _document(
        {"queryVector": PLAIN, "numCandidates": NUMBER, "limit": NUMBER, "filter": FILTER}, LITERAL
    ),
    "$bucketAuto": _document({"buckets": NUMBER, "granularity": PLAIN}, EXPRESSION),
    "$setWindowFields": _document(
        {"sortBy": SORT, "output": Position(_build_outputs, read_value, closed=_CLOSED)}, EXPRESSION
    ),
    "$fill": _document({"sortBy": SORT, "partitionByFields": LITERAL}, EXPRESSION),
    "$densify": _document({"field": LITERAL, "partitionByFields": LITERAL}, PLAIN),
    "$replaceWith": EXPRESSION,
    "$redact": EXPRESSION,
    "$sortByCount": EXPRESSION,
    "$replaceRoot": _EXPRESSIONS,
    "$project": _EXPRESSIONS,
    "$addFields": _EXPRESSIONS,
    "$set": _EXPRESSIONS,
    "$group": _EXPRESSIONS,
    "$bucket": _EXPRESSIONS,
    "$documents": EXPRESSION,
}
