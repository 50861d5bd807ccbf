"""JSON-RPC of the Model Context Protocol: revisions, error codes, parameters of methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeVar

import msgspec
import orjson
from msgspec import Struct, field

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
Level = Literal["alert", "critical", "debug", "emergency", "error", "info", "notice", "warning"]


class RpcError(Exception):
    """An error of the protocol, the answer to one message."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def as_dict(self) -> dict[str, Any]:
        """Return the member `error` of the answer."""
        content = {"code": self.code, "message": self.message}
        return content if self.data is None else {**content, "data": self.data}


def render_answer(id: str | int | None, result: Mapping[str, Any] | RpcError) -> bytes:
    """Return the message that answers the request with this id."""
    if isinstance(result, RpcError):
        return orjson.dumps({"jsonrpc": "2.0", "id": id, "error": result.as_dict()})
    return orjson.dumps({"jsonrpc": "2.0", "id": id, "result": result})


def render_notification(method: str, params: Mapping[str, Any]) -> bytes:
    """Return a message that has no answer."""
    return orjson.dumps({"jsonrpc": "2.0", "method": method, "params": params})


# --- parameters -----------------------------------------------------------------------------------


class Icon(Struct, rename="camel"):
    """A picture of a client."""

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["light", "dark"] | None = None


class PeerInfo(Struct, rename="camel"):
    """Who the client is."""

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
    """What the client offers; nothing of it is used, all of it is checked."""

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
    level: Level | None = field(name=f"{_OWN}logLevel", default=None)


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


class BegunArgument(Struct):
    """An argument, and what was typed of its value."""

    name: str
    value: str


class CompleteParams(Struct):
    """Parameters of `completion/complete`."""

    ref: PromptRef | TemplateRef
    argument: BegunArgument
    context: dict[str, Any] | None = None


class LevelParams(Struct):
    """Parameters of `logging/setLevel`."""

    level: Level


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
