"""What the names of variables say."""

from __future__ import annotations

import pytest

from docgraph.variables.paths import is_momentary


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("@now", True),
        ("@rnd(32)", True),
        ("@request", True),
        ("@request.epochTimeStamp", True),
        ("@request.dateTime", True),
        ("@request['dateTime']", True),
        ("@request.userName", False),
        ("@user.now", False),
        ("@nowhere", False),
        ("now", False),
        ("@", False),
    ],
)
def test_variables_of_the_moment_are_told_apart(name: str, expected: bool) -> None:
    assert is_momentary(name) is expected
