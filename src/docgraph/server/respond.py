"""Stage 7: an answer or an error becomes a status, header fields and bytes.

What every response has is added here and nowhere else: length, type with its charset, request id,
CORS, `nosniff`, `no-store` for known callers, compression. Errors get the general JSON shape;
services that have a shape of their own render it themselves before.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from typing import Any

import orjson

from docgraph.exchange import Body, DocgraphError, Exchange, Stream
from docgraph.exchange.errors import Forbidden, Overloaded, Unauthenticated
from docgraph.server.answers import pass_bytes
from docgraph.server.compress import (
    LARGE,
    SMALLEST,
    choose_encoding,
    compress,
    compress_chunks,
    is_compressible,
)
from docgraph.server.cors import CorsPolicy, RawHeaders

__all__ = ["Caller", "Head", "Responder", "error_body", "phrase_of"]

Offload = Callable[[Callable[[bytes, str], bytes], bytes, str], Awaitable[bytes]]

_NOSNIFF = (b"x-content-type-options", b"nosniff")
_NO_STORE = (b"cache-control", b"no-store")
_VARY_ENCODING = (b"vary", b"Accept-Encoding")
_BODILESS = frozenset((204, 304))  # and no length either: RFC 9110 8.6
_FRAMING = frozenset((b"content-length", b"transfer-encoding"))  # ours to say
_UNSAFE = re.compile(r"[^\t\x20-\x7e\x80-\xff]")


def error_body(error: DocgraphError) -> Body:
    """The general shape of an error; 401 and 403 have no body."""
    headers = list(error.headers)
    if isinstance(error, Unauthenticated | Forbidden):
        return Body(error.status, headers=headers)
    content: dict[str, Any] = {
        "http status code": error.status,
        "http status description": phrase_of(error.status),
        "message": error.message.replace('"', "'").replace("\t", "  "),
        "code": error.code,
        **error.fields,
    }
    if error.hint is not None:
        content["hint"] = error.hint
    if error.details is not None:
        content["details"] = error.details
    return Body(error.status, orjson.dumps(content, default=str), "application/json", headers)


@lru_cache(maxsize=128)
def phrase_of(status: int) -> str:
    """The standard reason phrase; empty for a status that has none."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


@dataclass(slots=True)  # not frozen: that costs a microsecond per request
class Caller:
    """What of the request decides about the form of the response."""

    origin: bytes | None = None
    accept_encoding: str | None = None
    traces: RawHeaders = field(default_factory=list)  # the request id, and headers sent back


@dataclass(slots=True)
class Head:
    """A status and all header fields of a response, ready to be sent."""

    status: int
    headers: RawHeaders


class Responder:
    """Holds what is the same for all responses of this process."""

    def __init__(self, cors: CorsPolicy, offload: Offload) -> None:
        self._cors = cors
        self._offload = offload

    async def render_body(
        self, body: Body, caller: Caller, exchange: Exchange | None
    ) -> tuple[Head, bytes]:
        """A complete answer; for HEAD the content is left away but its length stays."""
        content, headers = body.content, self._common(body.headers, caller, exchange)
        media_type = body.media_type
        if media_type is not None and content:
            headers.append((b"content-type", _content_type(media_type)))
            if len(content) >= SMALLEST and is_compressible(media_type):
                content = await self._encode(content, headers, caller)
        if body.status in _BODILESS:
            return Head(body.status, headers), b""
        headers.append((b"content-length", b"%d" % len(content)))
        if exchange is not None and exchange.request.method == "HEAD":
            content = b""
        return Head(body.status, headers), content

    def render_stream(
        self, stream: Stream, caller: Caller, exchange: Exchange
    ) -> tuple[Head, AsyncIterator[bytes]]:
        """An answer of unknown length."""
        headers = self._common(stream.headers, caller, exchange)
        chunks = pass_bytes(stream.chunks)
        if stream.media_type is not None:
            headers.append((b"content-type", _content_type(stream.media_type)))
            if is_compressible(stream.media_type):
                headers.append(_VARY_ENCODING)
                encoding = choose_encoding(caller.accept_encoding or "")
                if encoding is not None:
                    headers.append((b"content-encoding", encoding.encode()))
                    chunks = compress_chunks(chunks, encoding)
        return Head(stream.status, headers), chunks

    def common_headers_adder(
        self, own: Iterable[tuple[str, str]], caller: Caller, exchange: Exchange
    ) -> Callable[[RawHeaders], RawHeaders]:
        """A function that adds the common headers to those of another application, where absent."""
        ours = self._common(own, caller, exchange)

        def add_common_headers(headers: RawHeaders) -> RawHeaders:
            given = {name.lower() for name, _ in headers}
            return headers + [field for field in ours if field[0] not in given]

        return add_common_headers

    def _common(
        self, own: Iterable[tuple[str, str]], caller: Caller, exchange: Exchange | None
    ) -> RawHeaders:
        headers = [_NOSNIFF, *self._cors.headers(caller.origin), *caller.traces]
        cached = False
        for name, value in own:
            raw = name.lower().encode("ascii")
            if raw not in _FRAMING:
                headers.append((raw, _encode_value(name, value)))
                cached = cached or raw == b"cache-control"
        if exchange is not None and exchange.account is not None and not cached:
            headers.append(_NO_STORE)
        return headers

    async def _encode(self, content: bytes, headers: RawHeaders, caller: Caller) -> bytes:
        if any(name == b"content-encoding" for name, _ in headers):
            return content
        headers.append(_VARY_ENCODING)
        encoding = choose_encoding(caller.accept_encoding or "")
        if encoding is None:
            return content
        try:
            encoded = (
                compress(content, encoding)
                if len(content) < LARGE
                else await self._offload(compress, content, encoding)
            )
        except Overloaded:
            return content  # the threads are busy: bytes cost less than waiting
        headers.append((b"content-encoding", encoding.encode()))
        return encoded


@lru_cache(maxsize=128)
def _content_type(media_type: str) -> bytes:
    """The type with the charset that all our texts have."""
    kind = media_type.lower()
    textual = kind.startswith("text/") or kind.endswith(("json", "xml", "javascript"))
    if textual and ";" not in kind:
        media_type += "; charset=utf-8"
    return media_type.encode("latin-1")


def _encode_value(name: str, value: str) -> bytes:
    """A line break in a value would let its author write headers, or a second response."""
    if _UNSAFE.search(value):
        raise ValueError(f"the value of the response header {name} has unsafe characters")
    return value.encode("latin-1")
