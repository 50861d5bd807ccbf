"""A bucket never gives more than its burst and its rate allow, however requests come."""

from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from docgraph.runtime import Buckets, Quota, RateRequest

_PAUSES = st.one_of(st.just(0.0), st.floats(0, 0.01), st.floats(0, 5), st.floats(0, 10_000))
_BEGINNINGS = st.floats(0, 1e8)  # seconds since the machine was started


@settings(deadline=None, max_examples=60)
@given(
    rate=st.floats(0.001, 100_000),
    burst=st.integers(1, 40),
    begin=_BEGINNINGS,
    pauses=st.lists(_PAUSES, min_size=1, max_size=120),
)
def test_never_more_than_burst_and_rate_in_any_stretch_of_time(
    rate: float, burst: int, begin: float, pauses: list[float]
) -> None:
    now = begin
    admitted: list[float] = []
    with tempfile.TemporaryDirectory() as directory:
        quota = Quota(rate, burst, None)
        buckets = Buckets(Path(directory), b"k" * 32, [quota], 1, 0, lambda: now)
        for pause in pauses:
            now += pause
            [share] = buckets.acquire([RateRequest(0, "ada")])
            if not share.refused_by:
                admitted.append(now)
            else:
                assert 0 < share.seconds <= 1 / rate + 1e-6
        buckets.close()

    for first, since in enumerate(admitted):
        for number, until in enumerate(admitted[first:], 1):
            allowed = burst + Fraction(rate) * (Fraction(until) - Fraction(since))
            assert number <= allowed + Fraction(1, 1000)


@settings(deadline=None, max_examples=60)
@given(rate=st.floats(0.001, 100_000), burst=st.integers(1, 40), begin=_BEGINNINGS)
def test_who_waits_as_long_as_he_is_told_is_admitted(rate: float, burst: int, begin: float) -> None:
    now = begin
    with tempfile.TemporaryDirectory() as directory:
        buckets = Buckets(Path(directory), b"k" * 32, [Quota(rate, burst, None)], 1, 0, lambda: now)
        shares = [buckets.acquire([RateRequest(0, "ada")])[0] for _ in range(burst + 1)]
        assert [share.refused_by for share in shares] == [""] * burst + ["rate"]
        now += shares[-1].seconds + 1e-6
        [share] = buckets.acquire([RateRequest(0, "ada")])
        buckets.close()

    assert not share.refused_by
