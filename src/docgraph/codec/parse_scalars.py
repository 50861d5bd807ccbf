"""Parsing and range checks of single BSON values from texts and numbers.

All readers of values (`$oid` and similar keys, `ObjectId("…")` and similar calls, the scalars of
GraphQL) use this module, so that a value is valid everywhere or nowhere.
"""

from __future__ import annotations

import re
import struct
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from decimal import DecimalException
from typing import Any
from uuid import UUID

from docgraph.codec.bson_types import (
    Binary,
    DatetimeMS,
    Decimal128,
    Int64,
    ObjectId,
    Regex,
    Timestamp,
)

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_MIN_MILLIS = -62_135_596_800_000  # 0001-01-01T00:00:00.000Z
_MAX_MILLIS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z
_CYCLE_YEARS, _CYCLE_MILLIS = 400, 146_097 * 86_400_000  # after which the calendar repeats itself
_USUAL_DATE_LENGTHS = (20, 24)  # 2024-05-31T12:00:00Z, 2024-05-31T12:00:00.000Z
_INTEGER_DIGITS = 19  # of the longest 64-bit integer
_DECIMAL_LENGTH = 10_000  # the longest exact text, 1 followed by zeros, has 6145 digits
_UINT32 = 2**32

# Decimal128: sign, 14 bits of exponent, 113 bits of coefficient (the binary integer encoding).
_EXPONENT_BIAS, _EXPONENT_SHIFT, _EXPONENT_MASK = 6176, 49, 0x3FFF
_COEFFICIENT_MASK, _LOW_MASK = 2**49 - 1, 2**64 - 1
_HALVES = struct.Struct("<QQ")
_MAX_DIGITS = 34
_FEWEST_PLACES = -5  # 0.000001; smaller numbers are written with an exponent
_USUAL_DECIMAL = re.compile(r"(-?)([0-9]{1,18})(?:\.([0-9]{1,15}))?")

_OBJECT_ID_LENGTH = 24
_MAX_SUBTYPE = 254  # the driver cannot write 255: its encoder takes it for its own error
_UUID_SUBTYPES, _UUID_LENGTH = frozenset({3, 4}), 16
_OPTIONS = frozenset("ilmsux")

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SPECIAL = re.compile(r"[+-]?(?:inf|infinity|nan)", re.IGNORECASE)
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DATE = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?"
    r"(?:[Zz]|([+-])([01][0-9]|2[0-3])(?::?([0-5][0-9]))?)?)?"
)
_FAR_DATE = re.compile(r"([+-][0-9]{6,9})(-.*)")


class InvalidScalar(ValueError):
    """A text or number is no value of the requested type; the message has the reason."""


def parse_object_id(text: str) -> ObjectId:
    """Parse an ObjectId from its 24 hexadecimal digits."""
    try:
        # Faster than a pattern. fromhex() skips spaces, so 24 characters with spaces are less than
        # 12 bytes, which ObjectId rejects, too.
        if len(text) == _OBJECT_ID_LENGTH:
            return ObjectId(bytes.fromhex(text))
    except (ValueError, TypeError):
        pass
    raise InvalidScalar(f"an ObjectId is 24 hexadecimal digits, not {show(text)}")


def parse_int(text: str) -> int:
    """Parse a 32-bit integer."""
    number = _parse_digits(text, 32)
    if not INT32_MIN <= number <= INT32_MAX:
        raise InvalidScalar(f"{number} does not fit into 32 bits")
    return number


def parse_long(text: str) -> Int64:
    """Parse a 64-bit integer."""
    return build_long(_parse_digits(text, 64))


def build_long(number: int) -> Int64:
    """Build a 64-bit integer."""
    if not INT64_MIN <= number <= INT64_MAX:
        raise InvalidScalar("the integer does not fit into 64 bits")
    return Int64(number)


def build_integer(number: int) -> int:
    """Build an integer of 32 bits if it fits, else of 64."""
    return number if INT32_MIN <= number <= INT32_MAX else build_long(number)


def parse_number(text: str) -> int | float:
    """Parse a JSON number: an integer without point and exponent, else a double."""
    if _INTEGER.fullmatch(text):
        return build_integer(_parse_digits(text, 64))
    return _parse_finite(text)


