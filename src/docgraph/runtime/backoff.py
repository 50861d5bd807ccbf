"""Backoff with jitter: growing random pauses between retries after a conflict."""

from __future__ import annotations

import random
from collections.abc import Iterator


def growing_pauses(first: float, longest: float) -> Iterator[float]:
    """Yield the pauses between retries: exponential backoff with full jitter, without end."""
    pause = first
    while True:
        yield random.uniform(0, pause)  # noqa: S311 - to get out of step, guards nothing
        pause = min(2 * pause, longest)
