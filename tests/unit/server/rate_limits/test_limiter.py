"""Which limits count a caller, in which shares, and what the log is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from docgraph.exchange import Account, Connection, Exchange, Request
from docgraph.exchange.errors import TooManyRequests
from docgraph.observe.engine_events import CallersLimited, RequestLimited
from docgraph.runtime import Buckets
from docgraph.server.rate_limits import Limit, Limiter, round_up
from docgraph.server.rate_limits.sections import CallerLimit
from tests.clock import Clock
from tests.http.harness import listening

ADA = Account("ada", ("editor",), kind="database")


def build(**options: Any) -> Limit:
    given = {"name": "x", "per": "user", "requests-per-second": 1, **options}
    return Limit(0, msgspec.convert(given, CallerLimit))


@pytest.mark.parametrize(
    ("options", "account", "key"),
    [
        ({"per": "address"}, ADA, "::1"),
        ({"per": "address"}, None, "::1"),
        ({}, ADA, "database ada"),
        ({}, None, None),
        ({"role": "editor"}, ADA, "database ada"),
        ({"role": "reader"}, ADA, None),
        ({"role": "editor"}, None, None),
        ({"role": "$authenticated"}, ADA, "database ada"),
        ({"role": "$authenticated"}, None, None),
        ({"per": "address", "role": "editor"}, ADA, "::1"),
        ({"per": "address", "role": "$unauthenticated"}, None, "::1"),
        ({"per": "address", "role": "$unauthenticated"}, ADA, None),
        ({"per": "role", "role": "editor"}, ADA, ""),
        ({"per": "role", "role": "$unauthenticated"}, None, ""),
    ],
)
def test_whom_a_limit_counts(
    options: dict[str, Any], account: Account | None, key: str | None
) -> None:
    assert build(**options).find_key(account, "::1") == key


def test_users_of_one_name_in_two_realms_have_two_shares() -> None:
    limit = build()

    keys = {limit.find_key(Account("ada", kind=kind), "") for kind in ("file", "database", "jwt")}

    assert len(keys) == 3


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        ({"requests-per-second": 10}, '"x";q=10;w=1'),
        ({"requests-per-second": 0.5}, '"x";q=1;w=2'),
        ({"requests-per-second": 2.5}, '"x";q=3;w=2'),
        ({"requests-per-second": 10, "burst": 25}, '"x";q=25;w=3'),
        (
            {"requests-per-second": None, "concurrent": 4},
            '"x-concurrent";q=4;qu="concurrent-requests"',
        ),
    ],
)
def test_the_policy_is_told_in_whole_numbers(options: dict[str, Any], policy: str) -> None:
    assert build(**options).policy == policy


@pytest.mark.parametrize(
    ("seconds", "whole"),
    [(0.0, 1), (0.2, 1), (1.0, 1), (1.0000000001, 1), (1.1, 2), (1000.0, 1000)],
)
def test_seconds_are_rounded_up_and_never_none(seconds: float, whole: int) -> None:
    assert round_up(seconds) == whole


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limiter(tmp_path: Path, clock: Clock) -> Iterator[Limiter]:
    limit = build(name="address", per="address", concurrent=1)
    buckets = Buckets(tmp_path, b"k" * 32, [limit.quota], 1, 0, clock, rows=8)
    yield Limiter([limit], buckets, clock)
    buckets.close()


def come() -> Exchange:
    connection = Connection(client=("192.0.2.1", 1), server=("127.0.0.1", 80))
    return Exchange(Request("GET", b"/", connection=connection), "1")


def arrive(limiter: Limiter) -> Exchange:
    exchange = come()
    limiter.receive(exchange, None)
    return exchange


def identify(exchange: Exchange) -> None:
    assert exchange.visit is not None
    exchange.visit.identify(ADA)


def leave(exchange: Exchange) -> None:
    assert exchange.visit is not None
    exchange.visit.end(exchange)


def test_the_log_hears_of_a_flood_once_and_then_how_many_it_were(
    limiter: Limiter, clock: Clock
) -> None:
    arrive(limiter)
    with listening(RequestLimited) as counted, listening(CallersLimited) as logged:
        for _ in range(100):
            with pytest.raises(TooManyRequests):
                arrive(limiter)

    assert len(counted) == 100
    assert [(event.client, event.requests) for event in logged] == [("192.0.2.1", 1)]
    clock.now += 10
    with listening(CallersLimited) as logged, pytest.raises(TooManyRequests):
        arrive(limiter)
    assert [(event.reason, event.requests) for event in logged] == [("concurrent", 100)]


def test_a_visit_that_was_refused_gives_nothing_back(limiter: Limiter, clock: Clock) -> None:
    first = arrive(limiter)
    clock.now += 5
    second = come()
    with pytest.raises(TooManyRequests):
        limiter.receive(second, None)
    leave(second)

    with pytest.raises(TooManyRequests):
        arrive(limiter)
    leave(first)
    arrive(limiter)


def test_the_role_of_a_request_in_flight_may_change(tmp_path: Path, clock: Clock) -> None:
    """What it holds is what it was counted by."""
    limit = build(role="editor", concurrent=1, burst=10)
    buckets = Buckets(tmp_path, b"k" * 32, [limit.quota], 1, 0, clock, rows=8)
    limiter = Limiter([limit], buckets, clock)
    exchange = arrive(limiter)
    identify(exchange)
    exchange.account = Account("ada", ("reader",), kind="database")

    leave(exchange)

    identify(arrive(limiter))
    buckets.close()


@pytest.mark.parametrize(("entries", "left"), [(1, 9), (2, 8), (10, 0)])
def test_a_batch_counts_as_many_times_as_it_has_entries(
    tmp_path: Path, clock: Clock, entries: int, left: int
) -> None:
    limits = [build(per="address", burst=10), build(burst=12)]
    limits[1].number = 1
    buckets = Buckets(tmp_path, b"k" * 32, [one.quota for one in limits], 1, 0, clock, rows=8)
    limiter = Limiter(limits, buckets, clock)
    exchange = arrive(limiter)
    identify(exchange)
    assert exchange.visit is not None

    exchange.visit.count_entries(entries, ADA)
    leave(exchange)

    assert dict(exchange.headers)["RateLimit"].startswith(f'"x";r={left};')
    assert dict(exchange.headers)["RateLimit-Policy"] == '"x";q=10;w=10, "x";q=12;w=12'
    buckets.close()


def test_entries_hold_no_place_but_that_of_their_batch(tmp_path: Path, clock: Clock) -> None:
    limit = build(per="address", burst=20, concurrent=2)
    buckets = Buckets(tmp_path, b"k" * 32, [limit.quota], 1, 0, clock, rows=8)
    limiter = Limiter([limit], buckets, clock)
    other, exchange = arrive(limiter), arrive(limiter)
    assert exchange.visit is not None

    exchange.visit.count_entries(5, None)
    with pytest.raises(TooManyRequests):
        arrive(limiter)
    leave(exchange)

    arrive(limiter)
    with pytest.raises(TooManyRequests):
        arrive(limiter)
    leave(other)
    buckets.close()


def test_a_limit_of_places_only_tells_what_is_left_of_them(tmp_path: Path, clock: Clock) -> None:
    limit = build(**{"per": "address", "requests-per-second": None, "concurrent": 3})
    buckets = Buckets(tmp_path, b"k" * 32, [limit.quota], 1, 0, clock, rows=8)
    exchange = arrive(Limiter([limit], buckets, clock))
    assert exchange.visit is not None

    exchange.visit.count_entries(5, None)
    leave(exchange)

    assert dict(exchange.headers)["RateLimit"] == '"x-concurrent";r=2'
    buckets.close()


@pytest.mark.parametrize("names", [("slow", "fast"), ("fast", "slow")])
def test_of_several_limits_that_reject_the_longest_wait_is_shown(
    tmp_path: Path, clock: Clock, names: tuple[str, str]
) -> None:
    rates = {"slow": 0.1, "fast": 1}
    limits = [
        build(**{"name": name, "per": "address", "requests-per-second": rates[name], "burst": 1})
        for name in names
    ]
    limits[1].number = 1
    buckets = Buckets(tmp_path, b"k" * 32, [one.quota for one in limits], 1, 0, clock, rows=8)
    limiter = Limiter(limits, buckets, clock)
    arrive(limiter)
    exchange = come()

    with pytest.raises(TooManyRequests) as caught:
        limiter.receive(exchange, None)
    leave(exchange)

    assert dict(caught.value.headers)["Retry-After"] == "10"
    assert dict(exchange.headers)["RateLimit"] == '"slow";r=0;t=10'
    buckets.close()


@pytest.mark.parametrize(("entries", "word"), [(10, "try again"), (11, "at most 10 entries")])
def test_a_batch_that_can_never_pass_is_told_how_large_it_may_be(
    tmp_path: Path, clock: Clock, entries: int, word: str
) -> None:
    limit = build(per="address", burst=10)
    buckets = Buckets(tmp_path, b"k" * 32, [limit.quota], 1, 0, clock, rows=8)
    limiter = Limiter([limit], buckets, clock)
    arrive(limiter)
    exchange = arrive(limiter)
    assert exchange.visit is not None

    with pytest.raises(TooManyRequests) as caught:
        exchange.visit.count_entries(entries, None)

    assert word in (caught.value.hint or "")
    buckets.close()
