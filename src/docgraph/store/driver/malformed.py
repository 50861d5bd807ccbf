"""Malformed responses: what they lack becomes an error of the database, never a `KeyError`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from pymongo.errors import ProtocolError

from docgraph.exchange.errors import DocgraphError
from docgraph.store.driver.errors import DRIVER_ERRORS, translate

_CHECKS_OF_ARGUMENTS: Final = "pymongo.common"
_SHAPE_ERRORS: Final = (AttributeError, IndexError, KeyError, TypeError)


def invalid_response() -> DocgraphError:
    """Return the error for a response that lacks what it must have."""
    return translate(ProtocolError("a response of unknown form"))


@contextmanager
def translated() -> Iterator[None]:
    """Translate errors of the enclosed driver calls: only docgraph's errors come out."""
    try:
        yield
    except DRIVER_ERRORS as error:
        raise translate(error) from error
    except _SHAPE_ERRORS as error:
        if not is_unread_by_driver(error):
            raise
        raise invalid_response() from error


@contextmanager
def reading_reply() -> Iterator[None]:
    """Translate errors of the enclosed code, which reads a response in the form that it must have.

    Never enclose code that calls others: their mistakes are not those of the database.
    """
    try:
        yield
    except (*_SHAPE_ERRORS, ValueError, OverflowError) as error:
        raise invalid_response() from error


def check_documents(values: Iterable[Any]) -> None:
    """Raise `TypeError`, for `reading_reply`, if a part of a response is no document."""
    for kind in set(map(type, values)):
        if not issubclass(kind, dict):
            raise TypeError(f"a document is of the type {kind.__name__}")


def is_invalid_response(error: DocgraphError) -> bool:
    """Return whether the error is that of a response that lacks what it must have."""
    return isinstance(error.__cause__, (ProtocolError, *_SHAPE_ERRORS))


def is_unread_by_driver(error: BaseException) -> bool:
    """Return whether the driver itself failed to read a response."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    name = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__"))
    is_driver = name.startswith("pymongo.") and name != _CHECKS_OF_ARGUMENTS
    return is_driver and isinstance(error, _SHAPE_ERRORS)
