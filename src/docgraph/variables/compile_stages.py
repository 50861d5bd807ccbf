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
    Compilation,
    ConstantTemplate,
    PartPath,
    Position,
    Render,
    build_optional,
    combine_document,
    combine_list,
    describe,
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


def _build_stages(
    compilation: Compilation, value: Any, where: PartPath, position: Position
) -> Render:
    if not isinstance(value, list):
        return compilation.flaw(where, f"must be an array of stages, not {describe(value)}")
    parts = [_build_entry(compilation, item, (*where, i)) for i, item in enumerate(value)]
    if all(isinstance(part, ConstantTemplate) for part in parts):
        return ConstantTemplate(value)

    def render(scope: Scope) -> list[Any]:
        return [stage for part in parts for stage in part(scope)]

    return render


def _build_entry(compilation: Compilation, value: Any, where: PartPath) -> Render:
    """Compile an entry of a list of stages: it renders to no, one or several stages."""
    optional = compilation.vocabulary.optional
    if isinstance(value, Mapping) and optional in value:
        if len(value) != 1:
            return compilation.flaw((*where, optional), f"{optional} must be the only key")

        def build_branch(branch: Any, place: PartPath) -> Render:
            if isinstance(branch, list):
                return compilation.build(branch, place, STAGES)
            return _build_entry(compilation, branch, place)

        place = (*where, optional)
        return build_optional(compilation, value[optional], place, "stage", build_branch, list)
    stage = compilation.build(value, where, _STAGE)
    if isinstance(stage, ConstantTemplate):
        return ConstantTemplate([stage.value])
    return lambda scope: [] if (rendered := stage(scope)) is NOTHING else [rendered]


def _build_stage(
    compilation: Compilation, value: Any, where: PartPath, position: Position
) -> Render:
    if not isinstance(value, Mapping):
        return compilation.flaw(where, f"a stage must be an object, not {describe(value)}")
    if len(value) != 1 or not (name := next(iter(value))).startswith("$"):
        return compilation.flaw(where, "a stage must have exactly one key, the name of the stage")
    body = compilation.build(value[name], (*where, name), _BODIES.get(name, PLAIN))
    if isinstance(body, ConstantTemplate):
        compilation.constants[(*where, name)] = value
        return ConstantTemplate(value)
    compilation.open_stages[(*where, name)] = value

    def render(scope: Scope) -> Any:
        rendered = body(scope)
        if rendered is NOTHING:
            rendered = MATCH_NOTHING
        # the server would reject a sort without fields
        return NOTHING if name == "$sort" and not rendered else {name: rendered}

    return render


def _document(positions: Mapping[str, Position], others: Position) -> Position:
    """Return the position of the body of a stage with named parts."""

    def build(compilation: Compilation, value: Any, where: PartPath, position: Position) -> Render:
        if not isinstance(value, Mapping):
            return compilation.build(value, where, others)
        parts = {}
        for key, item in value.items():
            part = compilation.build(item, (*where, key), positions.get(key, others))
            if isinstance(part, ConstantTemplate) and where[-1] in _COMPUTED:
                group = {"_id": None} if where[-1] == "$group" else {}
                compilation.constants[(*where, key)] = {str(where[-1]): {**group, key: item}}
            parts[key] = part if isinstance(part, ConstantTemplate) else _never_nothing(part)
        return combine_document(value, parts)

    return Position(build, read_value, closed="the body of this stage cannot come from outside")


def _never_nothing(part: Render) -> Render:
    return lambda scope: MATCH_NOTHING if (value := part(scope)) is NOTHING else value


def _build_facets(
    compilation: Compilation, value: Any, where: PartPath, position: Position
) -> Render:
    if not isinstance(value, Mapping):
        return compilation.flaw(where, f"must be an object of pipelines, not {describe(value)}")
    parts = {k: compilation.build(v, (*where, k), STAGES) for k, v in value.items()}
    if all(isinstance(part, ConstantTemplate) for part in parts.values()):
        return ConstantTemplate(value)
    # the server requires at least one stage in each
    return lambda scope: {key: part(scope) or [{"$match": {}}] for key, part in parts.items()}


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


def _build_outputs(
    compilation: Compilation, value: Any, where: PartPath, position: Position
) -> Render:
    if not isinstance(value, Mapping):
        return compilation.flaw(where, f"must be an object, not {describe(value)}")
    for name, output in value.items():
        for key in output if isinstance(output, Mapping) else ():
            if key[:1] == "$":
                compilation.see_operator(key, "expression", (*where, name, key))
    parts = {k: compilation.build(v, (*where, k), _OUTPUT) for k, v in value.items()}
    return combine_document(value, parts)


# What a caller may supply to a search: the searched values, never the properties (`path`, the
# fields of `like`, or the `field:` in the language of `queryString`).
_SEARCHED = frozenset({"query", "value", "gt", "gte", "lt", "lte", "origin", "pivot"})


def _build_search(
    compilation: Compilation, value: Any, where: PartPath, position: Position
) -> Render:
    if isinstance(value, list):
        parts = [compilation.build(item, (*where, i), _SEARCH) for i, item in enumerate(value)]
        return combine_list(value, parts)
    if not isinstance(value, Mapping):
        return ConstantTemplate(value)
    is_text = where[-1] == "queryString"
    named: dict[str, Render] = {}
    for key, item in value.items():
        inner = LITERAL if is_text else PLAIN if key in _SEARCHED else _SEARCH
        named[key] = compilation.build(item, (*where, key), inner)
    return combine_document(value, named)


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
