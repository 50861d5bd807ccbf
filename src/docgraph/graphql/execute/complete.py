"""Completing values: from documents to response objects, all documents of a selection together.

Valid documents pass through the block's generated function. When it fails, the block is examined
value by value, with errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from docgraph.graphql.errors import Damaged
from docgraph.graphql.execute.examine import MISFITS, examine, examine_object, finish_leaf
from docgraph.graphql.plan.leaves import build_strict
from docgraph.graphql.plan.plan_tree import Block, Fetch, Introspection


class CompletedValues(NamedTuple):
    """Completed values; `damaged` when some of them are `Damaged`. Bytes are JSON.

    `is_list`: there is one, the list of all of them.
    """

    items: list[Any]
    damaged: bool = False
    is_list: bool = False

    @classmethod
    def checked(cls, items: list[Any]) -> CompletedValues:
        """Return values of which some may be damaged."""
        return cls(items, any(type(item) is Damaged for item in items))


def complete_block(
    block: Block, documents: Sequence[Any], columns: Sequence[CompletedValues]
) -> CompletedValues:
    """Return the objects of a block; `columns` has the values of each column per document."""
    if block.failure is not None:
        return CompletedValues([Damaged(None, block.failure)] * len(documents), damaged=True)
    lists = [column.items for column in columns]
    if not lists or not any([column.damaged for column in columns]):
        try:
            return CompletedValues(block.project(documents, *lists))
        except MISFITS:
            pass  # a value does not match the schema: the slow path finds out which
    rows = zip(*lists, strict=True) if lists else ((),) * len(documents)
    return CompletedValues.checked(
        [
            examine_object(block, document, iter(row))
            for document, row in zip(documents, rows, strict=True)
        ]
    )


def complete_values(column: Fetch | Introspection, values: Sequence[Any]) -> CompletedValues:
    """Complete the values of a field that are returned as they are, such as `BsonDocument`."""
    serialize = column.serialize if isinstance(column, Fetch) else None
    show = serialize or _as_it_is
    try:
        return CompletedValues([build_strict(column.type, show)(value) for value in values])
    except MISFITS:
        finish = finish_leaf(show, column.position)
        examined = [examine(column.type, value, finish, column.position) for value in values]
        return CompletedValues.checked(examined)


def _as_it_is(value: Any) -> Any:
    return value
