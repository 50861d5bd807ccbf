"""Sorts in templates: field names with 1 or -1; a direction that is null is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docgraph.variables.compilation import (
    Compilation,
    ConstantTemplate,
    Place,
    Position,
    Render,
    describe,
)
from docgraph.variables.errors import UnusableValue
from docgraph.variables.plain import read_number
from docgraph.variables.scope import Scope

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


def _is_direction(value: Any) -> bool:
    if isinstance(value, Mapping):  # {"$meta": "textScore"}
        return list(value) == ["$meta"]
    return not isinstance(value, bool) and value in (1, -1)


def _build_direction(
    compilation: Compilation, value: Any, where: Place, position: Position
) -> Render:
    if not _is_direction(value):
        return compilation.flaw(where, 'a sort direction must be 1, -1 or {"$meta": "textScore"}')
    return ConstantTemplate(value)


def _build_sort_by(
    compilation: Compilation, value: Any, where: Place, position: Position
) -> Render:
    if isinstance(value, Mapping):
        return _build_sort(compilation, value, where, position)
    return _build_direction(compilation, value, where, position)


def _build_sort(compilation: Compilation, value: Any, where: Place, position: Position) -> Render:
    if not isinstance(value, Mapping):
        return compilation.flaw(where, f"must be an object, not {describe(value)}")
    for path in value:
        if path != _NATURAL and (path[:1] == "$" or not all(path.split("."))):
            compilation.flaw((*where, path), f"{path!r} is not the path of a field")
    parts = {k: compilation.build(v, (*where, k), _DIRECTION) for k, v in value.items()}
    if value and _NATURAL not in value:  # which only a find can have
        compilation.open_stages[where] = {"$sort": value}
    if all(isinstance(part, ConstantTemplate) for part in parts.values()):
        return ConstantTemplate(value)

    def render(scope: Scope) -> dict[str, Any]:
        directions = {key: part(scope) for key, part in parts.items()}
        return {key: item for key, item in directions.items() if item is not None}

    return render


_DIRECTION = Position(_build_direction, _read_direction, absent=None)
SORT = Position(_build_sort, _read_sort, absent=None)
SORT_BY = Position(_build_sort_by, _read_sort, absent=None)
"""`sortBy` of an operator: in `$sortArray` it may be a direction alone."""
