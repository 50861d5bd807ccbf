"""Which to-one relations can ride along in their parent's command.

One document with its author costs one command instead of two when the author is looked up by the
database (`$lookup`). With many parents that is far slower than one `$in` for all, so only fields
of a single root document are folded. What `$lookup` would join differently (arrays, nulls) is
noticed when the parent has come, and fetched the ordinary way.
"""

from __future__ import annotations

from dataclasses import replace

from docgraph.graphql.definition.mapping import QueryMapping
from docgraph.graphql.plan.projection import cut_path
from docgraph.graphql.plan.tree import Fetch, Fold

__all__ = ["find_folds"]


def find_folds(parent: Fetch) -> Fetch:
    """The fetch, with the relations that its command can bring along."""
    if not _can_carry(parent):
        return parent
    assert parent.selection is not None  # noqa: S101 - checked by _can_carry
    folds = tuple(
        Fold(column, f"__fold_{column.key}")
        for column in parent.selection.only_block.columns
        if isinstance(column, Fetch) and _can_ride(column, parent)
    )
    return replace(parent, folds=folds) if folds else parent


def _can_carry(parent: Fetch) -> bool:
    return (
        parent.is_root
        and not parent.is_list
        and isinstance(parent.mapping, QueryMapping)
        and parent.projection is not None
        and parent.selection is not None
        and parent.selection.resolve is None
    )


def _can_ride(child: Fetch, parent: Fetch) -> bool:
    relation = child.relation
    return (
        isinstance(child.mapping, QueryMapping)
        and not child.is_list
        and child.selection is not None
        and child.mapping.db == parent.mapping.db
        and child.mapping.loader.batching
        and len(relation.joins) == 1
        and not relation.joins[0].many
        and not relation.is_per_parent
        and cut_path(relation.joins[0].path) == relation.joins[0].target
        and cut_path(tuple(relation.joins[0].key.split("."))) == relation.joins[0].key
    )
