"""Index of permission rules: find the rules that could match a request by path and method.

There is one index per list of rules, with the lifetime of the list. A rule is filed under the path
prefixes below which its predicate can be true (`language/prefilter.py`), in one table per method; a
request checks the few prefixes of its own path. The index does not affect which rule decides: the
order stays that of the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

from docgraph.access.language.prefilter import Reach, Segments
from docgraph.access.rule import Rule

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER: Final = ""  # the table of all other methods

Placed = tuple[int, Rule]  # a rule and its position in the list


class RuleIndex:
    """A list of rules in evaluation order; `select` omits rules that cannot match."""

    __slots__ = ("_tables", "rules")

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.rules = rules
        self._tables: dict[str, _PrefixTable] = {}

    def select(self, method: str, segments: Segments) -> Sequence[Placed]:
        """Return the rules whose predicates could be true there, in the order of the list."""
        name = method if method in _METHODS else _OTHER
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = _PrefixTable(self.rules, name)
        return table.select(segments)


class _PrefixTable:
    """The rules of one method by path prefix."""

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
        # No prefix of a rule is a prefix of another one of it, so no rule is found twice.
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
