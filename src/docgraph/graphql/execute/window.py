"""Pagination: sort, skip and limit of a field, within configured bounds (decision 12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from docgraph.codec.keyset import SortKey
from docgraph.exchange import Document
from docgraph.exchange.data import Keyset
from docgraph.exchange.parsed import SortOrder
from docgraph.graphql.definition.mapping import GroupMapping, QueryMapping
from docgraph.graphql.errors import FieldFailure
from docgraph.graphql.execute.cursors import Cursors
from docgraph.graphql.plan.plan_tree import Fetch
from docgraph.graphql.sections import Graphql
from docgraph.store.collection_stats import Index
from docgraph.store.order import order_ties, pinned_paths
from docgraph.variables import MATCH_NOTHING, NOTHING, Scope, Template

_KEPT_ORDERS = 32  # per fetch: callers may choose its sort


@dataclass(frozen=True, slots=True)
class Page:
    """The page of a connection: its order, forward, and the part of the list that it is from.

    `parts` are conditions that follow each other; None: the whole list. `projection` has the
    properties of the order, if the positions of documents are needed.
    """

    order: SortOrder
    size: int
    is_backward: bool
    cursors: Cursors | None = None
    after: SortKey | None = None
    before: SortKey | None = None
    parts: tuple[Document, ...] | None = None
    projection: Mapping[str, int] | None = None

    @property
    def filter(self) -> Document | None:
        """The condition for all parts together."""
        if self.parts is None or len(self.parts) == 1:
            return self.parts and self.parts[0]
        return {"$or": list(self.parts)} if self.parts else MATCH_NOTHING

    @property
    def keyset(self) -> Keyset | None:
        """What the page adds to a `find`."""
        return None if self.parts is None else Keyset(self.filter)


class RelatedStages(NamedTuple):
    """Stages about related documents: those that filter, and those that compute an order.

    `restoring` follow the limit: they read the documents again that `ordering` has reduced.
    """

    filtering: tuple[Document, ...] = ()
    ordering: tuple[Document, ...] = ()
    restoring: tuple[Document, ...] = ()


NOT_RELATED: Final = RelatedStages()


class Window(NamedTuple):
    """The documents of a query to return, and their order."""

    sort: Mapping[str, Any] | None
    skip: int
    limit: int
    page: Page | None = None
    extra: int = 0  # documents beyond the limit that show that it cut the list
    related: RelatedStages = NOT_RELATED  # with any, only a pipeline returns the documents

    @property
    def size(self) -> int:
        """How many documents a command returns."""
        return self.limit + self.extra

    @property
    def end(self) -> int:
        """How many documents have to be read: skip and limit."""
        return self.skip + self.limit

    @property
    def stages(self) -> list[dict[str, Any]]:
        """The window as stages of a pipeline."""
        stages: list[dict[str, Any]] = [*self.related.filtering, *self.related.ordering]
        if self.page is not None and self.page.filter is not None:
            stages.append({"$match": self.page.filter})
        if self.sort:
            stages.append({"$sort": self.sort})
        if self.skip:
            stages.append({"$skip": self.skip})
        return [*stages, {"$limit": self.size}, *self.related.restoring]

    def project(self, projection: Mapping[str, int] | None) -> list[dict[str, Any]]:
        """Return the stage that follows: only the fields that are needed (decision 15)."""
        shown = projection if self.page is None else self.page.projection
        return [] if shown is None else [{"$project": shown}]


def read_window(
    mapping: QueryMapping | GroupMapping,
    scope: Scope,
    bounds: Graphql,
    *,
    is_list: bool,
    order: Mapping[str, Any] | None = None,
    extra: int = 0,
) -> Window:
    """Read sort, skip and limit; raise `FieldFailure` for a value that is not allowed.

    The `order` of the caller, which may be empty, replaces the sort of the mapping. Groups without
    a limit may be as many as any limit allows; their `_id` orders all of them.
    """
    sort = order
    if order is None and mapping.sort is not None:
        sort = mapping.sort.render(scope)
    skip, limit = _read_count("skip", mapping.skip, scope), 1
    if is_list:
        limit = _read_count("limit", mapping.limit, scope) or bounds.default_limit
        if limit > bounds.max_limit:
            raise FieldFailure(f"limit cannot be greater than {bounds.max_limit}", "limit-too-high")
    if isinstance(mapping, GroupMapping):
        sort = {**(sort or {}), "_id": 1}
        limit, extra = (bounds.max_limit, 1) if mapping.limit is None else (limit, extra)
    return Window(sort or None, skip, limit, extra=extra if is_list else 0)


def order_window(
    window: Window,
    fetch: Fetch,
    scope: Scope,
    indexes: Sequence[Index] | None,
    where: Mapping[str, Any] | None = None,
) -> Window:
    """Return the window with `_id` at the end of its sort, if an index allows it (decision 12)."""
    sort, mapping = window.sort, fetch.mapping
    if not sort or not isinstance(mapping, QueryMapping):
        return window
    equal = frozenset(pinned_paths(where)) if where else frozenset()
    key = (repr(sort), mapping.find.given(scope), equal)
    kept = fetch.orders.get(key)
    if kept is None or kept[0] is not indexes:
        pinned = equal.union(pinned_paths(mapping.find.decide(scope).source))
        ordered = order_ties(sort, pinned, indexes)
        if len(fetch.orders) >= _KEPT_ORDERS:
            fetch.orders.clear()
        kept = fetch.orders[key] = (indexes, ordered)
    return window if kept[1] == sort else window._replace(sort=kept[1])


def _read_count(name: str, template: Template | None, scope: Scope) -> int:
    """Return a number of documents; absent and null count as 0."""
    value = None if template is None else template.render(scope)
    if value is None or value is NOTHING:
        return 0
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise FieldFailure(f"{name} must be a whole number", f"bad-{name}")
    if value < 0:
        raise FieldFailure(f"{name} cannot be negative", f"negative-{name}")
    return int(value)
