"""Store reads: documents, results of pipelines, counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from docgraph.exchange.data import Consistency, Document, Filter, Keyset, Read, Resource, Stages
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.exchange import Exchange, Transaction, transaction_of
from docgraph.store.collection_stats import CollectionStats
from docgraph.store.driver.command import Commands
from docgraph.store.driver.malformed import reading_reply
from docgraph.store.driver.portions import Take, hand_over
from docgraph.store.find import SortArgument, build_aggregate, build_count, build_find, read_sort
from docgraph.store.guard.fence import FilterParts
from docgraph.store.guard.references import find_references
from docgraph.store.guard.rewrite import guard_pipeline
from docgraph.store.guard.row_filters import (
    FencedFind,
    Send,
    check_collations,
    find_grounds,
    restrict,
)
from docgraph.store.guard.shield import (
    Guard,
    RevealKey,
    Rows,
    check_filter_paths,
    check_query,
    strip,
    strip_before,
)
from docgraph.store.guard.stage_checks import Policy, check_filter, check_pipeline, check_projection
from docgraph.store.intercept import Interceptors
from docgraph.store.names import check_namespace, place_of
from docgraph.store.order import Order, find_in_order, is_served
from docgraph.store.query_plan import QueryPlan, read_plan
from docgraph.store.transaction import fetch_in, is_usable
from docgraph.store.views import ViewCheck, Views

# Of a view, the sort key alone would be all that is shown; to leave something out shows the rest.
_EVERYTHING = {"_docgraph_nothing": 0}


@dataclass
class StoreReads:
    """The read operations (`Store.reads`)."""

    policy: Policy
    guard: Guard
    interceptors: Interceptors
    stats: CollectionStats
    commands: Commands
    views: Views = field(init=False)

    def __post_init__(self) -> None:
        self.views = Views(self.commands)
        # For documents that a `RawTake` has received.
        self.decode, self.decode_fields = self.commands.decode, self.commands.decode_fields

    async def find(  # noqa: PLR0913 - the parts of a query
        self,
        db: str,
        collection: str,
        filter: Filter,
        *,
        limit: int,
        deadline: Deadline,
        projection: Mapping[str, Any] | None = None,
        sort: SortArgument | None = None,
        skip: int = 0,
        hint: Any = None,
        comment: Any = None,
        rows: Rows | None = None,
        reveal: Iterable[RevealKey] = (),
        consistency: Consistency | None = None,
        complete: bool = False,
        take: Take | None = None,
        transaction: Transaction | None = None,
        trusted: bool = False,
        keyset: Keyset | None = None,
    ) -> list[Document]:
        """Return the matching documents, at most `limit`; with `complete`, ties have an order, too.

        `take` gets them instead, in portions. `trusted`: an author wrote the filter's expressions.
        """
        namespace = check_namespace(db, collection)
        shield = self.guard.shield(rows, reveal, self.policy)
        place, order, stats = (db, collection), Order(read_sort(sort), hint), self.stats
        check_filter(filter, policy=self.policy, trusted=trusted)
        check_projection(projection or {}, policy=self.policy)
        if hidden := shield.hidden.get(namespace, ()):
            check_query(filter, projection, order.sort, hint, hidden)
            take = take and strip_before(take, hidden)
        if keyset is not None:
            filter, projection = _add_keyset(filter, projection, keyset)
        check, parts = None, FilterParts(filter)
        if rows:
            check = await self.views.check(rows, [place], deadline, consistency, comment)
            parts = await restrict(stats, shield, place, filter, projection)
        sent: Document = {"check": check, "deadline": deadline, "consistency": consistency}
        fetch: Send = partial(self._fetch, db, **sent, transaction=transaction)
        # The order of an index could reveal hidden properties.
        order_stats = None if hidden else stats
        send: Callable[[Order, Take | None], Awaitable[list[Document]]]
        if parts.behind:
            query = FencedFind(place, parts, projection or {}, skip, limit, comment)
            send = partial(query.run, fetch, order_stats if complete else None)
        else:

            def send(order: Order, take: Take | None) -> Awaitable[list[Document]]:
                options: Document = {"projection": projection, "sort": order.sort}
                options |= {"hint": order.hint, "comment": comment}
                bounds = {"limit": limit, "skip": skip}
                return fetch(build_find(collection, parts.front, **bounds, options=options), take)

        if complete and order.sort:
            asked = {"find": collection, "filter": parts.front, "limit": limit}
            documents = await find_in_order(order_stats, place, order, asked, send, take)
        else:
            documents = await send(order, take)
        return strip(documents, hidden) if hidden else documents

    async def _fetch(  # noqa: PLR0913 - the parts of a query
        self,
        db: str,
        command: Document,
        take: Take | None,
        *,
        check: ViewCheck | None,
        deadline: Deadline,
        consistency: Consistency | None,
        transaction: Transaction | None = None,
        one_batch: bool = False,
    ) -> list[Document]:
        def send(take: Take | None) -> Awaitable[list[Document]]:
            sent, commands = {**command}, self.commands  # a check can send it twice
            if transaction is not None and is_usable(transaction):
                return fetch_in(transaction, commands, db, sent, deadline, take)
            return commands.fetch(db, sent, deadline, consistency, one_batch=one_batch, take=take)

        return await (send(take) if check is None else check.run(send, take))

    async def explain(
        self,
        db: str,
        collection: str,
        filter: Filter,
        *,
        deadline: Deadline,
        sort: SortArgument | None = None,
        rows: Rows | None = None,
    ) -> QueryPlan:
        """Return how the database would find these documents of a mapping; none is read."""
        namespace, order = check_namespace(db, collection), read_sort(sort)
        check_filter(filter, policy=self.policy, trusted=True)
        shield = self.guard.shield(rows, policy=self.policy)
        if hidden := shield.hidden.get(namespace, ()):
            check_query(filter, None, order, None, hidden)
        check = await self.views.check(rows, [(db, collection)], deadline)
        parts = await restrict(self.stats, shield, (db, collection), filter)
        sorts = bool(parts.behind) and not await is_served(
            self.stats, (db, collection), Order(order), parts.front
        )
        options = {} if sorts else {"sort": order}
        command = build_find(collection, parts.front, limit=1, options=options)
        plan = read_plan(await self.commands.explain(db, command, deadline))
        if check is not None:
            await check.confirm()
        return plan.sorting() if sorts and order else plan

    async def find_one(  # noqa: PLR0913 - the parts of a query
        self,
        db: str,
        collection: str,
        filter: Filter,
        *,
        deadline: Deadline,
        projection: Mapping[str, Any] | None = None,
        sort: SortArgument | None = None,
        comment: Any = None,
        rows: Rows | None = None,
        reveal: Iterable[RevealKey] = (),
        consistency: Consistency | None = None,
        transaction: Transaction | None = None,
    ) -> Document | None:
        documents = await self.find(
            db,
            collection,
            filter,
            limit=1,
            deadline=deadline,
            projection=projection,
            sort=sort,
            comment=comment,
            rows=rows,
            reveal=reveal,
            consistency=consistency,
            transaction=transaction,
        )
        return documents[0] if documents else None

    async def aggregate(  # noqa: PLR0913 - the parts of a query
        self,
        db: str,
        collection: str,
        pipeline: Stages,
        *,
        limit: int,
        deadline: Deadline,
        allow_disk_use: bool = False,
        comment: Any = None,
        rows: Rows | None = None,
        reveal: Iterable[RevealKey] = (),
        consistency: Consistency | None = None,
        one_batch: bool = False,
        take: Take | None = None,
    ) -> list[Document]:
        """Return the results of the pipeline, at most `limit`; request one more to detect others.

        With `one_batch`, more than the database sends in one batch (16 MiB) is `AnswerTooLarge`.
        """
        check_namespace(db, collection)
        check_pipeline(pipeline, db=db, policy=self.policy)
        shield = self.guard.shield(rows, reveal, self.policy)
        check, places = None, [(db, collection)]
        if rows:
            places += (reference.place for reference in find_references(pipeline, db))
            check = await self.views.check(rows, places, deadline, consistency, comment)
        # Nothing is restricted if all collections that it can read are of another database.
        if shield.databases and (self.policy.allow_cross_database or db in shield.databases):
            await check_collations(self.stats, shield, places, deadline)
            grounds = await find_grounds(self.stats, shield, places, pipeline)
            pipeline = guard_pipeline(pipeline, db, collection, shield, grounds)
        command = build_aggregate(
            collection, pipeline, limit=limit, allow_disk_use=allow_disk_use, comment=comment
        )
        options: Document = {"deadline": deadline, "consistency": consistency}
        return await self._fetch(db, command, take, check=check, one_batch=one_batch, **options)

    async def count(  # noqa: PLR0913 - the parts of a query
        self,
        db: str,
        collection: str,
        filter: Filter,
        *,
        limit: int,
        deadline: Deadline,
        comment: Any = None,
        rows: Rows | None = None,
        reveal: Iterable[RevealKey] = (),
        consistency: Consistency | None = None,
        transaction: Transaction | None = None,
    ) -> int:
        """Return the number of matching documents; counting stops at `limit`."""
        namespace = check_namespace(db, collection)
        shield = self.guard.shield(rows, reveal, self.policy)
        check_filter(filter, policy=self.policy)
        if hidden := shield.hidden.get(namespace):
            check_filter_paths(filter, hidden)
        check = await self.views.check(rows, [(db, collection)], deadline, consistency, comment)
        parts = await restrict(self.stats, shield, (db, collection), filter)
        command = build_count(collection, parts.stages, limit=limit, comment=comment)
        options: Document = {"deadline": deadline, "consistency": consistency}
        options["transaction"] = transaction
        results = await self._fetch(db, command, None, check=check, **options)
        with reading_reply():
            return int(results[0]["n"]) if results else 0

    async def read(  # noqa: PLR0913 - the parts of a read
        self,
        resource: Resource,
        read: Read,
        *,
        deadline: Deadline,
        exchange: Exchange | None = None,
        rows: Rows | None = None,
        take: Take | None = None,
        transaction: Transaction | None = None,
    ) -> list[Document]:
        """Return the documents of a resource, with the data interceptors around it; see `find`."""
        db, collection = place_of(resource)
        read = await self.interceptors.before_read(exchange, resource, read)
        take_portion = self.interceptors.before_portion(take, exchange, resource)
        documents = await self.find(
            db,
            collection,
            read.filter,
            limit=read.limit,
            deadline=deadline,
            projection=read.projection,
            sort=read.sort,
            skip=read.skip,
            hint=read.hint,
            comment={"request": exchange.id} if exchange else None,
            rows=rows,
            consistency=read.consistency,
            complete=True,
            take=take_portion,
            transaction=transaction or transaction_of(exchange),
            keyset=read.keyset,
        )
        if take_portion is not None:
            return documents
        documents = await self.interceptors.after_read(exchange, resource, documents)
        return documents if take is None else await hand_over(documents, take)

    async def find_snapshot(self, db: str, collection: str, deadline: Deadline) -> Consistency:
        """Return the consistency of reads that all see the same state, not before now."""
        check_namespace(db, collection)
        time = await self.commands.read_snapshot_time(db, collection, deadline)
        return Consistency("primary", "snapshot", time)

    async def count_at(
        self,
        resource: Resource,
        read: Read,
        *,
        deadline: Deadline,
        exchange: Exchange | None = None,
        rows: Rows | None = None,
    ) -> int:
        """Return how many documents `read` would find, with the data interceptors before it."""
        db, collection = place_of(resource)
        read = await self.interceptors.before_read(exchange, resource, read)
        return await self.count(
            db,
            collection,
            read.filter,
            limit=read.limit,
            deadline=deadline,
            comment={"request": exchange.id} if exchange else None,
            rows=rows,
            consistency=read.consistency,
            transaction=transaction_of(exchange),
        )

    async def rehearse_read(
        self, resource: Resource, read: Read, *, exchange: Exchange | None = None
    ) -> None:
        """Raise the error with which an interceptor would reject `read`; nothing is read."""
        await self.interceptors.before_read(exchange, resource, read)


def _add_keyset(
    filter: Filter, projection: Mapping[str, Any] | None, keyset: Keyset | None
) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    """Add what keyset pagination needs; everything that a caller wrote is checked by now."""
    if keyset is None:
        return filter, projection
    if keyset.filter is not None:
        filter = {"$and": [filter, keyset.filter]} if filter else keyset.filter
    return filter, {**(projection or _EVERYTHING), **keyset.projection}
