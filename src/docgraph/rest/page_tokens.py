"""Page tokens: the sort key of a document as text, and the order that it belongs to."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from docgraph.codec.bson_types import Code, DBRef
from docgraph.codec.keyset import SortKey, decode_key, encode_key, name_class
from docgraph.exchange.errors import RequestError
from docgraph.exchange.parsed import SortOrder

_MAX_SKIPPED: Final = 100_000  # documents in a row with keys that cannot be read
_MAX_DEPTH: Final = 180  # levels of a value that the database stores


class PageStart(NamedTuple):
    """Where a page starts: after a sort key or at the beginning, and documents to skip.

    The token of keyset pagination contains the sort key of the last document (`codec/keyset.py`). A
    key that the driver cannot decode (another driver wrote it) cannot be sent back to the database:
    the token then contains the last key that can, and the number of documents to skip after it.

    The token is opaque to clients and checked when it returns: it must match the sort. It needs no
    signature, as it can express nothing that a `filter` could not.
    """

    key: SortKey | None = None
    skip: int = 0


def render_token(order: SortOrder, place: PageStart) -> str:
    key = b"" if place.key is None else encode_key(place.key)
    content = b"%b\0%d\0%b" % (_signature(order).encode(), place.skip, key)
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def parse_token(order: SortOrder, token: str) -> PageStart:
    """Parse a token; raise if it was made for another order."""
    try:
        content = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        signature, skip, encoded = content.split(b"\0", 2)
        if signature != _signature(order).encode():
            raise _illegal("it belongs to another sort")
        place = PageStart(decode_key(encoded) if encoded else None, int(skip))
        for value in place.key or ():
            _check_depth(value, _MAX_DEPTH)
            name_class(value)
    except ValueError:
        raise _illegal("it is not one of ours") from None
    is_whole = place.key is None or len(place.key) == len(order)
    if not is_whole or not 0 <= place.skip <= _MAX_SKIPPED:
        raise _illegal("it is not one of ours")
    return place


def _check_depth(value: Any, left: int) -> None:
    inner: Iterable[Any]
    match value:
        case DBRef():
            inner = value.as_doc().values()
        case Code():
            inner = (value.scope or {}).values()
        case dict():
            inner = value.values()
        case _:
            inner = value if isinstance(value, list) else ()
    if not left:
        raise ValueError("a value of too many levels")
    for element in inner:
        _check_depth(element, left - 1)


def _signature(order: SortOrder) -> str:
    return ",".join(f"{'-' if direction == -1 else ''}{path}" for path, direction in order)


def _illegal(reason: str) -> RequestError:
    return RequestError(
        f"illegal after parameter, {reason}",
        hint="take the next page from the header Link; an empty after is the first page",
    )
