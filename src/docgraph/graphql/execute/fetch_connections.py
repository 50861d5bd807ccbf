"""Connections: the pages of a field for all its parents, with cursors and totals.

The items of all parents are fetched like those of a list, one more for each parent than its page
has: that one tells whether there are more. `totalCount`, and whether there are items on the other
side of a cursor, are queries of their own, sent only if they are selected.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Final

from docgraph.codec.keyset import EMPTY, Key, ahead, behind
from docgraph.exchange import Deadline, Document
from docgraph.exchange.data import SORT_KEY
from docgraph.exchange.errors import TimeLimitExceeded
from docgraph.graphql.errors import FieldFailure
from docgraph.graphql.execute.batched_queries import AggregateQuery, Find, Query
from docgraph.graphql.execute.execution import Run
from docgraph.graphql.execute.pages import find_keys
from docgraph.graphql.execute.per_parent import fetch_per_parent
from docgraph.graphql.execute.window import Page
from docgraph.graphql.lists.conditions import combine
from docgraph.graphql.plan.plan_tree import ConnectionParts, Fetch
from docgraph.graphql.plan.relation import freeze
from docgraph.runtime.concurrent import concurrently
from docgraph.store.driver.lenient_decode import is_readable

Roots = Sequence[Any] | None
FetchDocuments = Callable[[Fetch, Sequence[Any], Roots, Run], Coroutine[Any, Any, list[Any]]]

_COUNT: Final = "n"
_UNREADABLE: Final = FieldFailure(
    "the sort key of this item cannot be read: it has no cursor", "unreadable-sort-key"
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
    assert window is not None and window.page is not None and parts is not None  # noqa: S101, PT018
    others = _Others(fetch, parents, roots, run)
    calls: list[Coroutine[Any, Any, list[Any]]] = [
        fetch_documents(fetch, parents, roots, run) if parts.has_rows else others.skip([]),
        others.count() if parts.total else others.skip(None),
        others.probe(window.page) if _needs_probe(window.page, parts) else others.skip(False),
    ]
    answers, totals, beyond = await concurrently(calls)
    pages = _Pages(fetch, window.page, parts)
    await pages.load_keys([one for one in answers if isinstance(one, list)], run)
    rows = zip(answers, totals, beyond, strict=True)
    return [pages.build(*row) for row in rows]


def _needs_probe(page: Page, parts: ConnectionParts) -> bool:
    """Return whether it must be found out if there are items on the other side of a cursor."""
    if page.is_backward:
        return parts.next_page and page.before is not None
    return parts.previous_page and page.after is not None


class _Others:
    """Queries about the whole lists of the parents, and not only about their pages."""

    def __init__(
        self, fetch: Fetch, parents: Sequence[Any], roots: Sequence[Any] | None, run: Run
    ) -> None:
        self._fetch = fetch
        self._parents = parents
        self._roots = roots
        self._run = run

    async def skip(self, value: Any) -> list[Any]:
        """Return this value for each parent, without a query."""
        return [value for _ in self._parents]

    async def count(self) -> list[Any]:
        """Return the number of all items of each parent, or why it is unknown."""
        limit = self._run.bounds.count_time_limit
        own, given = time.monotonic() + limit / 1000, self._run.exchange.deadline
        is_own = given.at is None or own < given.at
        deadline = Deadline(own, limit, patience=given.patience) if is_own else given

        def count(find: Find) -> Query:
            stages: list[Document] = [{"$match": find.filter}, {"$count": _COUNT}]
            return AggregateQuery(stages, 1, 1, deadline=deadline)

        try:
            answers = await self._fetch_each(count)
        except TimeLimitExceeded:
            if not is_own:
                raise
            text = f"totalCount takes longer than {limit} ms: select it with a narrower filter"
            return [FieldFailure(text, "count-too-slow")] * len(self._parents)
        return [one[0][_COUNT] if type(one) is list and one else one or 0 for one in answers]

    async def probe(self, page: Page) -> list[Any]:
        """Return whether each parent has items on the other side of the cursor."""
        key = page.before if page.is_backward else page.after
        assert key is not None  # noqa: S101 - see _needs_probe
        conditions = behind(page.order, key) if page.is_backward else ahead(page.order, key)
        places = [path for path, _ in page.order]
        own = {"_id": {"$eq": key[places.index("_id")]}}  # the item of the cursor itself

        def probe(find: Find) -> Query:
            condition = {"$or": [own, *conditions]}
            return AggregateQuery([{"$match": combine([find.filter, condition])}], 1, 1)

        answers = await self._fetch_each(probe)
        return [one if isinstance(one, FieldFailure) else bool(one) for one in answers]

    async def _fetch_each(self, adapt: Callable[[Find], Query]) -> list[Any]:
        return await fetch_per_parent(self._fetch, self._parents, self._roots, self._run, adapt)


class _Pages:
    """Builds connections from the documents of pages."""

    def __init__(self, fetch: Fetch, page: Page, parts: ConnectionParts) -> None:
        self._fetch = fetch
        self._page = page
        self._parts = parts
        self._paths = [path for path, _ in page.order]
        self._id_place = self._paths.index("_id")
        self._keys: dict[int, Key] = {}  # of documents whose own is not enough
        self._built: dict[int, list[Document]] = {}

    async def load_keys(self, answers: Sequence[list[Document]], run: Run) -> None:
        """Load the sort keys that are missing, or have a null that may be an empty array."""
        if not self._page.has_keys:
            return
        doubtful = {
            id(one): one
            for documents in answers
            for one in documents[: self._page.size]
            if self._is_doubtful(one)
        }
        if not doubtful:
            return
        ids = [one["_id"] for one in doubtful.values() if "_id" in one]
        found = await find_keys(self._fetch, self._page.order, ids, run)
        for number, one in doubtful.items():
            if (key := found.get(freeze(one.get("_id")))) is not None:
                self._keys[number] = key

    def _is_doubtful(self, document: Document) -> bool:
        key = document.get(SORT_KEY)
        if key is None:
            return True
        pairs = zip(self._paths, key, strict=True)
        return any(value is None and "." in path for path, value in pairs)

    def build(self, answer: Any, total: Any, beyond: Any) -> Any:
        """Return the connection of one parent; a failure stays what it is."""
        if isinstance(answer, FieldFailure):
            return answer
        try:
            edges = self._build_edges(answer)
        except FieldFailure as failure:
            return failure
        more = len(answer) > self._page.size
        is_backward = self._page.is_backward
        cursors = [edge.get("cursor") for edge in edges]
        info = {
            "hasNextPage": beyond if is_backward else more,
            "hasPreviousPage": more if is_backward else beyond,
            "startCursor": cursors[0] if cursors else None,
            "endCursor": cursors[-1] if cursors else None,
        }
        nodes = [edge["node"] for edge in edges]
        return {"edges": edges, "nodes": nodes, "pageInfo": info, "totalCount": total}

    def _build_edges(self, answer: list[Document]) -> list[Document]:
        """Return the edges of a page, the same for all parents that share it."""
        edges = self._built.get(id(answer))
        if edges is None:
            edges = self._built[id(answer)] = list(self._make_edges(self._cut(answer)))
        return edges

    def _cut(self, answer: list[Document]) -> list[Document]:
        """Return the documents of the page in the order of the list."""
        size = self._page.size
        if not self._page.is_backward:
            return answer[:size]
        for document in answer:
            self._check_arrays(document)
        return answer[:size][::-1]

    def _make_edges(self, documents: list[Document]) -> Iterator[Document]:
        parts, last = self._parts, len(documents) - 1
        for number, document in enumerate(documents):
            edge: Document = {"node": document}
            if parts.edge_cursors or (parts.page_cursors and number in (0, last)):
                edge["cursor"] = self._render_cursor(document)
            yield edge

    def _render_cursor(self, document: Document) -> Any:
        key = self._keys.get(id(document)) or self._read_key(document)
        if key is None or not is_readable(list(key)):
            return _UNREADABLE
        return self._page.cursors.render(key, key[self._id_place])

    def _read_key(self, document: Document) -> Key | None:
        """Return the sort key; the driver decodes that of an empty array as None."""
        key = document.get(SORT_KEY)
        if key is None or None not in key:
            return key
        pairs = zip(self._paths, key, strict=True)
        return [EMPTY if value is None and document.get(p) == [] else value for p, value in pairs]

    def _check_arrays(self, document: Document) -> None:
        """Reject arrays in the order of a page that is read from the end.

        The database sorts an array by its least element, and by its greatest in the reversed
        order, so that the one is not the reverse of the other.
        """
        for path in self._paths:
            value: Any = document
            for step in path.split("."):
                value = value.get(step) if isinstance(value, dict) else None
                if isinstance(value, list):
                    raise FieldFailure(
                        f"last cannot be used: {path}, which the items are sorted by, is an array "
                        "in some of them; use first and after",
                        "array-in-order",
                    )
