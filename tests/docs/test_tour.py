"""The tour of the README is what its commands print."""

from __future__ import annotations

import pytest
from tools.tour import README, TOUR, run_tour


@pytest.mark.second_tier("starts the demo with its own database")
def test_the_tour_is_what_its_commands_print() -> None:
    written = TOUR.search(README.read_text())

    assert written is not None
    assert written[0] == run_tour(), "run make tour"
