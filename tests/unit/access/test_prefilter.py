"""Where a predicate can be true: unions and intersections of path prefixes and methods."""

from __future__ import annotations

import pytest

from docgraph.access.language.function import NOWHERE, Reach, reach_of

A, B, BELOW_A = ("a",), ("b",), ("a", "x")
GET, POST = frozenset({"GET"}), frozenset({"POST"})


@pytest.mark.parametrize(
    ("left", "right", "either", "both"),
    [
        (reach_of([A]), reach_of([B]), reach_of([A, B]), NOWHERE),
        (reach_of([A]), reach_of([BELOW_A]), reach_of([A]), reach_of([BELOW_A])),
        (reach_of([A], GET), reach_of([A], POST), reach_of([A], GET | POST), NOWHERE),
        (reach_of([A], GET), reach_of([A]), reach_of([A]), reach_of([A], GET)),
        (reach_of([A]), reach_of([A], GET), reach_of([A]), reach_of([A], GET)),
        (reach_of([A]), NOWHERE, reach_of([A]), NOWHERE),
        (reach_of([A], GET), Reach(), Reach(), reach_of([A], GET)),
    ],
)
def test_a_rule_is_tried_wherever_one_of_its_conditions_can_hold(
    left: Reach, right: Reach, either: Reach, both: Reach
) -> None:
    assert (left | right, right | left) == (either, either)
    assert (left & right, right & left) == (both, both)


def test_prefixes_within_others_are_left_out_and_too_many_are_every_path() -> None:
    assert reach_of([A, BELOW_A]).prefixes == {A}
    assert reach_of([(str(number),) for number in range(64)], GET).prefixes != Reach().prefixes
    assert reach_of([(str(number),) for number in range(65)], GET) == Reach(methods=GET)
