"""The rules that could concern a request, found without trying all of them.

One index per list of rules, which lives as long as the list does. A rule stands under the
beginnings of paths that its predicate can hold below (`language/reach.py`), in a table per method;
a request looks at the few places that its own path begins with. Which rule decides does not depend
on any of this: the order stays that of the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

from docgraph.access.language.reach import Reach, Segments
from docgraph.access.rule import Rule

__all__ = ["RuleIndex"]

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER: Final = ""  # the table of all methods that are none of these

Placed = tuple[int, Rule]  # a rule and its place in the list


class RuleIndex:
    """A list of rules in the order they are looked at; `select` leaves out what cannot match."""

    __slots__ = ("_tables", "rules")

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.rules = rules
        self._tables: dict[str, _Table] = {}

    def select(self, method: str, segments: Segments) -> Sequence[Placed]:
        """The rules whose predicates could hold there, in the order of the list."""
        name = method if method in _METHODS else _OTHER
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = _Table(self.rules, name)
        return table.select(segments)


class _Table:
    """The rules of one method by the beginnings of paths that they are about."""

    __slots__ = ("_lengths", "_places")

    def __init__(self, rules: tuple[Rule, ...], method: str) -> None:
        self._places: dict[Segments, list[Placed]] = {}
        for placed in enumerate(rules):
            reach = placed[1].predicate.reach
            if _concerns(reach, method):
                for prefix in reach.prefixes:
                    self._places.setdefault(prefix, []).append(placed)
        self._lengths = sorted({len(prefix) for prefix in self._places})

    def select(self, segments: Segments) -> Sequence[Placed]:
        # No prefix of a rule begins another one of it, so that no rule is found twice.
        depth = len(segments)
        found = [
            placed
            for length in self._lengths
            if length <= depth and (placed := self._places.get(segments[:length])) is not None
        ]
        if len(found) == 1:
            return found[0]
        return sorted(chain.from_iterable(found), key=_place) if found else ()


def _concerns(reach: Reach, method: str) -> bool:
    if reach.methods is None:
        return True
    return not reach.methods <= _METHODS if method == _OTHER else method in reach.methods


def _place(placed: Placed) -> int:
    return placed[0]
