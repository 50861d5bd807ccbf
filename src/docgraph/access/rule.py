"""A permission rule: who, when, under which conditions, and in which order it is looked at.

One model for rules of a file and rules of the database. `conditions.py` has the `mongo` block.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from docgraph.access.conditions import Conditions
from docgraph.access.language import Predicate
from docgraph.codec import name_id
from docgraph.codec.types import ObjectId
from docgraph.exchange import Account
from docgraph.variables import UnknownOperator

__all__ = ["AUTHENTICATED", "UNAUTHENTICATED", "Rule", "Source", "roles_of"]

UNAUTHENTICATED: Final = "$unauthenticated"  # everybody
AUTHENTICATED: Final = "$authenticated"  # every known caller
_GENERAL: Final = {AUTHENTICATED: 1, UNAUTHENTICATED: 2}


class Source(StrEnum):
    """Where a rule is written."""

    DATABASE = "database"
    FILE = "file"


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A rule, compiled; `position` is its place in the list of a file.

    `document` is what it was read from, for those who show it; `doubts` are operators in its
    filters that only the database may know.
    """

    id: Any
    source: Source
    roles: frozenset[str]
    predicate: Predicate
    priority: float | None = None
    conditions: Conditions = field(default_factory=Conditions)
    position: int = 0
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)
    doubts: tuple[UnknownOperator, ...] = ()
    label: str = field(init=False)  # said once: every request that it admits names it

    def __post_init__(self) -> None:
        name = f"permissions[{self.position}]" if self.id is None else name_id(self.id)
        object.__setattr__(self, "label", f"{name} ({self.source})")

    def __str__(self) -> str:
        return self.label

    def rank_for(self, roles: tuple[str, ...]) -> tuple[Any, ...]:
        """Decision 38: rules for held roles first, then for known callers, then for everybody.

        The highest rank is looked at first.
        """
        return (-min(map(_generality, self.roles.intersection(roles))), *self.rank)

    def shares_callers(self, other: Rule) -> bool:
        """Whether some caller finds both as rules for held roles, or both as general ones."""
        classes, others = (set(map(_generality, one.roles)) for one in (self, other))
        return not classes.isdisjoint(others)

    @property
    def is_general(self) -> bool:
        """Whether the rule is only for callers as such, whatever roles they hold."""
        return all(map(_generality, self.roles))

    @property
    def rank(self) -> tuple[Any, ...]:
        """Decision 38: the highest number first, none last; then the database before the file.

        Of those the last one is first: the highest `_id`, in a file the last of the list.
        """
        number = -math.inf if self.priority is None else self.priority
        if self.source is Source.FILE:
            return (number, 0, self.position)
        return (number, 1, *_order(self.id), self.position)


def _generality(role: str) -> int:
    return _GENERAL.get(role, 0)


def _order(id: Any) -> tuple[int, Any]:
    """Ids of one type compare as they are; the types follow each other as in the database."""
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
    """The roles that rules see; the two with a dollar exist only here."""
    if account is None:
        return (UNAUTHENTICATED,)
    return (*account.roles, AUTHENTICATED, UNAUTHENTICATED)
