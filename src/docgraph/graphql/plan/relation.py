"""Joins and projections: the fields that a fetch needs of its parents and documents; pure.

A filter like `{authorId: {$fk: "_id"}, draft: {$arg: "draft"}}` is a join (`authorId` equals the
parent's `_id`) and a rest that is the same for all parents: one command with `$in` finds the
documents of all of them. A filter that uses `$fk` or `rootDoc` in another way is rendered per
parent.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from docgraph.graphql.definition.mapping import AggregationMapping, GroupMapping, QueryMapping
from docgraph.graphql.joins import Join, split_joins
from docgraph.variables import Template, compile_field, parse_path
from docgraph.variables.paths import get_bound


@dataclass(frozen=True, slots=True)
class Relation:
    """How a mapping uses its parent.

    `rest` is the filter without the joins. `is_per_parent`: another part also uses the parent or
    the root document, so that each parent has its own query.
    """

    joins: tuple[Join, ...]
    rest: Template | None
    is_per_parent: bool
    foreign_keys: tuple[str, ...]
    root_paths: tuple[str, ...]
    getters: tuple[Callable[[Any], Any], ...] = field(repr=False, compare=False, default=())
    root_getters: tuple[Callable[[Any], Any], ...] = field(repr=False, compare=False, default=())

    @property
    def is_independent(self) -> bool:
        """Whether every parent gets the same result."""
        return not self.foreign_keys and not self.root_paths

    def signature(self, parent: Any, root: Any) -> Hashable:
        """Return a value that is equal for parents whose queries are equal."""
        values = [get(parent) for get in self.getters]
        values += [get(root) for get in self.root_getters]
        return freeze(values)


def analyse(mapping: QueryMapping | AggregationMapping) -> Relation:
    keys = frozenset[str]().union(*(t.foreign_keys for t in mapping.templates))
    roots = frozenset[str]().union(*(t.root_paths for t in mapping.templates))
    foreign_keys, root_paths = tuple(sorted(keys)), tuple(sorted(roots))
    getters = tuple(compile_field(parse_path(key)) if key else id for key in foreign_keys)
    root_getters = tuple(map(_root_getter, root_paths))
    joins: tuple[Join, ...]
    rest: Template | None
    if isinstance(mapping, AggregationMapping):
        joins, rest = (), None
        if isinstance(mapping, GroupMapping) and mapping.is_count:
            # By one join, all parents can be counted together.
            joins, rest = split_joins(mapping.find)
            if len(joins) != 1 or rest.depends_on_parent or len(joins[0].path) != 1:
                joins, rest = (), None
        is_per_parent = not joins and bool(keys or roots)
    else:
        joins, rest = split_joins(mapping.find)
        others = [rest, *(t for t in mapping.templates if t is not mapping.find)]
        is_per_parent = any(template.depends_on_parent for template in others)
    return Relation(joins, rest, is_per_parent, foreign_keys, root_paths, getters, root_getters)


def _root_getter(path: str) -> Callable[[Any], Any]:
    """Return the getter for `rootDoc.<path>`; it distinguishes null and absent."""
    if not path:
        return id
    steps = parse_path(path)
    return lambda root: get_bound(root, steps)


def freeze(value: Any) -> Hashable:
    """Return a hashable copy, exact in type: for finding equal queries, not equal values."""
    if isinstance(value, dict):
        return (dict, tuple((name, freeze(item)) for name, item in value.items()))
    if isinstance(value, list):
        return (list, tuple(map(freeze, value)))
    try:
        hash(value)
    except TypeError:
        return (type(value), repr(value))
    return (type(value), value)


WHOLE = ""


def build_projection(paths: Iterable[str]) -> dict[str, int] | None:
    """Return the projection for these paths; None if the whole document is needed."""
    needed = set(paths)
    if WHOLE in needed:
        return None
    # The database rejects `a` with `a.b`: only the path above counts.
    kept = set()
    for path in needed:
        steps = path.split(".")
        if not any(".".join(steps[:count]) in needed for count in range(1, len(steps))):
            kept.add(path)
    if not kept:
        return {"_id": 1}
    projection = dict.fromkeys(sorted(kept), 1)
    if "_id" not in projection and not any(path.startswith("_id.") for path in kept):
        projection["_id"] = 0
    return projection


def add_paths(projection: Mapping[str, int] | None, paths: Iterable[str]) -> dict[str, int] | None:
    """Return the projection with these paths and `_id`; None if the whole document is needed."""
    if projection is None:
        return None
    return build_projection({"_id", *(path for path, shown in projection.items() if shown), *paths})


def cut_path(path: tuple[str, ...]) -> str:
    """Return the part of a path that a projection can express; empty: the whole document.

    It is cut where a projection could lose something: at an index, which projections do not have.
    """
    steps = []
    for step in path:
        if not step or step.isdigit() or step.startswith("$") or "." in step:
            break
        steps.append(step)
    return ".".join(steps)
