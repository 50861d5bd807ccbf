"""Stored operations (`descriptor.operations`) that a request names instead of sending a text.

By name, or by the SHA-256 of the text, as the trusted documents of Apollo Client and Relay do. What
a request means is found once: rules judge the very text that is run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from docgraph.codec import decode
from docgraph.exchange.errors import DefinitionError, QueryError, RequestError
from docgraph.exchange.request import LARGE_BODY, Offload
from docgraph.graphql.apps.app import App
from docgraph.graphql.apps.apps import Apps
from docgraph.graphql.definition.operations import digest_text
from docgraph.graphql.errors import OperationRefused
from docgraph.graphql.http.body import GraphqlRequest, Reference, parse_body

__all__ = ["Asked", "find_operation", "is_stored", "refuse_unknown"]


class Asked:
    """What a request to an app asks for, found at the first question and the same from then on.

    It does not hold the request, which holds it.
    """

    __slots__ = ("_apps", "_found", "_offload", "_uri")

    def __init__(self, apps: Apps, uri: str, offload: Offload) -> None:
        self._apps = apps
        self._uri = uri
        self._offload = offload
        self._found: GraphqlRequest | None = None

    def settle(self, request: GraphqlRequest) -> None:
        """Say what it asks for, where that is known already."""
        self._found = request

    async def find(self, body: bytes, content_type: str) -> GraphqlRequest:
        """The query with its text; raises what is wrong with the request."""
        if self._found is None:
            asked = await self._run(parse_body, body, content_type)
            if isinstance(asked, Reference):
                asked = find_operation(await self._apps.find(self._uri), asked)
            self._found = asked
        return self._found

    async def read_content(self, body: bytes, content_type: str) -> Any:
        """The body as rules, variables and plugins see it: always with the text of the query.

        A stored operation has its name there, too, however the request refers to it.
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
        """What a parser makes of the body; of a large one in a thread."""
        if len(body) > LARGE_BODY:
            return await self._offload(parse, body, *others)
        return parse(body, *others)


def find_operation(app: App, reference: Reference) -> GraphqlRequest:
    """The stored operation that is meant; a text that came with an unknown hash is that text."""
    request = GraphqlRequest(
        reference.query or "",
        reference.variables,
        reference.operation_name,
        reference.name,
        by_hash=reference.digest is not None,
    )
    if reference.digest is not None:
        stored = app.operations_by_digest.get(reference.digest)
    else:
        stored = app.operations_by_name.get(reference.name or "")
    if stored is not None:
        return replace(request, query=stored.query, operation=stored.name)
    if reference.query is None:
        raise refuse_unknown(request)
    return request


def refuse_unknown(request: GraphqlRequest) -> OperationRefused:
    """There is no such operation for this caller; by hash, in the words that Apollo's clients know.

    An operation with fields that are hidden from the caller was never there: what is wrong with its
    text would tell their names.
    """
    if request.by_hash:
        return OperationRefused.because("PersistedQueryNotFound", "PERSISTED_QUERY_NOT_FOUND")
    return OperationRefused.because("the app has no such operation", "unknown-operation")


def is_stored(app: App, request: GraphqlRequest) -> bool:
    """Whether a request runs an operation of the app, be it sent as a text."""
    if request.operation is not None:
        return True
    return digest_text(request.query) in app.operations_by_digest
