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
        names = (question for question in report.questions if isinstance(question, Namespace))
        for name in islice(names, MAX_ASKED):
            wanted.setdefault(name.db, {})[name.collection] = replace(name, where="")
    answers: Answers = {}
    for db, questions in wanted.items():
        existing = await store.stats.find_existing(db, list(questions))
        present = set(questions) if existing is None else set(existing)
        answers |= {asked: None if name in present else asked for name, asked in questions.items()}
    return answers


async def _resolve(report: Report, store: Store, settings: Graphql, asked: Answers) -> Report:
    refused: list[Question] = []
    room = MAX_ASKED
    parts = [part for part in report.questions if isinstance(part, StagePart) and part.is_alone]
    if not report.errors:
        place, stages = (settings.db, settings.collection), [part.stage for part in parts]
        refused_parts = await store.trials.find_refused(stages[:MAX_ASKED], place)
        refused += [parts[number] for number in refused_parts]
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
            # Collections to come may get an index that begins with the path.
            try:
                indexes = await store.stats.indexes(question.db, question.collection)
            except DocgraphError:
                return None  # a name that cannot be is an error of its own
            is_valid = indexes is None or question.path in list_served(indexes, question.pinned)
            return None if is_valid else question
        case Ordering(db=db, collection=collection):
            sort = dict(question.sort)
            try:
                advice = await advise_index(store.stats, (db, collection), sort, question.pinned)
            except DocgraphError:
                return None  # as above
            return replace(question, advice=advice) if advice else None
        case UnknownOperator():
            place = (settings.db, settings.collection)
            is_refused = await store.trials.refuses_operator(question.name, question.kind, place)
            return question if is_refused else None
    return None
