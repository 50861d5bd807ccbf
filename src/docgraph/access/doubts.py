"""Operators in the filters of a rule that docgraph does not know: mistakes, or newer than it."""

from __future__ import annotations

from docgraph.access.rule import Rule
from docgraph.store import Store
from docgraph.variables import Flaw, UnknownOperator

__all__ = ["doubt_all", "find_refused", "wonder"]


async def find_refused(rule: Rule, store: Store, place: tuple[str, str]) -> list[Flaw]:
    """Those that the database, asked about a collection, does not know either."""
    return [
        _describe(one)
        for one in rule.doubts
        if await store.facts.refuses_operator(one.name, one.kind, place)
    ]


def doubt_all(rule: Rule) -> list[Flaw]:
    """Without a database, what is not known counts as a mistake."""
    return [_describe(one) for one in rule.doubts]


def wonder(rule: Rule) -> list[Flaw]:
    """Without a database, and where a newer one may know them: what deserves a warning."""
    return [
        Flaw(one.where, f"docgraph does not know the operator {one.name}", one.hint)
        for one in rule.doubts
    ]


def _describe(doubt: UnknownOperator) -> Flaw:
    return Flaw(doubt.where, f"is not known: MongoDB has no operator {doubt.name}", doubt.hint)
