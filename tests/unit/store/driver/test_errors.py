"""What the driver raises, told in docgraph's own words (decision 41; statuses of its table)."""

from __future__ import annotations

import errno

import pytest
from bson.errors import InvalidBSON, InvalidDocument
from pymongo.errors import (
    AutoReconnect,
    CollectionInvalid,
    ConfigurationError,
    DocumentTooLarge,
    ExecutionTimeout,
    InvalidName,
    InvalidOperation,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    ProtocolError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
    WTimeoutError,
    _OperationCancelled,
)

from docgraph.exchange.errors import NotFound, PoolExhausted, StoreError, StoreUnavailable
from docgraph.store.driver.errors import explain, translate
from docgraph.store.driver.malformed import translated

SECRET_TEXT = "db-7.internal:27017 index users.$email_1 dup key: { email: 'ann@x.org' }"

REJECTED: list[int | None] = [
    2,
    28,
    34,
    40,
    53,
    54,
    56,
    61,
    73,
    121,
    168,
    224,
    225,
    241,
    251,
    256,
    291,
    15974,
    15975,
]
REJECTED += [4, 12, 16, 21, 22, 29, 30, 55, 68, 81, 97, 111, 116, 159, 165, 167, 171, 181, 182, 187]
REJECTED += [201, 207, 232, 242, 323, 357, 370, 10003, 15958, 15998, 16410, 17276]
REJECTED += [17287, 17312, 31138, 31249, 31253, 31254, 40323, 40352, 40353, 51091, 51108]
BY_CODE: dict[int, list[int | None]] = {
    400: REJECTED,
    403: [66, 371],
    404: [27, 361],
    409: [24, 46, 112, 117, 215, 285, 365, 11000, 12586, 12587, 13297],
    408: [50],
    500: [
        1,
        8,
        13,
        18,
        91,
        175,
        189,
        237,
        279,
        11600,
        11601,
        11602,
        13388,
        14031,
        46841,
        99999,
        None,
    ],
    501: [115, 238],
}


@pytest.mark.parametrize(
    ("status", "code"), [(status, code) for status, codes in BY_CODE.items() for code in codes]
)
def test_code_of_the_database_gives_the_status_of_the_table(status: int, code: int | None) -> None:
    """Decision 41."""
    error = translate(OperationFailure(SECRET_TEXT, code))

    assert error.status == status


@pytest.mark.parametrize(
    "error",
    [
        AutoReconnect("db-7.internal"),
        NetworkTimeout("db-7.internal"),
        NotPrimaryError("db-7.internal"),
        ServerSelectionTimeoutError("db-7.internal"),
        WaitQueueTimeoutError("db-7.internal"),
        _OperationCancelled("operation cancelled"),
        ConfigurationError("no such name in DNS"),
        InvalidOperation("the client is closed"),
        ProtocolError("an answer to something else"),
        ConnectionRefusedError(111, "db-7.internal"),
        # what a router says of a shard
        *(OperationFailure("db-7.internal", code) for code in (6, 7, 89, 9001)),
    ],
    ids=lambda error: f"{type(error).__name__} {getattr(error, 'code', None) or ''}",
)
def test_everything_about_connections_is_unavailable(error: Exception) -> None:
    """Decisions 25 and 51: a database that cannot be reached is 500, a busy pool of ours 503."""
    translation = translate(error)

    assert isinstance(translation, StoreUnavailable)
    assert translation.status == (503 if isinstance(error, WaitQueueTimeoutError) else 500)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_connection_for_which_there_is_no_descriptor_is_overload(number: int) -> None:
    """Decision 51: the database can be reached, and is not blamed."""
    error = AutoReconnect("db-7.internal")
    error.__cause__ = OSError(number, "too many open files")

    assert isinstance(translate(error), PoolExhausted)


@pytest.mark.parametrize(
    "error",
    [
        InvalidDocument("cannot encode object"),
        DocumentTooLarge("too large"),
        OverflowError("MongoDB can only handle up to 8-byte ints"),
        RecursionError("maximum recursion depth exceeded"),
        UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_values_that_are_no_bson_are_the_callers_mistake(error: Exception) -> None:
    assert translate(error).status == 400


def test_time_limit_of_the_server_is_408() -> None:
    error = translate(ExecutionTimeout("operation exceeded time limit", 50))
    assert (error.status, error.message) == (408, "operation exceeded its time limit")


def test_missing_confirmation_of_a_majority_is_408() -> None:
    assert translate(WTimeoutError("waiting for replication timed out", 64)).status == 408


def test_stored_document_that_is_no_bson_is_our_failure() -> None:
    assert translate(InvalidBSON("bad eoo")).status == 500


@pytest.mark.parametrize("code", [2, 13, 121, 11000, 99999])
def test_text_of_the_database_never_reaches_the_caller(code: int) -> None:
    error = translate(OperationFailure(SECRET_TEXT, code, {"errmsg": SECRET_TEXT}))

    told = f"{error.message} {error.hint} {error.details} {error.headers}"
    assert not any(piece in told for piece in ("internal", "email", "ann@x.org"))


def test_our_own_errors_pass_unchanged() -> None:
    ours = NotFound("nothing here")

    assert translate(ours) is ours


def test_original_is_chained_for_the_log() -> None:
    original = OperationFailure(SECRET_TEXT, 1)

    with pytest.raises(StoreError) as caught, translated():
        raise original

    assert caught.value.__cause__ is original


def test_other_errors_are_not_swallowed() -> None:
    with pytest.raises(KeyError), translated():
        raise KeyError("a fault of ours")


def test_failed_element_of_a_bulk_write_is_described_in_our_words() -> None:
    duplicate, unknown = explain(11000), explain(None)

    assert (duplicate.status, duplicate.message[:13]) == (409, "duplicate key")
    assert (unknown.status, unknown.message) == (500, "the database could not do what was asked")


def test_names_that_the_driver_refuses_are_the_callers_mistake() -> None:
    assert translate(InvalidName("collection names cannot be empty")).status == 400
    assert translate(CollectionInvalid("collection x already exists")).status == 409


@pytest.mark.parametrize("code", [11000, 121, 13, 50, 112])
def test_values_in_the_text_of_an_error_do_not_change_its_meaning(code: int) -> None:
    """The text of a duplicate key contains the key."""
    text = "dup key: { a: 'by zero, valid BSON UTC datetime, on a time-series collection' }"

    found, plain = translate(OperationFailure(text, code)), translate(OperationFailure("", code))

    assert (type(found), found.message) == (type(plain), plain.message)


@pytest.mark.parametrize("code", [2, 16608, 4848401])
def test_a_division_by_zero_is_named(code: int) -> None:
    error = translate(OperationFailure("can't $divide by zero", code))

    assert (error.status, error.message) == (400, "an expression divides by zero")