def parse_double(text: str) -> float:
    """Parse a double from its decimal digits, `NaN`, `Infinity` or `-Infinity`."""
    if _SPECIAL.fullmatch(text):
        return float(text)
    if not _DOUBLE.fullmatch(text):
        raise InvalidScalar(f"{show(text)} is not a number")
    return _parse_finite(text)


def parse_decimal(text: str) -> Decimal128:
    """Parse a Decimal128 exactly: more than 34 significant digits are rejected, not rounded."""
    if match := _USUAL_DECIMAL.fullmatch(text):
        return _pack_decimal(*match.groups(""))
    if len(text) > _DECIMAL_LENGTH or not (_DOUBLE.fullmatch(text) or _SPECIAL.fullmatch(text)):
        raise InvalidScalar(f"{show(text)} is not a decimal number")
    try:
        return Decimal128(text)
    except DecimalException:
        raise InvalidScalar(
            f"{show(text)} does not fit into a Decimal128 (34 digits, exponent -6176 to 6111)"
        ) from None


def render_decimal(value: Decimal128) -> str:
    """Render a decimal like `str()`, but three times as fast for common ones."""
    low, high = _HALVES.unpack(value.bid)
    exponent = (high >> _EXPONENT_SHIFT & _EXPONENT_MASK) - _EXPONENT_BIAS
    digits = str((high & _COEFFICIENT_MASK) << 64 | low)
    # The driver renders the rest: exponents in the text, and non-finite numbers, which appear as a
    # large exponent here.
    if exponent > 0 or len(digits) + exponent < _FEWEST_PLACES:
        return str(value if len(digits) <= _MAX_DIGITS else _zero_like(high))
    if len(digits) > _MAX_DIGITS:
        return render_decimal(_zero_like(high))
    sign = "-" if high >> 63 else ""
    if exponent == 0:
        return sign + digits
    digits = digits.zfill(1 - exponent)
    return f"{sign}{digits[:exponent]}.{digits[exponent:]}"


def _zero_like(high: int) -> Decimal128:
    """Return zero for a coefficient of more than 34 digits (IEEE 754): the driver fails on it."""
    return Decimal128.from_bid(_HALVES.pack(0, high & ~_COEFFICIENT_MASK))


def _pack_decimal(sign: str, whole: str, fraction: str) -> Decimal128:
    coefficient = int(whole + fraction)
    exponent = _EXPONENT_BIAS - len(fraction)
    high = exponent << _EXPONENT_SHIFT | coefficient >> 64
    if sign:
        high |= 1 << 63
    return Decimal128.from_bid(_HALVES.pack(coefficient & _LOW_MASK, high))


def parse_uuid(text: str) -> Binary:
    """Parse a UUID as binary of subtype 4."""
    if not _UUID.fullmatch(text):
        raise InvalidScalar(
            f"{show(text)} is not a UUID such as 01234567-89ab-cdef-0123-456789abcdef"
        )
    return Binary(UUID(text).bytes, 4)


def parse_binary(text: str, subtype: int) -> bytes:
    """Parse binary data from base64."""
    try:
        data = b64decode(text, validate=True)
    except ValueError:
        raise InvalidScalar(f"{show(text)} is not base64") from None
    return build_binary(data, subtype)


def build_binary(data: bytes, subtype: int) -> bytes:
    """Build binary data; plain `bytes` for subtype 0, as the store returns it."""
    if not 0 <= subtype <= _MAX_SUBTYPE:
        raise InvalidScalar(f"a binary subtype is between 0 and {_MAX_SUBTYPE}, not {subtype}")
    if subtype in _UUID_SUBTYPES and len(data) != _UUID_LENGTH:
        # The server would store it, and no driver could read it any more.
        raise InvalidScalar(
            f"binary of subtype {subtype} is a UUID of 16 bytes, not of {len(data)}"
        )
    return Binary(data, subtype) if subtype else data


