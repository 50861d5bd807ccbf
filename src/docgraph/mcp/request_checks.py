"""Checks of agents' requests: Host and Origin (DNS rebinding), and the rate limit of a caller."""

from __future__ import annotations

from docgraph.exchange import Exchange, Request
from docgraph.exchange.errors import DocgraphError, TooManyRequests
from docgraph.exchange.hosts import KnownHosts, group_address
from docgraph.exchange.origin import RequestOrigin, spell_origin
from docgraph.mcp.sections import Mcp
from docgraph.runtime import WindowCounters
from docgraph.runtime.sections import Core


class ForeignRequest(DocgraphError):
    """A request that names another host, or comes from a page of another origin."""

    status, code = 403, "forbidden"


class HostCheck:
    """The hosts and origins that are permitted."""

    def __init__(self, settings: Mcp, core: Core) -> None:
        hosts = (*settings.allowed_hosts, *core.allowed_hosts)
        self._hosts = KnownHosts(hosts, core.base_url)
        self._origins = {spell_origin(origin) for origin in settings.allowed_origins}

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
        connection = request.connection
        text = connection.host or request.headers.get("host") or ""
        return self._hosts.knows(text, connection.server)


class McpRateLimit:
    """Rate limit of agents; rejected requests do not count, so each caller keeps a share."""

    def __init__(self, counters: WindowCounters, most: int) -> None:
        self._counters = counters
        self._most = most

    def count(self, exchange: Exchange) -> None:
        """Count a request; raise `TooManyRequests` if the caller has used the share."""
        account, client = exchange.account, exchange.request.connection.client
        if account is not None:
            key = f"account {account.kind} {account.name}"
        else:
            key = f"address {group_address(client[0]) if client else ''}"
        if self._counters.read(key) >= self._most:
            raise TooManyRequests(
                f"more than {self._most} requests in a second",
                hint="try again in 1 s",
                headers=[("Retry-After", "1")],
            )
        self._counters.hit(key)

    def close(self) -> None:
        self._counters.close()
