"""To-one joins that can be part of their parent's command (`$lookup`).

One document with its author costs one command instead of two if the database looks up the author.
With many parents that is far slower than one `$in` for all, so only fields of a single root
document are folded. Keys that `$lookup` would join differently (arrays, nulls) are detected in the
fetched parent, and their relations are fetched separately.
"""

from __future__ import annotations

from dataclasses import replace

from docgraph.graphql.definition.mapping import QueryMapping
from docgraph.graphql.plan.plan_tree import Fetch, Fold
from docgraph.graphql.plan.projection import cut_path


def find_folds(parent: Fetch) -> Fetch:
    """Return the fetch, with the relations that its command can include."""
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
