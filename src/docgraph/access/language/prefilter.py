"""Prefilter for predicates: the path prefixes and methods where a predicate can be true.

It is computed once, when a rule is read, so that a request is tested only against rules that could
match (`docgraph.access.rule`). Outside its reach a predicate is false without needing any value:
conditions to the right of one that could need a value or fail do not narrow the reach.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

Segments = tuple[str, ...]

_ROOT: Final = frozenset({()})
_MAX_PREFIXES: Final = 64  # a larger number counts as every path


@dataclass(frozen=True, slots=True)
class Reach:
    """Paths that begin with one of `prefixes`, which do not overlap; methods None: any."""

    prefixes: frozenset[Segments] = _ROOT
    methods: frozenset[str] | None = None

    def __and__(self, other: Reach) -> Reach:
        inside = {one for one in self.prefixes if _begins(other.prefixes, one)}
        inside |= {one for one in other.prefixes if _begins(self.prefixes, one)}
        return reach_of(inside, _intersect(self.methods, other.methods))

    def __or__(self, other: Reach) -> Reach:
        if not self.prefixes or not other.prefixes:
            return self if self.prefixes else other
        methods = None
        if self.methods is not None and other.methods is not None:
            methods = self.methods | other.methods
        return reach_of(self.prefixes | other.prefixes, methods)


def reach_of(prefixes: Iterable[Segments], methods: frozenset[str] | None = None) -> Reach:
    """Build the reach of these path prefixes; a wider one where there are too many."""
    given = frozenset(prefixes)
    if not given or methods == frozenset():
        return NOWHERE
    if len(given) > _MAX_PREFIXES:
        return Reach(_ROOT, methods)
    outer = frozenset(one for one in given if not _begins(given, one[:-1]) or not one)
    return Reach(outer, methods)


def _begins(prefixes: frozenset[Segments], path: Segments) -> bool:
    """Return whether one of the prefixes is the path or a prefix of it."""
    return any(path[:length] in prefixes for length in range(len(path) + 1))


def _intersect(one: frozenset[str] | None, two: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or two is None:
        return two if one is None else one
    return one & two


EVERYWHERE: Final = Reach()
NOWHERE: Final = Reach(frozenset())
