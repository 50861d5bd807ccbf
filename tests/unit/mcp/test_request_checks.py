"""The share of a caller: so many requests in any second, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from docgraph.exchange import Account, Connection, Exchange, Request
from docgraph.exchange.errors import TooManyRequests
from docgraph.mcp.request_checks import McpRateLimit
from docgraph.mcp.sections import Mcp
from docgraph.runtime.shared_memory import WindowCounters, create_counters
from tests.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def rates(tmp_path: Path, clock: Clock) -> Iterator[McpRateLimit]:
    create_counters(tmp_path / "calls")
    counters = WindowCounters(tmp_path / "calls", 1.0, b"secret", clock)
    one = McpRateLimit(counters, Mcp().calls_per_second)
    yield one
    one.close()


def request(name: str | None = None, address: str = "192.0.2.1") -> Exchange:
    account = None if name is None else Account(name)
    connection = Connection(client=(address, 1))
    return Exchange(Request("POST", b"/mcp", connection=connection), "1", account=account)


def count(rates: McpRateLimit, exchange: Exchange, times: int) -> int:
    """How many of so many requests are let in."""
    let_in = 0
    for _ in range(times):
        try:
            rates.count(exchange)
        except TooManyRequests:
            continue
        let_in += 1
    return let_in


def test_20_requests_are_let_in_at_once_and_the_next_one_is_not(rates: McpRateLimit) -> None:
    """Drill P07."""
    assert count(rates, request("ada"), 200) == 20


def test_a_caller_who_never_stops_gets_his_share_all_the_same(
    rates: McpRateLimit, clock: Clock
) -> None:
    let_in = 0
    for _ in range(1000):  # 10 seconds, 100 requests in each
        let_in += count(rates, request("ada"), 1)
        clock.now += 0.01

    assert 180 <= let_in <= 220


def test_callers_do_not_take_each_others_share(rates: McpRateLimit) -> None:
    count(rates, request("ada"), 50)

    assert count(rates, request("bob"), 1) == 1
    assert count(rates, request(), 20) == 20
    assert count(rates, request(), 1) == 0
    assert count(rates, request(address="192.0.2.2"), 1) == 1


def test_unknown_callers_of_one_network_share(rates: McpRateLimit) -> None:
    """A customer has as many addresses of IPv6 as he likes."""
    for number in range(30):
        count(rates, request(address=f"2001:db8::{number:x}"), 1)

    assert count(rates, request(address="2001:db8::ffff"), 1) == 0
