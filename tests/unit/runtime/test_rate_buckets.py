"""Token buckets and places that all workers of an instance share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from docgraph.runtime import Buckets, Quota, RateRequest
from docgraph.runtime.rate_buckets import ROW_SLOTS
from tests.clock import Clock

ROWS = 64  # a small table is full soon
RATE = Quota(rate=2.0, burst=3, places=None)
PLACES = Quota(rate=None, burst=1, places=2)
Open = Callable[..., Buckets]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def open_buckets(tmp_path: Path, clock: Clock) -> Iterator[Open]:
    """Opens them as a worker would; all are closed in the end."""
    opened: list[Buckets] = []

    def open_one(*quotas: Quota, worker: int = 1) -> Buckets:
        opened.append(Buckets(tmp_path, b"k" * 32, quotas, 2, worker, clock, rows=ROWS))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def is_admitted(buckets: Buckets, *claims: RateRequest) -> bool:
    return not any(share.refused_by for share in buckets.acquire(claims))


ADA, BOB = RateRequest(0, "ada"), RateRequest(0, "bob")


# --- rates ----------------------------------------------------------------------------------------


def test_several_requests_are_admitted_together_or_not_at_all(
    open_buckets: Open, clock: Clock
) -> None:
    buckets = open_buckets(RATE)
    two = RateRequest(0, "ada", further=2)

    assert is_admitted(buckets, two)
    [refused] = buckets.acquire([two])
    assert (refused.refused_by, refused.seconds) == ("rate", 0.5)
    assert is_admitted(buckets, ADA)
    clock.now += 1
    assert is_admitted(buckets, two)


def test_more_than_a_whole_bucket_is_refused_always(open_buckets: Open, clock: Clock) -> None:
    """When it would be full is told: so many could be asked for then."""
    buckets = open_buckets(RATE)
    is_admitted(buckets, ADA)

    [refused] = buckets.acquire([RateRequest(0, "ada", further=4)])

    assert (refused.refused_by, refused.seconds) == ("rate", 0.5)
    clock.now += 100
    assert not is_admitted(buckets, RateRequest(0, "ada", further=4))
    assert is_admitted(buckets, RateRequest(0, "ada", further=3))


def test_further_requests_take_no_place(open_buckets: Open) -> None:
    buckets = open_buckets(Quota(rate=1.0, burst=10, places=1))

    assert is_admitted(buckets, ADA)
    assert is_admitted(buckets, RateRequest(0, "ada", further=5))
    assert not is_admitted(buckets, ADA)


def test_a_burst_is_admitted_at_once_and_no_more(open_buckets: Open) -> None:
    buckets = open_buckets(RATE)

    assert [is_admitted(buckets, ADA) for _ in range(5)] == [True, True, True, False, False]
    assert is_admitted(buckets, BOB)


def test_what_is_left_and_when_it_is_full_again_is_told(open_buckets: Open, clock: Clock) -> None:
    buckets = open_buckets(RATE)

    shares = [buckets.acquire([ADA])[0] for _ in range(4)]

    assert [share.left for share in shares] == [2, 1, 0, 0]
    assert [round(share.seconds, 6) for share in shares] == [0.5, 1.0, 1.5, 0.5]
    assert [share.refused_by for share in shares] == ["", "", "", "rate"]


def test_a_bucket_fills_with_its_rate_up_to_its_burst(open_buckets: Open, clock: Clock) -> None:
    buckets = open_buckets(RATE)
    for _ in range(3):
        buckets.acquire([ADA])

    clock.now += 0.5
    assert [is_admitted(buckets, ADA) for _ in range(2)] == [True, False]
    clock.now += 3600
    assert [is_admitted(buckets, ADA) for _ in range(4)] == [True, True, True, False]


def test_a_rate_below_one_a_second(open_buckets: Open, clock: Clock) -> None:
    buckets = open_buckets(Quota(rate=0.1, burst=1, places=None))

    assert is_admitted(buckets, ADA)
    [share] = buckets.acquire([ADA])
    assert share.seconds == pytest.approx(10)
    clock.now += 10
    assert is_admitted(buckets, ADA)


def test_a_clock_that_is_set_back_gives_nothing(open_buckets: Open, clock: Clock) -> None:
    buckets = open_buckets(RATE)
    for _ in range(2):
        buckets.acquire([ADA])

    clock.now -= 500
    assert [is_admitted(buckets, ADA) for _ in range(2)] == [True, False]
    clock.now += 0.5
    assert is_admitted(buckets, ADA)


def test_a_refused_request_is_counted_by_none_of_its_limits(open_buckets: Open) -> None:
    buckets = open_buckets(RATE, Quota(rate=0.001, burst=1, places=1))
    both = (ADA, RateRequest(1, "ada"))

    assert [is_admitted(buckets, *both) for _ in range(5)] == [True, False, False, False, False]
    assert buckets.acquire([ADA])[0].left == 1


def test_workers_share_buckets(open_buckets: Open) -> None:
    workers = [open_buckets(RATE, worker=number) for number in (1, 2)]

    assert [is_admitted(workers[number % 2], ADA) for number in range(5)].count(True) == 3


# --- places ---------------------------------------------------------------------------------------


def test_places_are_held_until_they_are_given_back(open_buckets: Open) -> None:
    first, second = (open_buckets(PLACES, worker=number) for number in (1, 2))

    held = first.acquire([ADA])

    assert [is_admitted(one, ADA) for one in (second, first, second)] == [True, False, False]
    first.give_back(held)
    assert [is_admitted(second, ADA) for _ in range(2)] == [True, False]


def test_places_that_are_left_are_told(open_buckets: Open) -> None:
    buckets = open_buckets(PLACES)

    shares = [buckets.acquire([ADA])[0] for _ in range(3)]

    assert [share.places_left for share in shares] == [1, 0, 0]
    assert [share.refused_by for share in shares] == ["", "", "concurrent"]


def test_places_of_a_worker_that_is_gone_are_free_when_somebody_needs_them(
    tmp_path: Path, open_buckets: Open
) -> None:
    """As after kill -9: its lock has ended, and nobody has given anything back."""
    living, dying = (open_buckets(PLACES, worker=number) for number in (1, 2))
    assert is_admitted(living, ADA)
    assert is_admitted(dying, ADA)
    assert not is_admitted(living, ADA)

    dying._presence.close()

    assert [is_admitted(living, ADA) for _ in range(2)] == [True, False]
    dying._presence = type(living._presence)(tmp_path, "limits", 2)  # for its end


def test_a_worker_that_comes_again_holds_nothing(tmp_path: Path, clock: Clock) -> None:
    def start(worker: int) -> Buckets:
        return Buckets(tmp_path, b"k" * 32, [PLACES, RATE], 2, worker, clock, rows=ROWS)

    other, first = start(1), start(2)
    assert is_admitted(other, ADA)
    assert is_admitted(first, ADA)
    assert is_admitted(first, RateRequest(1, "ada"))
    first._presence.close()

    again = start(2)

    assert [is_admitted(again, ADA) for _ in range(2)] == [True, False]
    assert again.acquire([RateRequest(1, "ada")])[0].left == 1  # what was spent stays spent
    first._presence = type(again._presence)(tmp_path, "limits", 9)
    for one in (first, other, again):
        one.close()


def test_the_same_worker_twice_is_a_mistake(open_buckets: Open) -> None:
    open_buckets(PLACES, worker=1)

    with pytest.raises(RuntimeError, match="worker 1 of this instance is there already"):
        open_buckets(PLACES, worker=1)


def test_a_worker_that_nobody_counts_on_is_a_mistake(open_buckets: Open) -> None:
    with pytest.raises(ValueError, match="worker 3 of 2"):
        open_buckets(PLACES, worker=3)


def test_what_is_given_back_after_the_end_is_nothing(open_buckets: Open) -> None:
    buckets = open_buckets(PLACES)
    held = buckets.acquire([ADA])

    buckets.close()

    buckets.give_back(held)


# --- bounds ---------------------------------------------------------------------------------------


def test_a_flood_of_addresses_makes_nobody_forgotten_who_has_used_up_his_share(
    open_buckets: Open,
) -> None:
    buckets = open_buckets(Quota(rate=0.01, burst=20, places=None))
    for _ in range(20):
        assert is_admitted(buckets, ADA)

    for number in range(ROWS * ROW_SLOTS):
        buckets.acquire([RateRequest(0, f"10.0.{number >> 8}.{number & 255}")])

    assert not is_admitted(buckets, ADA)


def test_a_flood_of_addresses_does_not_reach_the_users(open_buckets: Open) -> None:
    """However slowly the buckets of addresses fill: they are in another table."""
    buckets = open_buckets(RATE, Quota(rate=0.001, burst=1, places=None))
    for _ in range(3):
        buckets.acquire([ADA])

    for number in range(2 * ROWS):
        buckets.acquire([RateRequest(1, str(number))])

    assert not is_admitted(buckets, ADA)


def test_everybody_is_admitted_however_many_come(open_buckets: Open) -> None:
    buckets = open_buckets(Quota(rate=0.001, burst=1, places=None))

    assert all(
        is_admitted(buckets, RateRequest(0, str(number))) for number in range(2 * ROWS * ROW_SLOTS)
    )


def test_who_holds_a_place_is_not_forgotten(open_buckets: Open) -> None:
    buckets = open_buckets(PLACES)
    for _ in range(2):
        buckets.acquire([ADA])

    for number in range(4 * ROWS):
        buckets.give_back(buckets.acquire([RateRequest(0, str(number))]))

    assert not is_admitted(buckets, ADA)
