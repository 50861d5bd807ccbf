"""How many examples generated tests try.

A run of the suite tries the same ones each time: whether a change passes does not depend on chance.
`make test-long` is for finding faults: it tries sixteen times as many, and others in each run.
A test says how many examples are about right for it; of these, a run of the suite takes a quarter.
"""

from __future__ import annotations

import os

__all__ = ["IS_LONG", "examples"]

IS_LONG = os.environ.get("DOCGRAPH_TEST_EXAMPLES") == "many"
_MAX_TIMES = 4
_FEWEST = 10


def examples(usual: int) -> int:
    """How many examples to try in this run where `usual` are about right."""
    if IS_LONG:
        return usual * _MAX_TIMES
    return min(usual, max(_FEWEST, usual // 4))
