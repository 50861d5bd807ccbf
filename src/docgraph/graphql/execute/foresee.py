"""What a query would ask of the database, and whether an index would serve it; nothing is read.

The database's own `explain` and the counts that are kept anyway are all that is asked for. What an
index has to serve below the first level depends on parents that nobody has fetched: a value that
no document has stands for their keys.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from docgraph.codec.types import ObjectId
from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.definition.mapping import AggregationMapping
from docgraph.graphql.execute.estimate import estimate_documents, first_filter, most_documents
from docgraph.graphql.execute.execute import prepare
from docgraph.graphql.execute.run import Run
from docgraph.graphql.plan.explain import describe_way
from docgraph.graphql.plan.tree import Fetch
from docgraph.runtime.concurrent import concurrently
from docgraph.store.explain import QueryPlan
from docgraph.store.order import pinned_paths
from docgraph.variables import Resolvers, Template, matches_nothing

__all__ = ["FetchOutlook", "Outlook", "foresee", "render_command"]

_SOMEBODY: Final = ObjectId("000000000000000000000000")
_NO_PLAN: Final = QueryPlan((), ())


@dataclass(frozen=True, slots=True)
class FetchOutlook:
    """One field that the database would be asked for.

    `limit` is how many documents a parent gets at most, `stored` how many the collection has.
    `is_scan`: documents are looked at one after the other, in the order of an index perhaps.
    `wanted_keys` are those of an index that would serve what none does.
    """

    field: str
    kind: str
    way: str
    limit: int
    namespace: str
    plan: QueryPlan
    is_scan: bool
    stored: int | None
    examined: int | None  # documents that are looked at for one command
    wanted_keys: Mapping[str, int]

    @property
    def access(self) -> str:
        """`index`, `scan`, or `unknown` where that depends on values that nobody has yet."""
        if not self.plan.is_known:
            return "unknown"
        return "scan" if self.is_scan else "index"

    @property
    def warning(self) -> str:
        """What an index would mend; empty where nothing is wrong."""
        if not self.wanted_keys:
            return ""
        if not self.is_scan:
            return f"{self.field} sorts all that it finds in {self.namespace} in memory"
        stored = "" if self.stored is None else f", which has about {self.stored} documents"
        return f"{self.field} scans {self.namespace}{stored}: no index serves it"

    def as_dict(self, *, privileged: bool) -> dict[str, Any]:
        """The outlook for JSON; names of the storage and counts only for the privileged."""
        content: dict[str, Any] = {
            "field": self.field,
            "way": self.way,
            "limit": self.limit,
            "access": self.access,
        }
        if self.wanted_keys:
            content["advice"] = "no index serves this: ask for less of it, or by other arguments"
        if not privileged:
            return content
        content |= {
            "collection": self.namespace,
            "documents": self.stored,
            "examined": self.examined,
            "indexes": list(self.plan.indexes),
            "sortsInMemory": self.plan.sorts,
        }
        if self.wanted_keys:
            content["missingIndex"] = dict(self.wanted_keys)
            db, _, collection = self.namespace.partition(".")
            content["createIndex"] = render_command((db, collection), self.wanted_keys)
        return content


def render_command(place: tuple[str, str], keys: Mapping[str, Any]) -> str:
    """What makes the index, for the shell of MongoDB."""
    names = (json.dumps(one, ensure_ascii=False) for one in (*place, dict(keys)))
    return "db.getSiblingDB({}).getCollection({}).createIndex({})".format(*names)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a query would cost; the estimates are in documents."""

    fetches: tuple[FetchOutlook, ...]
    by_limits: int
    by_counts: int
    limit: int  # more than so many documents by counts, and the query is refused

    def as_dict(self, *, privileged: bool) -> dict[str, Any]:
        """The outlook for JSON; names of the storage and counts only for the privileged."""
        estimated: dict[str, Any] = {"byLimits": self.by_limits}
        if privileged:
            estimated["byCounts"] = self.by_counts
        return {
            "estimatedDocuments": estimated,
            "wouldBeRefused": self.by_counts > self.limit,
            "fetches": [one.as_dict(privileged=privileged) for one in self.fetches],
        }


