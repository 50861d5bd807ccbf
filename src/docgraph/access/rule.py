"""Permission rule: roles, predicate, conditions and priority.

One model for rules of a file and of the database. `mongo_conditions.py` has the `mongo` block.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from docgraph.access.language import Predicate
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
