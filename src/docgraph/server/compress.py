"""Compression of responses (content coding): gzip or deflate, as the caller accepts it.

The level is a cheap one: JSON shrinks to a fifth, and more effort would slow requests. Content that
would block the event loop for longer than a millisecond or two is compressed in a thread.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from functools import lru_cache

from docgraph.exchange.errors import RequestError
from docgraph.exchange.headers import parse_weight

SMALLEST = 1024  # smaller responses fit in a packet anyway
LARGE = 128 * 1024  # about two milliseconds of compression

_LEVEL = 1
_WINDOW_BITS = {"gzip": 31, "deflate": 15}
_COMPRESSIBLE = frozenset(
    ("application/json", "application/javascript", "application/xml", "image/svg+xml")
)


@lru_cache(maxsize=256)
def choose_encoding(accept_encoding: str) -> str | None:
    """Return the best supported coding that `Accept-Encoding` permits (RFC 9110 12.5.3)."""
    weights = dict(parse_weight(item) for item in accept_encoding.split(","))
    others = weights.get("*", 0.0)
    offers = {
        "gzip": max(weights.get("gzip", others), weights.get("x-gzip", 0.0)),
        "deflate": weights.get("deflate", others),
    }
    best = max(offers, key=lambda name: offers[name])
    return best if offers[best] > 0 else None


def check_accepts_compression(accept_encoding: str | None) -> None:
    """Reject callers that do not accept compression (`core.force-gzip-encoding`)."""
    if accept_encoding is None or choose_encoding(accept_encoding) is None:
        raise RequestError("Accept-Encoding header must include gzip or deflate")


@lru_cache(maxsize=64)
def is_compressible(media_type: str) -> bool:
    """Return whether compressing the type helps; server-sent events must not be buffered."""
    kind = media_type.split(";", 1)[0].strip().lower()
    if kind == "text/event-stream":
        return False
    return kind.startswith("text/") or kind.endswith(("+json", "+xml")) or kind in _COMPRESSIBLE


def compress(content: bytes, encoding: str) -> bytes:
    """Return the content in that coding."""
    coder = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW_BITS[encoding])
    return coder.compress(content) + coder.flush()


async def compress_chunks(chunks: AsyncIterator[bytes], encoding: str) -> AsyncIterator[bytes]:
    """Compress a stream; each chunk is flushed before the next one is requested."""
    coder = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW_BITS[encoding])
    async for chunk in chunks:
        yield coder.compress(chunk) + coder.flush(zlib.Z_SYNC_FLUSH)
    yield coder.flush()
