"""Text of document ids, and the stored values that have a given text.

A stored `_id` may have many types; GraphQL shows all of them as text under `ID`. The same text,
sent back, is compared with every kind of value that is shown as that text (decision 48).

The order of bytes in UUIDs of subtype 3 is that of the programs that stored them. It is one for the
whole process, as the connection to the database is: the scalar `ID` of GraphQL exists once.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from docgraph.codec.bson_types import Binary, Code, Decimal128, Int64, ObjectId
from docgraph.codec.encode import EncodeError, encode
from docgraph.codec.forms import JsonMode
from docgraph.codec.parse_scalars import parse_uuid
from docgraph.exchange.data import SeveralKinds

__all__ = [
    "IdText",
    "SeveralKinds",
    "UuidOfAnyKind",
    "binary_text",
    "build_legacy_uuid",
    "is_uuid",
    "name_id",
    "parse_any_uuid",
    "use_uuid_representation",
]

_STANDARD: Final = tuple(range(16))
# The position of each byte of the text; applied twice, an order is the standard one again.
_ORDERS: Final[dict[str, tuple[int, ...]]] = {
    "standard": _STANDARD,
    "java-legacy": (*range(7, -1, -1), *range(15, 7, -1)),
    "csharp-legacy": (3, 2, 1, 0, 5, 4, 7, 6, *range(8, 16)),
    "python-legacy": _STANDARD,
}
_LEGACY: Final = 3
_UUID_KINDS: Final = (4, _LEGACY)  # subtypes
_UUID_LENGTH: Final = 16
_OBJECT_ID: Final = re.compile(r"[0-9a-f]{24}")
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,4})?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
_INT32, _INT64 = 1 << 31, 1 << 63


class IdText(str, SeveralKinds):
    """The text of an `ID`: a string, or another kind of value that is shown as this text."""

    __slots__ = ()

    @property
    def candidates(self) -> tuple[Any, ...]:
        """The text, then the ObjectId, UUIDs, numbers and date that are shown as this text."""
        return tuple(_list_candidates(str(self)))


class UuidOfAnyKind(Binary, SeveralKinds):
    """A UUID that was written as text: stored as binary of subtype 4 or of subtype 3."""

    @property
    def candidates(self) -> tuple[Any, ...]:
        """The binary of both subtypes."""
        return Binary(bytes(self), 4), build_legacy_uuid(self)


def _list_candidates(text: str) -> Iterator[Any]:
    yield text
    if _OBJECT_ID.fullmatch(text):
        yield ObjectId(text)
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
        decimal = _parse_decimal(text)
        if decimal is not None and str(decimal) == text:  # equal to a double only where both exact
            yield decimal
    elif _DATE.fullmatch(text):
        try:
            yield datetime.fromisoformat(text[:-1])
        except ValueError:
            return  # no day of the calendar: only the text


def _parse_decimal(text: str) -> Decimal128 | None:
    """Return the decimal with this text; none where Decimal128 has too few digits for it."""
    try:
        return Decimal128(text)
    except ArithmeticError:  # more than 34 digits, or an exponent that is too large
        return None


class _ByteOrder:
    """The order of bytes in UUIDs of subtype 3, as configured."""

    positions: tuple[int, ...] = _STANDARD


def use_uuid_representation(representation: str) -> None:
    """Show and read UUIDs of subtype 3 in this order of bytes, in the whole process."""
    _ByteOrder.positions = _ORDERS[representation]


def _reorder(data: bytes) -> bytes:
    return bytes(data[position] for position in _ByteOrder.positions)


def build_legacy_uuid(data: bytes) -> Binary:
    """Return the UUID with these bytes in standard order as it is stored with subtype 3."""
    return Binary(_reorder(data), _LEGACY)


def is_uuid(value: Any) -> bool:
    """Return whether a stored value is a UUID."""
    return isinstance(value, Binary) and value.subtype in _UUID_KINDS and len(value) == _UUID_LENGTH


def binary_text(value: bytes) -> str:
    """Return the text of binary data: a UUID with dashes, base64 otherwise."""
    if not isinstance(value, Binary) or not is_uuid(value):
        return b64encode(value).decode()
    is_legacy = value.subtype == _LEGACY
    return str(UUID(bytes=_reorder(value) if is_legacy else bytes(value)))


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
