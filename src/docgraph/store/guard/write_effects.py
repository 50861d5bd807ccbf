"""Write effects: what a write changes, by its documents, operators, stages and upsert filters.

Every security decision about a write uses this value, which is computed once per write. A change
whose path is not certain counts as a change of the whole document.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto
from functools import cached_property
from itertools import chain
from typing import Any, Final, NamedTuple

from bson import Regex

from docgraph.exchange.data import FieldPath, Write
from docgraph.store.names import EVERYTHING, Written, is_number, may_overlap, split_key

COMPUTED: Final = object()  # a value that only the database can compute

REMOVING: Final = frozenset({"$unset", "$pull", "$pullAll", "$pop"})
_STORING: Final = frozenset({"$set", "$setOnInsert", "$push", "$addToSet", "$min", "$max"})
_CALCULATING: Final = frozenset({"$currentDate", "$inc", "$mul", "$bit"})
_OPERATORS: Final = _STORING | _CALCULATING | REMOVING | {"$rename"}
_SETTING_STAGES: Final = frozenset({"$set", "$addFields"})

_ONE_VALUE: Final = frozenset({"$in", "$all"})
_LEAVING_NOTHING: Final = frozenset(
    {"$gt", "$gte", "$lt", "$lte", "$ne", "$nin", "$exists", "$type", "$mod", "$regex", "$options"}
)
_MAX_DEPTH: Final = 200
_MAX_PATHS: Final = 5_000  # different ones; every rule checks all of them


class ChangeOrigin(Enum):
    """The part of a write that contains a change."""

    DOCUMENT = auto()
    UPDATE = auto()
    STAGE = auto()
    FILTER = auto()


class WrittenChange(NamedTuple):
    """A path that a write changes, in dot notation; None: any path of the document.

    `operator` is that of an update, the name of a stage, or the logical operator that combines a
    condition of a filter. `$rename` changes two paths; what gets to the second one is `COMPUTED`.
    """

    origin: ChangeOrigin
    operator: str
    path: str | None
    operand: Any

    @property
    def is_computed(self) -> bool:
        """Whether a value that is not in the write could be stored there."""
        by_stage = self.origin is ChangeOrigin.STAGE and self.operator != "$unset"
        return self.path is None or by_stage or self.operand is COMPUTED

    @property
    def is_stored(self) -> bool:
        """Whether the operand replaces the stored value; a stage merges objects."""
        if self.path is None or self.origin is ChangeOrigin.FILTER:
            return False
        return self.origin is ChangeOrigin.DOCUMENT or self.operator in _SETTING_STAGES

    @property
    def sets_key(self) -> bool:
        """Whether the path exists after the write, regardless of what was stored before."""
        is_set = self.operator in _STORING or self.operator in _CALCULATING
        return self.path is not None and (self.is_stored or is_set)

    def list_written(self) -> Iterator[Written]:
        """Return the written leaves, as exactly as they are known."""
        is_update = self.origin in (ChangeOrigin.UPDATE, ChangeOrigin.STAGE)
        if self.path is None or self.operator == "$project" or (is_update and self.path[:1] == "$"):
            yield EVERYTHING
        elif self.origin is ChangeOrigin.FILTER:
            for value in self.list_seeds():
                yield from _list_leaves(value, split_key(self.path))
        elif self.is_stored or self.operator in _STORING:
            is_stage = self.origin is ChangeOrigin.STAGE
            yield from _list_leaves(self.operand, split_key(self.path), is_stage=is_stage)
        else:
            yield Written(split_key(self.path), is_exact=False)

    def list_seeds(self) -> Iterator[Any]:
        """Return the values that a new document gets from a condition of the filter.

        MongoDB starts a document that an upsert creates with the equalities of the filter. Ranges
        and other conditions add nothing.
        """
        condition = self.operand
        if self.operator not in ("$and", "$or") or isinstance(condition, Regex | re.Pattern):
            return
        if not isinstance(condition, Mapping) or not any(key[:1] == "$" for key in condition):
            condition = {"$eq": condition}
        for operator, operand in condition.items():
            is_one = operator in _ONE_VALUE and isinstance(operand, list | tuple)
            if operator in _LEAVING_NOTHING:
                continue
            if self.operator == "$or" or (operator != "$eq" and not (is_one and len(operand) == 1)):
                yield COMPUTED
            else:
                yield operand[0] if is_one else operand


class StoredValues(NamedTuple):
    """The values that are stored at a key; `is_everywhere`: every document gets one."""

    found: tuple[Any, ...]
    is_everywhere: bool


class WriteEffects:
    """The changes of each document, stage or update (`parts`), and those of a filter (`seeds`)."""

    def __init__(
        self,
        parts: Iterable[Iterable[WrittenChange]],
        seeds: Iterable[WrittenChange] = (),
        *,
        is_pipeline: bool = False,
    ) -> None:
        self.parts = tuple(map(tuple, parts))
        self.seeds = tuple(seeds)
        self._is_pipeline = is_pipeline
        self._values: dict[FieldPath, StoredValues | None] = {}

    @property
    def changes(self) -> Iterator[WrittenChange]:
        """The changes of all parts and of the filter."""
        return chain(*self.parts, self.seeds)

    @cached_property
    def written(self) -> tuple[Written, ...]:
        """The distinct written paths, or everything if there are too many."""
        leaves: dict[Written, None] = {}
        for leaf in chain.from_iterable(change.list_written() for change in self.changes):
            leaves[leaf] = None
            if len(leaves) > _MAX_PATHS:
                return (EVERYTHING,)
        return tuple(leaves)

    def find(self, key: FieldPath) -> StoredValues | None:
        """Return the values that are stored at the key; None: the write does not contain them."""
        if key in self._values:
            return self._values[key]
        seeded = [
            value
            for seed in self.seeds
            for stored in seed.list_seeds()
            for value in _find_in_fields([(seed.path, stored)], key)
        ]
        by_part = [list(_find_in_part(part, key)) for part in self.parts]
        values = (*seeded, *chain.from_iterable(by_part))
        # Stages follow each other on one document: it is enough if one of them stores it.
        is_everywhere = any(by_part) if self._is_pipeline else bool(by_part) and all(by_part)
        is_unknown = any(value is COMPUTED for value in values)
        stored = None if is_unknown else StoredValues(values, bool(seeded) or is_everywhere)
        self._values[key] = stored
        return stored

    def contains(self, key: FieldPath) -> bool:
        """Check if the key exists, flat or nested, in every written document."""
        if any(
            value is not COMPUTED and _has_key({seed.path: value}, key)
            for seed in self.seeds
            for value in seed.list_seeds()
        ):
            return True
        if self._is_pipeline:
            values = self.find(key)
            return values is not None and bool(values.found)
        return bool(self.parts) and all(
            any(change.sets_key and _has_key({change.path: change.operand}, key) for change in part)
            for part in self.parts
        )


def effects_of(write: Write) -> WriteEffects:
    """Return what the write changes; computed once and cached on the write."""
    effects: WriteEffects | None = getattr(write, "effects", None)
    if effects is None:
        parts = [
            *map(_read_properties, write.documents),
            *([] if write.update is None else [read_update(write.update)]),
            *map(read_stage, write.pipeline or ()),
        ]
        seeds = read_filter(write.filter) if write.upsert else ()
        effects = WriteEffects(parts, seeds, is_pipeline=write.pipeline is not None)
        object.__setattr__(write, "effects", effects)
    return effects


def read_body(body: Any) -> Iterator[WrittenChange]:
    """Return the changes by a document of a request, which may contain update operators."""
    if isinstance(body, Mapping):
        yield from _read_properties({key: body[key] for key in body if key[:1] != "$"})
        yield from read_update({key: body[key] for key in body if key[:1] == "$"})
    else:
        yield WrittenChange(ChangeOrigin.DOCUMENT, "", None, body)


def _read_properties(document: Mapping[str, Any]) -> Iterator[WrittenChange]:
    return (WrittenChange(ChangeOrigin.DOCUMENT, "", key, value) for key, value in document.items())


def list_operations(update: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Return operator, path and operand of every part of an update."""
    for operator, fields in update.items():
        for path, operand in fields.items() if isinstance(fields, Mapping) else ():
            yield operator, path, operand


