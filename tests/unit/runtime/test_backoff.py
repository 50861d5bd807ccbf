"""Backoff with jitter: each pause is random, below a bound that doubles up to the longest one."""

from __future__ import annotations

from itertools import islice

from docgraph.runtime.backoff import GrowingPauses

BOUNDS = (1.0, 2.0, 4.0, 8.0, *[10.0] * 20)


def test_pauses_are_random_below_a_bound_that_doubles_up_to_the_longest() -> None:
    runs = [list(islice(GrowingPauses(1.0, 10.0), len(BOUNDS))) for _ in range(200)]

    longest = [max(column) for column in zip(*runs, strict=True)]
    assert all(
        0 <= pause <= bound for run in runs for pause, bound in zip(run, BOUNDS, strict=True)
    )
    assert all(bound / 2 < pause < bound for pause, bound in zip(longest, BOUNDS, strict=True))


def test_pauses_begin_again_after_a_success_and_have_a_least_part() -> None:
    pauses = GrowingPauses(1.0, 8.0, least=1.0)

    assert list(islice(pauses, 5)) == [1, 2, 4, 8, 8]
    pauses.reset()
    assert next(pauses) == 1
    assert all(0.5 <= next(GrowingPauses(1.0, 8.0, least=0.5)) <= 1 for _ in range(200))