def parse_date(text: str) -> datetime | DatetimeMS:
    """Parse an ISO 8601 date; UTC without an offset; digits below the millisecond are cut."""
    if len(text) in _USUAL_DATE_LENGTHS and text[4:17:3] == "--T::" and text[-1] == "Z":
        try:
            return datetime.fromisoformat(text[:-1])
        except ValueError:
            pass  # the pattern below decides
    if far := _FAR_DATE.fullmatch(text):
        return _parse_far_date(int(far[1]), far[2])
    match = _DATE.fullmatch(text)
    if match is None:
        raise InvalidScalar(f"{show(text)} is not a date such as 2024-05-31T12:00:00.000Z")
    year, month, day, hour, minute, second, fraction, sign, hours, minutes = match.groups("0")
    try:
        local = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second))
    except ValueError:
        raise InvalidScalar(f"{show(text)} is not a date of the calendar") from None
    millis = build_millis(local) + int(fraction.ljust(3, "0")[:3])
    offset = (int(hours) * 60 + int(minutes)) * 60_000
    return build_date(millis + offset if sign == "-" else millis - offset)


def _parse_far_date(year: int, rest: str) -> datetime | DatetimeMS:
    """Parse a date of any year, by the same year of another calendar cycle."""
    cycles, within = divmod(year - 2000, _CYCLE_YEARS)
    near = parse_date(f"{2000 + within}{rest}")
    assert isinstance(near, datetime)  # noqa: S101 - of the years 1999 to 2400
    return build_date(build_millis(near) + cycles * _CYCLE_MILLIS)


def render_far_date(millis: int) -> str:
    """Render ISO 8601 of a date outside the years 1 to 9999: sign and at least six digits."""
    cycles, within = divmod(millis, _CYCLE_MILLIS)
    near = EPOCH + timedelta(milliseconds=within)
    year = near.year + cycles * _CYCLE_YEARS
    return f"{year:+07d}{near.isoformat(timespec='milliseconds')[4:]}Z"


def build_date(millis: int) -> datetime | DatetimeMS:
    """Build a date from milliseconds since 1970: naive UTC, else `DatetimeMS`."""
    if _MIN_MILLIS <= millis <= _MAX_MILLIS:
        return EPOCH + timedelta(milliseconds=millis)
    if not INT64_MIN <= millis <= INT64_MAX:
        raise InvalidScalar("the date is out of range: its milliseconds do not fit into 64 bits")
    return DatetimeMS(int(millis))  # int() would warn about an Int64 inside


def build_millis(date: datetime) -> int:
    """Return the milliseconds since 1970 of a date; a naive one is UTC."""
    delta = date - (EPOCH if date.tzinfo is None else _EPOCH_UTC)
    # Three multiplications are faster than dividing by timedelta(milliseconds=1), and this runs for
    # every date of every response.
    return delta.days * 86_400_000 + delta.seconds * 1000 + delta.microseconds // 1000


def build_timestamp(seconds: Any, increment: Any) -> Timestamp:
    """Build a BSON timestamp from two unsigned 32-bit integers."""
    for part in (seconds, increment):
        if not isinstance(part, int) or isinstance(part, bool) or not 0 <= part < _UINT32:
            raise InvalidScalar("a timestamp is two integers between 0 and 4294967295")
    return Timestamp(seconds, increment)


def build_regex(pattern: str, options: str) -> Regex[str]:
    """Build a regular expression; options in any order out of `ilmsux`."""
    if "\0" in pattern:
        raise InvalidScalar("a regular expression cannot contain the character NUL")
    if unknown := set(options) - _OPTIONS:
        raise InvalidScalar(
            f"unknown option {show(min(unknown))} of a regular expression (known: i l m s u x)"
        )
    return Regex(pattern, options)


def show(text: str, limit: int = 40) -> str:
    """Quote a text of the caller for a message, without line breaks, shortened."""
    return repr(text) if len(text) <= limit else repr(text[:limit]) + "…"


def _parse_digits(text: str, bits: int) -> int:
    if not _INTEGER.fullmatch(text):
        raise InvalidScalar(f"{show(text)} is not an integer")
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) > _INTEGER_DIGITS:  # before int(), whose cost grows faster than the text
        raise InvalidScalar(f"the integer does not fit into {bits} bits")
    return -int(digits) if text[0] == "-" else int(digits)


def _parse_finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise InvalidScalar("the number is beyond the range of a double")
    return number
