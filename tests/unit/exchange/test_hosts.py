"""Names of this server, and addresses of callers."""

from __future__ import annotations

import pytest

from docgraph.exchange.hosts import KnownHosts, group_address


@pytest.mark.parametrize(
    ("address", "group"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("unix", "unix"),
    ],
)
def test_addresses_that_one_customer_can_choose_from_count_as_one(address: str, group: str) -> None:
    assert group_address(address) == group


@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        ("localhost.", True),
        ("127.8.0.1:80", True),
        ("[::1]", True),
        ("[::1]:8080", True),
        ("[::1].evil.example", False),
        ("[::1]evil:80", False),
        ("[localhost]", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("127.0.0.1,evil.example", False),
        ("x@localhost", False),
        ("localhost:0", False),
        ("", False),
    ],
)
def test_a_host_that_only_begins_like_loopback_is_another_one(host: str, is_known: bool) -> None:
    """Decision 67."""
    assert KnownHosts([]).knows(host, None) is is_known
