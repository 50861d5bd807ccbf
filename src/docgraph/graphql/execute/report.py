"""Error logging: the hidden cause of a failure is logged under an id that the caller gets.

The texts of the database name hosts, indexes and data of others (decision 22). Only errors in the
response are logged, so a query that fails for a thousand parents does not flood the log.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

from docgraph.exchange import Exchange
from docgraph.exchange.errors import Overloaded, StoreError
from docgraph.graphql.errors import Errors, FieldFault, GraphqlError
from docgraph.observe import emit
from docgraph.observe.command_events import QueryFailed
from docgraph.observe.faults import render_cause
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
        known = ids.get(id(error.cause))
        if known is None:
            known = ids[id(error.cause)] = _report(error, exchange)
        errors.first[number] = replace(error, id=known, cause=None)


def report_failure(error: StoreError, exchange: Exchange) -> None:
    """Assign an id to a database error that ends the request."""
    is_fault = error.status >= _SERVER_ERROR and not isinstance(error, Overloaded)
    if not is_fault or error.details is not None:
        return
    id, reason = _make_id(), render_cause(error.__cause__ or error)
    emit(QueryFailed(id, exchange.id, error.code, reason, exchange.app))
    error.details = {"id": id}


def _report(error: GraphqlError, exchange: Exchange) -> str:
    id = _make_id()
    field = "/".join(map(str, error.path or ()))
    reason = render_cause(error.cause) if error.cause is not None else error.message
    emit(QueryFailed(id, exchange.id, error.code, reason, exchange.app, field))
    return id


def _make_id() -> str:
    return uuid4().hex[:12]
