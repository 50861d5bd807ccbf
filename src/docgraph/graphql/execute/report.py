"""Slow query log of an execution, and the hidden causes of its errors.

The cause of a failure is logged under an id that the caller gets: texts of the database name hosts,
indexes and data of others (decision 22). Only errors in the response are logged, so a query that
fails for a thousand parents does not flood the log.
"""

from __future__ import annotations

import time
from asyncio import CancelledError
from collections.abc import Iterator, Sequence
from dataclasses import replace
from uuid import uuid4

from docgraph.exchange import DocgraphError, Exchange
from docgraph.exchange.errors import Overloaded, StoreError
from docgraph.graphql.errors import Errors, FieldFault
from docgraph.graphql.execute.execution import Run
from docgraph.graphql.execute.result import CommandRecord
from docgraph.observe import emit
from docgraph.observe.engine_events import QueryFailed, SlowOperation
from docgraph.observe.text import render_cause
from docgraph.store import Store

_SERVER_ERROR = 500


def report_causes(errors: Errors, exchange: Exchange, store: Store) -> None:
    """Assign ids to field errors with a hidden cause; those with the same cause share one.

    A caller with the root role sees why the definition of a field is invalid.
    """
    ids: dict[int, str] = {}
    for number, error in enumerate(errors.first):
        if error.cause is None:
            continue
        if isinstance(error.cause, FieldFault):
            is_trusted = store.guard.is_trusted(exchange.account)
            text = f"{error.message}: {error.cause}" if is_trusted else error.message
            errors.first[number] = replace(error, message=text, cause=None)
            continue
        error_id = ids.get(id(error.cause))
        if error_id is None:
            error_id = ids[id(error.cause)] = _make_id()
            field, reason = "/".join(map(str, error.path or ())), render_cause(error.cause)
            emit(QueryFailed(error_id, exchange.id, error.code, reason, exchange.app, field))
        errors.first[number] = replace(error, id=error_id, cause=None)


def report_failure(error: StoreError, exchange: Exchange) -> None:
    """Assign an id to a database error that ends the request."""
    is_fault = error.status >= _SERVER_ERROR and not isinstance(error, Overloaded)
    if not is_fault or error.details is not None:
        return
    id, reason = _make_id(), render_cause(error.__cause__ or error)
    emit(QueryFailed(id, exchange.id, error.code, reason, exchange.app))
    error.details = {"id": id}


def _make_id() -> str:
    return uuid4().hex[:12]


def report_if_slow(run: Run, error: BaseException | None = None) -> None:
    """Log the commands of a slow execution, never a value."""
    duration = time.perf_counter() - run.started
    if duration < run.slow_after:
        return
    account = run.exchange.account
    emit(
        SlowOperation(
            request_id=run.exchange.id,
            app=run.plan.comment["app"],
            operation=run.plan.name,
            duration=duration,
            commands=len(run.commands),
            documents=run.documents,
            plan=tuple(_summarize(run.commands)),
            account=account.name if account else "",
            error=_find_code(run, error),
        )
    )


def _summarize(commands: Sequence[CommandRecord]) -> Iterator[str]:
    """Yield one line for each fetched field, the slowest first."""
    by_field: dict[tuple[str, str, str], list[CommandRecord]] = {}
    for command in commands:
        by_field.setdefault((command.field, command.kind, command.collection), []).append(command)
    times = {
        key: sum(command.milliseconds for command in commands_of_field)
        for key, commands_of_field in by_field.items()
    }
    for key in sorted(times, key=lambda key: -times[key]):
        commands_of_field = by_field[key]
        field, kind, collection = key
        documents = sum(command.documents for command in commands_of_field)
        yield (
            f"{field}: {kind} {collection}, {_count(len(commands_of_field), 'command')} for "
            f"{_count(commands_of_field[0].parents, 'parent')}, {_count(documents, 'document')}, "
            f"{times[key]:.1f} ms"
        )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _find_code(run: Run, error: BaseException | None) -> str:
    if isinstance(error, DocgraphError):
        return error.code
    if isinstance(error, CancelledError):
        return run.exchange.deadline.exceeded().code if run.exchange.deadline.is_within(0) else ""
    return "" if error is None else "internal-error"