def read_update(update: Mapping[str, Any]) -> Iterator[WrittenChange]:
    for operator, fields in update.items():
        if operator not in _OPERATORS or not isinstance(fields, Mapping):
            yield WrittenChange(ChangeOrigin.UPDATE, operator, None, fields)
    for operator, path, operand in list_operations(update):
        if operator in _OPERATORS:
            yield WrittenChange(ChangeOrigin.UPDATE, operator, path, operand)
        if operator == "$rename":
            target = operand if isinstance(operand, str) else None
            yield WrittenChange(ChangeOrigin.UPDATE, operator, target, COMPUTED)


def read_stage(stage: Any) -> Iterator[WrittenChange]:
    """Return the changes by a stage of an update; stages other than these write whole documents."""
    is_stage = isinstance(stage, Mapping) and len(stage) == 1
    name, body = next(iter(stage.items())) if is_stage else ("", None)
    paths = body if isinstance(body, list) else [body]
    if (name in _SETTING_STAGES or name == "$project") and isinstance(body, Mapping):
        yield from (WrittenChange(ChangeOrigin.STAGE, name, *field) for field in body.items())
    elif name == "$unset" and all(isinstance(path, str) for path in paths):
        yield from (WrittenChange(ChangeOrigin.STAGE, name, path, "") for path in paths)
    else:
        yield WrittenChange(ChangeOrigin.STAGE, name, None, body)


