"""Plain values in templates: compared, counted, or not to be supplied at all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from docgraph.variables.compilation import (
    Compilation,
    ConstantTemplate,
    Place,
    Position,
    Render,
    combine_document,
    combine_list,
)
from docgraph.variables.value_marks import CallerDocument, check_caller_document


def read_value(value: Any) -> Any:
    """Return a supplied value unchanged; a caller's document is always checked."""
    if isinstance(value, CallerDocument):
        check_caller_document(value)
    return value


def build_parts(compilation: Compilation, value: Any, where: Place, position: Position) -> Render:
    """Compile documents and lists part by part, everything else unchanged."""
    if isinstance(value, Mapping):
        parts = {k: compilation.build(v, (*where, k), position) for k, v in value.items()}
        return combine_document(value, parts)
    if isinstance(value, list):
        return combine_list(
            value, [compilation.build(v, (*where, i), position) for i, v in enumerate(value)]
        )
    return ConstantTemplate(value)


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
