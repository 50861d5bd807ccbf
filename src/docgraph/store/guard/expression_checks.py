"""Cost limits of expressions: find them in filters, projections and stages, and check each.

A stage sees what the stages before it computed: thirty times `$set` can double an array as well as
nested `$let` can. A dotted name may lead through an array: MongoDB evaluates its expression once
for each element.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from bson import Regex

from docgraph.exchange.data import TrustedDocument
from docgraph.store.guard.expression_cost import Analysis, check_pattern
from docgraph.store.guard.operands import PLAIN
from docgraph.store.guard.references import ExpressionPath, nested_pipelines
from docgraph.store.guard.sizes import (
    ELEMENT,
    TRUSTED,
    WRITTEN,
    CostModel,
    ExpressionScope,
    Form,
    LoopElement,
    Size,
    add,
    close,
    deepest,
    join,
)

# In lower case, as `has_key` expects them: operators that make a caller's filter costly, and those
# that let a caller's value grow in an author's expression.
COSTLY: Final = frozenset({"$expr", "$regex"})
COSTLY_VALUES: Final = frozenset({"$range", "$map", "$filter", "$reduce", "$replaceall", "$zip"})

_COMPUTING: Final = frozenset({"$addFields", "$project", "$set"})
_REPLACING: Final = frozenset({"$replaceRoot", "$replaceWith"})
_SEARCHING: Final = frozenset({"$search", "$searchMeta"})
_FILTERS: Final = frozenset({"query", "restrictSearchWithMatch", "filter"})  # of stages
# All other stages can build documents of others: at most so many levels around what they get, such
# as the document, the array and the value of `{"$push": ["$x"]}`.
_KEEPING_DEPTH: Final = frozenset(
    """
    $count $densify $geoNear $limit $redact $sample $skip $sort $unset $unwind
    """.split()
)
_BUILT_LEVELS: Final = 4
_SEVERAL: Final = frozenset({"let", "output"})
_ONLY_FIND: Final = frozenset({"$elemMatch", "$meta", "$slice"})


def check_filter_cost(filter: Any, origin: str, *, trusted: bool = False) -> None:
    """Raise `ExpressionTooLarge` for a filter whose expressions can cost too much."""
    analysis = Analysis(TRUSTED if trusted else WRITTEN)
    _walk_filter(analysis, filter, ExpressionPath(None, origin))


def check_projection_cost(projection: Mapping[str, Any], origin: str) -> None:
    """Raise `ExpressionTooLarge` for a projection whose expressions can cost too much."""
    analysis, place = Analysis(WRITTEN), ExpressionPath(None, origin)
    _compute(analysis, projection, analysis.scope(), place)


def check_pipeline_cost(
    pipeline: Any, origin: str, *, trusted: bool = False, model: CostModel | None = None
) -> ExpressionScope:
    """Raise `ExpressionTooLarge` for costly stages; return the sizes of their results."""
    analysis = Analysis(model or (TRUSTED if trusted else WRITTEN))
    return _walk_stages(analysis, pipeline, analysis.scope(), ExpressionPath(None, origin))


def _walk_filter(analysis: Analysis, value: Any, place: ExpressionPath) -> None:
    if isinstance(value, Mapping):
        if isinstance(value, TrustedDocument) and not analysis.model.trusted:
            analysis = Analysis(TRUSTED)
        for key, inner in value.items():
            below = ExpressionPath(place, key)
            if key == "$expr":
                analysis.measure(inner, analysis.scope(), 1, below)
            else:
                is_text = key == "$regex" and isinstance(inner, str)
                _walk_filter(analysis, Regex(inner) if is_text else inner, below)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            _walk_filter(analysis, inner, ExpressionPath(place, index))
    elif not analysis.model.trusted and isinstance(value, Regex | re.Pattern):
        analysis.count_pattern(place)
        check_pattern(value.pattern, place)


def _walk_stages(
    analysis: Analysis, pipeline: Any, scope: ExpressionScope, place: ExpressionPath
) -> ExpressionScope:
    for index, stage in enumerate(pipeline if isinstance(pipeline, list | tuple) else ()):
        for name, body in stage.items() if isinstance(stage, Mapping) else ():
            below = ExpressionPath(ExpressionPath(place, index), name)
            scope = _walk_stage(analysis, name, body, scope, below)
    return scope


def _walk_stage(
    analysis: Analysis, name: str, body: Any, scope: ExpressionScope, place: ExpressionPath
) -> ExpressionScope:
    if name == "$match":
        _walk_filter(analysis, body, place)
    elif name in _COMPUTING and isinstance(body, Mapping):
        return scope.compute(_compute(analysis, body, scope, place))
    elif name in _REPLACING:
        if name == "$replaceRoot" and isinstance(body, Mapping):
            body = body.get("newRoot")
        size = analysis.measure(body, scope, 1, place)
        return ExpressionScope(size._replace(built=Form()), scope.variables)
    elif name not in _SEARCHING:
        return _walk_other(analysis, name, body, scope, place)
    return scope


def _walk_other(
    analysis: Analysis, name: str, body: Any, scope: ExpressionScope, place: ExpressionPath
) -> ExpressionScope:
    """Check a stage whose results are not measured; they can be deeper than its input."""
    nested = dict(nested_pipelines(name, body))
    for key in _FILTERS & body.keys() if isinstance(body, Mapping) else ():
        _walk_filter(analysis, body[key], ExpressionPath(place, key))
    depths = [analysis.model.stored.depth]
    for key, part in _find_expressions(body, nested):
        depths.append(
            analysis.measure(part, scope, 1, ExpressionPath(place, key) if key else place).depth
        )
    # The variables of `let` are as deep as these.
    analysis.deepen(deepest([scope.document.depth, *depths]))
    for key, stages in nested.items():
        inner = _walk_stages(analysis, stages, analysis.scope(), ExpressionPath(place, key))
        depths.append(inner.document.depth)
    if name in _KEEPING_DEPTH:
        return scope
    built = deepest(depths).add(_BUILT_LEVELS)
    analysis.deepen(built)
    scope = scope.deepen(built)
    analysis.check_depth(scope.document.depth, place)
    return scope


def _find_expressions(body: Any, nested: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a stage that may be expressions, each with its key."""
    if not isinstance(body, Mapping) or any(key[:1] == "$" for key in body):
        yield "", body
        return
    for key, part in body.items():
        if key in _SEVERAL and isinstance(part, Mapping):
            yield from part.items()
        elif key not in nested and key not in _FILTERS and isinstance(part, Mapping | list | str):
            yield key, part


