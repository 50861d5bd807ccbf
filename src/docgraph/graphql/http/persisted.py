"""Persisted queries (`descriptor.operations`): a request names an operation instead of a text.

A request names it, or sends the SHA-256 of its text, as the trusted documents of Apollo Client and
Relay do. The request is resolved once: rules check the same text that is run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from docgraph.codec import decode
from docgraph.exchange import DocgraphError, Parsed
from docgraph.exchange.errors import DefinitionError, QueryError, RequestError
from docgraph.exchange.request import LARGE_BODY, Offload, encode_path, parse_path
from docgraph.graphql.apps.apps import Apps
from docgraph.graphql.apps.compiled_app import App
from docgraph.graphql.definition.declared_operations import digest_text
from docgraph.graphql.errors import OperationRefused
from docgraph.graphql.http.body import GraphqlRequest, OperationReference, parse_body


@dataclass(frozen=True, slots=True)
class AppRequest(Parsed):
    """A request to the app with this URI; `asked` is the operation of its body."""

    uri: str = field(kw_only=True)
    asked: RequestedOperation = field(kw_only=True)


@lru_cache(maxsize=1024)  # most requests are for a few apps
def find_uri(segments: tuple[str, ...]) -> str:
    """Return the URI of the app; empty if no app can match."""
    uri = "/".join(segments)
    # An escaped slash is not a separator: access rules saw another path.
    return "" if uri.count("/") >= len(segments) else uri


def encode_segments(segments: tuple[str, ...]) -> str | None:
    """Return the encoded path; None if a request with it would have other segments."""
    try:
        path = encode_path(segments)
        # `..` would lead to another path than the rules check
        return path if parse_path(path.encode()) == segments else None
    except (ValueError, DocgraphError):
        return None


class RequestedOperation:
    """The operation of a request, resolved at first use and cached.

    It has no reference to the request, which refers to it.
    """

    __slots__ = ("_apps", "_found", "_offload", "_uri")

    def __init__(self, apps: Apps, uri: str, offload: Offload) -> None:
        self._apps = apps
        self._uri = uri
        self._offload = offload
        self._found: GraphqlRequest | None = None

    def describe(self, request: GraphqlRequest) -> None:
        """Set the operation, which is already known."""
        self._found = request

    async def find(self, body: bytes, content_type: str) -> GraphqlRequest:
        """Return the query with its text; raise what is wrong with the request."""
        if self._found is None:
            asked = await self._run(parse_body, body, content_type)
            if isinstance(asked, OperationReference):
                asked = find_operation(await self._apps.find(self._uri), asked)
            self._found = asked
        return self._found

    async def read_content(self, body: bytes, content_type: str) -> Any:
        """Return the body as rules, variables and plugins see it: with the text of the query.

        A persisted query has its name there, too, however the request refers to it.
        """
        try:
            request = await self.find(body, content_type)
        except (QueryError, DefinitionError) as error:
            raise RequestError(error.message) from None
        if content_type == "application/graphql":
            return request.query
        content = await self._run(decode, body)
        if request.operation is None:
            return content
        return {**content, "query": request.query, "operation": request.operation}

    async def _run(self, parse: Callable[..., Any], body: bytes, *others: str) -> Any:
        """Return the body as the parser reads it; a large one is parsed in a thread."""
        if len(body) > LARGE_BODY:
            return await self._offload(parse, body, *others)
        return parse(body, *others)


def find_operation(app: App, reference: OperationReference) -> GraphqlRequest:
    """Return the persisted query; a text that was sent with an unknown hash is run as text."""
    request = GraphqlRequest(
        reference.query or "",
        reference.variables,
        reference.operation_name,
        reference.name,
        by_hash=reference.digest is not None,
        limits=reference.limits,
    )
    if reference.digest is not None:
        stored = app.operations_by_digest.get(reference.digest)
    else:
        stored = app.operations_by_name.get(reference.name or "")
    if stored is not None:
        return replace(request, query=stored.query, operation=stored.name)
    if reference.query is None:
        raise reject_unknown(request)
    return request


def reject_unknown(request: GraphqlRequest) -> OperationRefused:
    """Reject an operation that does not exist for this caller; by hash, with Apollo's message.

    The same holds for an operation with fields that are hidden from the caller: the validation
    errors of its text would reveal their names.
    """
    if request.by_hash:
        return OperationRefused.because("PersistedQueryNotFound", "PERSISTED_QUERY_NOT_FOUND")
    return OperationRefused.because("the app has no such operation", "unknown-operation")


def is_stored(app: App, request: GraphqlRequest) -> bool:
    """Return whether a request runs an operation of the app, even if it was sent as a text."""
    if request.operation is not None:
        return True
    return digest_text(request.query) in app.operations_by_digest
