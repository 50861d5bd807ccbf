"""Shapes of the documents of a collection, from definitions and samples: names and kinds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

_BRANCHES = frozenset({"$and", "$or", "$nor", "$ifarg", "$ifvar", "$not", "$elemMatch"})
_CONSTANT = frozenset({"$eq", "$gte", "$lte"})
_SCALARS = (str, int, float, bool)


@dataclass(slots=True)
class PropertyShape:
    """A property; `values` are constants that definitions compare it with.

    `is_key`: other documents are found by it. `hidden_by` says what hides it from the caller.
    `is_evaluated`: an expression computes with it; `text` is what it parses strings as.
    """

    kind: str = ""
    is_list: bool = False
    is_key: bool = False
    is_optional: bool = False
    is_evaluated: bool = False
    text: str = ""
    values: list[Any] = field(default_factory=list)
    children: dict[str, PropertyShape] = field(default_factory=dict)
    hidden_by: list[str] = field(default_factory=list)

    @property
    def made_kind(self) -> str:
        """The kind of values that generated documents have."""
        return self.text or self.kind if self.kind in ("", "string") else self.kind

    def at(self, path: Sequence[str]) -> PropertyShape:
        """Return the property at a path, created if new; array positions are no steps."""
        node = self
        for step in path:
            if step.isdigit():
                node.is_list = True
            else:
                node = node.children.setdefault(step, PropertyShape())
        return node

    def leaves(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], PropertyShape]]:
        """Yield the properties that have a value, with their paths."""
        for name, child in self.children.items():
            here = (*path, name)
            if child.children:
                yield from child.leaves(here)
            else:
                yield here, child


@dataclass(frozen=True, slots=True)
class Link:
    """Two properties, by namespace and path, that have the same values."""

    left: tuple[str, tuple[str, ...]]
    right: tuple[str, tuple[str, ...]]


def mark_path(shape: PropertyShape, path: str) -> PropertyShape:
    """Return the property at a path in dot notation."""
    return shape.at([step for step in path.split(".") if step and step[:1] != "$"])


def find_constants(shape: PropertyShape, filter: Any) -> Iterator[str]:
    """Record the values that a filter compares properties with, and yield their names."""
    if isinstance(filter, list):
        for one in filter:
            yield from find_constants(shape, one)
    for key, condition in filter.items() if isinstance(filter, dict) else ():
        if key in _BRANCHES:
            yield from find_constants(shape, condition)
        elif key[:1] != "$":
            node = mark_path(shape, key)
            node.values += [one for one in _read_constants(condition) if one not in node.values]
            yield key


def _read_constants(condition: Any) -> Iterator[Any]:
    if isinstance(condition, dict):
        for operator, operand in condition.items():
            if operator in _CONSTANT and isinstance(operand, _SCALARS):
                yield operand
            elif operator == "$in" and isinstance(operand, list):
                yield from (one for one in operand if isinstance(one, _SCALARS))
    elif isinstance(condition, _SCALARS) and not str(condition).startswith("@"):
        yield condition
