"""Response shape of the GraphQL endpoint (decisions 22 and 24)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from docgraph.exchange import Body, DocgraphError
from docgraph.exchange.errors import (
    DefinitionError,
    Forbidden,
    QueryError,
    RequestError,
    Unauthenticated,
)
from docgraph.graphql.errors import (
    Classification,
    GraphqlError,
    OperationRefused,
    reject_length,
)
from docgraph.graphql.execute.result import Result, encode_parts

MEDIA_TYPE = "application/graphql-response+json"
_OK, _BAD_REQUEST = 200, 400


def render_result(
    result: Result, *, limit: int, extensions: Mapping[str, Any] | None = None
) -> Body:
    """Return 200 if there is data, even with errors; 400 if there are only errors."""
    data = encode_parts(result.data, limit)
    if data is None:
        return render_error(reject_length(limit))
    parts = [b'{"data":', *data]
    if result.errors:
        parts += [b',"errors":', orjson.dumps([one.as_dict() for one in result.errors])]
    if extensions is not None:
        parts += [b',"extensions":', orjson.dumps(extensions)]
    status = _OK if result.data is not None else _BAD_REQUEST
    return Body(status, b"".join([*parts, b"}"]), MEDIA_TYPE)


def render_error(error: DocgraphError) -> Body:
    """Render an error that ended the request; a denied caller gets only the status."""
    headers = list(error.headers)
    if isinstance(error, Unauthenticated | Forbidden):
        return Body(error.status, headers=headers)
    content = orjson.dumps({"data": None, "errors": list_errors(error)})
    return Body(error.status, content, MEDIA_TYPE, headers)


def list_errors(error: DocgraphError) -> list[dict[str, Any]]:
    """Return the entries of `errors`, ready for JSON."""
    entries = [entry.as_dict() for entry in _entries(error)]
    if isinstance(error.details, Mapping) and "id" in error.details:
        entries[0]["extensions"]["id"] = error.details["id"]
    if error.hint is not None:
        entries[0]["extensions"]["hint"] = error.hint
    return entries


def _entries(error: DocgraphError) -> Iterable[GraphqlError]:
    if isinstance(error, OperationRefused):
        return error.errors
    return [GraphqlError(error.message, _classify(error), error.code)]


def _classify(error: DocgraphError) -> Classification:
    """Return a validation error for what the caller can fix, otherwise an execution error."""
    mendable = isinstance(error, RequestError | QueryError) and error.status == _BAD_REQUEST
    if mendable and not isinstance(error, DefinitionError):
        return Classification.VALIDATION
    return Classification.ABORTED
