"""Permission rule: roles, predicate, conditions and priority.

One model for rules of a file and of the database. `mongo_conditions.py` has the `mongo` block.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import chain
from typing import Any, Final

from docgraph.access.language import Predicate
from docgraph.access.language.prefilter import Reach, Segments
from docgraph.access.mongo_conditions import Conditions
from docgraph.codec import name_id
from docgraph.codec.bson_types import ObjectId
from docgraph.exchange import Account
from docgraph.variables import UnknownOperator

UNAUTHENTICATED: Final = "$unauthenticated"  # every caller
AUTHENTICATED: Final = "$authenticated"  # every authenticated user
_GENERAL: Final = {AUTHENTICATED: 1, UNAUTHENTICATED: 2}


class RuleOrigin(StrEnum):
    """The source of a rule."""

    DATABASE = "database"
    FILE = "file"


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A compiled rule; `position` is its position in the list of a file.

    `document` is its source text, for display; `unknown_operators` are those of its filters that
    only the database may know.
    """

    id: Any
    source: RuleOrigin
    roles: frozenset[str]
    predicate: Predicate
    priority: float | None = None
    conditions: Conditions = field(default_factory=Conditions)
    position: int = 0
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)
    unknown_operators: tuple[UnknownOperator, ...] = ()
    label: str = field(init=False)  # built once: every request that it permits names it

    def __post_init__(self) -> None:
        name = f"permissions[{self.position}]" if self.id is None else name_id(self.id)
        object.__setattr__(self, "label", f"{name} ({self.source})")

    def __str__(self) -> str:
        return self.label

    def rank_for(self, roles: tuple[str, ...]) -> tuple[Any, ...]:
        """Return the sort key of decision 38: rules for roles, for authenticated users, for all.

        The highest rank is evaluated first.
        """
        return (-min(map(_generality, self.roles.intersection(roles))), *self.rank)

    def rank_by_role(self, roles: tuple[str, ...]) -> tuple[Any, ...]:
        """Return the sort key of `acl.first-role-wins`: by the first of these roles, then by rank.

        General roles are the last ones of a caller (`roles_of`).
        """
        return (-min(map(roles.index, self.roles.intersection(roles))), *self.rank)

    def shares_callers(self, other: Rule) -> bool:
        """Return whether some caller has both as rules for roles, or both as general ones."""
        classes, others = (set(map(_generality, one.roles)) for one in (self, other))
        return not classes.isdisjoint(others)

    @property
    def is_general(self) -> bool:
        """Whether the rule applies to callers regardless of their roles."""
        return all(map(_generality, self.roles))

    @property
    def rank(self) -> tuple[Any, ...]:
        """Decision 38: the highest priority first, none last; then the database before the file.

        Of equal rules the last one is first: the highest `_id`, or in a file the last of the list.
        """
        number = -math.inf if self.priority is None else self.priority
        if self.source is RuleOrigin.FILE:
            return (number, 0, self.position)
        return (number, 1, *_order(self.id), self.position)


def _generality(role: str) -> int:
    return _GENERAL.get(role, 0)


def _order(id: Any) -> tuple[int, Any]:
    """Return a sort key: ids of one type compare directly, types in the order of the database."""
    match id:
        case None:
            return (0, "")
        case bool():
            return (5, id)
        case int() | float():
            return (1, id)
        case str():
            return (2, id)
        case ObjectId():
            return (4, str(id))
        case datetime():
            return (6, id.timestamp())
    return (3, str(id))  # objects and bytes


def roles_of(account: Account | None) -> tuple[str, ...]:
    """Return the roles that rules see; the two with a dollar exist only here."""
    if account is None:
        return (UNAUTHENTICATED,)
    return (*account.roles, AUTHENTICATED, UNAUTHENTICATED)


# Index of permission rules: find the rules that could match a request by path and method.
#
# There is one index per list of rules, with the lifetime of the list. A rule is filed under the
# path prefixes below which its predicate can be true (`language/prefilter.py`), in one table per
# method; a request checks the few prefixes of its own path. The index does not affect which rule
# decides: the order stays that of the list.

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
