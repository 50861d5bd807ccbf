"""ASGI scopes: the head of a request, its path below `root_path`, and the addresses of its peer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

from docgraph.exchange import Connection
from docgraph.server.fields import RawHeaders
from docgraph.server.http.bridge import AsgiMessage
from docgraph.server.http.framing import RequestHead, check_size, read_head
from docgraph.server.proxies import UNIX, Address
from docgraph.server.settings import Limits

AsgiScope = MutableMapping[str, Any]
AsgiReceive = Callable[[], Awaitable[AsgiMessage]]
AsgiSend = Callable[[AsgiMessage], Awaitable[None]]

_PATH: Final = "/!$&'()*+,;=:@-._~"  # what RFC 3986 3.3 allows in a path, besides letters
_SCHEMES: Final = {"https": "https", "wss": "https"}
_SUBPROTOCOL: Final = b"sec-websocket-protocol"  # some servers take it from the headers
_OLD: Final = ("1.0", "1.1")


class AsgiHead:
    """A request head as the ASGI server has read it."""

    def __init__(self, scope: AsgiScope) -> None:
        root = scope.get("root_path", "").strip("/")
        root = f"/{root}" if root else ""
        query = scope.get("query_string", b"")
        self.connection = _describe_connection(
            tuple(scope.get("client") or ()),
            tuple(scope.get("server") or ()),
            scope.get("scheme", "http"),
            scope.get("http_version", "1.1"),
            root,
        )
        self.method: str = scope.get("method", "GET")
        self.target = find_path(scope, root) + (b"?" + query if query else b"")
        # Some servers leave the blanks behind a value (RFC 9110 5.5).
        self.headers: RawHeaders = [
            (name.lower(), value.strip(b" \t")) for name, value in scope["headers"]
        ]
        offered = scope.get("subprotocols")
        if offered and not any(name == _SUBPROTOCOL for name, _ in self.headers):
            self.headers.append((_SUBPROTOCOL, ", ".join(offered).encode("latin-1", "replace")))

    def check(self, limits: Limits) -> RequestHead:
        """Return the checked head; its length is None if a body of unknown size may follow."""
        check_size(self.target, self.headers, limits)
        version = self.connection.http_version
        is_old = version in _OLD
        head = read_head(self.method, version if is_old else "1.1", self.target, self.headers)
        if is_old or head.length or any(name == b"content-length" for name, _ in self.headers):
            return head
        return head._replace(length=None)  # HTTP/2 frames a body without a header


def find_path(scope: AsgiScope, root: str) -> bytes:
    """Return the encoded path below `root`.

    It is the `raw_path`, where that means the same as the `path`, which the rules of the host have
    seen. Some hosts leave `root` out of the path.
    """
    path: str = scope["path"]
    if root and (path == root or path.startswith(f"{root}/")):
        path = path[len(root) :] or "/"
    raw = (scope.get("raw_path") or b"").partition(b"?")[0]
    depth = root.count("/")
    if depth:
        parts = raw.split(b"/", depth + 1)
        if unquote_to_bytes(b"/".join(parts[: depth + 1])) == root.encode("utf-8", "replace"):
            raw = b"/" + b"/".join(parts[depth + 1 :])
    if unquote_to_bytes(raw).decode("utf-8", "replace") == path:
        return raw
    return quote(path, safe=_PATH, errors="replace").encode()


@lru_cache(maxsize=1024)  # a connection has many requests
def _describe_connection(
    client: tuple[Any, ...], server: tuple[Any, ...], scheme: str, version: str, root: str
) -> Connection:
    return Connection(
        _find_address(client),
        _find_address(server),
        _SCHEMES.get(scheme, "http"),
        version,
        root_path=quote(root, safe=_PATH),
    )


def _find_address(pair: tuple[Any, ...]) -> Address:
    """Return host and port; a peer without an address is one at a Unix socket."""
    if not pair or not pair[0]:
        return UNIX, 0
    return str(pair[0]), int(pair[1] or 0)
