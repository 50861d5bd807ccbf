"""Slow operation log: the commands of slow operations, never a value."""

from __future__ import annotations

import time
from asyncio import CancelledError
from collections.abc import Iterator, Sequence

from docgraph.exchange import DocgraphError
from docgraph.graphql.execute.execution import Run
from docgraph.graphql.execute.result import CommandRecord
from docgraph.observe import emit
from docgraph.observe.command_events import SlowOperation


def report_if_slow(run: Run, threshold: float, error: BaseException | None = None) -> None:
    """Log a finished execution, unless it took less than the threshold (in seconds)."""
    duration = time.perf_counter() - run.started
    if duration < threshold:
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
    for one in commands:
        by_field.setdefault((one.field, one.kind, one.collection), []).append(one)
    times = {key: sum(one.milliseconds for one in those) for key, those in by_field.items()}
    for key in sorted(times, key=lambda key: -times[key]):
        those = by_field[key]
        field, kind, collection = key
        documents = sum(one.documents for one in those)
        yield (
            f"{field}: {kind} {collection}, {_count(len(those), 'command')} for "
            f"{_count(those[0].parents, 'parent')}, {_count(documents, 'document')}, "
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
