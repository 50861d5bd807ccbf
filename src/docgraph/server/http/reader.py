"""HTTP request parser: bytes to request heads and bodies, with llhttp and size limits.

The parser is `httptools`; `framing.py` rejects what it accepts and we do not. A reader is
independent of transports and time: it is fed, notifies a listener of what it has read, and returns
the error in the rest.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

import httptools

from docgraph.exchange import DocgraphError, Headers
from docgraph.exchange.errors import BodyTooLarge, HeadersTooLarge, RequestError, UrlTooLong
from docgraph.server.fields import RawHeaders
from docgraph.server.http.framing import (
    RequestHead,
    check_handshake,
    check_size,
    explain_refusal,
    glean_head,
    read_head,
    wants_websocket,
    without_upgrade,
)
from docgraph.server.settings import Limits

# The parser is fed in slices, so that a head that never ends, or a thousand pipelined requests in
# one packet, are noticed before they are in memory as objects.
SLICE = 4096
_CHUNK_OVERHEAD = 16 * 1024  # bytes of chunk framing and trailers beside 8 per byte of content


class BodySink(Protocol):
    """What takes the parts of a body."""

    def feed(self, data: bytes) -> bool:
        """Take the next part; return whether to pause."""


class RequestListener(Protocol):
    """Listener of a `RequestReader`: receives heads and bodies in the order of the bytes."""

    def on_request(
        self, head: RequestHead, headers: Headers, *, keep_alive: bool
    ) -> BodySink | None:
        """Receive a complete head; return what takes its body, None for one without."""

    def on_websocket(self, head: RequestHead, headers: Headers, rest: bytes) -> bool:
        """Receive the handshake of a WebSocket; return whether it is accepted as one."""

    def on_body_full(self) -> None:
        """Learn that no more of the body should be read until it is asked for."""

    def on_request_end(self) -> None:
        """Learn that the body is complete."""


class _Read(NamedTuple):
    """A head that was read and checked."""

    target: bytes
    head: RequestHead
    headers: Headers


_UNUSED: Final = httptools.HttpRequestParser(object())


class RequestReader:
    """Reads the requests of one connection."""

    __slots__ = (
        "_content",
        "_fed",
        "_follows",
        "_framing",
        "_is_gleaned",
        "_last",
        "_limits",
        "_listener",
        "_most_fed",
        "_parser",
        "_sink",
        "headers",
        "in_body",
        "in_head",
        "target",
    )

    def __init__(self, listener: RequestListener, limits: Limits) -> None:
        self._listener = listener
        self._limits = limits
        self._most_fed = limits.headers_size + limits.url_size + 2 * SLICE
        self._parser = self._new_parser()
        self._last: _Read | None = None
        self._sink: BodySink | None = None  # of the request that was read last
        self._follows = False  # whether the data that is fed began with another request
        self._is_gleaned = False
        self._fed = 0  # bytes of an unfinished head or chunk size that the parser holds
        self._content = 0  # bytes of the body
        self._framing = 0  # bytes of a chunked body that are not content
        self.target = b""
        self.headers: RawHeaders = []
        self.in_head = False
        self.in_body = False

    @property
    def method(self) -> str:
        """The method of the request that is being read; empty before it is known."""
        is_known = self.target and not self._is_gleaned
        return self._parser.get_method().decode("ascii") if is_known else ""

    def feed(self, data: bytes) -> DocgraphError | None:
        """Parse more bytes; return the error in them, if any: the last call then."""
        self._follows = False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            begun = b"" if self._follows else data
            if not self.target:
                self._is_gleaned = True  # the parser has not accepted the request line
                self.target, self.headers = glean_head(begun)
            return _find_reason(error, begun)
        else:
            self._fed += len(data)
            return self._explain_excess() if self._fed > self._most_fed else None
        return self._upgrade(rest)  # not above: an error in it would have the upgrade as its reason

    def release(self) -> None:
        """Drop the references back to this object: a cycle would wait for the garbage collector."""
        if self._parser is not _UNUSED:
            self._parser = _UNUSED
            self._sink = None
            del self._listener

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self)
        # Requests behind one that closes the connection are not answered, but no error either.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    def _explain_excess(self) -> DocgraphError:
        """Return the error for a head or framing that exceeds its limit before it is complete."""
        if self.in_body:
            return RequestError("the framing of the body is too long")
        if len(self.target) > self._limits.url_size:
            return UrlTooLong(f"the URL exceeds {self._limits.url_size} bytes")
        return HeadersTooLarge(f"the headers exceed {self._limits.headers_size} bytes in all")

    def _upgrade(self, rest: bytes) -> DocgraphError | None:
        """Hand over a WebSocket; ignore any other protocol, as RFC 9110 7.8 allows.

        llhttp takes everything after such a head for the other protocol. The head is fed again
        without the upgrade, so that its body is not parsed as the next request.
        """
        assert self._last is not None  # noqa: S101 - an upgrade is noticed behind a complete head
        _, head, headers = self._last
        if wants_websocket(self.headers) and self._listener.on_websocket(head, headers, rest):
            return None
        again = without_upgrade(head.method.encode(), head.version, self.target, self.headers)
        self._parser = self._new_parser()
        refusal = self.feed(again)
        return self.feed(rest) if rest and refusal is None else refusal

    def on_message_begin(self) -> None:
        """Begin a request (callback of httptools, like the following)."""
        self._fed = 0
        self.target = b""
        self.headers = []
        self.in_head = True

    def on_url(self, part: bytes) -> None:
        self.target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a field of the head; after a body it is a trailer, which is counted and dropped."""
        if self.in_body:
            self._count_framing(len(name) + len(value))
        else:
            self.headers.append((name.lower(), value.rstrip(b" \t")))  # RFC 9110 5.5

    def on_headers_complete(self) -> None:
        """Check the complete head and pass it on; one like the last one was checked before."""
        method, version = self._parser.get_method().decode("ascii"), self._parser.get_http_version()
        last, target, raw = self._last, self.target, self.headers
        if (
            last is None
            or last.headers.raw != raw
            or last.target != target
            or last.head.method != method
            or last.head.version != version
        ):
            if self._is_large():
                check_size(target, raw, self._limits)
            head = read_head(method, version, target, raw)
            last = self._last = _Read(target, head, Headers.of_lower_case(raw))
        _, head, headers = last
        self.in_head = False
        if self._parser.should_upgrade():
            if wants_websocket(self.headers):
                check_handshake(head.method, head.version, head.length, self.headers)
            return  # `_upgrade` goes on
        self.in_body = True
        self._content = self._framing = 0
        keep_alive = head.version == "1.1" and self._parser.should_keep_alive()
        self._sink = self._listener.on_request(head, headers, keep_alive=keep_alive)

    def on_chunk_header(self) -> None:
        self._fed = 0
        self._count_framing(8)

    def on_body(self, data: bytes) -> None:
        """Pass on a part of the body."""
        self._fed = 0
        self._content += len(data)
        if self._content > self._limits.body_size:
            raise BodyTooLarge(f"the body is larger than {self._limits.body_size} bytes")
        if self._sink is not None and self._sink.feed(data):
            self._listener.on_body_full()

    def on_message_complete(self) -> None:
        if self.in_body:  # else an upgrade: `_upgrade` goes on
            self.in_body = False
            self._follows = True
            self._fed = 0
            self._listener.on_request_end()

    def _is_large(self) -> bool:
        """Return whether the head may exceed a limit: a quick check before the exact one."""
        limits, count = self._limits, len(self.headers)
        # With colons and spaces.
        size = sum([len(name) + len(value) + 2 for name, value in self.headers])
        return (
            size > limits.header_size
            or size > limits.headers_size
            or count > limits.headers
            or len(self.target) > limits.url_size
        )

    def _count_framing(self, size: int) -> None:
        self._framing += size
        if self._framing > _CHUNK_OVERHEAD + 8 * self._content:
            raise RequestError("the body has more framing than content")


def _find_reason(error: httptools.HttpParserError, data: bytes) -> DocgraphError:
    """Return the error: our own if a callback raised it, otherwise the parser's."""
    reason = error.__context__
    if isinstance(reason, DocgraphError):
        return reason
    if isinstance(error, httptools.HttpParserCallbackError) and reason is not None:
        raise reason from None  # a fault of ours
    return explain_refusal(error, data)
