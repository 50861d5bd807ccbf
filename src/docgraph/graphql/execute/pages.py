"""Pages of connections, before the first command: `first`, `after`, `last`, `before` to a window.

The order of a connection always ends with `_id`, whatever indexes there are: a position must be
unique. Without a sort it is the order of `_id`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from docgraph.codec.keyset import (
    SortKey,
    ahead,
    behind,
    build_key,
    check_order,
    is_doubtful,
    match_key,
    read_key,
)
from docgraph.exchange import Document
from docgraph.exchange.data import SORT_KEY, Keyset
from docgraph.exchange.errors import DocgraphError
from docgraph.exchange.parsed import SortOrder
from docgraph.graphql.conditions import combine
from docgraph.graphql.definition.mapping import PAGE_ARGUMENTS
from docgraph.graphql.errors import FieldFailure, describe_failure
from docgraph.graphql.execute.cursors import BadCursor, CursorKeys, Cursors
from docgraph.graphql.execute.execution import PreparedFetch, Run
from docgraph.graphql.execute.window import Page, Window
from docgraph.graphql.plan.plan_tree import Fetch, PlanTree
from docgraph.graphql.plan.relation import add_paths, cut_path, freeze
from docgraph.store.driver.malformed import reading_reply

_VERSION: Final = 2  # of the binding of cursors
_UNBOUND: Final = PAGE_ARGUMENTS | {"orderBy"}  # the order itself is bound
_CHECKED: Final = 100  # keys that one command compares
_RELOAD_SECONDS: Final = 10.0
_ONE_PROCESS: Final = CursorKeys([CursorKeys.generate()])  # for executions without a key ring


async def prepare_pages(tree: PlanTree, run: Run) -> None:
    """Replace the windows of connections by those of their pages."""
    for fetch in tree.connections:
        prepared = run.prepared[id(fetch)]
        if prepared.failure is not None:
            continue
        try:
            window = await _build_window(fetch, prepared, run)
            run.prepared[id(fetch)] = prepared._replace(window=window)
        except FieldFailure as failure:
            run.prepared[id(fetch)] = prepared._replace(failure=failure)
        except DocgraphError as error:
            run.prepared[id(fetch)] = prepared._replace(failure=describe_failure(error))


async def _build_window(fetch: Fetch, prepared: PreparedFetch, run: Run) -> Window:
    assert prepared.window is not None  # noqa: S101 - the window of a connection is fixed
    assert fetch.connection is not None  # noqa: S101 - see PlanTree.connections
    arguments = prepared.scope.arguments
    size, is_backward = _read_size(arguments, run)
    if prepared.where.nearest:
        raise _reject_order("nearestFirst")
    order = build_order(prepared.window.sort)
    # Positions need the properties of the order.
    projection: Mapping[str, int] | None = fetch.projection
    if is_backward or fetch.connection.has_cursors:
        paths = {cut_path(tuple(path.split("."))) for path, _ in order}
        projection = add_paths(projection, paths)
    pages = _Positions(fetch, order, arguments, run)
    after = before = None
    if not arguments.keys().isdisjoint(("after", "before")):
        after, before = await pages.read("after"), await pages.read("before")
    page = Page(
        order=order,
        size=size,
        is_backward=is_backward,
        cursors=await pages.bind() if fetch.connection.has_cursors else None,
        after=after,
        before=before,
        parts=_build_parts(order, after, before, is_backward=is_backward),
        projection=projection,
    )
    sort = {path: -direction if is_backward else direction for path, direction in order}
    more = fetch.connection.previous_page if is_backward else fetch.connection.next_page
    limit = max(1, size + more)
    return Window(sort, 0, limit, page, related=prepared.related)


def _read_size(arguments: Mapping[str, Any], run: Run) -> tuple[int, bool]:
    """Return the number of items of the page, and whether it is read from the end."""
    first, last = arguments.get("first"), arguments.get("last")
    if first is not None and last is not None:
        raise FieldFailure("first and last cannot be used together", "first-and-last")
    name, size = ("last", last) if last is not None else ("first", first)
    if size is None:
        return run.bounds.default_limit, False
    if size < 0:
        raise FieldFailure(f"{name} cannot be negative", "negative-limit")
    if size > run.bounds.max_limit:
        text = f"{name} cannot be greater than {run.bounds.max_limit}"
        raise FieldFailure(text, "limit-too-high")
    return size, last is not None


def build_order(sort: Mapping[str, Any] | None) -> SortOrder:
    """Return the order of a connection; raise `FieldFailure` for one that has no positions."""
    given = tuple((sort or {}).items())
    if any(path.startswith("$") for path, _ in given) or (obstacle := check_order(given)):
        text = "$natural" if any(path.startswith("$") for path, _ in given) else obstacle
        raise _reject_order(text)
    order = tuple((path, 1 if direction > 0 else -1) for path, direction in given)
    if any(path == "_id" for path, _ in order):
        return order
    return (*order, ("_id", order[-1][1] if order else 1))


def _reject_order(text: str) -> FieldFailure:
    return FieldFailure(
        f"a connection cannot follow {text}: order it by stored values", "bad-order"
    )


def _build_parts(
    order: SortOrder, after: SortKey | None, before: SortKey | None, *, is_backward: bool
) -> tuple[Document, ...] | None:
    """Return the conditions for documents between the positions, the nearest part first.

    The parts on the other side of a position do not follow each other: they are one condition.
    """
    later = None if after is None else behind(order, after)
    earlier = None if before is None else ahead(order, before)
    near, other = (earlier, later) if is_backward else (later, earlier)
    if near is None and other is None:
        return None
    if near == [] or other == []:
        return ()
    end = [] if other is None else [{"$or": other}]
    return tuple(combine([part, *end]) for part in ([{}] if near is None else near))


@dataclass(frozen=True, slots=True)
class _Positions:
    """Reads the positions that the arguments of a field name."""

    _fetch: Fetch
    _order: SortOrder
    _arguments: Mapping[str, Any]
    _run: Run

    async def bind(self, fresh_seconds: float | None = None) -> Cursors:
        """Return the cursors of the list."""
        ring, app = self._run.key_ring, self._run.plan.app
        if ring is None:
            keys = _ONE_PROCESS
        elif app.app.is_draft:
            keys = ring.of_drafts
        else:
            keys = await (ring.find() if fresh_seconds is None else ring.find(fresh_seconds))
        given = sorted((n, v) for n, v in self._arguments.items() if n not in _UNBOUND)
        mapping = self._fetch.mapping
        return Cursors.bind(
            keys,
            _VERSION,
            (None if ring is None else ring.definitions, freeze(app.app.definition.id)),
            (mapping.db, mapping.collection),
            self._fetch.position.coordinates,
            self._order,
            [(name, freeze(value)) for name, value in given],
            sorted(app.key),
        )

    async def read(self, name: str) -> SortKey | None:
        """Return the position of a cursor; None without one."""
        text = self._arguments.get(name)
        if text is None:
            return None
        length = len(self._order)
        try:
            try:
                position = (await self.bind()).parse(text, length)
            except BadCursor:  # maybe the key has changed
                position = (await self.bind(_RELOAD_SECONDS)).parse(text, length)
        except BadCursor:
            raise FieldFailure(
                f"{name} is not a cursor of {self._fetch.position.coordinates} with these "
                "arguments, this order and these permissions: use a cursor of the same query",
                "bad-cursor",
            ) from None
        if position.key is not None:
            return position.key
        keys = await find_keys(self._fetch, self._order, [position.id], self._run)
        key = keys.get(freeze(position.id))
        if key is None:
            text = f"the item of the cursor in {name} no longer exists: begin again"
            raise FieldFailure(text, "expired-cursor")
        return key


async def find_keys(
    fetch: Fetch, order: SortOrder, ids: Sequence[Any], run: Run
) -> dict[Any, SortKey]:
    """Return the sort keys of documents by their (frozen) ids, as the database computes them."""
    keyset = Keyset(None, {SORT_KEY: build_key(order)})
    documents = await run.find_positions(fetch, ids, dict(order), keyset)
    with reading_reply():
        keys: dict[Any, SortKey] = {
            freeze(document["_id"]): read_key(document[SORT_KEY]) for document in documents
        }
        if any(len(key) != len(order) for key in keys.values()):
            raise ValueError("a sort key has another length than the order")
    return keys


async def find_inexact(
    fetch: Fetch, order: SortOrder, keys: Mapping[int, SortKey], run: Run
) -> list[int]:
    """Return the numbers of the keys that the driver has changed: no filter expresses them."""
    inexact: list[int] = []
    doubtful = [number for number, key in keys.items() if is_doubtful(key)]
    place = [path for path, _ in order].index("_id")
    for start in range(0, len(doubtful), _CHECKED):
        part = doubtful[start : start + _CHECKED]
        filter_ = {"$or": [match_key(order, keys[number]) for number in part]}
        ids = [keys[number][place] for number in part]
        documents = await run.find_positions(fetch, ids, dict(order), Keyset(filter_, {}))
        with reading_reply():
            exact = {freeze(document["_id"]) for document in documents}
        inexact += [number for number in part if freeze(keys[number][place]) not in exact]
    return inexact
