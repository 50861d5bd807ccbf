"""What a request writes: which paths, and which values there.

Its body says it in several ways: nested or in dot notation, plainly or inside update operators, as
one document, as many, or as a pipeline; and the filter of an update that creates its document adds
to that (`seeds.py`). Whatever cannot be named exactly counts as writing everything, and a value
that only the database can find out is unclear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from docgraph.access.language.seeds import UNCLEAR, Seed
from docgraph.access.language.texts import NoValue

__all__ = [
    "Changes",
    "Steps",
    "Values",
    "Written",
    "contains_key",
    "find_written",
    "split_key",
    "written_paths",
]

Steps = tuple[str, ...]

_MAX_DEPTH: Final = 200
_NOW: Final = "$currentDate"  # the one operator that a document may hold
_STORING: Final = frozenset({"$set", "$setOnInsert", "$push", "$addToSet", "$min", "$max"})
_TAKING: Final = frozenset({"$unset", "$rename", "$pull", "$pullAll", "$pop"})
_CHANGING: Final = frozenset({_NOW, "$inc", "$mul", "$bit"})
_SETTING_STAGES: Final = frozenset({"$set", "$addFields"})


@dataclass(frozen=True, slots=True)
class Changes:
    """What a request writes; of a body that is an array, the service says what its elements are."""

    body: Any
    is_update: bool = False
    seeds: tuple[Seed, ...] = ()

    @property
    def parts(self) -> list[Any]:
        """The documents, operators or stages of the body."""
        return self.body if isinstance(self.body, list) else [self.body]

    @property
    def is_pipeline(self) -> bool:
        """Whether the parts are stages."""
        return self.is_update and isinstance(self.body, list)


class Written(NamedTuple):
    """A place that is written; not `is_exact`: and nobody knows what below it, or around it."""

    path: Steps
    is_exact: bool = True

    def may_touch(self, key: Steps) -> bool:
        """Whether something at or below the key is written, or could be."""
        return self.is_within(key) or (not self.is_exact and _overlap(self.path, key))

    def is_within(self, key: Steps) -> bool:
        """Whether all that is written is at or below the key."""
        return self.path[: len(key)] == key


EVERYTHING: Final = Written((), is_exact=False)


def split_key(key: str) -> Steps:
    """The steps of a key in dot notation; positions in arrays do not count."""
    first, *rest = key.split(".")
    return (first, *(step for step in rest if not step.isdigit() and step[:1] != "$"))


# --- paths ----------------------------------------------------------------------------------------


def written_paths(changes: Changes) -> Iterator[Written]:
    """Every leaf that is written; operators themselves do not count."""
    for path, value in changes.seeds:
        steps = split_key(path)
        is_clear = value is not UNCLEAR
        yield from _leaves(value, steps) if is_clear else [Written(steps, is_exact=False)]
    for part in changes.parts:
        if not isinstance(part, dict):
            yield EVERYTHING
        elif changes.is_pipeline:
            yield from _find_in_stage(part)
        else:
            for key, value in part.items():
                if key[:1] == "$":
                    yield from _find_in_operator(key, value)
                else:
                    yield from _leaves(value, split_key(key))


def _find_in_stage(stage: Mapping[str, Any]) -> Iterator[Written]:
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


def _find_in_operator(operator: str, fields: Any) -> Iterator[Written]:
    if not isinstance(fields, dict):
        yield EVERYTHING
    elif operator in _STORING:
        yield from _find_in_fields(fields, _leaves)
    elif operator in _TAKING or operator in _CHANGING:
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
            first, *rest = split_key(key)
            steps = () if first.isdigit() else (first,)
            yield from _leaves(inner, (*path, *steps, *rest), depth + 1, stage=stage)
    elif isinstance(value, list) and value:
        for item in value:
            yield from _leaves(item, path, depth + 1, stage=stage)
    else:
        yield Written(path, is_exact=not (stage and _is_expression(value)))


def _is_expression(value: Any) -> bool:
    """Whether a stage takes the value for something to be computed."""
    return isinstance(value, str) and value[:1] == "$"


# --- values ---------------------------------------------------------------------------------------


class Values(NamedTuple):
    """The values that are stored at a key; `is_everywhere`: every document gets one."""

    found: tuple[Any, ...]
    is_everywhere: bool


def find_written(changes: Changes, steps: Steps) -> Values:
    """Every value that is stored at the key; raises `NoValue` where that cannot be told."""
    seeded = [value for seed in changes.seeds for value in _find_plain(dict([seed]), steps)]
    found = [_find_in_part(part, steps, changes) for part in changes.parts]
    values = (*seeded, *(value for several in found for value in several))
    if any(value is UNCLEAR for value in values):
        raise NoValue("what is stored cannot be told from the request")
    return Values(values, bool(seeded) or (bool(found) and all(found)))


def _find_in_part(part: Any, steps: Steps, changes: Changes) -> list[Any]:
    if not isinstance(part, dict):
        return [UNCLEAR]
    if changes.is_pipeline:
        return list(_find_in_set_stage(part, steps))
    return list(_find_in(part, steps))


def _find_in(document: dict[str, Any], steps: Steps) -> Iterator[Any]:
    plain = {key: value for key, value in document.items() if key[:1] != "$"}
    yield from _find_plain(plain, steps)
    for key, value in document.items():
        if key == "$set" and isinstance(value, dict):
            yield from _find_plain(value, steps)
        elif key[:1] == "$" and _may_write(key, value, steps):
            yield UNCLEAR


def _may_write(operator: str, fields: Any, steps: Steps) -> bool:
    return any(_overlap(one.path, steps) for one in _find_in_operator(operator, fields))


def _find_in_set_stage(stage: dict[str, Any], steps: Steps) -> Iterator[Any]:
    """Values that the stage takes as they are; an object is merged into what is there."""
    name, fields = next(iter(stage.items())) if len(stage) == 1 else ("", None)
    if name not in _SETTING_STAGES or not isinstance(fields, dict):
        yield UNCLEAR
        return
    for value in _find_plain(fields, steps):
        yield value if _is_constant(value) else UNCLEAR


def _is_constant(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_constant, value))
    return not isinstance(value, dict) and not _is_expression(value)


def _find_plain(value: Any, steps: Steps, *, top: bool = True) -> Iterator[Any]:
    if not steps:
        yield value
    elif isinstance(value, dict):
        concerned = [key for key in value if _overlap(split_key(key), steps)]
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
                yield from _find_plain(value[key], steps[len(own) :], top=False)
    elif isinstance(value, list):
        for item in value:
            yield from _find_plain(item, steps, top=False)


def contains_key(changes: Changes, steps: Steps) -> bool:
    """Whether the key is there, flat or nested, in every document that is written."""
    if any(value is not UNCLEAR and _contains({key: value}, steps) for key, value in changes.seeds):
        return True
    parts = changes.parts
    return bool(parts) and all(_part_contains(part, steps, changes) for part in parts)


def _part_contains(part: Any, steps: Steps, changes: Changes) -> bool:
    if isinstance(part, dict) and changes.is_pipeline:
        values = _find_in_part(part, steps, changes)
        return bool(values) and all(value is not UNCLEAR for value in values)
    return _contains(part, steps)


def _contains(value: Any, steps: Steps, *, top: bool = True) -> bool:
    """In arrays every element must have it."""
    if not steps:
        return True
    if isinstance(value, list):
        return bool(value) and all(_contains(item, steps, top=False) for item in value)
    if not isinstance(value, dict):
        return False
    for key, inner in value.items():
        own = split_key(key)
        if own[: len(steps)] == steps:  # `status.a` writes a part of `status`
            return True
        if steps[: len(own)] == own and _contains(inner, steps[len(own) :], top=False):
            return True
        is_operator = key in _STORING or key in _CHANGING
        if top and is_operator and isinstance(inner, dict) and _contains(inner, steps, top=False):
            return True
    return False


def _overlap(left: Steps, right: Steps) -> bool:
    length = min(len(left), len(right))
    return left[:length] == right[:length]
