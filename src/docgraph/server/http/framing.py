"""The strict reading of a request head: what llhttp lets pass and RFC 9112 or caution does not.

Two readers of one byte stream that disagree about where a request ends are how requests are
smuggled. So a head that could be read in two ways is refused, never repaired.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import httptools

from docgraph.exchange.errors import (
    HeadersTooLarge,
    MethodNotAllowed,
    NotSupported,
    RequestError,
    UrlTooLong,
)
from docgraph.server.settings import Limits

__all__ = [
    "HeadersTooLarge",
    "RequestHead",
    "UrlTooLong",
    "check_size",
    "explain_refusal",
    "glean_headers",
    "read_head",
]

_HOST = re.compile(rb"[A-Za-z0-9\-._~%!$&'()*+,;=:\[\]]*")
_METHOD = re.compile(rb"([A-Z][A-Z-]{0,31}) ")
_GLEANED = re.compile(rb"\r\n(accept|origin):([^\r\n]*)", re.I)
_READ = frozenset((b"host", b"content-length", b"transfer-encoding", b"expect"))
_SERVED_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class RequestHead(NamedTuple):
    """A request head that can be read in one way only; `length` is None for a chunked body."""

    method: str
    version: str
    path: bytes
    query: bytes
    length: int | None
    expects_continue: bool


def check_size(target: bytes, headers: list[tuple[bytes, bytes]], limits: Limits) -> None:
    """The bounds of a head that has come to its end."""
    if len(target) > limits.url_size:
        raise UrlTooLong(f"the URL exceeds {limits.url_size} bytes")
    if len(headers) > limits.headers:
        raise HeadersTooLarge(f"there are more than {limits.headers} headers")
    total = 0
    for name, value in headers:
        size = len(name) + len(value) + 2  # with the colon and the space
        if size > limits.header_size:
            raise HeadersTooLarge(f"a header exceeds {limits.header_size} bytes")
        total += size
    if total > limits.headers_size:
        raise HeadersTooLarge(f"the headers exceed {limits.headers_size} bytes in all")


def read_head(
    method: str, version: str, target: bytes, headers: list[tuple[bytes, bytes]]
) -> RequestHead:
    """Check a head whose names are in lower case; raises what it is refused with."""
    if version not in ("1.1", "1.0"):
        raise RequestError(f"HTTP/{version} is not understood", hint="use HTTP/1.1")
    if method in ("TRACE", "CONNECT"):
        raise MethodNotAllowed(method, _SERVED_METHODS)
    hosts, length, expects = 0, 0, False
    chunked = False
    for name, value in headers:
        if name not in _READ:
            continue
        if name == b"host":
            hosts += 1
            _check_host(value)
        elif name == b"content-length":
            length = _parse_length(value)
        elif name == b"transfer-encoding":
            chunked = True
            _check_coding(value, version)
        elif name == b"expect":
            expects = value.lower() == b"100-continue" and version == "1.1"
    if hosts > 1 or (hosts == 0 and version == "1.1"):
        raise RequestError("a request has exactly one Host header")
    path, query = _split_target(method, target)
    return RequestHead(method, version, path, query, None if chunked else length, expects)


def explain_refusal(error: httptools.HttpParserError, data: bytes) -> RequestError:
    """What the parser did not take: a method that no service has, or no HTTP at all."""
    if isinstance(error, httptools.HttpParserInvalidMethodError):
        found = _METHOD.match(data)
        if found and (method := found[1].decode("ascii")) not in _SERVED_METHODS:
            return MethodNotAllowed(method, _SERVED_METHODS)
    return RequestError("the request is not valid HTTP")


def glean_headers(data: bytes) -> list[tuple[bytes, bytes]]:
    """What decides about the look of a refusal, from a head that the parser has not read."""
    head = data.partition(b"\r\n\r\n")[0]
    return [(found[1].lower(), found[2].strip()) for found in _GLEANED.finditer(head)]


def _check_host(value: bytes) -> None:
    if not _HOST.fullmatch(value):
        raise RequestError("the Host header is not a host")


def _parse_length(value: bytes) -> int:
    if not value.isdigit():
        raise RequestError("the Content-Length header is not a number")
    return int(value)


def _check_coding(value: bytes, version: str) -> None:
    if version == "1.0":
        raise RequestError("HTTP/1.0 has no Transfer-Encoding")
    if value.strip().lower() != b"chunked":
        raise NotSupported("no Transfer-Encoding but chunked is understood")


def _split_target(method: str, target: bytes) -> tuple[bytes, bytes]:
    """Path and query of any form of a target (RFC 9112 3.2); its authority is of no interest."""
    if target.startswith(b"/"):
        path, _, query = target.partition(b"#")[0].partition(b"?")
        return path, query
    if target == b"*" and method == "OPTIONS":
        return b"/", b""
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError:
        raise RequestError("the request target is not a URL") from None
    if url.host is None:
        raise RequestError("the request target is not a path")
    return url.path or b"/", url.query or b""
