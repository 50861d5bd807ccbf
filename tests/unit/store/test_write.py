"""What is known of a write that failed."""

from __future__ import annotations

import pytest
from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    DocumentTooLarge,
    DuplicateKeyError,
    ExecutionTimeout,
    NetworkTimeout,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
    WriteConcernError,
    WTimeoutError,
)

from docgraph.exchange.data import Write, WriteKind
from docgraph.exchange.errors import DocgraphError, QueryError, StoreError
from docgraph.store.write import may_be_written

ONE = Write(WriteKind.UPDATE, update={"$set": {"a": 1}}, filter={"_id": 1})
MANY = Write(WriteKind.UPDATE, update={"$set": {"a": 1}}, filter={"_id": 1}, many=True)


def caused_by(cause: BaseException) -> DocgraphError:
    error = StoreError("it failed")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "cause",
    [
        AutoReconnect("cut"),
        NetworkTimeout("late"),
        TimeoutError(),
        ConnectionResetError(),
        WriteConcernError("unconfirmed", 100),
        WTimeoutError("unconfirmed", 64),
        BulkWriteError({"writeErrors": [], "writeConcernErrors": [{"code": 64}]}),
    ],
    ids=lambda cause: type(cause).__name__,
)
def test_a_write_that_was_sent_and_not_refused_may_be_done(cause: BaseException) -> None:
    assert may_be_written(caused_by(cause), ONE)


@pytest.mark.parametrize(
    "cause",
    [
        ServerSelectionTimeoutError("nobody there"),
        WaitQueueTimeoutError("no connection"),
        DocumentTooLarge("large"),
        DuplicateKeyError("taken", 11000),
        ExecutionTimeout("late", 50),
        OverflowError(),
    ],
    ids=lambda cause: type(cause).__name__,
)
def test_a_write_that_was_refused_or_never_sent_is_not_done(cause: BaseException) -> None:
    assert not may_be_written(caused_by(cause), ONE)


@pytest.mark.parametrize("cause", [DuplicateKeyError("taken", 11000), ExecutionTimeout("late", 50)])
def test_of_many_documents_some_may_be_written_before_one_is_refused(cause: Exception) -> None:
    assert may_be_written(caused_by(cause), MANY)


def test_what_docgraph_itself_refuses_is_not_done() -> None:
    assert not may_be_written(QueryError("no document"), MANY)
