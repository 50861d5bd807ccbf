"""From documents to objects of the response: all documents of a selection at once.

The usual, sound documents pass through the block's generated function; when it gives up, the
block is gone through the careful way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from docgraph.graphql.errors import Damaged
from docgraph.graphql.execute.examine import MISFITS, examine, examine_object, finish_leaf
from docgraph.graphql.plan.leaves import build_strict
from docgraph.graphql.plan.tree import Block, Fetch, Introspection

__all__ = ["Values", "complete_block", "complete_values"]


class Values(NamedTuple):
    """Completed values; `damaged` when some of them are `Damaged`."""

    items: list[Any]
    damaged: bool = False

    @classmethod
    def checked(cls, items: list[Any]) -> Values:
        """Values among which there may be damaged ones."""
        return cls(items, any(type(item) is Damaged for item in items))


def complete_block(block: Block, documents: Sequence[Any], columns: Sequence[Values]) -> Values:
    """The objects of a block; `columns` are its columns' values, one for each document."""
    if block.failure is not None:
        return Values([Damaged(None, block.failure)] * len(documents), damaged=True)
    lists = [column.items for column in columns]
    if not lists or not any([column.damaged for column in columns]):
        try:
            return Values(block.project(documents, *lists))
        except MISFITS:
            pass  # something is not as the schema says: the careful way finds out what
    rows = zip(*lists, strict=True) if lists else ((),) * len(documents)
    return Values.checked(
        [
            examine_object(block, document, iter(row))
            for document, row in zip(documents, rows, strict=True)
        ]
    )


def complete_values(column: Fetch | Introspection, values: Sequence[Any]) -> Values:
    """The values of a field that are values as they come, such as `BsonDocument`."""
    serialize = column.serialize if isinstance(column, Fetch) else None
    show = serialize or _as_it_is
    try:
        return Values([build_strict(column.type, show)(value) for value in values])
    except MISFITS:
        finish = finish_leaf(show, column.position)
        examined = [examine(column.type, value, finish, column.position) for value in values]
        return Values.checked(examined)


def _as_it_is(value: Any) -> Any:
    return value
