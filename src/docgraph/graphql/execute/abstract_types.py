"""Interfaces and unions: assign each document to the block of its type, and merge the objects.

A document that no predicate of the `$typeResolver` matches is null with an error (decision 18).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from docgraph.graphql.errors import Damaged, FieldFailure
from docgraph.graphql.execute.complete import CompletedValues
from docgraph.graphql.plan.plan_tree import Block, Selection
from docgraph.store.driver.portions import OneField

_DICT = frozenset({dict})
_TEXT = frozenset({str})


@dataclass(slots=True)
class Group:
    """The documents of one type, by their positions."""

    block: Block
    positions: list[int]

    def pick(self, values: Sequence[Any]) -> list[Any]:
        """Return those of the values that belong to this group's documents."""
        return [values[position] for position in self.positions]


@dataclass(slots=True)
class Groups:
    """The documents of a selection, grouped by type."""

    selection: Selection
    count: int
    typed: list[Group]

    def merge(self, parts: Sequence[CompletedValues]) -> CompletedValues:
        """Return the objects of all groups, in the order of the documents."""
        objects: list[Any] = [None] * self.count
        placed = 0
        for group, part in zip(self.typed, parts, strict=True):
            placed += len(part.items)
            for position, item in zip(group.positions, part.items, strict=True):
                objects[position] = item
        if placed == self.count:
            return CompletedValues(objects, any(part.damaged for part in parts))
        text = f"no type of {self.selection.type_name} fits the stored value"
        failure = FieldFailure(text, "type-not-resolved")
        unknown = Damaged(None, failure.at(self.selection.position))
        return CompletedValues([unknown if item is None else item for item in objects], True)


def sort_by_type(selection: Selection, documents: Sequence[Any]) -> Groups:
    """Group the documents by the type that the type resolver returns."""
    assert selection.resolve is not None  # noqa: S101 - only interfaces and unions are sorted
    names = _resolve_texts(selection, documents)
    if names is None:
        names = list(map(selection.resolve, documents))
    positions: defaultdict[str | None, list[int]] = defaultdict(list)
    for position, name in enumerate(names):
        positions[name].append(position)
    typed = [
        Group(selection.blocks[name], places)
        for name, places in positions.items()
        if name is not None and name in selection.blocks
    ]
    return Groups(selection, len(names), typed)


def _resolve_texts(selection: Selection, documents: Sequence[Any]) -> list[str | None] | None:
    """Return the type of each document, if a text alone decides it: resolve each text once."""
    if len(selection.resolver_paths) != 1 or selection.resolver_names != selection.resolver_paths:
        return None
    (name,) = selection.resolver_names
    texts = documents.read(name) if name and type(documents) is OneField else None
    if texts is None:
        if not name or not _DICT.issuperset(map(type, documents)):
            return None
        texts = [document.get(name) for document in documents]
    if selection.resolve is None or not _TEXT.issuperset(map(type, texts)):
        return None
    type_names = {text: selection.resolve({name: text}) for text in dict.fromkeys(texts)}
    if type(documents) is OneField:
        selection.choice.add(name, type_names, selection.blocks)
    return [type_names[text] for text in texts]
