"""Operation timing: how long requests to apps take, for the statistics of operations."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from docgraph.exchange import Exchange
from docgraph.graphql.errors import OperationRefused
from docgraph.graphql.http.body import GraphqlRequest
from docgraph.observe import emit
from docgraph.observe.command_events import OperationFinished


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
