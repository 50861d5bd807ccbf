"""Text of document ids, and the stored values that have a given text.

A stored `_id` may have many types; GraphQL shows all of them as text under `ID`. The same text,
sent back, is compared with every kind of value that is shown as that text (decision 48).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from math import inf, isfinite, nan
from typing import Any, Final
from uuid import UUID

from docgraph.codec.bson_types import (
    Binary,
    Code,
    DatetimeMS,
    Decimal128,
    Int64,
    ObjectId,
    Timestamp,
    binary_text,
    build_legacy_uuid,
    is_uuid,
)
from docgraph.codec.encode import EncodeError, encode
from docgraph.codec.forms import JsonMode, plain_double_form, render_date
from docgraph.codec.parse_scalars import (
    InvalidScalar,
    build_binary,
    build_timestamp,
    parse_binary,
    parse_date,
    parse_uuid,
    render_decimal,
)
from docgraph.exchange.data import SeveralKinds

_UUID_LENGTH: Final = 16
_OBJECT_ID: Final = re.compile(r"[0-9a-f]{24}")
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,4})?")
_DATE: Final = re.compile(
    r"([0-9]{4}|[+-][0-9]{6,9})-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z"
)
_TIMESTAMP: Final = re.compile(r"(0|[1-9][0-9]{0,9}):(0|[1-9][0-9]{0,9})")
_BASE64: Final = re.compile(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
BINARY_SUBTYPES: Final = (0, 5, 128)  # generic, MD5, of users; others are of the database itself
_NAMED: Final[dict[str, Any]] = {
    "true": True,
    "false": False,
    **{plain_double_form(number): number for number in (nan, inf, -inf)},
}
_INT32, _INT64 = 1 << 31, 1 << 63


class IdText(str, SeveralKinds):
    """The text of an `ID`: a string, or another kind of value that is shown as this text."""

    __slots__ = ()

    @property
    def candidates(self) -> tuple[Any, ...]:
        """The text, then the values of other kinds that are shown as this text."""
        return tuple(_list_candidates(str(self)))


class UuidOfAnyKind(Binary, SeveralKinds):
    """A UUID that was written as text: stored as binary of subtype 4 or of subtype 3."""

    @property
    def candidates(self) -> tuple[Any, ...]:
        return Binary(bytes(self), 4), build_legacy_uuid(self)


def render_id_text(value: Any) -> str | None:
    """Return the text of a stored value under `ID`; None for kinds that no text finds again."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not isfinite(value):
        return plain_double_form(value)
    if isinstance(value, Decimal128):
        return render_decimal(value)
    if isinstance(value, str | int | float | ObjectId):
        return None if isinstance(value, Code) else str(value)
    if isinstance(value, datetime | DatetimeMS):
        return render_date(value)
    if isinstance(value, Timestamp):
        return f"{value.time}:{value.inc}"
    subtype = value.subtype if isinstance(value, Binary) else 0
    is_found = is_uuid(value) or (isinstance(value, bytes) and subtype in BINARY_SUBTYPES)
    return binary_text(value) if is_found else None


def _list_candidates(text: str) -> Iterator[Any]:
    yield text
    if _OBJECT_ID.fullmatch(text):
        yield ObjectId(text)
        if text.isdigit() and text[0] != "0":
            yield Decimal128(text)
    elif _UUID.fullmatch(text):
        yield from UuidOfAnyKind(UUID(text).bytes, 4).candidates
    elif _INTEGER.fullmatch(text):
        number = int(text)
        if -_INT64 <= number < _INT64:
            yield number if -_INT32 <= number < _INT32 else Int64(number)
        else:
            yield Decimal128(text)
    elif _NUMBER.fullmatch(text):
        if str(float(text)) == text:
            yield float(text)
        with suppress(ArithmeticError):  # more than 34 digits, or an exponent that is too large
            decimal = Decimal128(text)
            if str(decimal) == text:  # equal to a double only where both exact
                yield decimal
    elif text in _NAMED:
        yield _NAMED[text]
    else:
        yield from _list_others(text)


def _list_others(text: str) -> Iterator[Any]:
    """Yield the date, the timestamp or the binary values that are shown as this text."""
    try:
        if _DATE.fullmatch(text):
            yield parse_date(text)
        elif parts := _TIMESTAMP.fullmatch(text):
            yield build_timestamp(int(parts[1]), int(parts[2]))
        elif _BASE64.fullmatch(text) and binary_text(data := parse_binary(text, 0)) == text:
            yield from (build_binary(data, subtype) for subtype in BINARY_SUBTYPES)
    except InvalidScalar:
        return  # no day of the calendar, or no numbers of 32 bits: only the text


def parse_any_uuid(text: str) -> UuidOfAnyKind:
    """Parse a UUID with or without dashes."""
    is_short = len(text) == 2 * _UUID_LENGTH and text.isalnum()
    dashed = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
    return UuidOfAnyKind(bytes(parse_uuid(dashed if is_short else text)), 4)


def name_id(id: Any) -> str:
    """Return a text unchanged, an ObjectId by its digits, others as JSON; never "None"."""
    if isinstance(id, str | ObjectId) and not isinstance(id, Code):
        return str(id)
    try:
        return encode(id, JsonMode.STANDARD).decode()
    except EncodeError:  # files can contain values that no document has
        return str(id)
