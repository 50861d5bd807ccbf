"""JSON-RPC of the Model Context Protocol: messages, revisions, error codes, parameters."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import Struct, field

from docgraph.codec.pieces import check_values, walk_levels
from docgraph.exchange import Body, DocgraphError, Exchange
from docgraph.exchange.errors import BodyError, RequestError, UnsupportedMediaType
from docgraph.graphql.http.body import parse_json
from docgraph.runtime import allocations
from docgraph.runtime.allocations import embed_json

P = TypeVar("P", bound=Struct)

LATEST_HANDSHAKE: Final = "2025-11-25"
HANDSHAKE_REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", LATEST_HANDSHAKE)
STATELESS_REVISIONS: Final = ("2026-07-28",)
DEFAULT_REVISION: Final = "2025-03-26"  # of a message that names none

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
SERVER_ERROR: Final = -32000
RESOURCE_NOT_FOUND: Final = -32002  # of the revisions with a handshake
HEADER_MISMATCH: Final = -32020
UNSUPPORTED_REVISION: Final = -32022

_OWN: Final = "io.modelcontextprotocol/"
REVISION_KEY: Final = f"{_OWN}protocolVersion"
CAPABILITIES_KEY: Final = f"{_OWN}clientCapabilities"
SERVER_KEY: Final = f"{_OWN}serverInfo"
McpLogLevel = Literal[
    "alert", "critical", "debug", "emergency", "error", "info", "notice", "warning"
]


class RpcError(Exception):
    """An error of the protocol, the answer to one message."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def as_dict(self) -> dict[str, Any]:
        content = {"code": self.code, "message": self.message}
        return content if self.data is None else {**content, "data": self.data}


def render_answer(id: str | int | None, result: Mapping[str, Any] | RpcError) -> bytes:
    """Return the message that answers the request with this id."""
    if isinstance(result, RpcError):
        return allocations.dumps({"jsonrpc": "2.0", "id": id, "error": result.as_dict()})
    return allocations.dumps({"jsonrpc": "2.0", "id": id, "result": result}, embed_json)


def render_notification(method: str, params: Mapping[str, Any]) -> bytes:
    """Return a message that has no answer."""
    return allocations.dumps({"jsonrpc": "2.0", "method": method, "params": params})


class Icon(Struct, rename="camel"):
    """A picture of a client."""

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["light", "dark"] | None = None


class PeerInfo(Struct, rename="camel"):
    """Name and version of the client."""

    name: str
    version: str
    title: str | None = None
    description: str | None = None
    icons: list[Icon] | None = None
    website_url: str | None = None


class _Roots(Struct, rename="camel"):
    list_changed: bool | None = None


class _Elicitation(Struct):
    form: dict[str, Any] | None = None
    url: dict[str, Any] | None = None


class _Sampling(Struct):
    context: dict[str, Any] | None = None
    tools: dict[str, Any] | None = None


class PeerCapabilities(Struct):
    """The capabilities of the client: checked, and not used."""

    elicitation: _Elicitation | None = None
    experimental: dict[str, dict[str, Any]] | None = None
    extensions: dict[str, dict[str, Any]] | None = None
    roots: _Roots | None = None
    sampling: _Sampling | None = None
    tasks: dict[str, Any] | None = None


class RequestMeta(Struct, rename="camel"):
    """The member `_meta` of a request."""

    progress_token: str | int | None = None


class Envelope(RequestMeta):
    """The member `_meta` of the revisions without a handshake."""

    revision: str = field(name=REVISION_KEY, default="")
    capabilities: PeerCapabilities | None = field(name=CAPABILITIES_KEY, default=None)
    client: PeerInfo | None = field(name=f"{_OWN}clientInfo", default=None)
    level: McpLogLevel | None = field(name=f"{_OWN}logLevel", default=None)


class NoParams(Struct):
    """Parameters of a method without any."""


class InitializeParams(Struct, rename="camel"):
    """Parameters of `initialize`."""

    protocol_version: str
    capabilities: PeerCapabilities
    client_info: PeerInfo


class PageParams(Struct):
    """Parameters of the lists."""

    cursor: str | None = None


class CallParams(Struct):
    """Parameters of `tools/call`."""

    name: str
    arguments: dict[str, Any] | None = None


class ReadParams(Struct):
    """Parameters of `resources/read`."""

    uri: str


class PromptParams(Struct):
    """Parameters of `prompts/get`."""

    name: str
    arguments: dict[str, str] | None = None


