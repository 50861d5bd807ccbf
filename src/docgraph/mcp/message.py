"""JSON-RPC messages, parsed strictly and without loss; and errors of the whole request."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import orjson

from docgraph.codec.pieces import check_values, walk_levels
from docgraph.exchange import Body, DocgraphError
from docgraph.exchange.errors import (
    BodyError,
    Forbidden,
    RequestError,
    Unauthenticated,
    UnsupportedMediaType,
)
from docgraph.graphql.http.body import parse_json
from docgraph.mcp.rpc import INVALID_REQUEST, PARSE_ERROR, SERVER_ERROR

_LONGEST_ID: Final = 256
_MAX_VALUES: Final = 20_000
_MAX_DEPTH: Final = 100
_MEDIA_TYPE: Final = "application/json"


class InvalidMessage(RequestError):
    """JSON that is not a message of the protocol."""

    status, code = 400, "bad-request"


def read_message(body: bytes, content_type: str) -> Mapping[str, Any]:
    """Parse one request or notification."""
    if content_type != _MEDIA_TYPE:
        raise UnsupportedMediaType(f"Content-Type must be {_MEDIA_TYPE}")
    check_values(body, _MAX_VALUES)
    message = parse_json(body)
    _check_texts(body, message)
    if not isinstance(message, dict):
        raise InvalidMessage("the body must be one JSON-RPC message, an object")
    deque(walk_levels(message, "the body", _MAX_DEPTH), maxlen=0)
    if message.get("jsonrpc") != "2.0":
        raise InvalidMessage("'jsonrpc' must be '2.0'")
    if not isinstance(message.get("method"), str):
        raise InvalidMessage("'method' must be a string")
    if not isinstance(message.get("params", {}), dict):
        raise InvalidMessage("'params' must be an object")
    if "id" in message and not _is_id(message["id"]):
        raise InvalidMessage("'id' must be a string or a whole number")
    return message


def _check_texts(body: bytes, message: Any) -> None:
    """Raise for a half of a surrogate pair, which is no character and cannot be repeated."""
    if b"\\u" in body:
        try:
            json.dumps(message, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise BodyError("the body has an escape that is no character") from None


def _is_id(id: Any) -> bool:
    if isinstance(id, str):
        return len(id) <= _LONGEST_ID
    return type(id) is int and abs(id) < 1 << 63


def render_error(error: DocgraphError) -> Body:
    """Render an error as a message without an id; a denied caller learns nothing."""
    headers = list(error.headers)
    if isinstance(error, Unauthenticated | Forbidden):
        return Body(error.status, headers=headers)
    data: dict[str, Any] = {"code": error.code}
    if error.hint is not None:
        data["hint"] = error.hint
    if isinstance(error.details, Mapping) and "id" in error.details:
        data["id"] = error.details["id"]
    content = {"code": _choose_code(error), "message": error.message, "data": data}
    message = orjson.dumps({"jsonrpc": "2.0", "id": None, "error": content})
    return Body(error.status, message, _MEDIA_TYPE, headers)


def _choose_code(error: DocgraphError) -> int:
    if isinstance(error, BodyError):
        return PARSE_ERROR
    return INVALID_REQUEST if isinstance(error, RequestError) else SERVER_ERROR
