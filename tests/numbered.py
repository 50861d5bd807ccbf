"""Numbered writes that survive what is done to the database: each is done once, in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pymongo import WriteConcern
from pymongo.errors import (
    AutoReconnect,
    DuplicateKeyError,
    ExecutionTimeout,
    OperationFailure,
    PyMongoError,
    WTimeoutError,
)
from pymongo.read_concern import ReadConcern

__all__ = ["write_numbers"]

_LONGEST_MS = 30_000
_MAJORITY = WriteConcern("majority", wtimeout=_LONGEST_MS)
_CONFIRMED = ReadConcern("linearizable")
_NOT_CONFIRMED = 187  # the primary is none any more


def write_numbers(collection: Any, numbers: Iterable[int]) -> None:
    """Insert a document per number, confirmed by most servers before the next one."""
    settled = collection.with_options(write_concern=_MAJORITY)
    for number in numbers:
        while not _write(settled, number):
            pass


def _write(collection: Any, number: int) -> bool:
    """Whether the document is there for good; False when that cannot be known now."""
    try:
        collection.insert_one({"_id": number})
    except DuplicateKeyError:  # the attempt before was heard, after all
        return _is_confirmed(collection, number)
    except PyMongoError as error:
        if not _is_passing(error):
            raise
        return False
    return True


def _is_confirmed(collection: Any, number: int) -> bool:
    """Whether most servers have it: what only one has is lost when that is not primary any more."""
    settled = collection.with_options(read_concern=_CONFIRMED)
    try:
        return settled.find_one({"_id": number}, max_time_ms=_LONGEST_MS) is not None
    except PyMongoError as error:
        if not _is_passing(error):
            raise
        return False


def _is_passing(error: PyMongoError) -> bool:
    """A member that has lost its source looks for another one for up to a minute."""
    return isinstance(error, AutoReconnect | WTimeoutError | ExecutionTimeout) or (
        isinstance(error, OperationFailure)
        and (error.code == _NOT_CONFIRMED or error.has_error_label("RetryableWriteError"))
    )
