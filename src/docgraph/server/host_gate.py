"""Rejects requests for other hosts on loopback listeners: DNS rebinding (decision 67).

A loopback listener is meant for programs of this machine. A page in a browser of this machine can
reach it, too, by a name of its own site that resolves to 127.0.0.1.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from docgraph.exchange import Connection
from docgraph.exchange.errors import RequestError
from docgraph.exchange.hosts import KnownHosts, is_loopback
from docgraph.observe import emit
from docgraph.observe.engine_events import HostRefused
from docgraph.runtime.sections import ANY_HOST, Core
from docgraph.server.proxies import Address, TrustedProxies
from docgraph.server.sections import WILDCARDS

_LONGEST_SHOWN: Final = 100  # characters of a host in the log


class Misdirected(RequestError):
    """The request is for another host (`core.allowed-hosts`)."""

    status, code = 421, "misdirected"


class HostGate:
    """The check of `Host`; the first rejection of this process is logged."""

    def __init__(self, core: Core, proxies: TrustedProxies) -> None:
        self._accepts_all = ANY_HOST in core.allowed_hosts
        self._checks_all = bool(core.allowed_hosts)
        self._known = KnownHosts(core.allowed_hosts, core.base_url)
        self._trusts = proxies.trusts
        self._is_reported = False
        self._admits = lru_cache(maxsize=1024)(self._find_whether_admitted)

    def check(self, host: str | None, peer: Connection, listener: str) -> None:
        """Raise `Misdirected` for a host that is not ours; `listener` is its configured address.

        Browsers always send a host: a request without one is of another program.
        """
        if self._accepts_all or host is None or self._admits(host, peer.server, listener):
            return
        if peer.client is not None and self._trusts(peer.client[0]):
            return
        if not self._is_reported:
            self._is_reported = True
            emit(HostRefused(host[:_LONGEST_SHOWN], "/core/allowed-hosts"))
        raise Misdirected(
            "requests for this host are not accepted",
            hint="an administrator can list it in core.allowed-hosts",
        )

    def _find_whether_admitted(self, host: str, server: Address | None, listener: str) -> bool:
        is_local = server is not None and listener not in WILDCARDS and is_loopback(server[0])
        return not (is_local or self._checks_all) or self._known.knows(host, server)
