"""Data for tools: collections, samples, indexes and plans, and values as JSON.

The readers add no row filters: users who get the results must be allowed to read all of the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from docgraph.codec import JsonMode, as_meant, decode, encode, to_json, to_stored
from docgraph.codec.bson_types import Binary, binary_text, build_legacy_uuid, is_uuid
from docgraph.codec.id_text import BINARY_SUBTYPES
from docgraph.codec.parse_scalars import parse_uuid
from docgraph.config.nearest import find_nearest
from docgraph.exchange import Deadline, DocgraphError, Document, Exchange, Request
from docgraph.exchange.data import CollectionName, Consistency, FieldPath
from docgraph.exchange.errors import StoreUnavailable
from docgraph.graphql.execute.cost_estimate import render_command
from docgraph.server.app import Docgraph
from docgraph.store import Store
from docgraph.store.administration import Administration
from docgraph.store.catalog import Inventory, Listed, metadata_id
from docgraph.store.collection_stats import SPECIAL_OPTIONS, Index
from docgraph.store.driver.errors import StoreDenied
from docgraph.store.driver.malformed import reading_reply
from docgraph.store.find import build_find
from docgraph.store.guard.references import (
    READING_MORE,
    find_reference,
    find_references,
    nested_pipelines,
)
from docgraph.store.guard.row_filters import RowFilter
from docgraph.store.guard.shown import is_shown
from docgraph.store.guard.stage_checks import check_filter
from docgraph.store.index_selection import Want, find_wants
from docgraph.store.names import METADATA_STORE, check_namespace, is_reserved_collection
from docgraph.store.order import find_alternatives, find_obstacle, order_ties, pinned_paths
from docgraph.store.query_plan import Execution, QueryPlan, read_execution, read_plan
from docgraph.variables import flatten_stages

__all__ = [
    "BINARY_SUBTYPES",
    "METADATA_STORE",
    "READING_MORE",
    "SPECIAL_OPTIONS",
    "CollectionName",
    "FieldPath",
    "Index",
    "Inventory",
    "JsonMode",
    "Listed",
    "QueryPlan",
    "RowFilter",
    "Store",
    "StoreDenied",
    "Want",
    "as_meant",
    "binary_text",
    "create_index",
    "decode",
    "encode",
    "find_alternatives",
    "find_nearest",
    "find_reference",
    "find_references",
    "find_wants",
    "flatten_stages",
    "is_reserved_collection",
    "is_shown",
    "is_uuid",
    "list_indexes",
    "metadata_id",
    "nested_pipelines",
    "order_as_sent",
    "pinned_paths",
    "plan_query",
    "read_index_stats",
    "read_uuid",
    "reading_reply",
    "render_command",
    "run_query",
    "to_json",
    "to_stored",
]


def order_as_sent(
    filter: Any, sort: Mapping[str, Any], indexes: Sequence[Index], *, is_root: bool
) -> Mapping[str, Any]:
    """Return the sort of a query as the engine sends it: with `_id`, unless that costs an index.

    Other than those of root fields, queries are sent for many parents together.
    """
    pinned = frozenset(pinned_paths(filter))
    if not is_root:
        return order_ties(sort, pinned, indexes)
    is_obstructed = find_obstacle(sort, pinned, indexes) is not None
    return sort if is_obstructed else order_ties(sort, pinned, ())


async def list_indexes(store: Store, place: CollectionName, deadline: Deadline) -> list[Document]:
    """Return the indexes as the database describes them."""
    return await Administration(store).list_indexes(*place, deadline)


async def read_index_stats(
    store: Store, place: CollectionName, deadline: Deadline
) -> list[Document] | None:
    """Return what each server counts for each index; None without the privilege."""
    check_namespace(*place)
    stages: list[Document] = [{"$indexStats": {}}]
    command: Document = {"aggregate": place[1], "pipeline": stages, "cursor": {}}
    consistency = Consistency(concern="local")
    try:
        return await store.reads.commands.fetch(place[0], command, deadline, consistency)
    except StoreUnavailable:
        raise
    except DocgraphError:
        return None


async def plan_query(
    store: Store, place: CollectionName, filter: Any, sort: Mapping[str, Any], deadline: Deadline
) -> QueryPlan:
    """Return how the database would find these documents; nothing is executed."""
    command = _build_query(store, place, filter, sort, 1)
    return read_plan(await store.reads.commands.explain(place[0], command, deadline))


async def run_query(
    store: Store,
    place: CollectionName,
    filter: Any,
    sort: Mapping[str, Any],
    *,
    limit: int,
    deadline: Deadline,
) -> Execution:
    """Execute a query for the first `limit` documents; return its statistics."""
    command = _build_query(store, place, filter, sort, limit)
    explain = store.reads.commands.explain
    return read_execution(await explain(place[0], command, deadline, "executionStats"))


def _build_query(
    store: Store, place: CollectionName, filter: Any, sort: Mapping[str, Any], limit: int
) -> Document:
    check_namespace(*place)
    check_filter(filter, policy=store.policy, trusted=True)
    return build_find(place[1], filter, limit=limit, options={"sort": dict(sort)})


async def create_index(
    bench: Docgraph, place: CollectionName, name: str, keys: Mapping[str, Any]
) -> None:
    """Create an index for an administrator at the command line."""
    exchange = Exchange(Request("POST", b"/"), "advise")
    administration = Administration(bench.store)
    await administration.create_index(*place, name, dict(keys), {}, exchange=exchange)


def read_uuid(text: str, *, is_legacy: bool = False) -> Binary:
    """Return the stored form of a UUID: subtype 4, or 3 in the configured order of bytes."""
    data = parse_uuid(text)
    return build_legacy_uuid(data) if is_legacy else data
