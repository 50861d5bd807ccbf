"""Which requests go without a line."""

from __future__ import annotations

import pytest

from docgraph.observe.exclusion import Exclusion


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_first_request_of_each_interval_has_a_line() -> None:
    clock = Clock()
    exclusion = Exclusion(["/ping"], 60, clock)

    seen = []
    for _ in range(5):
        seen.append(exclusion.covers("/ping"))
        clock.now += 25

    assert seen == [False, True, True, False, True]


def test_without_an_interval_only_the_first_has_a_line() -> None:
    clock = Clock()
    exclusion = Exclusion(["/ping"], 0, clock)

    first = exclusion.covers("/ping")
    clock.now += 1e9

    assert not first
    assert exclusion.covers("/ping")


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("/ping", "/ping", True),
        ("/ping", "/pings", False),
        ("/health/*", "/health/db", True),
        ("/health/*", "/health", False),
        ("*/metrics", "/a/b/metrics", True),
        ("/a.c", "/abc", False),
        ("*", "/with\nbreak", True),
    ],
)
def test_a_star_stands_for_any_text(pattern: str, path: str, covered: bool) -> None:
    exclusion = Exclusion([pattern], 60, Clock())
    exclusion.covers(path)

    assert exclusion.covers(path) is covered
