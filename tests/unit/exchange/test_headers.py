"""`Accept`: which of two formats a caller wants."""

from __future__ import annotations

import pytest

from docgraph.exchange.headers import Acceptance, find_acceptance

NOT, WANTED, ONLY = Acceptance(), Acceptance(True), Acceptance(True, True)


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        ([], NOT),
        ([""], NOT),
        (["*/*"], NOT),
        (["a/b"], ONLY),
        (["A/B;q=0.1"], ONLY),
        (["a/b;q=0"], NOT),
        (["a/b;q=wrong"], NOT),
        (["a/b;q=0.1, usual/x;q=0"], ONLY),
        (["a/b, usual/x"], WANTED),
        (["usual/x, a/b"], NOT),
        (["usual/x;q=0.9, a/b"], WANTED),
        (["a/b;q=0.9, usual/x"], NOT),
        (["usual/x;q=0.9", "a/b"], WANTED),
        (["*/*, a/b"], WANTED),
        (["a/b;q=0.9, */*"], NOT),
        (["a/b;q=0.9, application/*"], NOT),
        (["a/b, other/type"], ONLY),
        (["a/b;q=0.5, usual/x;q=0.4, */*"], WANTED),
        (["a/b;q=0.1, a/b;q=0.9, usual/x;q=0.5"], WANTED),
    ],
)
def test_acceptance(accepted: list[str], expected: Acceptance) -> None:
    assert find_acceptance(accepted, "a/b", ("usual/x", "usual/y")) == expected
