"""Which values a request stores at a key, and whether the key is there at all.

A value that only the database can find out is unclear.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docgraph.access.language.seeds import UNCLEAR
from docgraph.access.language.steps import Steps, is_number, may_overlap, split_key
from docgraph.access.language.written import (
    CHANGING,
    STORING,
    find_in_operator,
    find_in_stage,
    is_expression,
)

__all__ = ["find_in_document", "find_in_set_stage", "find_plain", "has_key"]


def find_in_document(document: Any, steps: Steps) -> Iterator[Any]:
    """The values that a document, or the operators of an update, store."""
    if not isinstance(document, dict):
        yield UNCLEAR
        return
    plain = {key: value for key, value in document.items() if key[:1] != "$"}
    yield from find_plain(plain, steps)
    for key, value in document.items():
        if key == "$set" and isinstance(value, dict):
            yield from find_plain(value, steps)
        elif key[:1] == "$" and any(
            may_overlap(one.path, steps) for one in find_in_operator(key, value)
        ):
            yield UNCLEAR


def find_in_set_stage(stage: Any, steps: Steps) -> Iterator[Any]:
    """The values that a stage stores; an object is merged into what is there."""
    if not isinstance(stage, dict):
        yield UNCLEAR
        return
    fields = stage.get("$set", stage.get("$addFields")) if len(stage) == 1 else None
    if isinstance(fields, dict):
        for value in find_plain(fields, steps):
            yield value if _is_constant(value) else UNCLEAR
    elif any(may_overlap(one.path, steps) for one in find_in_stage(stage)):
        yield UNCLEAR


def _is_constant(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_constant, value))
    return not isinstance(value, dict) and not is_expression(value)


def find_plain(value: Any, steps: Steps, *, top: bool = True) -> Iterator[Any]:
    """The values at the steps of what is stored as it stands."""
    if not steps:
        yield value
    elif isinstance(value, dict):
        concerned = [key for key in value if may_overlap(split_key(key), steps)]
        if len(concerned) > 1:  # `{"a.b": 1, "a": 2}`: which of them stays is up to the service
            yield UNCLEAR
            return
        for key in concerned:
            own = split_key(key)
            # `roles.0` stores a part of `roles`: what the whole is then, nobody knows. Inside an
            # object a key with a dot is a name like any other.
            is_exact = own == steps[: len(own)] and len(own) == len(key.split("."))
            if not is_exact or (not top and len(own) > 1):
                yield UNCLEAR
            else:
                yield from find_plain(value[key], steps[len(own) :], top=False)
    elif isinstance(value, list):
        yield from _find_in_list(value, steps)


def _find_in_list(value: list[Any], steps: Steps) -> Iterator[Any]:
    if not is_number(steps[0]):
        for item in value:
            yield from find_plain(item, steps, top=False)
    elif int(steps[0]) < len(value):
        yield from find_plain(value[int(steps[0])], steps[1:], top=False)


def has_key(value: Any, steps: Steps, *, top: bool = True) -> bool:
    """Whether the key is there, flat or nested; in arrays every element must have it."""
    if not steps:
        return True
    if isinstance(value, list):
        if is_number(steps[0]):
            place = int(steps[0])
            return place < len(value) and has_key(value[place], steps[1:], top=False)
        return bool(value) and all(has_key(item, steps, top=False) for item in value)
    if not isinstance(value, dict):
        return False
    for key, inner in value.items():
        own = split_key(key)
        if own[: len(steps)] == steps:  # `status.a` writes a part of `status`
            return True
        if steps[: len(own)] == own and has_key(inner, steps[len(own) :], top=False):
            return True
        is_operator = key in STORING or key in CHANGING
        if top and is_operator and isinstance(inner, dict) and has_key(inner, steps, top=False):
            return True
    return False
