"""HTTP upgrades: check WebSocket handshakes; remove other upgrades from a request."""

from __future__ import annotations

import base64
import binascii

from docgraph.exchange.errors import RequestError, UpgradeRequired

__all__ = ["UpgradeRequired", "check_handshake", "wants_websocket", "without_upgrade"]

RawHeaders = list[tuple[bytes, bytes]]

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
    """Return the head without the upgrade."""
    lines = [b"%s %s HTTP/%s\r\n" % (method, target, version.encode())]
    lines += [b"%s: %s\r\n" % field for field in headers if field[0] not in _OF_AN_UPGRADE]
    tokens = b",".join(value for name, value in headers if name == b"connection").lower()
    if b"close" in (token.strip() for token in tokens.split(b",")):
        lines.append(b"connection: close\r\n")
    return b"".join((*lines, b"\r\n"))
