"""What only the database knows of a definition: operators, collections, indexes (decision 7)."""

from __future__ import annotations

from dataclasses import replace

from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.definition.findings import Namespace, Ordering, Question, Report
from docgraph.graphql.sections import Graphql
from docgraph.store import Store
from docgraph.store.order import advise_index

__all__ = ["settle"]


async def settle(report: Report, store: Store, settings: Graphql) -> Report:
    """The report with its questions answered; what the database does not say counts as fine."""
    answers = [await _ask(question, store, settings) for question in report.questions]
    return report.settle([answer for answer in answers if answer is not None])


async def _ask(question: Question, store: Store, settings: Graphql) -> Question | None:
    """The question, with what there is to say, when the database does not agree."""
    match question:
        case Namespace(db=db, collection=collection):
            return question if await store.facts.exists(db, collection) is False else None
        case Ordering(db=db, collection=collection):
            return await _ask_order(question, (db, collection), store)
        case _:
            place = (settings.db, settings.collection)
            is_refused = await store.facts.refuses_operator(question.name, question.kind, place)
            return question if is_refused else None


async def _ask_order(question: Ordering, place: tuple[str, str], store: Store) -> Question | None:
    try:
        sort = dict(question.sort)
        advice = await advise_index(store.facts, place, sort, question.pinned)
    except DocgraphError:
        return None  # a name that cannot be is an error of its own
    return replace(question, advice=advice) if advice else None
