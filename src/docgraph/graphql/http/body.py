"""GraphQL requests: the body, parsed strictly (decision 23), and the persisted query it may name.

A body is JSON or plain query text. Values keep their precision: integers and decimals in
`variables` reach the scalars as they were written. JSON may name a persisted query
(`descriptor.operations`) instead of a text, or send the SHA-256 of its text, as the trusted
documents of Apollo Client and Relay do. The request is resolved once: rules check the same text
that is run.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from docgraph.codec import decode
from docgraph.codec.pieces import Irregular, load, walk_levels
from docgraph.exchange import DocgraphError, Exchange, Parsed
from docgraph.exchange.errors import BodyError, DefinitionError, QueryError, RequestError
from docgraph.exchange.request import LARGE_BODY, Offload, encode_path, parse_path
from docgraph.graphql.apps.apps import Apps
from docgraph.graphql.apps.compiled_app import App
from docgraph.graphql.definition.definition import digest_text
from docgraph.graphql.definition.inputs import ExactFloat
from docgraph.graphql.definition.query_limits import MAX_LIST
from docgraph.graphql.errors import OperationRefused
from docgraph.runtime import LruDict

_MAX_NESTING = 64
_MAX_REPRESENTED = 60_000  # values of representations, whose keys alone are coerced
_MAX_VALUES = 20_000  # coercing them takes about 40 ms, during which no other request is answered
_MAX_DOCUMENT_TEXT = 16_384  # characters in total that may have to be parsed as extended JSON
_REFERRING = frozenset({"operation", "documentId", "doc_id", "extensions"})
_KEPT_REQUESTS = 256
_LONGEST_KEPT = 2_048  # bytes


@dataclass(frozen=True, slots=True)
class GraphqlRequest:
    """The operation that the caller wants to run.

    `operation` is the name of the persisted query that has this text; None: the caller sent a text.
    `by_hash`: the request has the hash of the text. `limits`: report lists that were cut.
    """

    query: str
    variables: Mapping[str, Any] = field(default_factory=dict)
    operation_name: str | None = None
    operation: str | None = None
    by_hash: bool = False
    limits: bool = False


class OperationReference(NamedTuple):
    """A request for a persisted query, by its name or by the SHA-256 of its text (`digest`)."""

    request: GraphqlRequest
    digest: str | None
    has_text: bool


# Clients send the same few queries repeatedly. With variables they are seldom the same, and
# requests must not share values of variables.
_kept: LruDict[bytes, GraphqlRequest | OperationReference] = LruDict(_KEPT_REQUESTS)


def parse_body(body: bytes, content_type: str) -> GraphqlRequest | OperationReference:
    """Parse a body of one of the two content types; reject anything else with a clear 400."""
    if content_type == "application/graphql":
        try:
            return GraphqlRequest(body.decode("utf-8"))
        except UnicodeDecodeError:
            raise BodyError("the body is not valid UTF-8") from None
    if content_type != "application/json":
        raise RequestError("Content-Type must be either application/graphql or application/json")
    kept = _kept.get(body)
    if kept is not None:
        return kept
    content = parse_json(body)
    if not isinstance(content, dict):
        raise BodyError(
            "the body must be a JSON object", hint='send one operation per request: {"query": "…"}'
        )
    asked = _read_reference(content) or read_request(content)
    request = asked.request if isinstance(asked, OperationReference) else asked
    if not request.variables and len(body) <= _LONGEST_KEPT:
        _kept.put(body, asked)
    return asked


def render_body(request: GraphqlRequest) -> bytes:
    """Return the body as a client of the endpoint would send it, for rules that read it."""
    content: dict[str, Any] = {"variables": dict(request.variables)}
    if request.operation is None:
        content["query"] = request.query
    else:
        content["operation"] = request.operation
    if request.operation_name is not None:
        content["operationName"] = request.operation_name
    return json.dumps(content).encode()


def read_request(content: Mapping[str, Any]) -> GraphqlRequest:
    query = _require_query(content.get("query"))
    variables, operation_name, limits = _read_values(content)
    return GraphqlRequest(query, variables, operation_name, limits=limits)


def _read_values(content: Mapping[str, Any]) -> tuple[Mapping[str, Any], str | None, bool]:
    """Return the variables, the name of the operation in the text, and `extensions.limits`.

    The last one: the response has to name the lists that their limit cut.
    """
    variables = content.get("variables")
    operation_name = content.get("operationName")
    extensions = content.get("extensions")
    if not (variables is None or isinstance(variables, dict)):
        raise BodyError("'variables' must be an object")
    if not (operation_name is None or isinstance(operation_name, str)):
        raise BodyError("'operationName' must be a string")
    if not (extensions is None or isinstance(extensions, dict)):
        raise BodyError("'extensions' must be an object")
    limits = extensions.get("limits", False) if extensions else False
    if not isinstance(limits, bool):
        raise BodyError("'extensions.limits' must be a boolean")
    return variables or {}, operation_name, limits


def _read_reference(content: Mapping[str, Any]) -> OperationReference | None:
    """Return the persisted query that the request names; None: it names none."""
    if _REFERRING.isdisjoint(content):
        return None
    name, query = content.get("operation"), content.get("query")
    digest = _read_digest(content)
    if name is None and digest is None:
        return None
    if name is not None and not isinstance(name, str):
        raise BodyError("'operation' must be a string")
    if name is not None and (query is not None or digest is not None):
        other = "'query'" if query is not None else "the hash of a text"
        raise BodyError(f"'operation' and {other} are given", hint="give one of them")
    if digest is not None and query is not None:
        text = _require_query(query)
        if digest_text(text) != digest:
            raise BodyError("the hash is not the SHA-256 of 'query'")
    variables, operation_name, limits = _read_values(content)
    by_hash, text = digest is not None, query or ""
    request = GraphqlRequest(text, variables, operation_name, name, by_hash, limits)
    return OperationReference(request, digest, query is not None)


def _read_digest(content: Mapping[str, Any]) -> str | None:
    """Return the hash of Apollo (`extensions.persistedQuery`) or Relay (`documentId`, `doc_id`)."""
    digests: set[str] = set()
    for key in ("documentId", "doc_id"):
        value = content.get(key)
        if not (value is None or isinstance(value, str)):
            raise BodyError(f"{key!r} must be a string")
        if value is not None:
            digests.add(value.lower().removeprefix("sha256:"))
    extensions = content.get("extensions")
    persisted = extensions.get("persistedQuery") if isinstance(extensions, dict) else None
    if persisted is not None:
        if not isinstance(persisted, dict) or persisted.get("version") != 1:
            raise BodyError("'extensions.persistedQuery' must be an object with 'version' 1")
        if not isinstance(persisted.get("sha256Hash"), str):
            raise BodyError("'extensions.persistedQuery.sha256Hash' must be a string")
        digests.add(persisted["sha256Hash"].lower())
    if len(digests) > 1:
        raise BodyError("the request has different hashes", hint="send one")
    return digests.pop() if digests else None


def _require_query(query: Any) -> str:
    if query is None:
        raise RequestError("Query cannot be null")
    if not isinstance(query, str):
        raise BodyError("'query' must be a string")
    return query


def load_quickly(body: bytes) -> Any:
    """Parse JSON with the fast parser; raise `Irregular` for what it would hide."""
    try:
        return load(body)
    except orjson.JSONDecodeError as error:
        raise BodyError(
            f"the body is not valid JSON: line {error.lineno}, column {error.colno}"
        ) from None


def parse_json(body: bytes) -> Any:
    """Parse JSON with the fast parser if it loses and hides nothing, otherwise exactly."""
    try:
        content = load_quickly(body)
    except Irregular:
        return parse_exactly(body)
    if isinstance(content, dict) and content.get("variables"):
        check_variables(content["variables"])
    if _needs_exact_reading(body, content):
        return parse_exactly(body)
    return content


def _needs_exact_reading(body: bytes, content: Any) -> bool:
    r"""Return whether a key occurs twice, or a number has more digits than a double.

    Each key of an object is followed by one colon, so colons that belong to no key and to no text
    are those of lost keys. A text may hide a colon in an escape: a body with `\u` is parsed
    exactly. Integers of more than 64 bits were parsed as doubles, too.
    """
    if b"\\u" in body:
        return True
    colons = body.count(b":")
    values = [content]
    while values:
        value = values.pop()
        kind = type(value)
        if kind is str:
            colons -= value.count(":")
        elif kind is dict:
            colons -= len(value) + "".join(value).count(":")
            values += value.values()
        elif kind is list:
            values += value
        elif kind is float:
            return True
    return colons != 0


def parse_exactly(body: bytes) -> Any:
    """Parse JSON without loss: no key twice, decimals as they were written."""
    try:
        return json.loads(body, object_pairs_hook=_collect, parse_float=ExactFloat)
    except (ValueError, RecursionError):
        raise BodyError("the body is not valid JSON") from None


def _collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise BodyError(f"the key {twice!r} appears twice in one object")
    return members


def check_variables(variables: Any) -> None:
    """Check nesting, list lengths, the number of values, documents as text; no recursion."""
    plain = variables
    if isinstance(variables, dict):
        plain = dict(variables)
        for name, value in variables.items():
            if _are_representations(value):  # only `_entities` takes so many, up to the app's limit
                _check_values(dict(enumerate(plain.pop(name))), _MAX_REPRESENTED)
    _check_values(plain, _MAX_VALUES)


def _are_representations(value: Any) -> bool:
    """Return whether a variable is a long list of objects that name their types."""
    return (
        isinstance(value, list)
        and len(value) > MAX_LIST
        and all(isinstance(item, dict) and "__typename" in item for item in value)
    )


def _check_values(variables: Any, most: int) -> None:
    count, text = -1, 0  # not counting the outer object
    for level in walk_levels(variables, "'variables'", _MAX_NESTING):
        count += len(level)
        if count > most:
            raise BodyError(f"'variables' has more than {most} values")
        for value in level:
            if isinstance(value, list) and len(value) > MAX_LIST:
                raise BodyError(f"a list in 'variables' has more than {MAX_LIST} elements")
            if isinstance(value, str) and value.startswith("{"):
                text += len(value)
        if text > _MAX_DOCUMENT_TEXT:
            raise BodyError(
                f"'variables' has more than {_MAX_DOCUMENT_TEXT} characters of documents as text",
                hint="send them as objects",
            )


@dataclass(frozen=True, slots=True)
class AppRequest(Parsed):
    """A request to the app with this URI; `asked` is the operation of its body."""

    uri: str = field(kw_only=True)
    asked: RequestedOperation = field(kw_only=True)

    @classmethod
    def of(cls, exchange: Exchange) -> AppRequest:
        """Return the parsed request of an exchange with the endpoint."""
        assert isinstance(exchange.parsed, cls)  # noqa: S101 - the endpoint made it
        return exchange.parsed


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
    """The operation of a request, resolved at first use; no reference leads to the request."""

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
            if len(body) > LARGE_BODY:
                asked = await self._offload(parse_body, body, content_type)
            else:
                asked = parse_body(body, content_type)
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
        is_large = len(body) > LARGE_BODY
        content = await self._offload(decode, body) if is_large else decode(body)
        if request.operation is None:
            return content
        return {**content, "query": request.query, "operation": request.operation}


def find_operation(app: App, reference: OperationReference) -> GraphqlRequest:
    """Return the persisted query; a text that was sent with an unknown hash is run as text."""
    request, digest, has_text = reference
    if digest is not None:
        stored = app.operations_by_digest.get(digest)
    else:
        stored = app.operations_by_name.get(request.operation or "")
    if stored is not None:
        return replace(request, query=stored.query, operation=stored.name)
    if not has_text:
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
