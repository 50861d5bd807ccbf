"""BSON types of values, for layers that do not import the driver.

A stored value is one of these or a plain `dict`, `list`, `str`, `bool`, `None`, `float`, `int` (32
bits), `bytes` (binary of subtype 0) or naive UTC `datetime`.
"""

from __future__ import annotations

from base64 import b64encode
from contextvars import ContextVar
from typing import Any, Final
from uuid import UUID

from bson.binary import Binary
from bson.code import Code
from bson.datetime_ms import DatetimeMS
from bson.dbref import DBRef
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp

__all__ = [
    "Binary",
    "Code",
    "DBRef",
    "DatetimeMS",
    "Decimal128",
    "Int64",
    "MaxKey",
    "MinKey",
    "ObjectId",
    "Regex",
    "Timestamp",
]


_STANDARD: Final = tuple(range(16))
# The position of each byte of the text; applied twice, an order is the standard one again.
_ORDERS: Final[dict[str, tuple[int, ...]]] = {
    "standard": _STANDARD,
    "java-legacy": (*range(7, -1, -1), *range(15, 7, -1)),
    "csharp-legacy": (3, 2, 1, 0, 5, 4, 7, 6, *range(8, 16)),
    "python-legacy": _STANDARD,
}
_order: Final = ContextVar("byte order of UUIDs", default=_STANDARD)
_LEGACY: Final = 3
_SUBTYPES: Final = (4, _LEGACY)
_LENGTH: Final = 16


def use_uuid_representation(representation: str) -> None:
    """Show and read UUIDs of subtype 3 in this order of bytes, in the current context.

    UUIDs are binary of subtype 4, or of subtype 3 in the byte order of the program that stored it.
    The order is that of a server and all tasks it starts: two servers in one process may differ.
    """
    _order.set(_ORDERS[representation])


def _reorder(data: bytes) -> bytes:
    return bytes(data[position] for position in _order.get())


def build_legacy_uuid(data: bytes) -> Binary:
    """Return the UUID with these bytes in standard order as it is stored with subtype 3."""
    return Binary(_reorder(data), _LEGACY)


def is_uuid(value: Any) -> bool:
    return isinstance(value, Binary) and value.subtype in _SUBTYPES and len(value) == _LENGTH


def binary_text(value: bytes) -> str:
    """Return the text of binary data: a UUID with dashes, base64 otherwise."""
    if not isinstance(value, Binary) or not is_uuid(value):
        return b64encode(value).decode()
    is_legacy = value.subtype == _LEGACY
    return str(UUID(bytes=_reorder(value) if is_legacy else bytes(value)))
