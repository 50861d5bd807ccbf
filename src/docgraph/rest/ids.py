"""Document ids and URLs: convert a path segment to a value by its `id_type`, and back."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from math import isfinite
from typing import Any, Final
from urllib.parse import quote, urlencode

from docgraph.codec import JsonMode, encode
from docgraph.codec.bson_types import (
    Binary,
    Code,
    DatetimeMS,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
    binary_text,
    build_legacy_uuid,
    is_uuid,
)
from docgraph.codec.forms import render_date
from docgraph.codec.id_text import parse_any_uuid
from docgraph.codec.parse_scalars import (
    build_timestamp,
    parse_binary,
    parse_decimal,
    render_decimal,
)
from docgraph.exchange.errors import RequestError
from docgraph.exchange.request import Request, encode_path
from docgraph.store.names import ReservedResource, is_reserved_id, is_reserved_in_other_case


class IdType(StrEnum):
    """The type of the last segment of a document's path."""

    OID = "OID"
    STRING_OID = "STRING_OID"
    STRING = "STRING"
    NUMBER = "NUMBER"
    DATE = "DATE"
    MINKEY = "MINKEY"
    MAXKEY = "MAXKEY"
    NULL = "NULL"
    BOOLEAN = "BOOLEAN"
    UUID = "UUID"
    UUID_LEGACY = "UUID_LEGACY"  # binary of subtype 3
    DECIMAL = "DECIMAL"
    TIMESTAMP = "TIMESTAMP"
    BINARY = "BINARY"  # binary of subtype 0


_NAMED: Final[dict[str, Any]] = {
    "_minkey": MinKey(),
    "_maxkey": MaxKey(),
    "_null": None,
    "_true": True,
    "_false": False,
}
_FIXED: Final[dict[IdType, Any]] = {
    IdType.MINKEY: MinKey(),
    IdType.MAXKEY: MaxKey(),
    IdType.NULL: None,
}
_SPECIAL = frozenset({*_NAMED, "_size", "_meta", "_indexes", "_aggrs", "_streams", "*", ".", ".."})
_HEX = re.compile(r"[0-9a-fA-F]{24}")
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_NUMBER = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,4})?")
_TIMESTAMP = re.compile(r"([0-9]{1,10}):([0-9]{1,10})")
_BASIC_DATE = re.compile(r"[12][0-9]{3}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])")
_HINTS: Final = {
    IdType.DATE: "write milliseconds since 1970, or a date with dashes such as 2026-11-10",
    IdType.TIMESTAMP: "write seconds and counter: 1700000000:1",
    IdType.BINARY: "write base64, percent-encoded",
}
_UUID_TYPES: Final = {4: IdType.UUID, 3: IdType.UUID_LEGACY}
_INT32, _INT64 = 1 << 31, 1 << 63
_EPOCH = datetime(1970, 1, 1)  # stored dates are naive UTC


def parse_id_type(text: str) -> IdType:
    """Return the type that a parameter names, in any letter case."""
    try:
        return IdType(text.upper())
    except ValueError:
        types = ", ".join(IdType)
        raise RequestError(f"illegal id_type parameter; must be [{types}]") from None


def parse_id(segment: str, id_type: IdType = IdType.STRING_OID) -> Any:
    if segment[:1] == "_" and segment.lower() in _NAMED and id_type not in _FIXED:
        return _NAMED[segment.lower()]
    if id_type is IdType.STRING_OID:
        return ObjectId(segment) if _HEX.fullmatch(segment) else segment
    if id_type is IdType.STRING:
        return segment
    if id_type in _FIXED:
        return _FIXED[id_type]
    try:
        return _PARSERS[id_type](segment)
    except (ValueError, OverflowError):
        message = f"wrong document id format: not a valid {id_type}"
        raise RequestError(message, hint=_HINTS.get(id_type)) from None


def render_id(id: Any) -> str | None:
    """Return the last segment of the document's path, with `?id_type=` where one is needed.

    Return None for an id that a path cannot contain, for example a document.
    """
    match id:
        case ObjectId():
            return str(id)
        case None | bool():
            return {True: "_true", False: "_false", None: "_null"}[id]
        case str() if not isinstance(id, Code):  # code is not a string to the database
            return _render_text(id)
        case MinKey() | MaxKey():
            return f"_{type(id).__name__}"
    typed = _render_typed(id)
    return None if typed is None else f"{quote(typed[0], safe=':')}?id_type={typed[1]}"


def _render_typed(id: Any) -> tuple[str, IdType] | None:
    match id:
        case int():
            return str(int(id)), IdType.NUMBER
        case float() if isfinite(id):
            return repr(id), IdType.NUMBER
        case datetime() | DatetimeMS():
            return _render_date(id), IdType.DATE
        case Binary() if is_uuid(id):
            return binary_text(id), _UUID_TYPES[id.subtype]
        case Decimal128():
            return render_decimal(id), IdType.DECIMAL
        case Timestamp():
            return f"{id.time}:{id.inc}", IdType.TIMESTAMP
        case bytes() if id and not isinstance(id, Binary):
            return binary_text(id), IdType.BINARY
    return None


