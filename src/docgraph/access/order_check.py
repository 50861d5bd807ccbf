"""`aclRulesCheck`: general rules whose filters rules for roles pass are pointed out at start.

A rule for a role that the caller holds comes before those for every known caller and for everybody
(decision 38). Whoever meant a filter of a general rule to hold for all has to repeat it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from docgraph.access.language.reach import NOWHERE
from docgraph.access.rule import Rule
from docgraph.access.rulebook import RuleBook
from docgraph.config.section import PluginConfig
from docgraph.observe import emit
from docgraph.observe.events import FilterPassed
from docgraph.plugins.kinds import Initializer

__all__ = ["RulesCheck", "find_passed_filters"]

_MOST_WARNINGS: Final = 50
_MOST_NAMED: Final = 5


class RulesCheck(Initializer):
    """Looks at all rules once, when they can be read."""

    name: ClassVar[str] = "aclRulesCheck"
    description: ClassVar[str] = "warns of rules whose filters rules for roles pass"

    def __init__(self, config: PluginConfig, acl_rules: RuleBook) -> None:
        self._book = acl_rules

    async def initialize(self) -> None:
        """Warn of each such rule."""
        for number, passed in enumerate(find_passed_filters(await self._book.find_all())):
            if number < _MOST_WARNINGS:
                emit(passed)


def find_passed_filters(rules: Iterable[Rule]) -> Iterator[FilterPassed]:
    """Each general rule with conditions, and the rules for roles that can decide in its place."""
    known = list(rules)
    special = [rule for rule in known if not rule.is_general]
    for rule in known:
        if not rule.is_general or not rule.conditions.narrow:
            continue
        reach = rule.predicate.reach
        passing = [str(one) for one in special if one.predicate.reach & reach != NOWHERE]
        if passing:
            more = [f"and {len(passing) - _MOST_NAMED} more"] * (len(passing) > _MOST_NAMED)
            yield FilterPassed(str(rule), (*passing[:_MOST_NAMED], *more))