def read_filter(filter: Any, operator: str = "$and") -> Iterator[WrittenChange]:
    """Return the conditions of a filter, each with the operator that combines it.

    `$or` has alternatives, of which an upsert stores one or none; conditions below other operators
    are never stored.
    """
    if isinstance(filter, list | tuple):  # in place of an object: its meaning is not certain
        for branch in filter:
            yield from read_filter(branch, "$or" if operator == "$and" else operator)
    for key, condition in filter.items() if isinstance(filter, Mapping) else ():
        if key[:1] != "$":
            yield WrittenChange(ChangeOrigin.FILTER, operator, key, condition)
            continue
        branches = condition if isinstance(condition, list | tuple) else [[condition]]
        is_same = key == "$and" or (key == "$or" and (len(branches) == 1 or operator != "$and"))
        for branch in branches:
            yield from read_filter(branch, operator if is_same else key)


def _list_leaves(
    value: Any, path: FieldPath, depth: int = 0, *, is_stage: bool = False
) -> Iterator[Written]:
    if depth > _MAX_DEPTH:
        yield EVERYTHING
    elif isinstance(value, dict) and any(key[:1] == "$" for key in value):
        yield Written(path, is_exact=False)
    elif isinstance(value, dict) and value:
        for key, inner in value.items():
            below = (*path, *split_key(key))
            yield from _list_leaves(inner, below, depth + 1, is_stage=is_stage)
    elif isinstance(value, list) and value:
        for item in value:
            yield from _list_leaves(item, path, depth + 1, is_stage=is_stage)
    else:
        is_open = value is COMPUTED or (is_stage and _is_expression(value))
        yield Written(path, is_exact=not is_open)


def _is_expression(value: Any) -> bool:
    """Check if a stage computes the value."""
    return isinstance(value, str) and value[:1] == "$"


def _is_constant(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_constant, value))
    return not isinstance(value, dict) and not _is_expression(value)


def _find_in_part(part: tuple[WrittenChange, ...], key: FieldPath) -> Iterator[Any]:
    stored = [(change.path, change.operand) for change in part if change.is_stored]
    is_stage = any(change.origin is ChangeOrigin.STAGE for change in part)
    for value in _find_in_fields(stored, key):
        yield COMPUTED if is_stage and not _is_constant(value) else value
    others = chain.from_iterable(change.list_written() for change in part if not change.is_stored)
    if any(may_overlap(other.path, key) for other in others):
        yield COMPUTED


def _find_in_fields(
    fields: Iterable[tuple[str | None, Any]], steps: FieldPath, *, is_top: bool = True
) -> Iterator[Any]:
    concerned = [
        (path, value)
        for path, value in fields
        if path is not None and may_overlap(split_key(path), steps)
    ]
    if len(concerned) > 1:  # `{"a.b": 1, "a": 2}`: the service decides which one remains
        yield COMPUTED
        return
    for path, value in concerned:
        key_steps = split_key(path)
        # `roles.0` stores a part of `roles`: the whole is not known then. Inside an object a key
        # with a dot is an ordinary name.
        is_exact = key_steps == steps[: len(key_steps)] and len(key_steps) == len(path.split("."))
        if not is_exact or (not is_top and len(key_steps) > 1):
            yield COMPUTED
        else:
            yield from _find_in_value(value, steps[len(key_steps) :])


def _find_in_value(value: Any, steps: FieldPath) -> Iterator[Any]:
    if not steps or value is COMPUTED:
        yield value
    elif isinstance(value, dict):
        yield from _find_in_fields(value.items(), steps, is_top=False)
    elif isinstance(value, list) and not is_number(steps[0]):
        for item in value:
            yield from _find_in_value(item, steps)
    elif isinstance(value, list) and int(steps[0]) < len(value):
        yield from _find_in_value(value[int(steps[0])], steps[1:])


def _has_key(value: Any, steps: FieldPath) -> bool:
    """Check if the key exists, flat or nested; in arrays every element must have it."""
    if not steps:
        return True
    if isinstance(value, list):
        if is_number(steps[0]):
            position = int(steps[0])
            return position < len(value) and _has_key(value[position], steps[1:])
        return bool(value) and all(_has_key(item, steps) for item in value)
    if not isinstance(value, dict):
        return False
    for key, inner in value.items():
        key_steps = split_key(key)
        if key_steps[: len(steps)] == steps:  # `status.a` writes a part of `status`
            return True
        if steps[: len(key_steps)] == key_steps and _has_key(inner, steps[len(key_steps) :]):
            return True
    return False
