"""Hosts and addresses: names of this server in `Host`, and addresses of callers.

A page cannot choose the `Host` that its browser sends. It exposes a page of another site whose name
resolves to this machine (DNS rebinding).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from ipaddress import IPv4Address, ip_address, ip_network
from typing import Final, NamedTuple
from urllib.parse import urlsplit

_LARGEST_PORT: Final = 65_535
_IPV6_CUSTOMER: Final = 64  # the bits of an address that one customer cannot choose


class _Host(NamedTuple):
    name: str
    port: int | None


class KnownHosts:
    """The hosts that requests may be for; one without a port is known with every port."""

    def __init__(self, hosts: Iterable[str], base_url: str | None = None) -> None:
        listed = [_read_host(host) for host in hosts]
        if base_url is not None:  # a proxy may leave out the port
            listed.append(_Host(urlsplit(base_url).hostname or "", None))
        self._hosts = {host for host in listed if host is not None}

    def knows(self, text: str, server: tuple[str, int] | None) -> bool:
        """Return whether it is loopback, listed, or the address that the request came to."""
        host = _read_host(text)
        if host is None:
            return False
        if host.name == "localhost" or is_loopback(host.name):
            return True
        if server is not None and host.name == server[0]:
            return True
        return host in self._hosts or _Host(host.name, None) in self._hosts


def is_loopback(address: str) -> bool:
    """Return whether the text is an address that only this machine can reach."""
    with suppress(ValueError):
        return ip_address(address).is_loopback
    return False


@lru_cache(maxsize=4096)
def group_address(address: str) -> str:
    """Return the address, or for IPv6 its network: a customer has more addresses than any share."""
    try:
        parsed = ip_address(address.split("%", 1)[0])
    except ValueError:
        return address  # a Unix socket has none
    if isinstance(parsed, IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ip_network((parsed, _IPV6_CUSTOMER), strict=False))


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
        if parts.netloc.partition("]")[2].partition(":")[0]:
            return None  # `[::1].example`
        try:
            name = str(ip_address(name))
        except ValueError:
            return None
    return _Host(name.removesuffix("."), port)