class PromptRef(Struct, tag_field="type", tag="ref/prompt"):
    """A prompt whose argument is completed."""

    name: str


class TemplateRef(Struct, tag_field="type", tag="ref/resource"):
    """A resource template whose variable is completed."""

    uri: str


class PartialArgument(Struct):
    """An argument to complete: its name, and the beginning of its value."""

    name: str
    value: str


class CompleteParams(Struct):
    """Parameters of `completion/complete`."""

    ref: PromptRef | TemplateRef
    argument: PartialArgument
    context: dict[str, Any] | None = None


class LevelParams(Struct):
    """Parameters of `logging/setLevel`."""

    level: McpLogLevel


def convert(params: Mapping[str, Any], kind: type[P]) -> P:
    """Return typed parameters; raise `RpcError` for wrong ones, with a text of our own."""
    try:
        return msgspec.convert(params, kind)
    except msgspec.ValidationError:
        raise RpcError(INVALID_PARAMS, "Invalid request parameters", "") from None


def find_meta(params: Mapping[str, Any], revision: str) -> RequestMeta:
    """Return the checked `_meta` of a request."""
    meta = params.get("_meta")
    if revision in STATELESS_REVISIONS:
        envelope = convert(meta or {}, Envelope)
        if envelope.capabilities is None:
            raise RpcError(INVALID_PARAMS, "Invalid request parameters", "")
        return envelope
    return RequestMeta() if meta is None else convert(meta, RequestMeta)


_LONGEST_ID: Final = 256
_MAX_VALUES: Final = 20_000
_MAX_DEPTH: Final = 100
_MEDIA_TYPE: Final = "application/json"


class InvalidMessage(RequestError):
    """JSON that is not a message of the protocol."""

    status, code = 400, "bad-request"


def read_message(body: bytes, content_type: str) -> Mapping[str, Any]:
    if content_type != _MEDIA_TYPE:
        raise UnsupportedMediaType(f"Content-Type must be {_MEDIA_TYPE}")
    check_values(body, _MAX_VALUES)
    message = parse_json(body)
    if b"\\u" in body:  # a half of a surrogate pair is no character, and cannot be repeated
        try:
            json.dumps(message, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise BodyError("the body has an escape that is no character") from None
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


def _is_id(id: Any) -> bool:
    if isinstance(id, str):
        return len(id) <= _LONGEST_ID
    return type(id) is int and abs(id) < 1 << 63


def render_error(error: DocgraphError) -> Body:
    """Render an error as a message without an id."""
    data: dict[str, Any] = {"code": error.code}
    if error.hint is not None:
        data["hint"] = error.hint
    if isinstance(error.details, Mapping) and "id" in error.details:
        data["id"] = error.details["id"]
    code = INVALID_REQUEST if isinstance(error, RequestError) else SERVER_ERROR
    if isinstance(error, BodyError):
        code = PARSE_ERROR
    content = {"code": code, "message": error.message, "data": data}
    message = allocations.dumps({"jsonrpc": "2.0", "id": None, "error": content})
    return Body(error.status, message, _MEDIA_TYPE, list(error.headers))


# The levels of the protocol, the most urgent first.
LEVELS: Final = ("emergency", "alert", "critical", "error", "warning", "notice", "info", "debug")

Notify = Callable[[str, dict[str, Any]], None]


@dataclass(slots=True)
class McpCall:
    """The exchange of the request, and the revision of the protocol that it uses.

    `notify` sends a notification while the request runs, where the transport can; `level` is the
    least urgent one of the messages that the client wants to have, if any.
    """

    exchange: Exchange
    revision: str = DEFAULT_REVISION
    notify: Notify | None = None
    progress_token: str | int | None = None
    level: str | None = None

    def report(self, progress: int, text: str) -> None:
        """Report progress to a client that wants to know."""
        if self.notify is not None and self.progress_token is not None:
            params = {"progressToken": self.progress_token, "progress": progress, "total": 1}
            self.notify("notifications/progress", {**params, "message": text})

    def log(self, level: str, data: dict[str, Any]) -> None:
        """Send a log message to a client that wants those of this level."""
        is_wanted = self.level is not None and LEVELS.index(level) <= LEVELS.index(self.level)
        if self.notify is not None and is_wanted:
            self.notify(
                "notifications/message", {"level": level, "logger": "docgraph", "data": data}
            )
