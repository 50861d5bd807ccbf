"""Which tests belong to the second tier, and why.

`make test` runs the first tier: everything that can fail because of a change in `src`, within
minutes. The second tier needs seconds of real time or another program; `make test-all` and CI run
both. A single test says so by `@pytest.mark.second_tier("reason")`.
"""

from __future__ import annotations

import pytest

_BY_DIRECTORY = {
    "tests/browser": "needs a browser and minutes",
    "tests/conformance": "test suites of others, which start programs of others",
}
_BY_FIXTURE = {"replica_set": "waits for elections of three members"}


def find_reason(item: pytest.Item) -> str | None:
    """Return why a test is in the second tier; `None` for the first."""
    if mark := item.get_closest_marker("second_tier"):
        return str(mark.args[0])
    for directory, reason in _BY_DIRECTORY.items():
        if item.nodeid.startswith(f"{directory}/"):
            return reason
    fixtures = getattr(item, "fixturenames", ())
    return next((reason for name, reason in _BY_FIXTURE.items() if name in fixtures), None)
