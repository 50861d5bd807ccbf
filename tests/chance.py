"""How many examples generated tests try.

Each run of the suite tries others, so that many runs try much; `make test-long` tries much in one.
A test says how many examples are about right for it; of these, a run of the suite takes a quarter.
"""

from __future__ import annotations

import os

__all__ = ["examples"]

_VARIABLE = "DOCGRAPH_TEST_EXAMPLES"
_MAX_TIMES = 4
_FEWEST = 10


def examples(usual: int) -> int:
    """How many examples to try in this run where `usual` are about right."""
    if os.environ.get(_VARIABLE) == "many":
        return usual * _MAX_TIMES
    return min(usual, max(_FEWEST, usual // 4))
