"""Addresses of callers."""

from __future__ import annotations

import pytest

from docgraph.exchange.hosts import group_address


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
