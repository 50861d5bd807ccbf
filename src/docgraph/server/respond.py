"""Stage 8: turn an answer into a status, header fields and bytes.

Only this module adds what every response has: length, type with its charset, request id, CORS,
`nosniff`, `Cross-Origin-Resource-Policy`, `no-store` for authenticated users, compression.
`serve.py` decides the format of errors.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus

from docgraph.exchange import Answer, Body, Exchange, Headers, Stream, Takeover
from docgraph.exchange.errors import Overloaded, RequestError
from docgraph.exchange.headers import parse_weight
from docgraph.exchange.origin import spell_origin
from docgraph.server.fields import RawHeaders, read_name, render_field, render_raw_field
from docgraph.server.interception import pass_bytes

OffloadCompression = Callable[[Callable[[bytes, str], bytes], bytes, str], Awaitable[bytes]]

_NOSNIFF = b"X-Content-Type-Options: nosniff\r\n"
# Scripts, images and the like of other origins get nothing; CORS requests are not affected.
_SAME_ORIGIN = b"Cross-Origin-Resource-Policy: same-origin\r\n"
_NO_STORE = b"Cache-Control: no-store\r\n"
_VARY_ENCODING = ("Vary", "Accept-Encoding")
_BODILESS = frozenset((204, 304))  # and no length either: RFC 9110 8.6
_EVENTS = "text/event-stream"
_FRAMING = frozenset(("content-length", "transfer-encoding"))  # the server sets them


@lru_cache(maxsize=128)
def phrase_of(status: int) -> str:
    """Return the standard reason phrase; empty for a status that has none."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


@dataclass(slots=True)  # not frozen: that costs a microsecond per request
class Head:
    """A status and the header lines of a response, except those that the connection adds.

    `length` is the number of bytes that follow, None if unknown.
    """

    status: int
    lines: list[bytes]
    length: int | None = None
    closes: bool = False  # the connection ends with this response
    is_endless: bool = False  # events: the response has no end to wait for
    is_bounded: bool = False  # a stream that is buffered for a slow client


class Responder:
    """Renders responses; has the parts that all responses of this process share.

    `trace` are the lines of the request id, and of tracing headers that are returned.
    """

    def __init__(self, cors: CorsPolicy, offload: OffloadCompression) -> None:
        self._cors = cors
        self._offload = offload

    async def encode(self, body: Body, exchange: Exchange) -> Body:
        """Compress a long answer with a coding that the caller accepts, if that helps."""
        encoded = any(name.lower() == "content-encoding" for name, _ in body.headers)
        if encoded or body.media_type is None or not is_compressible(body.media_type):
            return body
        headers = [*body.headers, _VARY_ENCODING]
        content = body.content
        encoding = choose_encoding(exchange.request.headers.get("accept-encoding") or "")
        if encoding is not None:
            try:
                content = (
                    compress(content, encoding)
                    if len(content) < LARGE
                    else await self._offload(compress, content, encoding)
                )
            except Overloaded:
                pass  # the threads are busy: sending more bytes costs less than waiting
            else:
                headers.append(("Content-Encoding", encoding))
        return Body(body.status, content, body.media_type, headers)

    def render_body(self, body: Body, exchange: Exchange, trace: list[bytes]) -> tuple[Head, bytes]:
        """Render a complete answer; for HEAD without the content but with its length."""
        head, content = self.render_common(body, exchange, trace), body.content
        if body.media_type is not None and content:
            head.lines.append(_content_type(body.media_type))
        if body.status in _BODILESS:
            return head, b""
        head.length = len(content)
        head.lines.append(b"Content-Length: %d\r\n" % head.length)
        return head, b"" if exchange.request.method == "HEAD" else content

    def render_stream(
        self, stream: Stream, exchange: Exchange, trace: list[bytes]
    ) -> tuple[Head, AsyncIterator[bytes]]:
        """Render an answer of unknown length."""
        head, chunks = self.render_common(stream, exchange, trace), pass_bytes(stream.chunks)
        head.is_bounded = stream.is_bounded
        if stream.media_type is not None:
            head.lines.append(_content_type(stream.media_type))
            head.is_endless = stream.media_type.startswith(_EVENTS)
            if is_compressible(stream.media_type):
                head.lines.append(render_field(*_VARY_ENCODING))
                encoding = choose_encoding(exchange.request.headers.get("accept-encoding") or "")
                if encoding is not None:
                    head.lines.append(render_field("Content-Encoding", encoding))
                    chunks = compress_chunks(chunks, encoding)
        return head, chunks

    def render_foreign(
        self,
        status: int,
        headers: RawHeaders,
        answer: Takeover,
        exchange: Exchange,
        trace: list[bytes],
    ) -> Head:
        """Render the head of another application, with missing common headers added."""
        head = self.render_common(answer, exchange, trace)
        given = {name.lower() for name, _ in headers}
        head.status = status
        head.lines = [line for line in head.lines if _name_of(line) not in given]
        for name, value in headers:
            lower = name.lower()
            if lower == b"content-length":
                head.length = int(value)
            elif lower == b"content-type":
                head.is_endless = value.startswith(_EVENTS.encode())
            if lower == b"connection" and value.lower() == b"close":
                head.closes = True
            elif lower != b"transfer-encoding":
                head.lines.append(render_raw_field(name, value))
        return head

    def render_common(self, answer: Answer, exchange: Exchange, trace: list[bytes]) -> Head:
        """Render the headers that all responses have, and those of the answer."""
        cors = self._cors.of_all
        if cors is None:
            cors = self._cors.find_lines(exchange.request.headers)
        lines = [_NOSNIFF, *cors, *trace]
        head = Head(answer.status, lines)
        is_cached = is_shared = False
        for name, value in answer.headers:
            lower = read_name(name).lower
            if lower in _FRAMING:
                continue
            if lower == "connection" and value.lower() == "close":
                head.closes = True
                continue
            if lower == "cache-control":
                lines.append(_cache_control(name, value))
                is_cached = True
            else:
                lines.append(render_field(name, value))
            is_shared = is_shared or lower == "cross-origin-resource-policy"
        if not is_shared:
            lines.append(_SAME_ORIGIN)
        if exchange.account is not None and not is_cached:
            lines.append(_NO_STORE)
        return head


