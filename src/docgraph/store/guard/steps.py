"""Dot notation: keys of documents as steps.

A step of digits is a name in an object and a position in an array; the key does not say which. So
keys are compared twice: with all steps, which is certain, and without positions, which is possible.
`$` and `$[…]` are always positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Steps = tuple[str, ...]


def split_key(key: str) -> Steps:
    """Return the steps of a key, without those that can only be positions."""
    first, *rest = key.split(".")
    return (first, *(step for step in rest if step[:1] != "$"))


def is_number(step: str) -> bool:
    """Check if the step can be a position."""
    return step.isascii() and step.isdigit()


def may_overlap(left: Steps, right: Steps) -> bool:
    """Check if one could be at or below the other."""
    left, right = _without_positions(left), _without_positions(right)
    length = min(len(left), len(right))
    return left[:length] == right[:length]


def _may_be_within(path: Steps, key: Steps) -> bool:
    key = _without_positions(key)
    return _without_positions(path)[: len(key)] == key


def _without_positions(steps: Steps) -> Steps:
    return (*steps[:1], *(step for step in steps[1:] if not is_number(step)))


class Written(NamedTuple):
    """A written path; not `is_exact`: the written parts below or around it are not known."""

    path: Steps
    is_exact: bool = True

    def may_touch(self, key: Steps) -> bool:
        """Check if something at or below the key is written, or could be."""
        if self.is_exact:
            return _may_be_within(self.path, key)
        return may_overlap(self.path, key)

    def is_within(self, key: Steps) -> bool:
        """Check if everything written is certainly at or below the key."""
        return self.path[: len(key)] == key

    def is_outside(self, key: Steps) -> bool:
        """Check if something is certainly written that is not at or below the key."""
        return self.is_exact and not _may_be_within(self.path, key)


EVERYTHING = Written((), is_exact=False)


def walk(value: Any, *, keys: bool = False) -> Iterator[Any]:
    """Return the value and everything inside it, with the keys of objects on request."""
    pending = [value]
    while pending:
        one = pending.pop()
        yield one
        if isinstance(one, Mapping):
            pending += one if keys else ()
            pending += one.values()
        elif isinstance(one, list | tuple):
            pending += one
