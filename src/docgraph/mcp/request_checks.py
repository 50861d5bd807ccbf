"""Checks of agents' requests: Host and Origin (DNS rebinding), and the rate limit of a caller.

A page cannot choose the `Host` and `Origin` that its browser sends. They expose a page of another
site whose name resolves to this machine (DNS rebinding).
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from docgraph.auth.brute_force import group_address
from docgraph.exchange import Exchange, Request
from docgraph.exchange.errors import DocgraphError, TooManyRequests
from docgraph.exchange.origin import RequestOrigin, spell_origin
from docgraph.runtime import WindowCounters

_OWN: Final = ("localhost", "127.0.0.1", "::1")
_LARGEST_PORT: Final = 65_535


class ForeignRequest(DocgraphError):
    """A request that names another host, or comes from a page of another origin."""

    status, code = 403, "forbidden"


class _Host(NamedTuple):
    name: str
    port: int | None


class HostCheck:
    """The hosts and origins that are permitted."""

    def __init__(
        self, hosts: Iterable[str], origins: Iterable[str], base_url: str | None = None
    ) -> None:
        listed = [_read_host(host) for host in hosts]
        if base_url is not None:
            listed.append(_read_host(urlsplit(base_url).netloc))
        self._hosts = {host for host in listed if host is not None}
        self._origins = {spell_origin(origin) for origin in origins}

    def check(self, request: Request) -> None:
        """Raise `ForeignRequest` for a host or origin that is not listed."""
        self.check_host(request)
        origin = request.headers.get("origin")
        is_listed = origin is not None and spell_origin(origin) in self._origins
        if request.page is RequestOrigin.FOREIGN and not is_listed:
            raise ForeignRequest(
                "requests from pages of this origin are not accepted",
                hint="an administrator can list it in mcp.allowed-origins",
            )

    def check_host(self, request: Request) -> None:
        """Raise `ForeignRequest` for a `Host` that is not listed."""
        if not self.knows_host(request):
            raise ForeignRequest(
                "requests for this host are not accepted",
                hint="an administrator can list it in mcp.allowed-hosts",
            )

    def knows_host(self, request: Request) -> bool:
        """Return whether the request is for one of our hosts."""
        host = _read_host(request.connection.host or request.headers.get("host") or "")
        if host is None:
            return False
        server = request.connection.server
        if host.name in _OWN or (server is not None and host.name == server[0]):
            return True
        return host in self._hosts or _Host(host.name, None) in self._hosts


def _read_host(text: str) -> _Host | None:
    """Parse a host and its port, if any; None if it is neither a name nor an address."""
    try:
        parts = urlsplit(f"//{text.strip().lower()}")
        name, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    if parts.netloc != text.strip().lower() or "@" in parts.netloc or not name:
        return None
    if port is not None and not 0 < port <= _LARGEST_PORT:
        return None
    if parts.netloc.startswith("["):
        try:
            name = str(ip_address(name))
        except ValueError:
            return None
    return _Host(name, port)


class McpRateLimit:
    """Rate limit of agents; rejected requests do not count, so each caller keeps a share."""

    def __init__(self, counters: WindowCounters, most: int) -> None:
        self._counters = counters
        self._most = most

    def count(self, exchange: Exchange) -> None:
        """Count a request; raise `TooManyRequests` if the caller has used the share."""
        key = _name_caller(exchange)
        if self._counters.read(key) >= self._most:
            raise TooManyRequests(
                f"more than {self._most} requests in a second",
                hint="try again in 1 s",
                headers=[("Retry-After", "1")],
            )
        self._counters.hit(key)

    def close(self) -> None:
        """Release the shared memory."""
        self._counters.close()


def _name_caller(exchange: Exchange) -> str:
    account = exchange.account
    if account is not None:
        return f"account {account.kind} {account.name}"
    client = exchange.request.connection.client
    return f"address {group_address(client[0]) if client else ''}"
