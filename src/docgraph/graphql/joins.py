"""Joins: the conditions of a filter that compare a property with the parent's, by `$fk`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from docgraph.graphql.conditions import combine
from docgraph.store.driver.portions import OneField
from docgraph.variables import Template, compile_field, compile_template, parse_path

_DICT = frozenset({dict})


@dataclass(frozen=True, slots=True)
class Join:
    """`target` of the document equals the parent's `key`, or, with `many`, one of its elements."""

    target: str
    key: str
    many: bool
    path: tuple[str, ...] = field(init=False)  # of the target
    steps: tuple[str, ...] = field(init=False, repr=False, compare=False)  # of the key
    get: Callable[[Any], Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", tuple(self.target.split(".")))
        object.__setattr__(self, "steps", parse_path(self.key))
        object.__setattr__(self, "get", compile_field(self.steps))

    def read_keys(self, parents: Sequence[Any]) -> list[Any]:
        """Return the foreign keys of all parents; usual documents and keys need no call each."""
        name = self.steps[0]
        if len(self.steps) == 1 and type(parents) is OneField:
            keys = parents.read(name)
            if keys is not None:
                return keys
        if len(self.steps) == 1 and _DICT.issuperset(map(type, parents)):
            return [parent.get(name) for parent in parents]
        return [self.get(parent) for parent in parents]

    def list_keys(self, parent: Any) -> list[Any]:
        """Return the values that match this parent; null is not a key (decision 11)."""
        value = self.get(parent)
        keys = value if self.many and type(value) is list else [value]
        return [key for key in keys if key is not None]


def split_joins(find: Template) -> tuple[tuple[Join, ...], Template]:
    """Return the joins of a filter, and the rest of it."""
    if not find.foreign_keys:
        return (), find
    joins: list[Join] = []
    rest: list[Any] = []
    for conjunct in find.conjuncts:
        join = _read_join(conjunct.source)
        if join is None:
            rest.append(conjunct.source)
        else:
            joins.append(join)
    if not joins:
        return (), find
    return tuple(joins), compile_template(
        combine(rest), vocabulary=find.vocabulary, context="filter"
    )


def _read_join(source: Any) -> Join | None:
    """Read a join: `{f: {$fk: k}}`, also inside `$eq` or `$in`."""
    if not isinstance(source, Mapping) or len(source) != 1:
        return None
    ((name, condition),) = source.items()
    if name.startswith("$") or not isinstance(condition, Mapping) or len(condition) != 1:
        return None
    ((operator, operand),) = condition.items()
    match operator, operand:
        case "$fk", str(key):
            return Join(name, key, many=False)
        case "$eq", {"$fk": str(key)}:
            return Join(name, key, many=False)
        case "$in", {"$fk": str(key)}:
            return Join(name, key, many=True)
        case "$in", [{"$fk": str(key)}]:
            return Join(name, key, many=False)
    return None
