"""Errors of a batch: the error of one entry, with its position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import orjson

from docgraph.exchange import Body, DocgraphError, Document
from docgraph.exchange.errors import (
    BodyTooLarge,
    Conflict,
    Forbidden,
    InternalError,
    NotFound,
    NotSupported,
    PreconditionFailed,
    RequestError,
    TooManyRequests,
    Unauthenticated,
    UnsupportedMediaType,
)

ENTRY: Final = "entry"
_BULK_FAILED: Final = 207
_FAILED: Final = 400
_SERVER_ERROR: Final = 500
_KINDS: Final[dict[int, type[DocgraphError]]] = {
    one.status: one
    for one in (
        RequestError,
        Unauthenticated,
        Forbidden,
        NotFound,
        Conflict,
        PreconditionFailed,
        BodyTooLarge,
        UnsupportedMediaType,
        TooManyRequests,
        NotSupported,
    )
}


@dataclass(frozen=True, slots=True)
class EntryLocation:
    """The entry, with its method and path if they are valid."""

    index: int
    method: str = ""
    path: str = ""

    def __str__(self) -> str:
        request = f" ({self.method} {self.path.partition('?')[0]})" if self.method else ""
        return f"entry {self.index}{request}"


def at(error: DocgraphError, place: EntryLocation) -> DocgraphError:
    """Return the error with the entry that it is about.

    It is a copy: other requests may have received the same error object.
    """
    entry: Document = {"index": place.index}
    if place.method:
        entry |= {"method": place.method, "path": place.path}
    kind = type(error)
    placed = kind.__new__(kind, *error.args)  # each kind has a different constructor
    vars(placed).update(vars(error))
    placed.message = f"{place}: {_say(error)}"
    placed.fields = {**error.fields, ENTRY: entry}
    return placed


def _say(error: DocgraphError) -> str:
    """Return the message of an error; the reason of a rule's denial is not disclosed."""
    match error:
        case Unauthenticated():
            return "the caller is not known"
        case Forbidden():
            return "the caller may not do this"
        case _:
            return error.message


def find_failure(answer: Body) -> DocgraphError | None:
    """Return the error that an answer means for the batch; None: the entry succeeded."""
    if answer.status == _BULK_FAILED:
        return _find_bulk_failure(answer)
    if answer.status < _FAILED:
        return None
    if answer.status == PreconditionFailed.status:
        return PreconditionFailed("the ETag does not fit", headers=answer.headers)
    return _build(answer.status, "it was refused", _parse(answer), answer.headers)


def _find_bulk_failure(answer: Body) -> DocgraphError:
    """Return the error of a bulk write of which some documents failed; the first one decides."""
    details = _parse(answer)
    failed = details.get("errors") if isinstance(details, dict) else None
    first: Document = failed[0] if failed else {}
    message = f"document at index {first.get('index')}: {first.get('message')}"
    return _build(int(first.get("httpStatus", _FAILED)), message, failed, [])


def _build(
    status: int, message: str, details: Any, headers: list[tuple[str, str]]
) -> DocgraphError:
    usual = InternalError if status >= _SERVER_ERROR else RequestError
    return _KINDS.get(status, usual)(message, details=details, headers=headers)


def _parse(answer: Body) -> Any:
    try:
        return orjson.loads(answer.content)
    except orjson.JSONDecodeError:
        return None
