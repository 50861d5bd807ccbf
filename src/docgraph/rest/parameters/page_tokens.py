"""Tokens of keyset pagination: the next page begins after the sort key of the last document.

The token contains that key (`codec/keyset.py`). A key that the driver cannot decode (another driver
wrote it) cannot be sent back to the database: the token then contains the last key that can, and
the number of documents to skip after it.

The token is opaque to clients and checked when it returns: it must match the sort. It needs no
signature, as it can express nothing that a `filter` could not.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from docgraph.codec import JsonMode, decode, encode
from docgraph.codec.bson_types import ObjectId
from docgraph.codec.keyset import EMPTY, Key, check_order, name_class
from docgraph.exchange.errors import BodyError, RequestError
from docgraph.exchange.parsed import Order

_MAX_SKIPPED: Final = 100_000  # documents in a row with keys that cannot be read


class PageStart(NamedTuple):
    """The start of a page: after this key or at the beginning, plus documents to skip."""

    key: Key | None = None
    skip: int = 0


def with_tiebreak(order: Order) -> Order:
    """Return the order with `_id` at its end, in the direction of the last key."""
    if obstacle := check_order(order):
        hint = None if "$meta" in obstacle else "use page instead of after"
        raise RequestError(f"after cannot be used with {obstacle}", hint=hint)
    if any(path == "_id" for path, _ in order):
        return order
    return (*order, ("_id", order[-1][1] if order else -1))


# --- tokens ---------------------------------------------------------------------------------------


def render_token(order: Order, place: PageStart) -> str:
    """Render the token of a position in that order."""
    key = place.key
    if key is not None and len(key) == 1 and type(key[0]) is ObjectId and not place.skip:
        # The default order, at every full page.
        return _encode(f'["{_signature(order)}",[{{"$oid":"{key[0]}"}}],[]]'.encode())
    empty = [number for number, value in enumerate(key or ()) if value is EMPTY]
    values = None if key is None else [None if value is EMPTY else value for value in key]
    skipped = [place.skip] if place.skip else []
    return _encode(encode([_signature(order), values, empty, *skipped], JsonMode.EXTENDED))


def _encode(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def parse_token(order: Order, token: str) -> PageStart:
    """Parse a token; raise if it was made for another order."""
    try:
        content = decode(urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (BodyError, Base64Error, ValueError):
        raise _illegal("it is not one of ours") from None
    match content:
        case [str(signature), None | list() as values, list(empty), *skipped] if (
            values is None or len(values) == len(order)
        ):
            if signature != _signature(order):
                raise _illegal("it belongs to another sort")
            skip = _read_skip(skipped)
            if values is None:
                return PageStart(None, skip)
            key = [EMPTY if number in empty else value for number, value in enumerate(values)]
            _check_types(key)
            return PageStart(key, skip)
    raise _illegal("it is not one of ours, or belongs to another sort")


def _check_types(key: Key) -> None:
    try:
        for value in key:
            name_class(value)
    except ValueError:
        raise _illegal("it is not one of ours") from None


def _read_skip(skipped: Sequence[Any]) -> int:
    match skipped:
        case []:
            return 0
        case [int(skip)] if type(skip) is not bool and 0 <= skip <= _MAX_SKIPPED:
            return skip
    raise _illegal("it is not one of ours")


def _signature(order: Order) -> str:
    return ",".join(f"{'-' if direction == -1 else ''}{path}" for path, direction in order)


def _illegal(reason: str) -> RequestError:
    return RequestError(
        f"illegal after parameter, {reason}",
        hint="take the next page from the header Link; an empty after is the first page",
    )
