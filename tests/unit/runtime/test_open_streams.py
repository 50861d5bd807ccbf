"""Shares of open streams."""

from __future__ import annotations

import pytest

from docgraph.exchange.errors import TooManyRequests
from docgraph.runtime.open_streams import StreamLimits


def test_the_share_of_an_ipv6_address_is_that_of_its_network() -> None:
    limits = StreamLimits("streams", per_user=9, per_address=2)
    releases = [limits.acquire(None, (f"2001:db8::{number}", 1)) for number in range(2)]
    with pytest.raises(TooManyRequests):
        limits.acquire(None, ("2001:db8::ffff", 1))
    limits.acquire(None, ("2001:db8:0:1::1", 1))
    releases[0]()
    limits.acquire(None, ("2001:db8::ffff", 1))
