"""Connections: the pages of a field for all its parents, with cursors and totals.

The items of all parents are fetched like those of a list, one more for each parent than its page
has: that one tells whether there are more. `totalCount`, and whether there are items on the other
side of a cursor, are queries of their own, sent only if they are selected.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import repeat
from typing import Any, Final

from docgraph.codec.bson_types import ObjectId
from docgraph.codec.equality import is_equal
from docgraph.codec.keyset import SortKey, ahead, behind, is_doubtful
from docgraph.exchange import Deadline, Document
from docgraph.exchange.errors import TimeLimitExceeded
from docgraph.graphql.errors import FieldFailure
from docgraph.graphql.execute.batched_queries import AggregateQuery, BatchedQuery, Find
from docgraph.graphql.execute.execution import Run
from docgraph.graphql.execute.pages import find_inexact, find_keys
from docgraph.graphql.execute.per_parent import fetch_per_parent
from docgraph.graphql.execute.window import Page, Window
from docgraph.graphql.plan.plan_tree import ConnectionParts, Fetch
from docgraph.graphql.plan.relation import freeze
from docgraph.runtime.tasks import concurrently
from docgraph.store.driver.lenient_decode import is_readable
from docgraph.store.driver.malformed import reading_reply

Roots = Sequence[Any] | None
FetchDocuments = Callable[[Fetch, Sequence[Any], Roots, Run], Coroutine[Any, Any, Sequence[Any]]]

_COUNT: Final = "n"
_PLAIN: Final = frozenset({int, str, float, bool, type(None), ObjectId, datetime})
_ARRAY: Final = object()  # in place of the value of a sort key that is, or is below, an array
_UNREADABLE: Final = FieldFailure(
    "this item has no cursor: its sort key cannot be read, or has an undefined inside of an object,"
    " a DBPointer, or a reference whose $id does not follow $ref; order by another field",
    "unreadable-sort-key",
)

_SHARED: Final = FieldFailure(
    "the next item has the same sort key and the same _id: this item has no cursor",
    "shared-position",
)


async def fetch_connections(
    fetch: Fetch,
    parents: Sequence[Any],
    roots: Sequence[Any] | None,
    run: Run,
    fetch_documents: FetchDocuments,
) -> list[Any]:
    """Return the connection of each parent, or why it has none."""
    window, parts = run.prepared[id(fetch)].window, fetch.connection
    # `prepare_pages` has set them, or the fetch has failed before.
    assert window is not None and window.page is not None and parts is not None  # noqa: S101, PT018
    others = _Others(fetch, parents, roots, run)
    calls: dict[str, Coroutine[Any, Any, Sequence[Any]]] = {}
    if parts.has_rows:
        calls["rows"] = fetch_documents(fetch, parents, roots, run)
    if parts.total:
        calls["total"] = others.count()
    # A query must find out if there are items on the other side of a cursor.
    if window.page.is_backward:
        is_probed = parts.next_page and window.page.before is not None
    else:
        is_probed = parts.previous_page and window.page.after is not None
    if is_probed:
        calls["beyond"] = others.probe(window.page)
    if len(calls) == 1:
        results = [await next(iter(calls.values()))]
    else:
        results = await concurrently(list(calls.values())) if calls else []
    answered = dict(zip(calls, results, strict=True))
    answers = answered.get("rows") or [[] for _ in parents]
    pages = _Pages(fetch, window.page, parts)
    await pages.load_keys(answers, run)
    totals, beyond = (answered.get(name) or repeat(False) for name in ("total", "beyond"))
    rows = zip(answers, totals, beyond, strict=False)
    return [pages.build(*row) for row in rows]


@dataclass(frozen=True, slots=True)
class _Others:
    """Queries about the whole lists of the parents, and not only about their pages."""

    _fetch: Fetch
    _parents: Sequence[Any]
    _roots: Roots
    _run: Run

    async def count(self) -> list[Any]:
        """Return the number of all items of each parent, or why it is unknown."""
        limit = self._run.bounds.count_time_limit
        at, given = time.monotonic() + limit / 1000, self._run.exchange.deadline
        is_earlier = given.at is None or at < given.at
        deadline = Deadline(at, limit, patience=given.patience) if is_earlier else given

        def count(find: Find) -> BatchedQuery:
            filtering = find.window.related.filtering
            stages: list[Document] = [{"$match": find.filter}, *filtering, {"$count": _COUNT}]
            return AggregateQuery(stages, 1, 1, deadline=deadline)

        try:
            answers = await self._fetch_each(count)
        except TimeLimitExceeded:
            if not is_earlier:
                raise
            text = (
                f"totalCount takes longer than {limit} ms (graphql.count-time-limit): "
                "select it with a narrower filter"
            )
            return [FieldFailure(text, "count-too-slow")] * len(self._parents)
        with reading_reply():
            return [
                answer[0][_COUNT] if type(answer) is list and answer else answer or 0
                for answer in answers
            ]

    async def probe(self, page: Page) -> list[Any]:
        """Return whether each parent has items on the other side of the cursor."""
        key = page.before if page.is_backward else page.after
        assert key is not None  # noqa: S101 - see fetch_connections
        conditions = behind(page.order, key) if page.is_backward else ahead(page.order, key)
        places = [path for path, _ in page.order]
        itself = {"_id": {"$eq": key[places.index("_id")]}}  # the item of the cursor
        other = replace(page, parts=({"$or": [itself, *conditions]},), projection={"_id": 1})

        def probe(find: Find) -> BatchedQuery:
            related = find.window.related._replace(restoring=())
            return Find(find.filter, Window(None, 0, 1, other, related=related))

        answers = await self._fetch_each(probe)
        return [answer if isinstance(answer, FieldFailure) else bool(answer) for answer in answers]

    async def _fetch_each(self, adapt: Callable[[Find], BatchedQuery]) -> list[Any]:
        return await fetch_per_parent(self._fetch, self._parents, self._roots, self._run, adapt)


class _Pages:
    """Builds connections from the documents of pages."""

    def __init__(self, fetch: Fetch, page: Page, parts: ConnectionParts) -> None:
        self._fetch = fetch
        self._page = page
        self._parts = parts
        self._paths = [path for path, _ in page.order]
        self._getters = [_build_getter(path) for path in self._paths]
        self._id_place = self._paths.index("_id")
        self._keys: dict[int, SortKey] = {}  # of documents with arrays in the order
        self._built: dict[int, Document] = {}

    async def load_keys(self, answers: Sequence[Any], run: Run) -> None:
        """Load the sort keys that only the database knows: which element of an array counts.

        Also whether a null is one: the driver reads an `undefined`, which comes before, as null.
        """
        if not self._parts.has_cursors:
            return
        places = list(zip(self._paths, self._getters, strict=True))
        wanted = {
            id(document): document
            for documents in answers
            if isinstance(documents, list)
            for document in self._choose(documents[: self._page.size])
            if any(_needs_lookup(path, get(document), document) for path, get in places)
        }
        if not wanted:
            return
        with reading_reply():
            ids = [document["_id"] for document in wanted.values()]
        keys = await find_keys(self._fetch, self._page.order, ids, run)
        for number, document in wanted.items():
            if (key := keys.get(freeze(document["_id"]))) is not None:
                self._keys[number] = key
        for number in await find_inexact(self._fetch, self._page.order, self._keys, run):
            self._keys[number] = [_ARRAY]  # not usable

    def _choose(self, documents: list[Document]) -> list[Document]:
        """Return the documents that need a cursor."""
        parts = self._parts
        if parts.edge_cursors:
            return documents
        wanted = {0: parts.start_cursor, len(documents) - 1: parts.end_cursor}
        if self._page.is_backward:
            wanted = {0: parts.end_cursor, len(documents) - 1: parts.start_cursor}
        if len(documents) == 1:
            wanted = {0: parts.has_cursors}
        return [documents[place] for place, is_wanted in wanted.items() if documents and is_wanted]

    def build(self, answer: Any, total: Any, beyond: Any) -> Any:
        """Return the connection of one parent; a failure stays what it is."""
        if isinstance(answer, FieldFailure):
            return answer
        documents = self._built.get(id(answer))
        if documents is None:
            try:
                documents = self._built[id(answer)] = self._build_page(answer)
            except FieldFailure as failure:
                return failure
        more = len(answer) > self._page.size
        is_backward = self._page.is_backward
        return {
            **documents,
            "pageInfo": {
                **documents["pageInfo"],
                "hasNextPage": beyond if is_backward else more,
                "hasPreviousPage": more if is_backward else beyond,
            },
            "totalCount": total,
        }

    def _build_page(self, answer: list[Document]) -> Document:
        """Return the items of a page, the same for all parents that share it."""
        documents = answer[: self._page.size]
        cursors = {id(item): self._render_cursor(item) for item in self._choose(documents)}
        if cursors and len(answer) > len(documents):
            # A view or time series can repeat an `_id`.
            pair = (documents[-1], answer[len(documents)])
            last, following = ([get(item) for get in self._getters] for item in pair)
            if is_equal(last, following):
                cursors[id(documents[-1])] = _SHARED
        if self._page.is_backward:
            self._check_arrays(answer)
            documents.reverse()
        page: Document = {"pageInfo": {}}
        if self._parts.nodes:
            page["nodes"] = documents
        if self._parts.edges:
            page["edges"] = [{"node": item} for item in documents]
            if self._parts.edge_cursors:
                for edge in page["edges"]:
                    edge["cursor"] = cursors[id(edge["node"])]
        if documents:
            page["pageInfo"] = {
                "startCursor": cursors.get(id(documents[0])),
                "endCursor": cursors.get(id(documents[-1])),
            }
        return page

    def _render_cursor(self, document: Document) -> Any:
        key = self._keys.get(id(document))
        if key is None:
            key = [get(document) for get in self._getters]
        if not _PLAIN.issuperset(map(type, key)) and (
            any(value is _ARRAY for value in key) or not is_readable(list(key))
        ):
            return _UNREADABLE
        assert self._page.cursors is not None  # noqa: S101 - they are selected
        return self._page.cursors.render(key, key[self._id_place])

    def _check_arrays(self, documents: list[Document]) -> None:
        """Reject arrays in the order of a page that is read from the end.

        The database sorts an array by its least element, and by its greatest in the reversed
        order, so that the one is not the reverse of the other.
        """
        for path, get in zip(self._paths, self._getters, strict=True):
            if any(get(document) is _ARRAY for document in documents):
                raise FieldFailure(
                    f"last cannot be used: {path}, which the items are sorted by, is an array in "
                    "some of them; use first and after",
                    "array-in-order",
                )


def _needs_lookup(path: str, value: Any, document: Document) -> bool:
    """Check if only the database knows the value by which it sorts the document."""
    if value is not None:
        return value is _ARRAY or is_doubtful([value])
    *steps, last = path.split(".")
    inner: Any = document
    for step in steps:
        inner = inner.get(step) if isinstance(inner, dict) else None
    return isinstance(inner, dict) and last in inner


def _build_getter(path: str) -> Callable[[Document], Any]:
    """Return the function that reads a value of a sort key; a missing one is null."""
    head, *steps = path.split(".")

    def get(document: Document) -> Any:
        value = document.get(head)
        for step in steps:
            if not isinstance(value, dict):
                break
            value = value.get(step)
        else:
            return _ARRAY if isinstance(value, list) else value
        return _ARRAY if isinstance(value, list) else None

    return get
