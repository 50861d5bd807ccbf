"""Warnings about the order of permission rules, which decides what callers get.

A rule for a role that the caller has precedes those for authenticated users and those for everyone
(decision 38). A filter of a general rule that is meant for all callers has to be repeated. Among
rules of equal priority the last one wins; where they differ in effect, that is often unintended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import ClassVar, Final

from docgraph.access.language.function import NOWHERE
from docgraph.access.rule import Rule
from docgraph.access.rulebook import RuleBook
from docgraph.access.sections import Acl
from docgraph.access.service_comparison import Comparison, ServedApps
from docgraph.config.section import PluginConfig
from docgraph.graphql.sections import Graphql
from docgraph.observe import emit
from docgraph.observe.events import FilterPassed, RulesTied, ViewRefusedByRule
from docgraph.plugins.kinds import Initializer
from docgraph.plugins.registry import PluginRegistry
from docgraph.rest.sections import Mongo
from docgraph.store import Store
from docgraph.variables import Flaw

_MAX_WARNINGS: Final = 50
_MAX_NAMED: Final = 5
_MAX_COMPARED: Final = 1000  # rules of one priority, in pairs


class RulesCheck(Initializer):
    """Warns at start about rules whose order affects what callers get."""

    name: ClassVar[str] = "aclRulesCheck"
    description: ClassVar[str] = "warns of rules whose order decides what callers get"

    def __init__(  # noqa: PLR0913 - the providers and sections
        self,
        config: PluginConfig,
        *,
        acl_rules: RuleBook,
        registry: PluginRegistry,
        graphql: Graphql,
        mongo: Mongo,
        store: Store,
        gql_app_definition_cache: ServedApps | None = None,
    ) -> None:
        self._book = acl_rules
        apps = gql_app_definition_cache
        self._comparison = Comparison(graphql, mongo, store, acl_rules, registry, apps)

    async def initialize(self) -> None:
        rules = await self._book.find_all()
        for passed in islice(find_passed_filters(rules), _MAX_WARNINGS):
            emit(passed)
        ties = find_ties(rules, self._book.acl)
        for tie in islice(ties, _MAX_WARNINGS):
            emit(RulesTied(str(tie.rule), _name_some(tie.others)))
        warnings = await self._comparison.find_view_warnings(rules)
        for warning in islice(
            (warning for warning in warnings if warning.other is None), _MAX_WARNINGS
        ):
            emit(ViewRefusedByRule(str(warning.rule), warning.view, warning.source))


def find_passed_filters(rules: Iterable[Rule]) -> Iterator[FilterPassed]:
    """Yield each general rule with conditions, and the role rules that can override it."""
    ordered = list(rules)
    special = [rule for rule in ordered if not rule.is_general]
    for rule in ordered:
        if not rule.is_general or not rule.conditions.narrow:
            continue
        reach = rule.predicate.reach
        passing = [other for other in special if other.predicate.reach & reach != NOWHERE]
        if passing:
            yield FilterPassed(str(rule), _name_some(passing))


@dataclass(frozen=True, slots=True)
class Tie:
    """A rule, and the rules of equal priority that follow it and differ in effect."""

    rule: Rule
    others: Sequence[Rule]

    def describe(self) -> Flaw:
        names = ", ".join(_name_some(self.others))
        what = f"is that of {names}, which can match the same requests with another effect"
        return Flaw(
            "priority", what, "this rule is evaluated first; give them different priorities"
        )


def find_ties(rules: Iterable[Rule], acl: Acl) -> Iterator[Tie]:
    """Yield rules that overlap, have equal priority and differ in effect; the winner first.

    Priorities are compared within a role only with `acl.first-role-wins`, and within a source only
    with `acl.order: file-first`.
    """
    ordered = sorted(rules, key=lambda rule: rule.rank, reverse=True)
    for _, group in groupby(ordered, key=lambda rule: rule.priority):
        compared = list(islice(group, _MAX_COMPARED))
        for number, rule in enumerate(compared, 1):
            others = [other for other in compared[number:] if _is_tied(rule, other, acl)]
            if others:
                yield Tie(rule, others)


def _is_tied(rule: Rule, other: Rule, acl: Acl) -> bool:
    by_role = acl.first_role_wins
    if acl.order == "file-first" and rule.source is not other.source:
        return False
    return (
        rule.conditions.effect != other.conditions.effect
        and (bool(rule.roles & other.roles) if by_role else rule.shares_callers(other))
        and rule.predicate.reach & other.predicate.reach != NOWHERE
    )


def _name_some(rules: Sequence[Rule]) -> tuple[str, ...]:
    more = [f"and {len(rules) - _MAX_NAMED} more"] * (len(rules) > _MAX_NAMED)
    return (*map(str, rules[:_MAX_NAMED]), *more)
