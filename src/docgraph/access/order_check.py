"""`aclRulesCheck`: rules whose order decides what callers get are pointed out at start.

A rule for a role that the caller holds comes before those for every known caller and for everybody
(decision 38). Whoever meant a filter of a general rule to hold for all has to repeat it. Among
rules of equal priority the last one wins; where they differ in effect, that is often not meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import ClassVar, Final

from docgraph.access.language.reach import NOWHERE
from docgraph.access.reading import Flaw
from docgraph.access.rule import Rule
from docgraph.access.rulebook import RuleBook
from docgraph.config.section import PluginConfig
from docgraph.observe import emit
from docgraph.observe.events import FilterPassed, RulesTied
from docgraph.plugins.kinds import Initializer

__all__ = ["RulesCheck", "Tie", "find_passed_filters", "find_ties"]

_MOST_WARNINGS: Final = 50
_MOST_NAMED: Final = 5
_MOST_COMPARED: Final = 1000  # rules of one priority, each with each


class RulesCheck(Initializer):
    """Looks at all rules once, when they can be read."""

    name: ClassVar[str] = "aclRulesCheck"
    description: ClassVar[str] = "warns of rules whose order decides what callers get"

    def __init__(self, config: PluginConfig, acl_rules: RuleBook) -> None:
        self._book = acl_rules

    async def initialize(self) -> None:
        """Warn of each such rule."""
        rules = await self._book.find_all()
        for passed in islice(find_passed_filters(rules), _MOST_WARNINGS):
            emit(passed)
        for tie in islice(find_ties(rules), _MOST_WARNINGS):
            emit(RulesTied(str(tie.rule), _name_some(tie.others)))


def find_passed_filters(rules: Iterable[Rule]) -> Iterator[FilterPassed]:
    """Each general rule with conditions, and the rules for roles that can decide in its place."""
    known = list(rules)
    special = [rule for rule in known if not rule.is_general]
    for rule in known:
        if not rule.is_general or not rule.conditions.narrow:
            continue
        reach = rule.predicate.reach
        passing = [one for one in special if one.predicate.reach & reach != NOWHERE]
        if passing:
            yield FilterPassed(str(rule), _name_some(passing))


@dataclass(frozen=True, slots=True)
class Tie:
    """A rule, and those of the same priority that it is looked at before though they differ."""

    rule: Rule
    others: Sequence[Rule]

    def describe(self) -> Flaw:
        """The same as a finding about the rule."""
        names = ", ".join(_name_some(self.others))
        what = f"is that of {names}, which can match the same requests with another effect"
        return Flaw("priority", what, "this rule is looked at first; give them different ones")


def find_ties(rules: Iterable[Rule]) -> Iterator[Tie]:
    """Rules that overlap, have equal priority and differ in effect; the one that wins first."""
    ordered = sorted(rules, key=lambda rule: rule.rank, reverse=True)
    for _, group in groupby(ordered, key=lambda rule: rule.priority):
        compared = list(islice(group, _MOST_COMPARED))
        for number, rule in enumerate(compared, 1):
            others = [one for one in compared[number:] if _is_tied(rule, one)]
            if others:
                yield Tie(rule, others)


def _is_tied(rule: Rule, other: Rule) -> bool:
    return (
        rule.conditions.effect != other.conditions.effect
        and rule.shares_callers(other)
        and rule.predicate.reach & other.predicate.reach != NOWHERE
    )


def _name_some(rules: Sequence[Rule]) -> tuple[str, ...]:
    more = [f"and {len(rules) - _MOST_NAMED} more"] * (len(rules) > _MOST_NAMED)
    return (*map(str, rules[:_MOST_NAMED]), *more)
