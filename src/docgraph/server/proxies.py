"""Trusted reverse proxies: the caller's address from `X-Forwarded-*` (`core.trusted-proxies`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Final, TypeGuard

from docgraph.exchange import Headers

Address = tuple[str, int]

UNIX: Final = "unix"  # the address of all callers at the Unix socket

# Some proxies send the schemes ws and wss for WebSockets; the handshake determines the protocol.
_SCHEMES = {"http": "http", "https": "https", "ws": "http", "wss": "https"}


class TrustedProxies:
    """The trusted addresses and networks."""

    def __init__(self, proxies: Sequence[str]) -> None:
        networks = [proxy for proxy in proxies if proxy != UNIX]
        self._networks = tuple(ip_network(proxy, strict=False) for proxy in networks)
        self._trusts_socket = UNIX in proxies
        self.trusts = lru_cache(maxsize=1024)(self._contains)  # whether an address is trusted

    def __bool__(self) -> bool:
        return bool(self._networks) or self._trusts_socket

    def resolve(
        self, peer: Address | None, scheme: str, headers: Headers
    ) -> tuple[Address | None, str]:
        """Return the caller's address and scheme, as trusted hops report them."""
        if not self._believes(peer):
            return peer, scheme
        claimed = headers.get_list("x-forwarded-proto")
        if claimed:
            scheme = _SCHEMES.get(claimed[-1].strip().lower(), scheme)
        # The right-most hop that is not trusted; clients can forge those left of it.
        hops = [hop for field in headers.get_list("x-forwarded-for") for hop in field.split(",")]
        caller = None
        for hop in reversed(hops):
            address = _parse_hop(hop.strip())
            if address is None:
                break
            caller = (address, 0)
            if not self.trusts(address):
                break
        return caller or peer, scheme

    def find_host(self, peer: Address | None, headers: Headers) -> str | None:
        """Return the host that the first proxy received, if a trusted one reports it."""
        if not self._believes(peer):
            return None
        return (headers.get("x-forwarded-host") or "").partition(",")[0].strip() or None

    def _believes(self, peer: Address | None) -> TypeGuard[Address]:
        """Return whether the headers of a peer are believed.

        Port 0 means that an ASGI server has resolved them already: the rest is the caller's.
        """
        if not self or peer is None or (peer[1] == 0 and peer[0] != UNIX):
            return False
        return self.trusts(peer[0])

    def _contains(self, address: str) -> bool:
        if address == UNIX:
            return self._trusts_socket
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        mapped = getattr(parsed, "ipv4_mapped", None)
        return any((mapped or parsed) in network for network in self._networks)


def _parse_hop(hop: str) -> str | None:
    """Return the address in `1.2.3.4`, `1.2.3.4:5678`, `::1` or `[::1]:5678`; None otherwise."""
    if hop.startswith("["):
        hop = hop[1:].partition("]")[0]
    elif hop.count(":") == 1:
        hop = hop.partition(":")[0]
    try:
        return str(ip_address(hop))
    except ValueError:
        return None
