"""Write execution: insert, replace, update, delete, one document or many; create, drop.

Writes use the driver's collection methods, which number them, so that a retry after a lost
connection cannot apply them twice. A write of one document raises its error; a write of several, or
an unordered one, reports errors per document in `WriteResult.failures` and retains what succeeded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pymongo
from bson import ObjectId
from pymongo import ReplaceOne
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import (
    BulkWriteError,
    ConnectionFailure,
    OperationFailure,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
    WriteConcernError,
)
from pymongo.results import UpdateResult

from docgraph.exchange.data import (
    Document,
    Write,
    WriteConcern,
    WriteFailure,
    WriteKind,
    WriteResult,
)
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import (
    DocgraphError,
    Forbidden,
    NotSupported,
    OutcomeUnknown,
    QueryError,
)
from docgraph.store.driver.collection_uuid import pinned
from docgraph.store.driver.command import Commands
from docgraph.store.driver.concerns import MAJORITY, choose_concern
from docgraph.store.driver.errors import explain, find_unconfirmed, is_collection_gone
from docgraph.store.driver.lenient_decode import is_readable, is_readable_name
from docgraph.store.driver.malformed import is_invalid_response, reading_reply
from docgraph.store.driver.timed_commands import Observed
from docgraph.store.guard.write_effects import list_operations
from docgraph.store.transaction import OpenTransaction

DriverSession = AsyncClientSession | None
Comment = Document | None

_MAJORITY = WriteConcern(MAJORITY)
_EXISTS = 48  # NamespaceExists


async def await_server(commands: Commands, deadline: Deadline) -> None:
    """Wait until a server for writes is known, as long as a read would wait for one.

    The driver's `timeout()` in `execute` would spend the whole time on waiting for a server, or for
    a connection to it.
    """
    if not commands.has_server(writing=True):
        await commands.ping(commands.budget(deadline), deadline, writing=True)
    await commands.await_connection(deadline)


async def execute_in(
    transaction: OpenTransaction,
    commands: Commands,
    db: str,
    collection: str,
    write: Write,
    *,
    deadline: Deadline,
) -> WriteResult:
    """Run the write as a part of the transaction; a failure ends the transaction."""
    runner = _RUNNERS[write.kind]
    if runner in (_create, _drop):
        raise NotSupported(f"a collection cannot be {write.kind}d in a transaction")
    seconds = commands.budget(deadline)
    target = commands.client.get_database(db).get_collection(collection)

    async def run() -> WriteResult:
        with pymongo.timeout(seconds), transaction.pin.to(write.collection_id):
            return await runner(target, write, transaction.session, seen.comment)

    with Observed(db, {str(write.kind): collection}) as seen, transaction.watched():
        result = await commands.within(seconds, run, deadline, writing=True)
    if result.failures:
        transaction.is_open = False
    return result


async def execute(
    commands: Commands,
    db: str,
    collection: str,
    write: Write,
    *,
    deadline: Deadline,
    majority: bool,
) -> WriteResult:
    seconds = commands.budget(deadline)

    async def run() -> WriteResult:
        client, concern = commands.client, _MAJORITY if majority else write.concern
        target = client.get_database(db).get_collection(
            collection,
            write_concern=None
            if concern is None
            else choose_concern(concern, client.topology_description),
        )
        # Writes have no option for the time on the server; the driver derives it from this.
        with pymongo.timeout(seconds):
            async with pinned(commands.client, write.collection_id) as session:
                return await _RUNNERS[write.kind](target, write, session, seen.comment)

    with Observed(db, {str(write.kind): collection}) as seen:
        try:
            return await commands.within(seconds, run, deadline, writing=True)
        except DocgraphError as error:
            if not _is_outcome_unknown(error):
                raise
            raise OutcomeUnknown(
                "the database did not tell the outcome: the write may be done, or not",
                hint="read what you have written before you write it again",
            ) from error.__cause__


def _is_outcome_unknown(error: DocgraphError) -> bool:
    """Check if the outcome of the write is unknown: it was sent, and no valid response arrived."""
    match error.__cause__:
        case ServerSelectionTimeoutError() | WaitQueueTimeoutError():
            return False  # it was never sent
        case ConnectionFailure() | OSError():  # also `TimeoutError`
            return True
        case _:
            return is_invalid_response(error)


def may_be_written(error: DocgraphError, write: Write) -> bool:
    """Check if the write, or a part of it, may be in the database although it failed like this."""
    match error.__cause__:
        case WriteConcernError() | BulkWriteError():
            return True
        case OperationFailure():
            return write.many  # some of the documents may already be written
        case _:
            return _is_outcome_unknown(error)


def updates_of(write: Write) -> Document | list[Document] | None:
    """Return the operators or the pipeline of an update, as the driver expects it."""
    return list(write.pipeline) if write.pipeline is not None else write.update


def check_shape(write: Write) -> None:
    """Reject an incomplete write of its kind."""
    match write.kind:
        case WriteKind.INSERT | WriteKind.REPLACE:
            if not write.documents:
                raise QueryError(f"nothing to {write.kind}: there is no document")
            is_several = write.kind is WriteKind.REPLACE and len(write.documents) > 1
            if is_several and any("_id" not in document for document in write.documents):
                raise QueryError("each of several replacements needs an _id")
        case WriteKind.UPDATE:
            if not updates_of(write):
                raise QueryError("nothing to update: there are no operators")
            if write.update is not None and not all(key[:1] == "$" for key in write.update):
                raise QueryError("an update holds operators such as $set only")
        case WriteKind.DROP:
            if write.filter:
                # A permission lets this caller change some of the documents only.
                raise Forbidden("only a part of the collection may be removed")


async def _insert(
    target: AsyncCollection[Document], write: Write, session: DriverSession, comment: Comment
) -> WriteResult:
    # As a copy: the caller's own document is not changed.
    documents = [
        document if "_id" in document else {"_id": ObjectId(), **document}
        for document in write.documents
    ]
    ids = [document["_id"] for document in documents]
    if len(documents) == 1 and write.ordered:
        await target.insert_one(documents[0], session=session, comment=comment)
        return WriteResult(inserted=tuple(ids))
    try:
        await target.insert_many(documents, ordered=write.ordered, session=session, comment=comment)
    except BulkWriteError as error:
        failures = _failures(error)
        done = _done(ids, failures, write.ordered)
        return WriteResult(inserted=tuple(done), failures=failures, warnings=_find_warnings(error))
    return WriteResult(inserted=tuple(ids))


async def _replace(
    target: AsyncCollection[Document], write: Write, session: DriverSession, comment: Comment
) -> WriteResult:
    if len(write.documents) > 1 or not write.ordered:
        return await _replace_many(target, write, session, comment)
    (document,) = write.documents
    filter = _find_replaced(document, write)
    if kept := _find_kept(document, write.applied or {}):
        pipeline = _keep(document, kept)
        result = await target.update_one(filter, pipeline, session=session, comment=comment)
        return _changed(result)
    result = await target.replace_one(
        filter, document, upsert=write.upsert, session=session, comment=comment
    )
    return _changed(result)


def _find_kept(document: Document, applied: Document) -> frozenset[str]:
    """Return the unreadable properties that the operators do not change.

    They were read as raw bytes, which would replace the value itself.
    """
    if not applied or "$rename" in applied:
        return frozenset()
    touched = {path.partition(".")[0] for _, path, _ in list_operations(applied)}
    return frozenset(
        name
        for name, value in document.items()
        if name not in touched and is_readable_name(name) and not is_readable(value)
    )


def _keep(document: Document, kept: frozenset[str]) -> list[Document]:
    """Return the replacement as an update that leaves these properties unchanged."""
    fields: list[Document] = []
    for name, value in document.items():
        stored = {"$getField": {"field": {"$literal": name}, "input": "$$ROOT"}}
        fields.append(
            {"k": {"$literal": name}, "v": stored if name in kept else {"$literal": value}}
        )
    return [{"$replaceWith": {"$arrayToObject": [fields]}}]


def _find_replaced(document: Document, write: Write) -> Mapping[str, Any]:
    """Return the filter of a replacement; that of a single one is complete."""
    if write.filter and len(write.documents) == 1:
        return write.filter
    if "_id" not in document:
        raise QueryError("a replacement needs an _id or a filter")
    by_id = {"_id": document["_id"]}
    return {"$and": [by_id, write.filter]} if write.filter else by_id


async def _replace_many(
    target: AsyncCollection[Document], write: Write, session: DriverSession, comment: Comment
) -> WriteResult:
    requests = [
        ReplaceOne(_find_replaced(document, write), document, write.upsert)
        for document in write.documents
    ]
    try:
        done = await target.bulk_write(
            requests, ordered=write.ordered, session=session, comment=comment
        )
    except BulkWriteError as error:
        result = _bulk_result(error.details, _failures(error))
        return replace(result, warnings=_find_warnings(error))
    return _bulk_result(done.bulk_api_result, ())


async def _update(
    target: AsyncCollection[Document], write: Write, session: DriverSession, comment: Comment
) -> WriteResult:
    run = target.update_many if write.many else target.update_one
    result = await run(
        write.filter, updates_of(write) or {}, upsert=write.upsert, session=session, comment=comment
    )
    return _changed(result)


async def _delete(
    target: AsyncCollection[Document], write: Write, session: DriverSession, comment: Comment
) -> WriteResult:
    run = target.delete_many if write.many else target.delete_one
    # Outside of a transaction the name alone is used: a delete does not create a collection.
    in_transaction = session is not None and session.in_transaction
    result = await run(write.filter, session=session if in_transaction else None, comment=comment)
    return WriteResult(deleted=result.deleted_count)


async def _create(
    target: AsyncCollection[Document], write: Write, session: DriverSession, comment: Comment
) -> WriteResult:
    """Create the collection; an existing one is not changed."""
    options: dict[str, Any] = {"comment": comment} if comment else {}
    try:
        await target.database.create_collection(
            target.name, check_exists=False, write_concern=target.write_concern, **options
        )
    except OperationFailure as error:
        if error.code != _EXISTS:
            raise
        return WriteResult()
    return WriteResult(inserted=(target.name,))


async def _drop(
    target: AsyncCollection[Document], write: Write, session: DriverSession, comment: Comment
) -> WriteResult:
    await target.drop(comment=comment)
    return WriteResult(deleted=1)


_RUNNERS = {
    WriteKind.INSERT: _insert,
    WriteKind.REPLACE: _replace,
    WriteKind.UPDATE: _update,
    WriteKind.DELETE: _delete,
    WriteKind.CREATE: _create,
    WriteKind.DROP: _drop,
}


def _changed(result: UpdateResult) -> WriteResult:
    return WriteResult(
        upserted=(result.upserted_id,) if result.did_upsert else (),
        matched=result.matched_count,
        modified=result.modified_count,
    )


def _failures(error: BulkWriteError) -> tuple[WriteFailure, ...]:
    """Return position and reason of each failed document; raise errors of the whole write."""
    failed = error.details.get("writeErrors", [])
    if not failed or is_collection_gone(error):
        raise error
    with reading_reply():
        failures = []
        for failure in failed:
            code = failure.get("code")
            reason = explain(code, failure.get("errmsg", ""))
            failures.append(WriteFailure(failure["index"], reason.message, reason.status, code))
        return tuple(failures)


def _find_warnings(error: BulkWriteError) -> tuple[str, ...]:
    """Return warnings: successful writes may be confirmed by fewer servers than required."""
    code = find_unconfirmed(error)
    return () if code is None else (explain(code).message,)


def _done(ids: Sequence[Any], failures: Sequence[WriteFailure], ordered: bool) -> list[Any]:
    """Return the inserted ids: an ordered write stops at its first failure."""
    failed = {failure.index for failure in failures}
    if ordered and failed:
        return list(ids[: min(failed)])
    return [id for index, id in enumerate(ids) if index not in failed]


def _bulk_result(details: Mapping[str, Any], failures: tuple[WriteFailure, ...]) -> WriteResult:
    with reading_reply():
        upserted = tuple(entry["_id"] for entry in details.get("upserted", ()))
    return WriteResult(
        upserted=upserted,
        matched=details.get("nMatched", 0),
        modified=details.get("nModified", 0),
        failures=failures,
    )
