"""Everything that docgraph asks of MongoDB passes here.

Each operation does the same things in the same order: names, checks of stages and operators,
guards, the command with its deadline and limit, errors. None of them can be left out by a caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from docgraph.exchange.data import Consistency, Document, Read, Resource
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.exchange import Exchange, Transaction, transaction_of
from docgraph.runtime.tasks import Outage
from docgraph.runtime.units import Units
from docgraph.store.clock import DatabaseClock
from docgraph.store.driver.availability import Availability
from docgraph.store.driver.client import Client, close_client
from docgraph.store.driver.command import Commands
from docgraph.store.driver.contact import Contact, Fault
from docgraph.store.driver.fast_path import report_untried_version
from docgraph.store.driver.portions import Take, hand_over
from docgraph.store.driver.waiting import Waits
from docgraph.store.explain import QueryPlan, read_plan
from docgraph.store.facts import Facts
from docgraph.store.find import Sort, build_aggregate, build_count, build_find, read_sort
from docgraph.store.guard.fenced_find import Find, find_grounds, restrict
from docgraph.store.guard.rewrite import guard_pipeline
from docgraph.store.guard.rows import (
    Guard,
    Key,
    Rows,
    check_filter_paths,
    check_query,
    strip,
    strip_before,
)
from docgraph.store.guard.stages import Policy, check_filter, check_pipeline, check_projection
from docgraph.store.intercept import Interceptors
from docgraph.store.names import check_namespace, place_of
from docgraph.store.order import Order, find_in_order, is_served
from docgraph.store.transactions.transaction import fetch_in, is_usable
from docgraph.store.transactions.writing import Writing
from docgraph.store.watching import Watching

__all__ = ["Store"]

_SETTLE_SECONDS: Final = 5.0


class Store(Watching, Writing):
    """The operations on the database; one per process."""

    def __init__(
        self,
        client: Client,
        *,
        policy: Policy | None = None,
        guard: Guard | None = None,
        ceiling_ms: int = 300_000,
        wait_timeout_ms: int = 15_000,
        contact: Contact | None = None,
    ) -> None:
        self.client = client
        self.policy = policy or Policy()
        self.guard = guard or Guard()
        self.interceptors = Interceptors()
        self.waits = Waits(wait_timeout_ms / 1000 if wait_timeout_ms > 0 else None)
        self.contact = contact or Contact()
        self._availability = Availability(client, self.waits, self.contact)
        self._commands = Commands(client, ceiling_ms=ceiling_ms, waits=self.waits)
        self.facts = Facts(self._commands)
        self._units = Units()
        self.clock = DatabaseClock()

    # --- life -------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Begin to look for the servers, in the background."""
        report_untried_version()
        self._availability.start()

    async def settle(self) -> None:
        """Wait, for a bounded time, until no write is half done; see `finish`."""
        await self._units.settle(_SETTLE_SECONDS)

    async def close(self) -> None:
        """End all connections, after the writes that are under way."""
        await self.settle()
        await self._availability.stop()
        await self._commands.stop()
        await self.facts.close()
        await close_client(self.client)
        self._commands.close()

    async def available(self) -> None:
        """Return when the database has answered for the first time, or at once if it has."""
        await self._availability.wait()

    async def contacted(self) -> bool:
        """Whether the database lets us in, as soon as that is known."""
        return await self._availability.wait_known()

    @property
    def fault(self) -> Fault | None:
        """What keeps us from using the database, as far as it is known."""
        return self._availability.fault

    @property
    def outage(self) -> Outage:
        """Tells which failures of background work come of a fault of the database."""
        return self._availability

    @property
    def is_available(self) -> bool:
        """Whether there is a server that takes writes, as far as is known."""
        return bool(self._availability)

    async def ping(self, timeout: float, db: str = "admin") -> None:  # noqa: ASYNC109 - its point
        """Return when the database answers, within that many seconds."""
        await self._commands.ping(timeout, db=db)

    async def set_clock(self, timeout: float) -> None:  # noqa: ASYNC109 - its point
        """Let `clock` show the time of the database, which is asked within that many seconds."""
        await self.clock.set(self._commands.read_time(timeout))

    # --- reading ----------------------------------------------------------------------------------

    async def find(  # noqa: PLR0913 - the parts of a query
        self,
        db: str,
        collection: str,
        filter: Mapping[str, Any],
        *,
        limit: int,
        deadline: Deadline,
        projection: Mapping[str, Any] | None = None,
        sort: Sort | None = None,
        skip: int = 0,
        hint: Any = None,
        comment: Any = None,
        rows: Rows | None = None,
        reveal: Iterable[Key] = (),
        consistency: Consistency | None = None,
        complete: bool = False,
        take: Take | None = None,
        transaction: Transaction | None = None,
        trusted: bool = False,
    ) -> list[Document]:
        """The documents that match, at most `limit`; with `complete`, ties have an order, too.

        With `take`, that gets them, in portions where they are many, and none are returned.
        `trusted`: an author wrote the expressions in the filter, not the caller.
        """
        namespace, shield = check_namespace(db, collection), self._shield(rows, reveal)
        order = Order(read_sort(sort), hint)
        check_filter(filter, policy=self.policy, trusted=trusted)
        check_projection(projection or {}, policy=self.policy)
        if hidden := shield.hidden.get(namespace, ()):
            check_query(filter, projection, order.sort, hint, hidden)
        parts = await restrict(self.facts, shield, (db, collection), filter, projection)
        if take is not None and hidden:
            take = strip_before(take, hidden)
        facts = None if hidden else self.facts  # the order of an index could tell of them

        async def fetch(command: Document, take: Take | None) -> list[Document]:
            return await self._fetch(db, command, deadline, consistency, take, transaction)

        query = Find((db, collection), parts, projection, (skip, limit), comment)
        send = partial(query.run, fetch, facts if complete else None)
        if complete and order.sort:
            asked = {"find": collection, "filter": parts.front, "limit": limit}
            documents = await find_in_order(facts, (db, collection), order, asked, send, take)
        else:
            documents = await send(order, take)
        if hidden:
            strip(documents, hidden)
        return documents

    async def _fetch(
        self,
        db: str,
        command: Document,
        deadline: Deadline,
        consistency: Consistency | None,
        take: Take | None,
        transaction: Transaction | None,
    ) -> list[Document]:
        if is_usable(transaction):
            return await fetch_in(transaction, self._commands, db, command, deadline, take)
        return await self._commands.fetch(db, command, deadline, consistency, take=take)

    async def explain(
        self,
        db: str,
        collection: str,
        filter: Mapping[str, Any],
        *,
        deadline: Deadline,
        sort: Sort | None = None,
        rows: Rows | None = None,
    ) -> QueryPlan:
        """How the database would find these documents of a mapping; none is looked at."""
        namespace, order = check_namespace(db, collection), read_sort(sort)
        check_filter(filter, policy=self.policy, trusted=True)
        shield = self._shield(rows)
        if hidden := shield.hidden.get(namespace, ()):
            check_query(filter, None, order, None, hidden)
        parts = await restrict(self.facts, shield, (db, collection), filter)
        sorts = bool(parts.behind) and not await is_served(
            self.facts, (db, collection), Order(order), parts.front
        )
        options = {} if sorts else {"sort": order}
        command = build_find(collection, parts.front, limit=1, options=options)
        plan = read_plan(await self._commands.explain(db, command, deadline))
        return plan.sorting() if sorts and order else plan

    async def find_one(  # noqa: PLR0913 - the parts of a query
        self,
        db: str,
        collection: str,
        filter: Mapping[str, Any],
        *,
        deadline: Deadline,
        projection: Mapping[str, Any] | None = None,
        sort: Sort | None = None,
        comment: Any = None,
        rows: Rows | None = None,
        reveal: Iterable[Key] = (),
        consistency: Consistency | None = None,
        transaction: Transaction | None = None,
    ) -> Document | None:
        """The first document that matches, or None."""
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
        pipeline: Sequence[Mapping[str, Any]],
        *,
        limit: int,
        deadline: Deadline,
        allow_disk_use: bool = False,
        comment: Any = None,
        rows: Rows | None = None,
        reveal: Iterable[Key] = (),
        consistency: Consistency | None = None,
        one_batch: bool = False,
        take: Take | None = None,
    ) -> list[Document]:
        """The results of the pipeline, at most `limit`; ask for one more to see whether it is.

        With `one_batch`, more than the database sends at once (16 MiB) is `AnswerTooLarge`.
        """
        check_namespace(db, collection)
        check_pipeline(pipeline, db=db, policy=self.policy)
        shield = self._shield(rows, reveal)
        if shield:
            grounds = await find_grounds(self.facts, shield, (db, collection), pipeline)
            pipeline = guard_pipeline(pipeline, db, collection, shield, grounds)
        command = build_aggregate(
            collection, pipeline, limit=limit, allow_disk_use=allow_disk_use, comment=comment
        )
        return await self._commands.fetch(
            db, command, deadline, consistency, one_batch=one_batch, take=take
        )

    async def count(  # noqa: PLR0913 - the parts of a query
        self,
        db: str,
        collection: str,
        filter: Mapping[str, Any],
        *,
        limit: int,
        deadline: Deadline,
        comment: Any = None,
        rows: Rows | None = None,
        reveal: Iterable[Key] = (),
        consistency: Consistency | None = None,
        transaction: Transaction | None = None,
    ) -> int:
        """How many documents match; counting stops at `limit`."""
        namespace = check_namespace(db, collection)
        shield = self._shield(rows, reveal)
        check_filter(filter, policy=self.policy)
        if hidden := shield.hidden.get(namespace):
            check_filter_paths(filter, hidden)
        parts = await restrict(self.facts, shield, (db, collection), filter)
        command = build_count(collection, parts.stages, limit=limit, comment=comment)
        results = await self._fetch(db, command, deadline, consistency, None, transaction)
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
        """The documents of a resource, with the data interceptors around it; see `find`."""
        db, collection = place_of(resource)
        read = await self.interceptors.before_read(exchange, resource, read)
        take_portion = self.interceptors.stand_before(take, exchange, resource)
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
        )
        if take_portion is not None:
            return documents
        documents = await self.interceptors.after_read(exchange, resource, documents)
        return documents if take is None else await hand_over(documents, take)

    async def count_at(
        self,
        resource: Resource,
        read: Read,
        *,
        deadline: Deadline,
        exchange: Exchange | None = None,
        rows: Rows | None = None,
    ) -> int:
        """How many documents `read` would find, with the data interceptors before it."""
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
        """Raise what an interceptor would refuse `read` with; nothing is read."""
        await self.interceptors.before_read(exchange, resource, read)
