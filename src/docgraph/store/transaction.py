"""Transactions: reads and writes that are applied together or not at all.

A transaction sees the database as of its first command, and its own writes. Any failed command
aborts it: nothing of it is stored, and later reads, which find the reason of the failure, are
outside of it. If the database reports that the same transaction may succeed on a retry
(`TryAgain`), `StoreWrites.transact` retries it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

import pymongo
from pymongo import ReadPreference
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import (
    ConnectionFailure,
    OperationFailure,
    PyMongoError,
    WaitQueueTimeoutError,
    WriteConcernError,
)
from pymongo.read_concern import ReadConcern
from pymongo.server_type import SERVER_TYPE

from docgraph.exchange.data import Document, Resource, Write, WriteResult
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import (
    AnswerTooLarge,
    Conflict,
    DocgraphError,
    NotSupported,
    OutcomeUnknown,
    StoreRejected,
    StoreUnavailable,
    TimeLimitExceeded,
)
from docgraph.exchange.exchange import Exchange, Transaction
from docgraph.store.driver.client import DriverClient
from docgraph.store.driver.collection_uuid import Pin
from docgraph.store.driver.command import Commands
from docgraph.store.driver.concerns import MAJORITY
from docgraph.store.driver.errors import DRIVER_ERRORS, CollectionGone
from docgraph.store.driver.portions import Take, hand_over
from docgraph.store.driver.timed_commands import Observed

_TRANSIENT: Final = "TransientTransactionError"  # the labels are MongoDB's
_UNKNOWN: Final = "UnknownTransactionCommitResult"
_ABORT_SECONDS: Final = 5.0
_COMMIT_SECONDS: Final = 10.0
_COMMITS: Final = 3
_RETURN_SECONDS: Final = 0.5
_CONFLICTS: Final = frozenset({24, 112, 251})  # LockTimeout, WriteConflict, NoSuchTransaction
_SNAPSHOT_UNAVAILABLE: Final = 246  # a capped collection never has one


class TryAgain(DocgraphError):
    """The database rolled back the transaction, and may commit it on a retry."""

    status, code = 409, "conflict"


@dataclass(frozen=True, slots=True)
class Done:
    """A write of a transaction whose interceptors are notified after the commit."""

    resource: Resource
    write: Write
    result: WriteResult
    exchange: Exchange | None
    context: Context


class OpenTransaction(Transaction):
    """A transaction in progress; `is_open`: no part of it has failed."""

    is_open = True

    def __init__(self, client: DriverClient, session: AsyncClientSession) -> None:
        self.session = session
        self.pin = Pin(client, session)
        self.kept: dict[Any, Any] = {}
        self.done: list[Done] = []
        self.is_concluding = False  # its commit is being sent, whether or not the caller waits
        self.is_left = False  # the caller no longer waits: the concluding task also closes it

    async def begin(self) -> None:
        """Start the first attempt, or the next one.

        All attempts have one session. Starting a transaction ends the previous one of its session,
        which is still open if its commit failed in between: with another session, the next attempt
        would conflict with it.
        """
        self.done, self.is_open = [], True
        await self.session.start_transaction(
            read_concern=ReadConcern("snapshot"),
            write_concern=pymongo.WriteConcern(MAJORITY),
            read_preference=ReadPreference.PRIMARY,
        )

    def record(
        self, resource: Resource, write: Write, result: WriteResult, exchange: Exchange | None
    ) -> None:
        """Record a write, with what its interceptors have stored in the context."""
        self.done.append(Done(resource, write, result, exchange, copy_context()))

    async def abort(self) -> None:
        """Roll back what is not committed."""
        if self.session.in_transaction:
            # Otherwise the server itself rolls it back after a minute.
            with suppress(TimeoutError, *DRIVER_ERRORS), pymongo.timeout(_ABORT_SECONDS):
                await self.session.abort_transaction()

    async def close(self) -> None:
        """Roll back what is not committed, and return the session to the pool."""
        await self.abort()
        await self.session.end_session()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Run a command of the transaction inside this context: a failure ends the transaction."""
        if not self.is_open:
            raise TryAgain("the transaction is over")
        try:
            yield
        except DocgraphError as error:
            self.is_open = False
            if isinstance(error, CollectionGone):
                raise
            if _has_label(error, _TRANSIENT):
                raise TryAgain(error.message, hint=error.hint) from error.__cause__
            raise