async def foresee(run: Run, variables_resolver: Resolvers) -> Outlook:
    """Look at everything that the execution would ask for, without asking for it."""
    tree = await prepare(run, variables_resolver)
    by_limits, by_counts = await estimate_documents(tree, run)
    fetches = await concurrently([_foresee(fetch, run) for fetch in tree.fetches])
    limit = run.limits.estimated_documents
    return Outlook(tuple(fetches), by_limits, by_counts, limit)


async def _foresee(fetch: Fetch, run: Run) -> FetchOutlook:
    mapping = fetch.mapping
    prepared = run.prepared[id(fetch)]
    window = prepared.window
    sort = dict(window.sort) if window is not None and window.sort else {}
    filter_ = _render_filter(fetch, run)
    plan = _NO_PLAN if filter_ is None else await _ask(fetch, filter_, sort, run)
    stored = await run.store.facts.count(mapping.db, mapping.collection)
    is_bounded = not filter_ and window is not None and not plan.sorts
    is_scan = plan.is_scan or (bool(filter_) and plan.reads_whole_index)
    examined = None
    if is_scan and stored is not None:
        examined = min(window.end, stored) if is_bounded and window is not None else stored
    needs_index = (is_scan and not is_bounded) or plan.sorts
    return FetchOutlook(
        field=fetch.position.coordinates,
        kind="aggregate" if isinstance(mapping, AggregationMapping) else "find",
        way=describe_way(fetch),
        limit=most_documents(fetch, run),
        namespace=f"{mapping.db}.{mapping.collection}",
        plan=plan,
        is_scan=is_scan,
        stored=stored,
        examined=examined,
        wanted_keys=_choose_keys(filter_ or {}, sort) if needs_index else {},
    )


async def _ask(
    fetch: Fetch, filter_: Mapping[str, Any], sort: Mapping[str, Any], run: Run
) -> QueryPlan:
    """The database's plan; what it does not say is not known."""
    mapping = fetch.mapping
    try:
        async with run.gate:
            return await run.store.explain(
                mapping.db,
                mapping.collection,
                filter_,
                sort=sort,
                deadline=run.exchange.deadline,
                rows=run.rows,
            )
    except DocgraphError:
        return _NO_PLAN


def _render_filter(fetch: Fetch, run: Run) -> Mapping[str, Any] | None:
    """What the documents have to match, a placeholder for keys of parents; None: not known."""
    relation = fetch.relation
    if relation.joins:
        template = None if relation.is_per_parent else relation.rest
        keys: dict[str, Any] = {join.target: {"$in": [_SOMEBODY]} for join in relation.joins}
    else:
        template, keys = first_filter(fetch.mapping), {}
        if template is None:
            return {}
    rest = _render(template, fetch, run)
    if rest is None:
        return keys or None
    return {"$and": [keys, rest]} if keys and rest else keys or rest


def _render(template: Template | None, fetch: Fetch, run: Run) -> Mapping[str, Any] | None:
    if template is None or template.depends_on_parent:
        return None
    try:
        rendered = template.render(run.prepared[id(fetch)].scope)
    except DocgraphError:
        return None
    if matches_nothing(rendered) or not isinstance(rendered, Mapping):
        return None
    return rendered


def _choose_keys(filter_: Mapping[str, Any], sort: Mapping[str, Any]) -> dict[str, int]:
    """Equal values first, then the order, then the rest: what an index can follow."""
    keys = dict.fromkeys(pinned_paths(filter_), 1)
    for path, direction in sort.items():
        if isinstance(direction, int | float):
            keys.setdefault(path, -1 if direction < 0 else 1)
    for path in _paths(filter_):
        keys.setdefault(path, 1)
    return {path: direction for path, direction in keys.items() if not path.startswith("$")}


def _paths(filter_: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for key, value in filter_.items():
        if key == "$and" and isinstance(value, list):
            found += [path for part in value if isinstance(part, Mapping) for path in _paths(part)]
        elif not key.startswith("$"):
            found.append(key)
    return found
