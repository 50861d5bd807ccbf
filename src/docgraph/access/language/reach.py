"""Where a predicate can hold at all: beginnings of paths, and methods.

Found once, when a rule is read, so that a request is tried only against rules that could concern
it (`docgraph.access.index`). Outside its reach a predicate is false, at once, and asks nobody for
anything: what stands to the right of a word that could ask or fail does not narrow it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

__all__ = ["EVERYWHERE", "NOWHERE", "Reach", "Segments", "reach_of"]

Segments = tuple[str, ...]

_ROOT: Final = frozenset({()})
_MOST_PREFIXES: Final = 64  # more than that count as every path


@dataclass(frozen=True, slots=True)
class Reach:
    """Paths that begin with one of `prefixes`, none of which begins another; None: any method."""

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
    """The reach of these beginnings of paths; a wider one where there are too many of them."""
    given = frozenset(prefixes)
    if not given or methods == frozenset():
        return NOWHERE
    if len(given) > _MOST_PREFIXES:
        return Reach(_ROOT, methods)
    outer = frozenset(one for one in given if not _begins(given, one[:-1]) or not one)
    return Reach(outer, methods)


def _begins(prefixes: frozenset[Segments], path: Segments) -> bool:
    """Whether one of the prefixes is the path, or a beginning of it."""
    return any(path[:length] in prefixes for length in range(len(path) + 1))


def _intersect(one: frozenset[str] | None, two: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or two is None:
        return two if one is None else one
    return one & two


EVERYWHERE: Final = Reach()
NOWHERE: Final = Reach(frozenset())
