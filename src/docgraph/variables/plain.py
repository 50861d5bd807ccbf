"""Positions where values are just values: compared, counted, or not to be supplied at all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from docgraph.variables.compilation import (
    Compilation,
    Constant,
    Place,
    Position,
    Render,
    combine_document,
    combine_list,
)
from docgraph.variables.values import CallerDocument, check_caller_document

__all__ = ["LITERAL", "NUMBER", "PLAIN", "VALUE", "build_parts", "take_number", "take_value"]


def take_value(value: Any) -> Any:
    """A supplied value as it is; a caller's document is checked wherever it goes."""
    if isinstance(value, CallerDocument):
        check_caller_document(value)
    return value


def build_parts(compilation: Compilation, value: Any, where: Place, position: Position) -> Render:
    """Documents and lists part by part, everything else as it is."""
    if isinstance(value, Mapping):
        parts = {k: compilation.build(v, (*where, k), position) for k, v in value.items()}
        return combine_document(value, parts)
    if isinstance(value, list):
        return combine_list(
            value, [compilation.build(v, (*where, i), position) for i, v in enumerate(value)]
        )
    return Constant(value)


_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


def take_number(value: Any) -> Any:
    """A value where a number must stand: parameters of a request are always text."""
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    return take_value(value)


VALUE = Position(build_parts, take_value)
"""A value inside a condition: without it, the condition holds for nothing."""

PLAIN = Position(build_parts, take_value, absent=None)
"""A value outside of conditions: a null from a default is a null."""

NUMBER = Position(build_parts, take_number, absent=None)
"""A number outside of conditions, also as its text."""

LITERAL = Position(
    build_parts,
    take_value,
    closed="a name of a stage, operator, collection or field cannot be supplied from outside",
)