def is_usable(transaction: Transaction | None) -> TypeGuard[OpenTransaction]:
    """Check if reads must run in the transaction."""
    return isinstance(transaction, OpenTransaction) and transaction.is_open


def check_transactions(client: DriverClient) -> None:
    """Reject with 501 if the database is known to have no transactions."""
    servers = client.topology_description.server_descriptions().values()
    if any(server.server_type == SERVER_TYPE.Standalone for server in servers):
        raise NotSupported(
            "transactions need a replica set or a sharded cluster",
            hint="turn the server into a replica set; one of a single member is enough",
        )


@asynccontextmanager
async def open_transaction(client: DriverClient) -> AsyncIterator[OpenTransaction]:
    """Open a transaction that can begin several times; close its session at the end."""
    transaction = OpenTransaction(client, client.start_session(causal_consistency=False))
    try:
        yield transaction
    finally:
        if transaction.is_concluding:
            transaction.is_left = True
        else:
            await transaction.close()


async def fetch_in(
    transaction: OpenTransaction,
    commands: Commands,
    db: str,
    command: Document,
    deadline: Deadline,
    take: Take | None = None,
) -> list[Document]:
    """Return the documents of one batch, read in the transaction; none if `take` gets them."""
    seconds = commands.limit(command, deadline)
    database, session = commands.client.get_database(db), transaction.session

    async def read() -> Document:
        primary = ReadPreference.PRIMARY
        return await commands.send_by_driver(database, command, primary, session)

    with Observed(db, command) as seen, transaction.watched():
        reply = await commands.within(seconds, read, deadline, writing=True)
        cursor: Document = reply["cursor"]
        seen.documents = len(cursor["firstBatch"])
    if cursor["id"]:
        raise AnswerTooLarge("the answer exceeds 16 MiB")
    return await hand_over(cursor["firstBatch"], take)


async def commit(transaction: OpenTransaction, commands: Commands) -> None:
    """Commit; raise `OutcomeUnknown` if the database does not report the result.

    After an attempt that may have succeeded, later errors are not reported as a failure: only the
    database knows.
    """

    async def run() -> None:
        with pymongo.timeout(_COMMIT_SECONDS):
            await transaction.session.commit_transaction()

    cause: BaseException | None = None
    may_be_done = False
    for number in range(_COMMITS):
        if number and commands.waits.is_away:
            await asyncio.sleep(number * _RETURN_SECONDS)  # another server may take over
        try:
            with Observed("admin", {"commitTransaction": ""}):
                await commands.within(_COMMIT_SECONDS, run, writing=True)
            return
        except DocgraphError as error:
            cause = error.__cause__ or cause
            if _has_label(error, _TRANSIENT):
                raise TryAgain(error.message, hint=error.hint) from cause
            # The cause may also be a `TimeoutError`.
            is_lost = isinstance(error.__cause__, WriteConcernError | ConnectionFailure | OSError)
            is_unknown = _has_label(error, _UNKNOWN) or isinstance(error, TimeLimitExceeded)
            may_be_done = may_be_done or is_lost or is_unknown
            if not may_be_done:
                raise
    raise OutcomeUnknown(
        "the database did not tell the outcome: all of it may be done, or nothing",
        hint="read what you have written before you write it again",
    ) from cause


def is_conflict(error: DocgraphError) -> bool:
    """Check if the transaction conflicted with another operation, and can succeed after it."""
    return isinstance(error.__cause__, OperationFailure) and error.__cause__.code in _CONFLICTS


def give_up(last: DocgraphError) -> DocgraphError:
    """Return the error for the caller after the last attempt has failed, too."""
    match last.__cause__:
        case WaitQueueTimeoutError():
            return last  # it was never sent
        case ConnectionFailure():
            return StoreUnavailable(last.message, hint=last.hint, fields=last.fields)
        case OperationFailure(code=code) if code == _SNAPSHOT_UNAVAILABLE:
            return StoreRejected(
                "the database does not read this collection in a transaction",
                hint="send the request alone",
                fields=last.fields,
            )
        case _:
            message = last.message or "write conflict with another operation"
            return Conflict(message, hint="try again", fields=last.fields)


def _has_label(error: DocgraphError, label: str) -> bool:
    cause = error.__cause__
    return isinstance(cause, PyMongoError) and cause.has_error_label(label)
