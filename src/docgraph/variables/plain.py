"""Positions where values are just values: compared, counted, or not to be supplied at all."""

from __future__ import annotations

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

__all__ = ["LITERAL", "PLAIN", "VALUE", "build_parts", "take_value"]


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


VALUE = Position(build_parts, take_value)
"""A value inside a condition: without it, the condition holds for nothing."""

PLAIN = Position(build_parts, take_value, absent=None)
"""A value outside of conditions: a null from a default is a null."""

LITERAL = Position(
    build_parts,
    take_value,
    closed="a name of a stage, operator, collection or field cannot be supplied from outside",
)
