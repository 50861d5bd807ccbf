"""Lists that stopped at their limit, with the argument that raises it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

from docgraph.graphql.definition.mapping import QueryMapping
from docgraph.graphql.plan.plan import Plan
from docgraph.graphql.plan.plan_tree import Block, Embedded, Fetch

AT_LIMIT: Final = (
    "these lists have more: do not count them, use fields that count or group, or raise the limit"
)
_MAX_ENTRIES: Final = 50  # an agent takes a list that is not named for complete
# Building the tree of a plan takes longer than most queries.
_known: WeakKeyDictionary[Plan, dict[tuple[str, ...], str | None]] = WeakKeyDictionary()


def describe_limits(plan: Plan, limits: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return path, limit and argument of each list that stopped; one entry for all its parents."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for one in limits:
        keys = tuple(key for key in one["path"] if isinstance(key, str))
        if keys in found or len(found) == _MAX_ENTRIES:
            continue
        found[keys] = {"path": list(keys), "limit": one["limit"]}
        known = _known.setdefault(plan, {})
        if keys not in known:
            known[keys] = _find_argument(plan.widest_tree().block, keys)
        argument = known[keys]
        if argument is not None:
            found[keys]["argument"] = argument
    return list(found.values())


def _find_argument(block: Block, keys: tuple[str, ...]) -> str | None:
    """Return the argument of the field at this path that its limit is taken from."""
    blocks = [block]
    *outer, last = keys
    for key in outer:
        named = (one for each in blocks for one in each.columns if one.key == key)
        chosen = [one.selection for one in named if isinstance(one, Fetch | Embedded)]
        blocks = [inner for one in chosen if one is not None for inner in one.blocks.values()]
    for field in (one for each in blocks for one in each.columns if one.key == last):
        if isinstance(field, Fetch) and isinstance(field.mapping, QueryMapping):
            match field.mapping.limit and field.mapping.limit.source:
                case {"$arg": str(name)} | {"$arg": [str(name), *_]}:
                    return name
    return None
