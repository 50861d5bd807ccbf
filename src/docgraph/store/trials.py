"""Trials: ask the database whether it accepts stages and operators, without stored documents.

Stages are parsed, or run over synthetic documents (`driver/stage_trials.py`). A trial that the
database does not finish raises an error: it decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from pymongo.errors import OperationFailure

from docgraph.exchange.data import CollectionName, Document, Stages
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import (
    TEMPORARY_FAILURES,
    DocgraphError,
    ExpressionTooLarge,
    Overloaded,
    QueryError,
    SecurityViolation,
    TimeLimitExceeded,
)
from docgraph.runtime.cache import LoadingCache
from docgraph.store.driver.command import Commands
from docgraph.store.driver.stage_trials import (
    build_documents,
    build_run,
    build_run_over,
    can_be_run,
)
from docgraph.store.guard.expression_checks import check_pipeline_cost
from docgraph.store.guard.stage_checks import Policy, check_pipeline, has_key

CANNOT_RUN: Final = "MongoDB cannot run this"
CHECK_ARGUMENTS: Final = "compare its arguments with the reference of MongoDB"

T = TypeVar("T")

_KEPT: Final = 1_000  # operators
_PATIENCE_MS: Final = 2_000
_TRIAL_MS: Final = (_PATIENCE_MS, 8_000)  # a trial that is not finished is repeated with more time
_TRIED_TOGETHER: Final = 500  # stages; MongoDB takes no pipeline of more than 1 000
_RUN_TOGETHER: Final = 50  # stages of one $facet
_NOT_FINISHED: Final = "not finished"
# BadValue, FailedToParse, TypeMismatch, InvalidOptions, InvalidPipelineOperator, ConversionFailure;
# what else is wrong with a stage has a number without a name.
_PARSING: Final = frozenset({2, 9, 14, 72, 168, 241})
# These need a stage before them, another kind of command, or another product.
_NOT_TRIED: Final = frozenset({"$documents", "$meta", "$searchmeta", "$vectorsearch"})
# These have to come first; the database reports an error in them before a missing index.
_FIRST: Final = frozenset({"$geonear", "$near", "$nearsphere", "$text"})
_SEARCH: Final = frozenset({"$search"})
_TEXT: Final = frozenset({"$text"})
# An operand that is wrong has other words.
_UNKNOWN: Final = re.compile("unknown|unrecognized", re.IGNORECASE)
_PROBES: Final[Mapping[str, tuple[Callable[[str], Document], ...]]] = {
    "filter": (lambda name: {"$match": {name: 1}},),
    "condition": (lambda name: {"$match": {"x": {name: 1}}},),
    "expression": (
        lambda name: {"$match": {"$expr": {name: 1}}},
        lambda name: {"$group": {"_id": None, "x": {name: 1}}},
        lambda name: {"$setWindowFields": {"output": {"x": {name: 1}}}},
    ),
}


class Trials:
    """Trials of one client; what is known of an operator is cached."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self._operators = LoadingCache[tuple[str, str], bool](_KEPT)

    async def refuses_operator(self, name: str, kind: str, place: CollectionName) -> bool:
        """Return whether the database has no such operator; checked once for each."""

        async def try_probes(_: tuple[str, str]) -> bool:
            for probe in _PROBES[kind]:
                if not await self._is_unknown(probe(name), place):
                    return False
            return True

        return await self._operators.get((kind, name), try_probes)

    async def _is_unknown(self, stage: Document, place: CollectionName) -> bool:
        pipeline: list[Document] = [{"$match": {"_id": {"$in": []}}}, stage]
        command: Document = {"aggregate": place[1], "pipeline": pipeline, "cursor": {}}
        error = await _find_error(lambda until: self._commands.fetch(place[0], {**command}, until))
        cause = None if error is None else error.__cause__
        return isinstance(cause, OperationFailure) and bool(_UNKNOWN.search(str(cause)))

    async def find_refused(self, stages: Stages, place: CollectionName) -> list[int]:
        """Return the positions of the stages that the database rejects for every document.

        No stored document is read: stages are parsed, or run over synthetic documents. A trial that
        the database does not finish raises an error: it decides nothing.
        """
        tried = [number for number, stage in enumerate(stages) if _can_be_tried(stage, place[0])]
        suspected = {number for number in tried if has_key(stages[number], _FIRST)}
        usual = [number for number in tried if number not in suspected]
        for start in range(0, len(usual), _TRIED_TOGETHER):
            group = usual[start : start + _TRIED_TOGETHER]
            if await self._refuses([stages[number] for number in group], place):
                suspected.update(group)
        refused = {
            number for number in sorted(suspected) if await self._refuses([stages[number]], place)
        }
        parsed = [number for number in tried if number not in refused]
        return sorted(refused | await self._find_failing(stages, parsed, place))

    async def _refuses(self, stages: list[Mapping[str, Any]], place: CollectionName) -> bool:
        command = _build_trial(stages, place[1])
        return bool(
            await _find_fault(
                stages, lambda until: self._commands.explain(place[0], command, until)
            )
        )

    async def _find_failing(
        self, stages: Stages, numbers: Sequence[int], place: CollectionName
    ) -> set[int]:
        """Return the stages that fail with the same error for all synthetic documents."""
        run = [number for number in numbers if can_be_run(stages[number])]
        failing: set[int] = set()
        for start in range(0, len(run), _RUN_TOGETHER):
            group = run[start : start + _RUN_TOGETHER]
            if not await self._run_stages([stages[number] for number in group], {}, place):
                continue  # all of them work, as nearly always
            if await self._run_stages([], {}, place):
                break  # MongoDB before 6.0 cannot run it
            failing |= {number for number in group if await self._fails(stages[number], place)}
        return failing

    async def _fails(self, stage: Mapping[str, Any], place: CollectionName) -> bool:
        faults: set[str] = set()
        for document in build_documents(stage):
            faults.add(await self._run_stages([stage], document, place))
            if faults == {""} or len(faults) > 1:
                return False
        return True

    async def _run_stages(
        self, stages: list[Mapping[str, Any]], document: Document, place: CollectionName
    ) -> str:
        command = build_run(stages, document, place[1])
        return await _find_fault(
            stages, lambda until: self._commands.fetch(place[0], {**command}, until)
        )

    async def check_stream(self, place: CollectionName) -> None:
        """Raise the reason why the collection has no change stream; none is opened."""
        stages: list[Document] = [{"$changeStream": {}}]
        command: Document = {"aggregate": place[1], "pipeline": stages, "cursor": {}}
        await self._commands.explain(place[0], command, Deadline.after_ms(_PATIENCE_MS))

    async def can_run(self, place: CollectionName) -> bool:
        """Return whether the database can run stages over synthetic documents (MongoDB 6.0)."""
        return not await self._run_stages([], {}, place)

    async def run_over(
        self, stage: Mapping[str, Any], documents: Sequence[Document], place: CollectionName
    ) -> list[Document] | None:
        """Return the results of a stage for synthetic documents; None where it fails.

        A stage that is not safe to try returns the documents as they are.
        """
        if not _can_be_tried(stage, place[0]):
            return [*documents]
        command = build_run_over(stage, documents, place[1])
        try:
            return await _try(lambda until: self._commands.fetch(place[0], {**command}, until))
        except TEMPORARY_FAILURES:
            raise
        except DocgraphError as error:
            return None if _read_fault(error) else [*documents]

    async def close(self) -> None:
        """Cancel the commands in progress."""
        await self._operators.close()


