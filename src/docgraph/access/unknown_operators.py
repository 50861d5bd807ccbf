"""Unknown operators in the filters of a rule: mistakes, or newer than docgraph."""

from __future__ import annotations

from docgraph.access.rule import Rule
from docgraph.store import Store
from docgraph.variables import Flaw, UnknownOperator


async def find_refused(rule: Rule, store: Store, place: tuple[str, str]) -> list[Flaw]:
    """Return the operators that the database rejects, too, when tried on a collection."""
    return [
        _describe(one)
        for one in rule.unknown_operators
        if await store.facts.refuses_operator(one.name, one.kind, place)
    ]


def find_unknown(rule: Rule) -> list[Flaw]:
    """Return unknown operators as mistakes, for use without a database."""
    return [_describe(one) for one in rule.unknown_operators]


def warn_of_unknown(rule: Rule) -> list[Flaw]:
    """Return unknown operators as warnings: a newer database may support them."""
    return [
        Flaw(one.where, f"docgraph does not know the operator {one.name}", one.hint)
        for one in rule.unknown_operators
    ]


def _describe(operator: UnknownOperator) -> Flaw:
    return Flaw(
        operator.where, f"is not known: MongoDB has no operator {operator.name}", operator.hint
    )
