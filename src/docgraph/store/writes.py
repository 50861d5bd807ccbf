"""Store writes: one write, or several in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeVar

from pymongo import IndexModel

from docgraph.exchange.data import CollectionName, Resource, Write, WriteKind, WriteResult
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import DocgraphError, OutcomeUnknown
from docgraph.exchange.exchange import Exchange, Transaction, transaction_of
from docgraph.observe import emit
from docgraph.observe.events import UnattendedFailed
from docgraph.runtime.after_commit import AfterCommit, ShieldedTasks
from docgraph.runtime.backoff import GrowingPauses
from docgraph.store.driver.client import DriverClient
from docgraph.store.driver.collection_uuid import find_collection, pinned
from docgraph.store.driver.command import Commands
from docgraph.store.driver.errors import CollectionGone
from docgraph.store.driver.timed_commands import Observed
from docgraph.store.guard.rewrite import check_write
from docgraph.store.guard.shield import Guard, RevealKey
from docgraph.store.guard.stage_checks import Policy
from docgraph.store.intercept import Interceptors
from docgraph.store.names import check_namespace, place_of
from docgraph.store.transaction import (
    Done,
    OpenTransaction,
    TryAgain,
    check_transactions,
    commit,
    give_up,
    is_conflict,
    open_transaction,
)
from docgraph.store.write import await_server, check_shape, execute, execute_in, may_be_written

T = TypeVar("T")

_WHOLE: Final = frozenset({WriteKind.CREATE, WriteKind.DROP})
_TRIES: Final = 8  # of a transaction that fails without a conflict
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.5  # seconds


@dataclass
class StoreWrites:
    """The write operations (`Store.writes`)."""

    client: DriverClient
    policy: Policy
    guard: Guard
    interceptors: Interceptors
    commands: Commands
    units: ShieldedTasks
    # Gets the namespaces that may have changed, before the write is answered.
    on_written: Callable[[Iterable[str]], None] = field(default=lambda _: None)

    async def write(
        self,
        resource: Resource,
        write: Write,
        *,
        deadline: Deadline,
        exchange: Exchange | None = None,
        majority: bool = False,
        reveal: Iterable[RevealKey] = (),
    ) -> WriteResult:
        """Run a write, with the data interceptors around it.

        Until the command is sent, a cancelled caller leaves nothing behind. From then on the
        command and the interceptors after it are one unit, which a cancellation does not interrupt.
        After `OutcomeUnknown` callers, and interceptors with `hears_uncertain`, assume that it was
        applied. In the transaction of the exchange, the interceptors after it are notified after
        the commit.
        """
        write = await self._admit(resource, write, exchange, reveal)
        transaction = transaction_of(exchange)
        if isinstance(transaction, OpenTransaction):
            place = place_of(resource)
            result = await execute_in(transaction, self.commands, *place, write, deadline=deadline)
            result = _with_warnings(result, write)
            transaction.record(resource, write, result, exchange)
            return result
        await await_server(self.commands, deadline)
        name = f"{write.kind} {resource.db}.{resource.collection}"
        return await self.finish(
            name, lambda: self._commit(resource, write, deadline, exchange, majority)
        )

    async def write_unnoticed(
        self, resource: Resource, write: Write, *, deadline: Deadline
    ) -> WriteResult:
        """Run a write that no interceptor sees: for values that mean the same before and after.

        Never use it for requests of callers.
        """
        check_shape(write)
        db, collection = place_of(resource)
        await await_server(self.commands, deadline)
        return await self._execute(db, collection, write, deadline=deadline, majority=False)

    async def finish(self, name: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run steps that belong together to their end, even if the caller is cancelled.

        For callers that commit something and then must publish it, or complete a second step.
        """
        return await self.units.run(name, work)

    async def _commit(
        self,
        resource: Resource,
        write: Write,
        deadline: Deadline,
        exchange: Exchange | None,
        majority: bool,
    ) -> WriteResult:
        db, collection = place_of(resource)
        try:
            result = await self._execute(
                db, collection, write, deadline=deadline, majority=majority
            )
        except DocgraphError as error:
            if may_be_written(error, write):
                uncertain = WriteResult(uncertain=True)
                try:
                    await self.interceptors.after_write(exchange, resource, write, uncertain)
                except Exception as failure:  # the caller gets the result of the write itself
                    name = f"after {write.kind} {resource.db}.{resource.collection}"
                    emit(UnattendedFailed(name, failure))
            raise
        return await self.interceptors.after_write(
            exchange, resource, write, _with_warnings(result, write)
        )

    async def _execute(
        self, db: str, collection: str, write: Write, *, deadline: Deadline, majority: bool
    ) -> WriteResult:
        try:
            return await execute(
                self.commands, db, collection, write, deadline=deadline, majority=majority
            )
        finally:  # a write that failed may have been applied
            # Answers that were read through a view depend on its sources, whatever they are.
            whole = (db,) if write.kind in _WHOLE else ()
            self.on_written((f"{db}.{collection}", *whole))

    async def rehearse(
        self, resource: Resource, write: Write, *, exchange: Exchange | None = None
    ) -> None:
        """Raise the error with which `write` would reject it; nothing is written."""
        await self._admit(resource, write, exchange)

    async def _admit(
        self,
        resource: Resource,
        write: Write,
        exchange: Exchange | None,
        reveal: Iterable[RevealKey] = (),
    ) -> Write:
        """Return the checked write after the interceptors."""
        write = await self.interceptors.before_write(exchange, resource, write)
        check_shape(write)
        db, collection = place_of(resource)
        hidden = self.guard.shield(None, reveal).hidden.get(check_namespace(db, collection), ())
        check_write(write, db=db, policy=self.policy, hidden=hidden)
        return write

    async def ensure_index(
        self,
        db: str,
        collection: str,
        keys: Mapping[str, Any],
        *,
        deadline: Deadline,
        create: bool = True,
        **options: Any,
    ) -> None:
        """Create a required index if it is missing; without `create`, only in a collection."""
        check_namespace(db, collection)
        commands, namespace = self.commands, (db, collection)
        index = IndexModel(list(keys.items()), **options)
        if create:
            await _create_index(commands, namespace, index, deadline)
            return
        with Observed(db, {"listCollections": ""}) as seen:
            existing = await commands.within(
                commands.budget(deadline),
                lambda: find_collection(commands.client, db, collection, seen.comment),
            )
        if existing is None:
            return
        with suppress(CollectionGone):  # dropped in between: there is nothing to index
            await _create_index(commands, namespace, index, deadline, existing.id)

    async def check_transactions(self, deadline: Deadline) -> None:
        """Reject with 501 if the database has no transactions."""
        await await_server(self.commands, deadline)
        check_transactions(self.client)

    async def transact(
        self, work: Callable[[Transaction], Awaitable[T]], *, deadline: Deadline
    ) -> T:
        """Run the reads and writes of `work` in one transaction; return its result.

        An error rolls it back. If the database rolled back the transaction, it is retried with
        backoff: until the deadline after a conflict, otherwise a few times. The commit and the
        notifications after it are one unit, like a single write.
        """
        await self.check_transactions(deadline)
        pauses = GrowingPauses(_FIRST_PAUSE, _LONGEST_PAUSE)
        last: DocgraphError = TryAgain("")
        other_failures = 0
        async with open_transaction(self.client) as transaction:
            while True:
                await transaction.begin()
                try:
                    outcome = await work(transaction)
                    if transaction.is_open:
                        await self.finish("transaction", partial(self._conclude, transaction))
                        return outcome
                except (TryAgain, CollectionGone) as error:
                    last = error
                await transaction.abort()
                deadline.remaining()  # raises if no time is left
                other_failures += not is_conflict(last)
                pause = next(pauses)
                if other_failures == _TRIES or deadline.is_within(pause):
                    raise give_up(last) from last.__cause__
                await asyncio.sleep(pause)

    async def _conclude(self, transaction: OpenTransaction) -> None:
        """Commit, and notify the followers of the writes, even if the caller was cancelled."""
        transaction.is_concluding = True
        try:
            await commit(transaction, self.commands)
        except OutcomeUnknown:
            await self._notify(transaction.done, uncertain=True)
            raise
        finally:
            self.on_written({".".join(place_of(done.resource)) for done in transaction.done})
            transaction.is_open = transaction.is_concluding = False
            if transaction.is_left:
                await transaction.close()
        await self._notify(transaction.done)

    async def _notify(self, writes: Iterable[Done], *, uncertain: bool = False) -> None:
        """Notify about each write in its own context; run follow-up work that many share once."""
        gathering = AfterCommit()
        first: Exception | None = None
        for done in writes:
            gathering.enter(done.context)
            if done.exchange is not None:
                done.exchange.transaction = None  # their own writes are applied now
            result = WriteResult(uncertain=True) if uncertain else done.result
            follow = self.interceptors.after_write(done.exchange, done.resource, done.write, result)
            try:
                await asyncio.create_task(follow, context=done.context)
            except Exception as error:  # the others are notified nevertheless, then it is raised
                first = first or error
        try:
            await gathering.finish()
        except Exception as error:
            first = first or error
        if first is None:
            return
        if not uncertain:
            raise first
        emit(UnattendedFailed("after a transaction", first))  # the caller gets that one itself


def _with_warnings(result: WriteResult, write: Write) -> WriteResult:
    if not write.warnings:
        return result
    return replace(result, warnings=(*result.warnings, *write.warnings))


async def _create_index(
    commands: Commands,
    namespace: CollectionName,
    index: IndexModel,
    deadline: Deadline,
    collection_id: bytes | None = None,
) -> None:
    db, collection = namespace
    target = commands.client.get_database(db).get_collection(collection)

    async def run() -> None:
        async with pinned(commands.client, collection_id) as session:
            await target.create_indexes([index], session=session, comment=seen.comment)

    with Observed(db, {"createIndexes": collection}) as seen:
        await commands.within(commands.budget(deadline), run, writing=True)
