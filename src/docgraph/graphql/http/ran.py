"""An operation that was run, with everything that explains it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

from docgraph.exchange import Exchange
from docgraph.graphql.errors import OperationRefused
from docgraph.graphql.execute.execute import Result
from docgraph.graphql.execute.introspection_cache import IntrospectionCache
from docgraph.graphql.execute.result import CommandRecord
from docgraph.graphql.freshness.recorder import DependencyRecorder
from docgraph.graphql.http.body import GraphqlRequest
from docgraph.graphql.plan.plan import Plan
from docgraph.graphql.sections import GraphqlLimits
from docgraph.observe import emit
from docgraph.observe.event import OperationFinished


class RunOptions(NamedTuple):
    """How an operation is run; `is_raw`: the result may have JSON (bytes) in place of values."""

    limits: GraphqlLimits | None = None  # in place of those of the app
    answers: IntrospectionCache | None = None
    recorder: DependencyRecorder | None = None
    is_raw: bool = False
    found: tuple[Plan, bool] | None = None  # the plan, and whether it was cached


class Ran(NamedTuple):
    """An operation that was run: its plan, its result, and whether the plan was cached.

    `freshness` is for explanations: what the answer depends on (`explain_freshness`).
    """

    plan: Plan
    result: Result
    kept: bool
    freshness: Mapping[str, Any] = MappingProxyType({})

    @property
    def commands(self) -> list[CommandRecord]:
        """The commands that were sent to the database, in order."""
        return sorted(self.result.commands, key=lambda command: command.started)

    def explain(self) -> dict[str, Any]:
        """Return what `graphql.verbose` shows to administrators, and `docgraph explain` prints."""
        return {
            "plan": self.plan.explain(),
            "planCached": self.kept,
            "commands": [command.as_dict() for command in self.commands],
            "documents": self.result.documents,
            **self.freshness,
        }


@contextmanager
def timing_operation(exchange: Exchange, request: GraphqlRequest) -> Iterator[None]:
    """Emit how long the operation of this block took, unless it was invalid."""
    started, ok = time.perf_counter(), False
    try:
        yield
        ok = True
    except OperationRefused:
        started = 0.0
        raise
    finally:
        if started:
            name = request.operation or request.operation_name or ""
            duration = time.perf_counter() - started
            emit(OperationFinished(exchange.app, name, request.query, duration, ok))
