"""The body of a GraphQL request: JSON or plain query text, read strictly (decision 23).

JSON may name a stored operation in place of a text. Values keep their precision: whole numbers and
decimals in `variables` reach the scalars as they were written.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from docgraph.codec.pieces import Irregular, load
from docgraph.exchange.errors import BodyError, RequestError
from docgraph.graphql.definition.operations import digest_text
from docgraph.graphql.definition.scalars import ExactFloat
from docgraph.runtime import LruDict

__all__ = [
    "GraphqlRequest",
    "Reference",
    "check_variables",
    "parse_body",
    "parse_exactly",
    "parse_json",
    "read_request",
    "render_body",
]

_MAX_NESTING = 64
_MAX_LIST = 1_000
_MAX_VALUES = 20_000  # coercing them takes some 40 ms, during which nobody else is answered
_MAX_DOCUMENT_TEXT = 16_384  # characters that may have to be read as extended JSON, in all
_REFERRING = frozenset({"operation", "documentId", "doc_id", "extensions"})
_KEPT_REQUESTS = 256
_LONGEST_KEPT = 2_048  # bytes


@dataclass(frozen=True, slots=True)
class GraphqlRequest:
    """What the caller wants run.

    `operation` is the name of the stored operation whose text the query is; None: the caller sent a
    text. `by_hash`: the request has the hash of the text.
    """

    query: str
    variables: Mapping[str, Any] = field(default_factory=dict)
    operation_name: str | None = None
    operation: str | None = None
    by_hash: bool = False


@dataclass(frozen=True, slots=True)
class Reference:
    """A stored operation, by its name or by the SHA-256 of its text, which may have come along."""

    name: str | None = None
    digest: str | None = None
    query: str | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    operation_name: str | None = None


# Clients send the same few queries again and again. With variables they are seldom the same, and
# values of variables are not to be shared by requests.
_kept: LruDict[bytes, GraphqlRequest | Reference] = LruDict(_KEPT_REQUESTS)


def parse_body(body: bytes, content_type: str) -> GraphqlRequest | Reference:
    """Read a body of one of the two content types; anything else is a clear 400."""
    if content_type == "application/graphql":
        return GraphqlRequest(_require_query(_decode_text(body)))
    if content_type != "application/json":
        raise RequestError(
            "Content-Type must be either application/graphql or application/json",
        )
    kept = _kept.get(body)
    if kept is not None:
        return kept
    content = parse_json(body)
    if not isinstance(content, dict):
        raise BodyError(
            "the body must be a JSON object",
            hint='send one operation per request: {"query": "…"}',
        )
    request = _read_reference(content) or read_request(content)
    if not request.variables and len(body) <= _LONGEST_KEPT:
        _kept.put(body, request)
    return request


def render_body(request: GraphqlRequest) -> bytes:
    """The body as a client of the endpoint would have sent it, for rules that look at it."""
    content: dict[str, Any] = {"variables": dict(request.variables)}
    if request.operation is None:
        content["query"] = request.query
    else:
        content["operation"] = request.operation
    if request.operation_name is not None:
        content["operationName"] = request.operation_name
    return json.dumps(content).encode()


def read_request(content: Mapping[str, Any]) -> GraphqlRequest:
    """The members of a request."""
    return GraphqlRequest(_require_query(content.get("query")), *_read_values(content))


def _read_values(content: Mapping[str, Any]) -> tuple[Mapping[str, Any], str | None]:
    """The variables, and which operation of the text."""
    variables = content.get("variables")
    operation_name = content.get("operationName")
    extensions = content.get("extensions")
    if not (variables is None or isinstance(variables, dict)):
        raise BodyError("'variables' must be an object")
    if not (operation_name is None or isinstance(operation_name, str)):
        raise BodyError("'operationName' must be a string")
    if not (extensions is None or isinstance(extensions, dict)):
        raise BodyError("'extensions' must be an object")
    return variables or {}, operation_name


def _read_reference(content: Mapping[str, Any]) -> Reference | None:
    """The stored operation that the request names; None: it names none."""
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
    return Reference(name, digest, query, *_read_values(content))


def _read_digest(content: Mapping[str, Any]) -> str | None:
    """The hash of Apollo (`extensions.persistedQuery`) or of Relay (`documentId`, `doc_id`)."""
    found = {_read_document_id(content, key) for key in ("documentId", "doc_id")}
    extensions = content.get("extensions")
    persisted = extensions.get("persistedQuery") if isinstance(extensions, dict) else None
    if persisted is not None:
        if not isinstance(persisted, dict) or persisted.get("version") != 1:
            raise BodyError("'extensions.persistedQuery' must be an object with 'version' 1")
        if not isinstance(persisted.get("sha256Hash"), str):
            raise BodyError("'extensions.persistedQuery.sha256Hash' must be a string")
        found.add(persisted["sha256Hash"].lower())
    found.discard(None)
    if len(found) > 1:
        raise BodyError("the request has different hashes", hint="send one")
    return found.pop() if found else None


def _read_document_id(content: Mapping[str, Any], key: str) -> str | None:
    value = content.get(key)
    if not (value is None or isinstance(value, str)):
        raise BodyError(f"{key!r} must be a string")
    return None if value is None else value.lower().removeprefix("sha256:")


def _require_query(query: Any) -> str:
    if query is None:
        raise RequestError("Query cannot be null")
    if not isinstance(query, str):
        raise BodyError("'query' must be a string")
    return query


def _decode_text(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise BodyError("the body is not valid UTF-8") from None


def parse_json(body: bytes) -> Any:
    """The fast parser where nothing can be lost or hidden by it, else the exact one."""
    try:
        content = load(body)
    except Irregular:
        return parse_exactly(body)
    except orjson.JSONDecodeError as error:
        raise BodyError(
            f"the body is not valid JSON: line {error.lineno}, column {error.colno}"
        ) from None
    if isinstance(content, dict) and content.get("variables"):
        check_variables(content["variables"])
    if _needs_exact_reading(body, content):
        return parse_exactly(body)
    return content


def _needs_exact_reading(body: bytes, content: Any) -> bool:
    """Whether a key stands twice, or a number has more digits than a double keeps.

    Each key of an object has one colon behind it, so colons that belong to no key and to no text
    are those of keys that were lost. A text may hide a colon in an escape: a body with `\\u` is
    read exactly. Whole numbers of more than 64 bits were read as doubles, too.
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
    """JSON without loss: no key twice, decimals as they were written."""
    try:
        return json.loads(body, object_pairs_hook=_collect, parse_float=ExactFloat)
    except (ValueError, RecursionError):
        raise BodyError("the body is not valid JSON") from None


def _collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise BodyError(f"the key {twice!r} stands twice in one object")
    return found


def check_variables(variables: Any) -> None:
    """Nesting, list lengths, the number of values, documents as text; without recursion."""
    level = [variables]
    count = text = 0
    for _ in range(_MAX_NESTING + 1):
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below.extend(value.values())
            elif isinstance(value, list):
                if len(value) > _MAX_LIST:
                    raise BodyError(f"a list in 'variables' has more than {_MAX_LIST} elements")
                below.extend(value)
            elif isinstance(value, str) and value.startswith("{"):
                text += len(value)
        count += len(below)
        if count > _MAX_VALUES:
            raise BodyError(f"'variables' has more than {_MAX_VALUES} values")
        if text > _MAX_DOCUMENT_TEXT:
            raise BodyError(
                f"'variables' has more than {_MAX_DOCUMENT_TEXT} characters of documents as text",
                hint="send them as objects",
            )
        if not below:
            return
        level = below
    raise BodyError(f"'variables' is nested more than {_MAX_NESTING} levels deep")