def _compute(
    analysis: Analysis,
    body: Mapping[str, Any],
    scope: ExpressionScope,
    place: ExpressionPath,
    prefix: str = "",
) -> dict[str, Size]:
    """Return the sizes of computed properties, by the first step of their names."""
    computed: dict[str, Size] = {}
    for key, value in body.items():
        path, below = f"{prefix}{key}", ExpressionPath(place, key)
        name = path.partition(".")[0]
        if isinstance(value, Mapping) and value and not any(field[:1] == "$" for field in value):
            inner = _compute(analysis, value, scope, below, f"{path}.")
        elif isinstance(value, Mapping) and _is_of_find(value):
            _walk_filter(analysis, value, below)
            continue
        elif "." in path:
            inner = {name: _compute_below(analysis, path, value, scope, below)}
        else:
            inner = {name: analysis.measure(value, scope, 1, below)}
        for first_step, size in inner.items():
            analysis.keep(size.built, below)
            earlier = computed.get(first_step)
            computed[first_step] = size if earlier is None else _merge(earlier, size)
    return computed


def _is_of_find(value: Mapping[str, Any]) -> bool:
    """Return whether the value is a projection operator: `$elemMatch`, `$meta`, `$slice`."""
    if len(value) != 1:
        return False
    ((name, body),) = value.items()
    items = body if type(body) is list else [body]
    is_plain = all(isinstance(item, int | float) for item in items)
    return name in _ONLY_FIND and (name != "$slice" or is_plain)


def _compute_below(
    analysis: Analysis, path: str, value: Any, scope: ExpressionScope, place: ExpressionPath
) -> Size:
    """Return the size of a nested property; it is computed for each element of an array."""
    name, *names = path.split(".")
    around = scope.read(name)
    turns = max(around.bytes.peak() / ELEMENT, 1)
    part = LoopElement(around.bytes, turns)
    share = Size(Form(0, {part: 1}), around.length, around.inner, around.low, around.high)
    share = share._replace(depth=around.depth)
    if not analysis.model.trusted:
        analysis.charge(Form(turns * PLAIN), 1, place)
    inside = replace(scope, below=(name, share))
    size = analysis.measure(value, inside, turns, place)
    built = close(size.built, part, Form(turns))
    analysis.check_size(Size(bytes=built), place)  # of all elements: they are no one value
    lengths = [form.resolve(part, around.bytes) for form in (size.length, size.inner)]
    inner = add(join([around.length, around.inner, *lengths]), Form(1))
    keys = Form(sum(len(step) + ELEMENT for step in names))
    grown = close(add(size.bytes, keys), part, Form(turns))
    # Arrays in arrays stay around what is set in them, however many there are.
    depth = size.depth.add(around.depth.levels + len(names))
    analysis.check_depth(depth, place)
    size = around._replace(bytes=add(around.bytes, grown), length=inner, inner=inner)
    return size._replace(built=built, depth=depth)


def _merge(first: Size, other: Size) -> Size:
    """Return the size of a property that is set in two places."""
    return Size(
        add(first.bytes, other.bytes),
        add(first.length, other.length),
        add(first.inner, other.inner, other.length),
        min(first.low, other.low),
        max(first.high, other.high),
        first.supplied or other.supplied,
        built=add(first.built, other.built),
        depth=deepest([first.depth, other.depth]),
    )
