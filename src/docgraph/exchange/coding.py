"""Content coding of request bodies (RFC 9110 8.4): gzip, decompressed piece by piece.

The reader of the pieces counts them: at most one piece beyond its limit is decompressed.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from typing import Final

from docgraph.exchange.errors import BodyError, UnsupportedMediaType
from docgraph.exchange.headers import Headers

_PIECE: Final = 64 * 1024  # decompressed in a fraction of a millisecond; then other tasks run
_MAX_MEMBERS: Final = 100  # empty ones cost time and contain nothing
_GZIP: Final = frozenset(("gzip", "x-gzip"))
_WINDOW_BITS: Final = 16 + zlib.MAX_WBITS  # a gzip header and trailer


def is_coded(headers: Headers) -> bool:
    """Return whether the body has a content coding."""
    return bool(_find_codings(headers))


def is_compressed(headers: Headers) -> bool:
    """Return whether the body is gzip; raise `UnsupportedMediaType` for any other coding."""
    if "content-encoding" not in headers:
        return False
    codings = _find_codings(headers)
    if len(codings) > 1 or not _GZIP.issuperset(codings):
        raise UnsupportedMediaType(
            f"Content-Encoding {', '.join(codings)} is not supported",
            hint="send the body plain, or in gzip once",
            headers=[("Accept-Encoding", "gzip")],
        )
    return bool(codings)


def _find_codings(headers: Headers) -> list[str]:
    if "content-encoding" not in headers:
        return []
    listed = ",".join(headers.get_list("content-encoding")).lower().split(",")
    return [one.strip() for one in listed if one.strip() not in ("", "identity")]


async def inflate(data: bytes) -> AsyncIterator[bytes]:
    """Yield the decompressed pieces of one or a few gzip members; empty data yields none."""
    from asyncio import sleep  # slow to import, and CLI commands wait for this module

    member: zlib._Decompress | None = None
    members = 0
    # In slices, because the library copies the rest of its input.
    for start in range(0, len(data), _PIECE):
        rest = data[start : start + _PIECE]
        while rest:
            if member is None:
                member, members = zlib.decompressobj(_WINDOW_BITS), members + 1
            if members > _MAX_MEMBERS:
                raise BodyError(f"the body has more than {_MAX_MEMBERS} gzip members")
            piece = _inflate(member, rest)
            while piece:
                yield piece
                await sleep(0)
                # After its end, a member would append the rest to `unused_data` a second time.
                piece = b"" if member.eof else _inflate(member, member.unconsumed_tail)
            rest = member.unused_data
            member = None if member.eof else member
    if member is not None:
        raise BodyError("the body ends in the middle of its gzip data")


def _inflate(member: zlib._Decompress, data: bytes) -> bytes:
    try:
        return member.decompress(data, _PIECE)
    except zlib.error:
        raise BodyError("the body is not valid gzip data") from None
