"""Suggestions for misspelled names ("did you mean"): the nearest valid name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_SHORT_LIST = 8


def find_nearest(name: str, valid: Iterable[str]) -> str | None:
    """Return the valid name most similar to `name`, ignoring case and hyphens."""
    nearest = list_nearest(name, valid, 1)
    return nearest[0] if nearest else None


def list_nearest(name: str, valid: Iterable[str], count: int) -> list[str]:
    """Return the valid names that are similar to `name`, the most similar one first."""
    by_shape: dict[str, str] = {}
    for candidate in valid:
        by_shape.setdefault(_shape(candidate), candidate)
    close = difflib.get_close_matches(_shape(name), by_shape, n=count, cutoff=0.6)
    return [by_shape[shape] for shape in close]


def suggest(name: str, valid: Iterable[str]) -> str | None:
    """Return a hint for a misspelled name: the nearest valid one, else all if they are few."""
    names = list(valid)
    if nearest := find_nearest(name, names):
        return f"did you mean '{nearest}'?"
    if names and len(names) <= _SHORT_LIST:
        return f"valid here: {', '.join(names)}"
    return None


def _shape(name: str) -> str:
    return name[:100].lower().replace("-", "").replace("_", "")