def _name_of(line: bytes) -> bytes:
    return line.partition(b":")[0].lower()


_cache_control = lru_cache(maxsize=128)(render_field)  # it has few values


@lru_cache(maxsize=128)
def _content_type(media_type: str) -> bytes:
    """Return the line of the type, with the charset of all our texts."""
    kind = media_type.lower()
    textual = kind.startswith("text/") or kind.endswith(("json", "xml", "javascript"))
    if textual and ";" not in kind:
        media_type += "; charset=utf-8"
    return render_field("Content-Type", media_type)


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
    """Return the content in that coding.

    The level of compression is a cheap one: JSON shrinks to a fifth, and more effort would slow
    requests. Content that would block the event loop for longer than a millisecond or two is
    compressed in a thread.
    """
    coder = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW_BITS[encoding])
    return coder.compress(content) + coder.flush()


async def compress_chunks(chunks: AsyncIterator[bytes], encoding: str) -> AsyncIterator[bytes]:
    """Compress a stream; each chunk is flushed before the next one is requested."""
    coder = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW_BITS[encoding])
    async for chunk in chunks:
        yield coder.compress(chunk) + coder.flush(zlib.Z_SYNC_FLUSH)
    yield coder.flush()


_EXPOSED = (
    "Location, ETag, Link, X-Total-Count, X-Count-Strategy, Preference-Applied, X-Request-Id, "
    "Auth-Token, Auth-Token-Valid-Until, Auth-Token-Location, Retry-After, RateLimit, "
    "RateLimit-Policy, WWW-Authenticate, Allow, Content-Disposition"
)
_ACCEPTED = (
    "Authorization, Content-Type, X-Requested-With, No-Auth-Challenge, If-Match, If-None-Match, "
    "Prefer, Last-Event-ID"
)


class CorsPolicy:
    """The CORS headers of every response, built once per origin.

    They decide which pages of other origins may read responses, and whether with credentials.

        allow-origins   Origin of the request   answer
        empty           any or none             `*`, never credentials
        a list          on the list             that origin, credentials, `Vary: Origin`
        a list          not on it, or none      nothing, `Vary: Origin`

    An origin is compared as a whole: no suffix, prefix or pattern can be tricked. A listed origin
    that browsers spell differently (`https://App.example:443`) matches their spelling, too.
    """

    def __init__(self, allow_origins: Sequence[str] = ()) -> None:
        exposed = ("Access-Control-Expose-Headers", _EXPOSED)
        self._listed: dict[str | None, list[bytes]] = {
            origin: _render(
                ("Access-Control-Allow-Origin", origin),
                ("Access-Control-Allow-Credentials", "true"),
                exposed,
                ("Vary", "Origin"),
            )
            for origin in (*allow_origins, *map(spell_origin, allow_origins))
        }
        self._others = (
            _render(("Vary", "Origin"))
            if allow_origins
            else _render(("Access-Control-Allow-Origin", "*"), exposed)
        )
        # Without a list, the lines of all responses.
        self.of_all: list[bytes] | None = None if self._listed else self._others

    def find_lines(self, headers: Headers) -> list[bytes]:
        """Return the lines for a request with these headers; do not change the shared list."""
        return self._listed.get(headers.get("origin"), self._others)


def _render(*fields: tuple[str, str]) -> list[bytes]:
    return [render_field(name, value) for name, value in fields]


def preflight_headers(methods: Sequence[str], headers: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return the headers of a preflight: methods, and request headers besides the usual ones."""
    accepted = ", ".join((_ACCEPTED, *headers)) if headers else _ACCEPTED
    return [
        ("Access-Control-Allow-Methods", ", ".join(methods)),
        ("Access-Control-Allow-Headers", accepted),
    ]
