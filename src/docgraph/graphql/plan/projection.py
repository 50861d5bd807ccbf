"""Projection: which fields of the documents a fetch needs (decision 15).

It needs everything that is selected, that `$fk` and `rootDoc` below use, that a `$typeResolver`
reads, and that joins compare. A path is cut where a projection could lose something: at an index
(projections have none), and after its first step where a list may be wanted, because projecting
`a.b` drops elements of an array `a` that are not documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from graphql import is_list_type, is_non_null_type

from docgraph.graphql.plan.plan_tree import Block, Embedded, Fetch, LeafField, Selection

WHOLE = ""
ID_ONLY = {"_id": 1}


def build_projection(paths: Iterable[str]) -> dict[str, int] | None:
    """Return the projection for these paths; None if the whole document is needed."""
    needed = set(paths)
    if WHOLE in needed:
        return None
    kept = {path for path in needed if not _is_covered(path, needed)}
    if not kept:
        return dict(ID_ONLY)
    projection = dict.fromkeys(sorted(kept), 1)
    if "_id" not in projection and not any(path.startswith("_id.") for path in kept):
        projection["_id"] = 0
    return projection


def _is_covered(path: str, paths: set[str]) -> bool:
    """Return whether a path above this one is included: the database rejects `a` with `a.b`."""
    steps = path.split(".")
    return any(".".join(steps[:count]) in paths for count in range(1, len(steps)))


def add_paths(projection: Mapping[str, int] | None, paths: Iterable[str]) -> dict[str, int] | None:
    """Return the projection with these paths and `_id`; None if the whole document is needed."""
    if projection is None:
        return None
    return build_projection({"_id", *(path for path, shown in projection.items() if shown), *paths})


def needed_paths(selection: Selection | None, resolver_paths: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths that the documents of a fetch must contain for a selection."""
    if selection is None:
        yield WHOLE
        return
    if selection.resolve is not None:
        yield from _resolver_needs(selection, resolver_paths)
    for block in selection.blocks.values():
        yield from _block_needs(block)


def _resolver_needs(selection: Selection, resolver_paths: Mapping[str, Any]) -> Iterator[str]:
    for path in resolver_paths.get(selection.type_name, ()):
        yield cut_path(tuple(path.split(".")))


def _block_needs(block: Block) -> Iterator[str]:
    for field in block.fields:
        match field:
            case LeafField() | Embedded():
                yield _field_path(field)
            case Fetch():
                for key in field.relation.foreign_keys:
                    yield cut_path((key.split(".")[0],))


def _field_path(field: LeafField | Embedded) -> str:
    """Return the path of a stored field; an embedded object is read whole to check its shape."""
    type_ = field.type.of_type if is_non_null_type(field.type) else field.type
    path = cut_path(field.path)
    return path.split(".")[0] if is_list_type(type_) else path


def root_paths(block: Block) -> Iterator[str]:
    """Yield the paths that fetches in and below a block need of the root document."""
    for column in block.columns:
        if isinstance(column, Fetch):
            for path in column.relation.root_paths:
                yield cut_path((path.split(".")[0],))
        if isinstance(column, Fetch | Embedded) and column.selection is not None:
            for inner in column.selection.blocks.values():
                if inner.needs_root:
                    yield from root_paths(inner)


def cut_path(path: tuple[str, ...]) -> str:
    """Return the part of a path that a projection can express; empty: the whole document."""
    steps = []
    for step in path:
        if not step or step.isdigit() or step.startswith("$") or "." in step:
            break
        steps.append(step)
    return ".".join(steps)
