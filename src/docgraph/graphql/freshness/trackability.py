"""Trackability: whether changes of the database show when an answer is outdated.

An answer that depends on anything else than stored documents and the caller is not tracked: it
could change without a change event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from docgraph.exchange import Exchange
from docgraph.graphql.plan.plan_tree import PlanTree
from docgraph.plugins.kinds import Interceptor, Point
from docgraph.variables import Resolvers

_MOVING_OPERATORS: Final = frozenset(
    {"$sample", "$sampleRate", "$rand", "$createObjectId", "$where", "$function", "$accumulator"}
    | {"$search", "$searchMeta", "$vectorSearch", "$rankFusion", "$scoreFusion"}
    | {"$collStats", "$indexStats", "$planCacheStats", "$queryStats", "$currentOp"}
    | {"$listSessions", "$listLocalSessions", "$listSampledQueries", "$listSearchIndexes"}
    | {"$shardedDataDistribution", "$listClusterCatalog", "$changeStream"}
)
_MOVING_VALUES: Final = ("$$NOW", "$$CLUSTER_TIME", "$$USER_ROLES", "$$SEARCH_META")

_LOGICAL: Final = frozenset({"$and", "$or", "$nor"})


def find_untrackable(tree: PlanTree, resolvers: Resolvers) -> str | None:
    """Return why answers of this tree cannot be tracked; None if they can."""
    reason = tree.untrackable.get(resolvers)
    if reason is None:
        reason = tree.untrackable[resolvers] = _check_tree(tree, resolvers) or ""
    return reason or None


def find_untrackable_request(
    exchange: Exchange, resolvers: Resolvers, interceptors: Iterable[Interceptor] = ()
) -> str | None:
    """Return why the answer to this request cannot be tracked, whatever its plan is.

    Its row filters and the interceptors of its response count.
    """
    permission = exchange.permission
    if permission is not None:
        names = permission.variables
        reason = _check_variables("a row filter", names, resolvers) if names else None
        if reason is not None:
            return reason
        if permission.read_filters and (name := find_moving(permission.read_filters)) is not None:
            return _describe("a row filter", name)
    for each in interceptors:
        is_stable = getattr(each, "is_stable", False)
        if each.point is Point.RESPONSE and not is_stable and each.resolve(exchange):
            return f"the interceptor {each.name} does not declare is_stable"
    return None


def find_moving(value: Any) -> str | None:
    """Return an operator or variable in a filter or pipeline whose result changes by itself."""
    pending: list[tuple[str, Any]] = [("", value)]
    while pending:
        above, part = pending.pop()
        if isinstance(part, Mapping):
            for key, inner in part.items():
                # `$text` has a `$search`, too, which reads the documents alone.
                if key in _MOVING_OPERATORS and above != "$text":
                    return str(key)
                pending.append((key, inner))
        elif isinstance(part, list | tuple):
            pending += [(above, inner) for inner in part]
        elif isinstance(part, str) and part.startswith(_MOVING_VALUES):
            return part.partition(".")[0]
    return None


def find_moving_condition(filter_: Mapping[str, Any]) -> str | None:
    """Return such an operator in a filter; conditions on properties have none."""
    for name, condition in filter_.items():
        if name in _LOGICAL:
            moving = next(filter(None, map(find_moving_condition, condition)), None)
        else:
            moving = find_moving({name: condition}) if name.startswith("$") else None
        if moving is not None:
            return moving
    return None


def _check_tree(tree: PlanTree, resolvers: Resolvers) -> str | None:
    for fetch in tree.fetches:
        field = fetch.position.coordinates
        for template in fetch.templates:
            names = (name for name in template.names if name.startswith("@"))
            if (reason := _check_variables(field, names, resolvers)) is not None:
                return reason
            if (name := find_moving(template.source)) is not None:
                return _describe(field, name)
    return None


def _check_variables(user: str, names: Iterable[str], resolvers: Resolvers) -> str | None:
    moving = sorted(name for name in names if not resolvers.is_stable(name))
    return _describe(user, moving[0]) if moving else None


def _describe(user: str, name: str) -> str:
    return f"{user} uses {name}, which can change without a change of documents"