def _can_be_tried(stage: Mapping[str, Any], db: str) -> bool:
    """Return whether a stage is safe to try: parsing evaluates its constants, at any cost."""
    try:
        check_pipeline([stage], db=db, policy=Policy(allow_cross_database=True))
    except (SecurityViolation, QueryError):
        return False
    if _is_too_large(stage):
        return False
    is_search = has_key(stage, _SEARCH) and not has_key(stage, _TEXT)  # which has a $search, too
    return not is_search and not has_key(stage, _NOT_TRIED)


def _is_too_large(stage: Mapping[str, Any]) -> bool:
    """Return whether its constants alone could exhaust the database, in any author's stage."""
    try:
        check_pipeline_cost([stage], "stages")
    except ExpressionTooLarge:
        return True
    except QueryError:
        return False  # an unknown operator or a wrong argument: the database rejects it unevaluated
    return False


def _build_trial(stages: list[Mapping[str, Any]], collection: str) -> Document:
    """Build a command with these stages; a `$match` that must be first is tried alone."""
    pipeline: list[Mapping[str, Any]] = [{"$match": {"_id": {"$in": []}}}, *stages]
    if has_key(stages, _FIRST):
        if "$match" in stages[0]:
            return {"find": collection, "filter": stages[0]["$match"]}  # which can have $near
        pipeline = stages
    return {"aggregate": collection, "pipeline": pipeline, "cursor": {}}


async def _try(run: Callable[[Deadline], Awaitable[T]]) -> T:
    """Return the result of a trial; one that is not finished is repeated with more time."""
    for limit in _TRIAL_MS:
        with suppress(TimeLimitExceeded):
            return await run(Deadline.after_ms(limit))
    raise Overloaded("the database did not check the definition in time")


async def _find_error(run: Callable[[Deadline], Awaitable[object]]) -> DocgraphError | None:
    """Return the error of the database in a trial; raise one that is not about its content."""
    try:
        await _try(run)
    except TEMPORARY_FAILURES:
        raise
    except DocgraphError as error:
        return error
    return None


async def _find_fault(
    stages: Sequence[object], run: Callable[[Deadline], Awaitable[object]]
) -> str:
    """Return the error of the database about stages; empty if there is none.

    Several stages that it does not finish together may have one: each of them is tried alone then.
    """
    try:
        error = await _find_error(run)
    except Overloaded:
        if len(stages) > 1:
            return _NOT_FINISHED
        raise
    return "" if error is None else _read_fault(error)


def _read_fault(error: DocgraphError) -> str:
    cause = error.__cause__
    if not isinstance(cause, OperationFailure):
        return ""
    details = cause.details or {}
    is_known = cause.code in _PARSING or str(details.get("codeName", "")).startswith("Location")
    # not `str(cause)`: that has the time of the cluster, too, so two equal errors differ
    return f"{cause.code} {details.get('errmsg')}" if is_known else ""
