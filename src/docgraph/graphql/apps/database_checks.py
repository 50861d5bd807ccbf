"""Checks of a definition by the database: operators, collections, indexes (decision 7)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.definition.findings import (
    IndexedFields,
    Namespace,
    Ordering,
    Question,
    Report,
)
from docgraph.graphql.lists.conditions import list_served
from docgraph.graphql.sections import Graphql
from docgraph.store import Store
from docgraph.store.order import advise_index
from docgraph.variables import StagePart, UnknownOperator

MAX_ASKED: Final = 1_000


async def resolve_report(report: Report, store: Store, settings: Graphql) -> Report:
    """Return the report with the answers of the database; no answer counts as valid.

    Equal questions are sent once, and at most `MAX_ASKED` questions in all.
    """
    refused: list[Question] = []
    asked: dict[Question, Question | None] = {}
    parts = [one for one in report.questions if isinstance(one, StagePart) and one.is_alone]
    if not report.errors:
        place, stages = (settings.db, settings.collection), [one.stage for one in parts]
        found = await store.facts.find_refused(stages[:MAX_ASKED], place)
        refused += [parts[number] for number in found]
    for question in report.questions:
        if isinstance(question, StagePart):
            continue
        thing = replace(question, where="")
        if thing not in asked:
            if len(asked) == MAX_ASKED:
                continue
            asked[thing] = await _check_question(thing, store, settings)
        answer = asked[thing]
        if answer is not None:
            refused.append(replace(answer, where=question.where))
    return report.resolve(refused)


async def _check_question(question: Question, store: Store, settings: Graphql) -> Question | None:
    """Return the question with the finding of the database; None if it has none."""
    match question:
        case Namespace(db=db, collection=collection):
            return question if await store.facts.exists(db, collection) is False else None
        case IndexedFields():
            return None if await _is_indexed(question, store) else question
        case Ordering(db=db, collection=collection):
            return await _check_order_index(question, (db, collection), store)
        case UnknownOperator():
            place = (settings.db, settings.collection)
            is_refused = await store.facts.refuses_operator(question.name, question.kind, place)
            return question if is_refused else None
    return None


async def _is_indexed(question: IndexedFields, store: Store) -> bool:
    """Return whether an index begins with the path; collections to come may get one."""
    try:
        indexes = await store.facts.indexes(question.db, question.collection)
    except DocgraphError:
        return True  # a name that cannot be is an error of its own
    return indexes is None or question.path in list_served(indexes, question.pinned)


async def _check_order_index(
    question: Ordering, place: tuple[str, str], store: Store
) -> Question | None:
    try:
        sort = dict(question.sort)
        advice = await advise_index(store.facts, place, sort, question.pinned)
    except DocgraphError:
        return None  # a name that cannot be is an error of its own
    return replace(question, advice=advice) if advice else None
