"""Questions that a definition leaves to the database: missing collections, indexes, collisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from docgraph.exchange import DocgraphError
from docgraph.graphql.conditions import list_served
from docgraph.graphql.definition.findings import (
    IndexedFields,
    Namespace,
    Ordering,
    Question,
    Report,
)
from docgraph.graphql.sections import Graphql
from docgraph.store import Store
from docgraph.store.order import advise_index
from docgraph.variables import StagePart, UnknownOperator

_LOOK_MS = 5_000
MAX_ASKED: Final = 1_000  # questions of one definition

Answers = dict[Question, Question | None]


async def resolve_report(report: Report, store: Store, settings: Graphql) -> Report:
    """Return the report with the answers of the database."""
    return (await resolve_reports([report], store, settings))[0]


async def resolve_reports(
    reports: Sequence[Report], store: Store, settings: Graphql
) -> list[Report]:
    """Return the reports with the answers of the database.

    No answer about a collection or an index counts as valid; a trial of a stage or an operator that
    the database does not finish is an error.
    Equal questions are sent once, and at most `MAX_ASKED` questions for each report. Whether
    collections exist is one command for each database, however many definitions there are.
    """
    asked = await _find_missing(reports, store)
    return [await _resolve(report, store, settings, asked) for report in reports]


async def _find_missing(reports: Sequence[Report], store: Store) -> Answers:
    """Return the answers about collections."""
    wanted: dict[str, dict[str, Namespace]] = {}
    for report in reports:
        names = (one for one in report.questions if isinstance(one, Namespace))
        for one in islice(names, MAX_ASKED):
            wanted.setdefault(one.db, {})[one.collection] = replace(one, where="")
    answers: Answers = {}
    for db, questions in wanted.items():
        existing = await store.stats.find_existing(db, list(questions))
        present = set(questions) if existing is None else set(existing)
        answers |= {one: None if name in present else one for name, one in questions.items()}
    return answers


async def _resolve(report: Report, store: Store, settings: Graphql, asked: Answers) -> Report:
    refused: list[Question] = []
    room = MAX_ASKED
    parts = [one for one in report.questions if isinstance(one, StagePart) and one.is_alone]
    if not report.errors:
        place, stages = (settings.db, settings.collection), [one.stage for one in parts]
        found = await store.trials.find_refused(stages[:MAX_ASKED], place)
        refused += [parts[number] for number in found]
    for question in report.questions:
        if isinstance(question, StagePart):
            continue
        thing = replace(question, where="")
        if thing not in asked:
            if not room:
                continue
            room -= 1
            asked[thing] = await _check_question(thing, store, settings)
        answer = asked[thing]
        if answer is not None:
            refused.append(replace(answer, where=question.where))
    return report.resolve(refused)


async def _check_question(question: Question, store: Store, settings: Graphql) -> Question | None:
    """Return the question with the finding of the database; None if it has none."""
    match question:
        case IndexedFields():
            return None if await _is_indexed(question, store) else question
        case Ordering(db=db, collection=collection):
            return await _check_order_index(question, (db, collection), store)
        case UnknownOperator():
            place = (settings.db, settings.collection)
            is_refused = await store.trials.refuses_operator(question.name, question.kind, place)
            return question if is_refused else None
    return None


async def _is_indexed(question: IndexedFields, store: Store) -> bool:
    """Return whether an index begins with the path; collections to come may get one."""
    try:
        indexes = await store.stats.indexes(question.db, question.collection)
    except DocgraphError:
        return True  # a name that cannot be is an error of its own
    return indexes is None or question.path in list_served(indexes, question.pinned)


async def _check_order_index(
    question: Ordering, place: tuple[str, str], store: Store
) -> Question | None:
    try:
        sort = dict(question.sort)
        advice = await advise_index(store.stats, place, sort, question.pinned)
    except DocgraphError:
        return None  # a name that cannot be is an error of its own
    return replace(question, advice=advice) if advice else None
