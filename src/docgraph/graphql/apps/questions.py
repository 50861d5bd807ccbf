"""What only the database knows about a definition: its operators, its collections (decision 7)."""

from __future__ import annotations

from docgraph.config.sections import Graphql
from docgraph.graphql.definition.findings import Namespace, Question, Report
from docgraph.store import Store

__all__ = ["settle"]


async def settle(report: Report, store: Store, settings: Graphql) -> Report:
    """The report with its questions answered; what the database does not say counts as fine."""
    refused = [one for one in report.questions if await _is_refused(one, store, settings)]
    return report.settle(refused)


async def _is_refused(question: Question, store: Store, settings: Graphql) -> bool:
    if isinstance(question, Namespace):
        return await store.facts.exists(question.db, question.collection) is False
    place = (settings.db, settings.collection)
    return await store.facts.refuses_operator(question.name, question.kind, place)
