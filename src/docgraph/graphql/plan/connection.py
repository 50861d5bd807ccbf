"""Connections in a plan: which of their parts a query selects."""

from __future__ import annotations

from collections.abc import Iterator

from docgraph.graphql.plan.plan_tree import (
    Block,
    ConnectionParts,
    Embedded,
    LeafField,
    Selection,
)

_ITEMS = frozenset({("nodes",), ("edges", "node")})
_NEXT = ("pageInfo", "hasNextPage")
_PREVIOUS = ("pageInfo", "hasPreviousPage")
_TOTAL = ("totalCount",)


def read_parts(selection: Selection) -> ConnectionParts:
    """Return the selected parts of a connection."""
    found = list(_list_fields(selection.only_block, ()))
    paths = {path for path, _ in found}
    return ConnectionParts(
        items=tuple(
            field.selection
            for path, field in found
            if path in _ITEMS and isinstance(field, Embedded)
        ),
        has_rows=bool(paths - {_TOTAL}),
        edges=("edges",) in paths,
        nodes=("nodes",) in paths,
        edge_cursors=("edges", "cursor") in paths,
        start_cursor=("pageInfo", "startCursor") in paths,
        end_cursor=("pageInfo", "endCursor") in paths,
        next_page=_NEXT in paths,
        previous_page=_PREVIOUS in paths,
        total=_TOTAL in paths,
    )


def _list_fields(
    block: Block, above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], LeafField | Embedded]]:
    """Yield the fields of a connection with their paths, down to its items."""
    for field in block.fields:
        if isinstance(field, LeafField | Embedded):
            path = above + field.path
            yield path, field
            if isinstance(field, Embedded) and path not in _ITEMS:
                yield from _list_fields(field.selection.only_block, path)
