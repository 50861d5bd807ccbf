"""`aclRulesCheck`: warn at start about rules whose order affects what callers get.

A rule for a role that the caller has precedes those for authenticated users and those for everyone
(decision 38). A filter of a general rule that is meant for all callers has to be repeated. Among
rules of equal priority the last one wins; where they differ in effect, that is often unintended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import ClassVar, Final

from docgraph.access.language.prefilter import NOWHERE
from docgraph.access.parse_rule import Flaw
from docgraph.access.rule import Rule
from docgraph.access.rulebook import RuleBook
from docgraph.config.section import PluginConfig
from docgraph.observe import emit
from docgraph.observe.events import FilterPassed, RulesTied
from docgraph.plugins.kinds import Initializer

_MAX_WARNINGS: Final = 50
_MAX_NAMED: Final = 5
_MAX_COMPARED: Final = 1000  # rules of one priority, in pairs


class RulesCheck(Initializer):
    """Checks all rules once, when they can be read."""

    name: ClassVar[str] = "aclRulesCheck"
    description: ClassVar[str] = "warns of rules whose order decides what callers get"

    def __init__(self, config: PluginConfig, acl_rules: RuleBook) -> None:
        self._book = acl_rules

    async def initialize(self) -> None:
        """Warn about each such rule."""
        rules = await self._book.find_all()
        for passed in islice(find_passed_filters(rules), _MAX_WARNINGS):
            emit(passed)
        ties = find_ties(rules, by_role=self._book.first_role_wins)
        for tie in islice(ties, _MAX_WARNINGS):
            emit(RulesTied(str(tie.rule), _name_some(tie.others)))


def find_passed_filters(rules: Iterable[Rule]) -> Iterator[FilterPassed]:
    """Yield each general rule with conditions, and the role rules that can override it."""
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
    """A rule, and the rules of equal priority that follow it and differ in effect."""

    rule: Rule
    others: Sequence[Rule]

    def describe(self) -> Flaw:
        """Return the tie as a finding about the rule."""
        names = ", ".join(_name_some(self.others))
        what = f"is that of {names}, which can match the same requests with another effect"
        return Flaw(
            "priority", what, "this rule is evaluated first; give them different priorities"
        )


def find_ties(rules: Iterable[Rule], *, by_role: bool) -> Iterator[Tie]:
    """Yield rules that overlap, have equal priority and differ in effect; the winner first.

    `by_role`: priorities are compared within a role only (`acl.first-role-wins`).
    """
    ordered = sorted(rules, key=lambda rule: rule.rank, reverse=True)
    for _, group in groupby(ordered, key=lambda rule: rule.priority):
        compared = list(islice(group, _MAX_COMPARED))
        for number, rule in enumerate(compared, 1):
            others = [one for one in compared[number:] if _is_tied(rule, one, by_role=by_role)]
            if others:
                yield Tie(rule, others)


def _is_tied(rule: Rule, other: Rule, *, by_role: bool) -> bool:
    return (
        rule.conditions.effect != other.conditions.effect
        and (bool(rule.roles & other.roles) if by_role else rule.shares_callers(other))
        and rule.predicate.reach & other.predicate.reach != NOWHERE
    )


def _name_some(rules: Sequence[Rule]) -> tuple[str, ...]:
    more = [f"and {len(rules) - _MAX_NAMED} more"] * (len(rules) > _MAX_NAMED)
    return (*map(str, rules[:_MAX_NAMED]), *more)
