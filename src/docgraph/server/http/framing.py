"""Strict validation of a request head against request smuggling (RFC 9112), and HTTP upgrades.

Requests are smuggled when two parsers of one byte stream disagree about where a request ends. A
head that is ambiguous is therefore rejected, never repaired, even if llhttp accepts it.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import NamedTuple

import httptools

from docgraph.exchange.errors import (
    HeadersTooLarge,
    MethodNotAllowed,
    NotSupported,
    RequestError,
    UpgradeRequired,
    UrlTooLong,
)
from docgraph.server.fields import RawHeaders
from docgraph.server.settings import Limits

_HOST = re.compile(rb"[A-Za-z0-9\-._~%!$&'()*+,;=:\[\]]*")
_METHOD = re.compile(rb"([A-Z][A-Z-]{0,31}) ")
_TARGET = re.compile(rb"(?:\r?\n)*[^ \r\n]+ ([^ \r\n]+)[ \r\n]")
_GLEANED = re.compile(rb"\r\n(accept|origin):([^\r\n]*)", re.I)
_READ = frozenset((b"host", b"content-length", b"transfer-encoding", b"expect"))
_SERVED_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class RequestHead(NamedTuple):
    """A request head that is unambiguous; `length` is None for a chunked body."""

    method: str
    version: str
    path: bytes
    query: bytes
    length: int | None
    expects_continue: bool


def check_size(target: bytes, headers: list[tuple[bytes, bytes]], limits: Limits) -> None:
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
    """Check a head whose names are in lower case; raises its rejection."""
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
    """Return the error for bytes that the parser rejected: an unknown method, or no HTTP."""
    if isinstance(error, httptools.HttpParserInvalidMethodError):
        matched = _METHOD.match(data)
        if matched and (method := matched[1].decode("ascii")) not in _SERVED_METHODS:
            return MethodNotAllowed(method, _SERVED_METHODS)
    return RequestError("the request is not valid HTTP")


def glean_head(data: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """Extract from a head that llhttp rejected what the format of the error depends on."""
    head = data.partition(b"\r\n\r\n")[0]
    target = _TARGET.match(data)
    headers = [(field[1].lower(), field[2].strip()) for field in _GLEANED.finditer(head)]
    return target[1] if target else b"", headers


def find_path(target: bytes) -> bytes:
    """Return the path of a target that may be incomplete or invalid; `/` where it has none."""
    try:
        return _split_target("OPTIONS", target)[0]
    except RequestError:
        return b"/"


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
    """Return path and query of any form of a target (RFC 9112 3.2); its authority is ignored."""
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


_KEY_SIZE = 16
_OF_AN_UPGRADE = frozenset((b"upgrade", b"connection", b"http2-settings"))


def wants_websocket(headers: RawHeaders) -> bool:
    """Return whether WebSocket is the only requested protocol."""
    return [value.lower() for name, value in headers if name == b"upgrade"] == [b"websocket"]


def check_handshake(method: str, version: str, length: int | None, headers: RawHeaders) -> None:
    """Reject an invalid handshake (RFC 6455 4.2.1), before authentication."""
    if method != "GET" or version != "1.1":
        raise RequestError("a WebSocket handshake is a GET of HTTP/1.1")
    if length != 0:
        raise RequestError("a WebSocket handshake has no body")
    versions = [value for name, value in headers if name == b"sec-websocket-version"]
    if versions != [b"13"]:
        raise UpgradeRequired(
            "only version 13 of WebSocket is understood",
            headers=[("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")],
        )
    keys = [value for name, value in headers if name == b"sec-websocket-key"]
    if len(keys) != 1 or not _is_key(keys[0]):
        raise RequestError("the Sec-WebSocket-Key header is not 16 bytes in base64")


def _is_key(value: bytes) -> bool:
    try:
        return len(base64.b64decode(value, validate=True)) == _KEY_SIZE
    except binascii.Error:
        return False


def without_upgrade(method: bytes, version: str, target: bytes, headers: RawHeaders) -> bytes:
    lines = [b"%s %s HTTP/%s\r\n" % (method, target, version.encode())]
    lines += [b"%s: %s\r\n" % field for field in headers if field[0] not in _OF_AN_UPGRADE]
    tokens = b",".join(value for name, value in headers if name == b"connection").lower()
    if b"close" in (token.strip() for token in tokens.split(b",")):
        lines.append(b"connection: close\r\n")
    return b"".join((*lines, b"\r\n"))