def served_segment(segment: str, id: Any) -> str:
    """Return the canonical segment: values with a single spelling always have that one."""
    is_named = id is None or isinstance(id, bool | MinKey | MaxKey)
    return (is_named and render_id(id)) or segment


def show_id(id: Any) -> str:
    """Render the id for a message: a string in quotes, an ObjectId as digits, others as JSON."""
    match id:
        case str() if not isinstance(id, Code):
            return f"'{id}'"
        case ObjectId():
            return str(id)
    return encode(id, JsonMode.STANDARD).decode()


def check_id(id: Any, *, several: bool = False) -> None:
    """Reject an id in a body that the database does not accept or that the caller cannot set."""
    if isinstance(id, list):
        raise RequestError("the type of _id in request data is not supported: ARRAY")
    if isinstance(id, Regex):
        raise RequestError("the type of _id in request data is not supported: REGULAR_EXPRESSION")
    if is_reserved_id(id):
        raise ReservedResource(f"id is reserved: {id}") if several else ReservedResource()
    if isinstance(id, str) and not isinstance(id, Code) and _render_text(id) is None:
        raise RequestError(
            f"illegal _id {show_id(id)}: it is reserved in paths",
            hint="choose another _id, or leave it out",
        )


def _render_text(id: str) -> str | None:
    if not id or id.lower() in _SPECIAL or "\0" in id or is_reserved_in_other_case(id):
        return None
    suffix = "?id_type=STRING" if _HEX.fullmatch(id) else ""
    return f"{quote(id, safe='')}{suffix}"


def _render_date(date: datetime | DatetimeMS) -> str:
    if isinstance(date, DatetimeMS):
        return str(int(date))
    millis = str((date - _EPOCH) // timedelta(milliseconds=1))
    return render_date(date) if _BASIC_DATE.fullmatch(millis) else millis


def _parse_oid(segment: str) -> ObjectId:
    if not _HEX.fullmatch(segment):
        raise ValueError(segment)
    return ObjectId(segment)


def _parse_number(segment: str) -> int | float:
    if _INTEGER.fullmatch(segment):
        number = int(segment)
        if not -_INT64 <= number < _INT64:
            raise OverflowError(segment)
        return number if -_INT32 <= number < _INT32 else Int64(number)
    if not _NUMBER.fullmatch(segment):
        raise ValueError(segment)
    return float(segment)


def _parse_date(segment: str) -> datetime | DatetimeMS:
    if _BASIC_DATE.fullmatch(segment):  # a day or milliseconds? Both would be a guess.
        raise ValueError(segment)
    if _INTEGER.fullmatch(segment):
        millis = int(segment)
        if not -_INT64 <= millis < _INT64:
            raise OverflowError(segment)
        try:
            return _EPOCH + timedelta(milliseconds=millis)
        except OverflowError:
            return DatetimeMS(millis)
    date = datetime.fromisoformat(segment)
    return date if date.tzinfo is None else date.astimezone(UTC).replace(tzinfo=None)


def _parse_boolean(segment: str) -> bool:
    raise ValueError(segment)  # `_true` and `_false` were recognized before


def _parse_timestamp(segment: str) -> Timestamp:
    parts = _TIMESTAMP.fullmatch(segment)
    if parts is None:
        raise ValueError(segment)
    return build_timestamp(int(parts[1]), int(parts[2]))


_PARSERS: Final[dict[IdType, Callable[[str], Any]]] = {
    IdType.OID: _parse_oid,
    IdType.NUMBER: _parse_number,
    IdType.DATE: _parse_date,
    IdType.BOOLEAN: _parse_boolean,
    IdType.UUID: parse_any_uuid,
    IdType.UUID_LEGACY: lambda segment: build_legacy_uuid(parse_any_uuid(segment)),
    IdType.DECIMAL: parse_decimal,
    IdType.TIMESTAMP: _parse_timestamp,
    IdType.BINARY: partial(parse_binary, subtype=0),
}


def document_path(collection: tuple[str, ...], id: Any) -> str | None:
    """Return the path of a document below the path of its collection; None if it has none."""
    segment = render_id(id)
    return None if segment is None else f"{encode_path(collection)}/{segment}"


def build_location(request: Request, path: str, base_url: str | None) -> str:
    """Return the absolute URL: below the configured base URL, or the one that the client used."""
    if base_url is not None:
        return f"{request.connection.find_base(base_url)}{path}"
    host = request.headers.get("host")
    if host is None:
        server = request.connection.server
        host = f"{server[0]}:{server[1]}" if server is not None else "localhost"
    connection = request.connection
    return f"{connection.scheme}://{quote(host, safe=':[]')}{connection.root_path}{path}"


def next_page(request: Request, **changed: str) -> tuple[str, str]:
    """Return the header with the link to the next page: this request with one parameter changed.

    The changed value (a number, a token) needs no encoding.
    """
    parts = [f"{name}={value}" for name, value in changed.items()]
    if request.query_string:
        left_out = {*changed, "page", "after"}
        kept = [
            (name, value)
            for name in sorted(request.query.names() - left_out)
            for value in request.query.get_list(name)
        ]
        parts = [urlencode(kept), *parts] if kept else parts
    path = request.connection.root_path + (encode_path(request.segments) or "/")
    return "Link", f'<{path}?{"&".join(parts)}>; rel="next"'
