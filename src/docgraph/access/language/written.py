"""Which paths a request writes.

Its body says it in several ways: nested or in dot notation, plainly or inside update operators, as
one document, as many, or as a pipeline; and the filter of an update that creates its document adds
to that (`seeds.py`). Whatever cannot be named exactly counts as writing everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from docgraph.access.language.steps import EVERYTHING, Steps, Written, split_key
from docgraph.access.language.texts import NoValue

__all__ = [
    "CHANGING",
    "STORING",
    "find_in_operator",
    "find_in_stage",
    "is_expression",
    "written_paths",
]

_MAX_DEPTH: Final = 200
STORING: Final = frozenset({"$set", "$setOnInsert", "$push", "$addToSet", "$min", "$max"})
CHANGING: Final = frozenset({"$currentDate", "$inc", "$mul", "$bit"})
_TAKING: Final = frozenset({"$unset", "$rename", "$pull", "$pullAll", "$pop"})
_SETTING_STAGES: Final = frozenset({"$set", "$addFields"})


def written_paths(part: Any, *, is_stage: bool) -> Iterator[Written]:
    """Every leaf that a document, or a stage, writes; operators themselves do not count."""
    if not isinstance(part, dict):
        yield EVERYTHING
    elif is_stage:
        yield from find_in_stage(part)
    else:
        for key, value in part.items():
            if key[:1] == "$":
                yield from find_in_operator(key, value)
            else:
                yield from _leaves(value, split_key(key))


def find_in_stage(stage: Mapping[str, Any]) -> Iterator[Written]:
    """Stages other than these write whole documents (`$replaceWith`, `$project`), or are none."""
    name, value = next(iter(stage.items())) if len(stage) == 1 else ("", None)
    if name in _SETTING_STAGES and isinstance(value, dict):
        yield from _find_in_fields(value, lambda content, path: _leaves(content, path, stage=True))
    elif name == "$unset" and isinstance(value, str):
        yield Written(split_key(value), is_exact=False)
    elif name == "$unset" and isinstance(value, list) and all(isinstance(o, str) for o in value):
        yield from (Written(split_key(path), is_exact=False) for path in value)
    else:
        yield EVERYTHING


def find_in_operator(operator: str, fields: Any) -> Iterator[Written]:
    """What an update operator writes."""
    if not isinstance(fields, dict):
        yield EVERYTHING
    elif operator in STORING:
        yield from _find_in_fields(fields, _leaves)
    elif operator in _TAKING or operator in CHANGING:
        for path, operand in fields.items():
            yield Written(split_key(path), is_exact=False)
            if operator == "$rename":
                is_path = isinstance(operand, str)
                yield Written(split_key(operand), is_exact=False) if is_path else EVERYTHING
    else:
        yield EVERYTHING


def _find_in_fields(
    fields: Mapping[str, Any], find: Callable[[Any, Steps], Iterator[Written]]
) -> Iterator[Written]:
    for path, content in fields.items():
        if path[:1] == "$":
            yield EVERYTHING
        else:
            yield from find(content, split_key(path))


def _leaves(value: Any, path: Steps, depth: int = 0, *, stage: bool = False) -> Iterator[Written]:
    if depth > _MAX_DEPTH:
        raise NoValue("the body is nested too deeply")
    if isinstance(value, dict) and any(key[:1] == "$" for key in value):
        yield Written(path, is_exact=False)
    elif isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, (*path, *split_key(key)), depth + 1, stage=stage)
    elif isinstance(value, list) and value:
        for item in value:
            yield from _leaves(item, path, depth + 1, stage=stage)
    else:
        yield Written(path, is_exact=not (stage and is_expression(value)))


def is_expression(value: Any) -> bool:
    """Whether a stage takes the value for something to be computed."""
    return isinstance(value, str) and value[:1] == "$"
