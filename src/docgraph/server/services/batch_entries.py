"""Parse the entries of a batch to requests; the error of an entry has its position.

An entry contains what a request line, a few headers and a body would contain. Caller, address and
host come from the batch alone: only a short list of headers is allowed in an entry, since any other
could be one that a rule, a plugin or a proxy trusts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from docgraph.codec import JsonMode, encode
from docgraph.exchange import Body, Document, Exchange, Headers, Request
from docgraph.exchange.errors import (
    BodyTooLarge,
    Conflict,
    DocgraphError,
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
from docgraph.runtime import allocations

MAX_ENTRIES: Final = 1000

_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
_KEYS: Final = ("method", "path", "body", "headers")
_JSON: Final = "application/json"
_OWN_HEADERS: Final = ("content-type", "if-match", "if-none-match", "prefer")
# Headers of the batch that do not apply to its entries: its framing, body, conditions, response
# format and credentials.
_OF_BATCH: Final = re.compile(
    rb"content-.*|transfer-encoding|te|trailer|expect|connection|keep-alive|upgrade|if-.*|range"
    rb"|prefer|accept|accept-encoding|authorization|cookie|proxy-authorization"
)
_TARGET: Final = re.compile(r"/[!\"$-~]*")  # printable ASCII, without a fragment
_FIELD: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_LONGEST_TARGET: Final = 8192
MAX_PATHS: Final = 2 << 20  # characters of all entries: their filters are in memory together
_MAX_BYTES: Final = 1 << 30  # of a body that is in memory already


@dataclass(frozen=True, slots=True)
class BatchEntry:
    """One request of a batch, as it was written; `body` counts with `has_body` only."""

    place: EntryLocation
    headers: Mapping[str, str]
    body: Any = None
    has_body: bool = False


def read_entries(content: Any) -> list[BatchEntry]:
    """Return the entries, in order; 400 with the location of an invalid one, 413 for too many."""
    if not isinstance(content, list):
        raise RequestError(
            "a batch is an array of entries",
            hint='send [{"method": "PUT", "path": "/things/1", "body": {…}}, …]',
        )
    if not content:
        raise RequestError("the batch has no entries")
    if len(content) > MAX_ENTRIES:
        raise BodyTooLarge(
            f"the batch has {len(content)} entries, {MAX_ENTRIES} are allowed",
            hint="send several batches; each of them is a transaction of its own",
        )
    entries = [_read_entry(index, entry) for index, entry in enumerate(content)]
    if sum(len(entry.place.path) for entry in entries) > MAX_PATHS:
        raise BodyTooLarge(
            f"the paths of the batch have more than {MAX_PATHS} characters together",
            hint="send several batches; each of them is a transaction of its own",
        )
    return entries


def _read_entry(index: int, entry: Any) -> BatchEntry:
    try:
        if type(entry) is not dict:
            raise RequestError("it is not an object", hint=f"its keys are {', '.join(_KEYS)}")
        unknown = next((key for key in entry if key not in _KEYS), None)
        if unknown is not None:
            raise RequestError(f"unknown key '{unknown}'", hint=f"its keys are {', '.join(_KEYS)}")
        method = entry.get("method")
        if method not in _METHODS:
            raise RequestError("'method' is none that a batch takes", hint=", ".join(_METHODS))
        place = EntryLocation(index, str(method), _read_path(entry))
        headers = _read_headers(entry.get("headers", {}))
    except DocgraphError as error:
        raise at(error, EntryLocation(index)) from None
    return BatchEntry(place, headers, entry.get("body"), "body" in entry)


def _read_path(entry: Mapping[str, Any]) -> str:
    path = entry.get("path")
    if not isinstance(path, str):
        raise RequestError("'path' is not a text")
    if len(path) > _LONGEST_TARGET:
        raise RequestError(f"'path' is longer than {_LONGEST_TARGET} characters")
    if not _TARGET.fullmatch(path):
        raise RequestError(
            "'path' is not a path as in the first line of a request",
            hint="it begins with '/', is percent-encoded, and may have a query string",
        )
    return path


def _read_headers(headers: Any) -> Mapping[str, str]:
    if type(headers) is not dict:
        raise RequestError("'headers' is not an object")
    read: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        if key not in _OWN_HEADERS:
            raise RequestError(
                f"the header '{name}' is not for an entry",
                hint=f"an entry takes {', '.join(_OWN_HEADERS)}; others are those of the batch",
            )
        if key in read:
            raise RequestError(f"the header '{name}' appears twice")
        if not isinstance(value, str) or not _FIELD.fullmatch(value):
            raise RequestError(f"the header '{name}' is not a text that a header can have")
        read[key] = value
    if not read.get("content-type", _JSON).strip().lower().startswith(_JSON):
        raise RequestError(f"the body of an entry is {_JSON}")
    return read


def build_exchange(entry: BatchEntry, outer: Exchange) -> Exchange:
    """Build the request of an entry, by the caller of the batch and within its deadline."""
    path, _, query = entry.place.path.encode("ascii").partition(b"?")
    batch = outer.request

    async def read(limit: int) -> bytes:
        """Read the body as bytes, for limits and plugins; services use the value itself."""
        return encode(entry.body, JsonMode.STANDARD) if entry.has_body else b""

    kept = [(name, value) for name, value in batch.headers.raw if not _OF_BATCH.fullmatch(name)]
    headers = {"content-type": _JSON, **entry.headers} if entry.has_body else entry.headers
    request = Request(
        entry.place.method,
        path,
        query_string=query,
        headers=Headers(
            [*kept, *((name.encode(), value.encode("latin-1")) for name, value in headers.items())]
        ),
        body=read,
        connection=batch.connection,
    )
    request.max_parameters = batch.max_parameters
    request.parser = batch.parser
    if entry.has_body:  # it was parsed with the batch, and is not read again
        request.parser = lambda _, __: entry.body
        request.give(entry.body)
    request.body_limit = _MAX_BYTES
    request.account = outer.account
    return Exchange(
        request,
        outer.id,
        started=outer.started,
        deadline=outer.deadline,
        account=outer.account,
        attributes=dict(outer.attributes),
        is_entry=True,
    )


ENTRY: Final = "entry"
_BULK_FAILED: Final = 207
_FAILED: Final = 400
_SERVER_ERROR: Final = 500
_KINDS: Final[dict[int, type[DocgraphError]]] = {
    error.status: error
    for error in (
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
    placed.message = f"{place}: {error.message}"
    placed.fields = {**error.fields, ENTRY: entry}
    return placed


def find_failure(answer: Body) -> DocgraphError | None:
    """Return the error that an answer means for the batch; None: the entry succeeded."""
    if answer.status == _BULK_FAILED:
        # The first failed document of a bulk write decides.
        details = _parse(answer)
        failed = details.get("errors") if isinstance(details, dict) else None
        first: Document = failed[0] if failed else {}
        message = f"document at index {first.get('index')}: {first.get('message')}"
        return _build(int(first.get("httpStatus", _FAILED)), message, failed, [])
    if answer.status < _FAILED:
        return None
    if answer.status == PreconditionFailed.status:
        return PreconditionFailed("the ETag does not fit", headers=answer.headers)
    return _build(answer.status, "it was refused", _parse(answer), answer.headers)


def _build(
    status: int, message: str, details: Any, headers: list[tuple[str, str]]
) -> DocgraphError:
    usual = InternalError if status >= _SERVER_ERROR else RequestError
    return _KINDS.get(status, usual)(message, details=details, headers=headers)


def _parse(answer: Body) -> Any:
    try:
        return allocations.loads(answer.content)
    except orjson.JSONDecodeError:
        return None
