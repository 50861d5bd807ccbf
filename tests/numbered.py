"""Numbered writes that survive what is done to the database: each is done once, in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pymongo import WriteConcern
from pymongo.errors import AutoReconnect, DuplicateKeyError, OperationFailure, PyMongoError

__all__ = ["write_numbers"]

_MAJORITY = WriteConcern("majority", wtimeout=30_000)


def write_numbers(collection: Any, numbers: Iterable[int]) -> None:
    """Insert a document per number, confirmed by most servers before the next one."""
    settled = collection.with_options(write_concern=_MAJORITY)
    for number in numbers:
        while not _write(settled, number):
            pass


def _write(collection: Any, number: int) -> bool:
    """Whether the document is there; False when that cannot be known now."""
    try:
        collection.insert_one({"_id": number})
    except DuplicateKeyError:  # the attempt before was heard, after all
        return True
    except PyMongoError as error:
        if not _is_passing(error):
            raise
        return False
    return True


def _is_passing(error: PyMongoError) -> bool:
    return isinstance(error, AutoReconnect) or (
        isinstance(error, OperationFailure) and error.has_error_label("RetryableWriteError")
    )
