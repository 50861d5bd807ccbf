"""Two versions in interleaved pairs: how many times the CPU of the other one is needed.

A pair is one round of each, right after one another, so that whatever else the machine does slows
both of them. The quotient of a pair is the CPU per request of this version divided by that of the
other; the median of the quotients is what is judged, their spread says how much it is worth.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

PAIRS = 10  # fewer are not judged
TOLERANCE = 0.03


@dataclass(frozen=True)
class Quotient:
    """The median of the quotients, and their spread: the distance between their quartiles."""

    median: float
    spread: float
    pairs: int

    @property
    def verdict(self) -> str:
        """ "Not slower" is at most 3 % more, or the spread, whichever is larger."""
        if self.pairs < PAIRS:
            return f"not judged: {self.pairs} of {PAIRS} pairs"
        is_slower = self.median > 1 + max(TOLERANCE, self.spread)
        return "slower" if is_slower else "not slower"

    def render(self) -> str:
        """Both figures."""
        return f"{self.median:.3f} ± {self.spread:.3f}"


def compare_pairs(own: Sequence[float], other: Sequence[float]) -> Quotient:
    """The quotients of figures that were measured in turns."""
    quotients = [one / two for one, two in zip(own, other, strict=True) if two]
    if not quotients:
        return Quotient(0.0, 0.0, 0)
    spread = 0.0
    if len(quotients) > 1:
        low, _, high = statistics.quantiles(quotients, n=4, method="inclusive")
        spread = high - low
    return Quotient(statistics.median(quotients), spread, len(quotients))
