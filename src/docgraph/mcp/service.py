"""MCP endpoint: `POST /mcp` (Streamable HTTP), one answer per message and no state between them.

It is in the pipeline like any other service: authentication and authorization come before. This
service adds the check of hosts and origins, and the rate limit. An answer is JSON. If there were
notifications for a caller who wants them, it is an event stream of these and the answer, sent as a
whole: the request is over by then, within its place in the queue.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, ClassVar, Final

from docgraph import __version__
from docgraph.access.dry_run import RequestDryRun
from docgraph.codec import JsonMode
from docgraph.exchange import Answer, Body, DocgraphError, Exchange, Parsed, StartupError
from docgraph.exchange.errors import NotAcceptable
from docgraph.exchange.headers import Headers
from docgraph.graphql.apps.apps import Apps
from docgraph.graphql.http.app_access import AppAccess
from docgraph.mcp.mcp_methods import McpMethods
from docgraph.mcp.prompts import Prompts
from docgraph.mcp.request_checks import HostCheck, McpRateLimit
from docgraph.mcp.resources import Resources
from docgraph.mcp.rpc import (
    CAPABILITIES_KEY,
    DEFAULT_REVISION,
    HANDSHAKE_REVISIONS,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REVISION_KEY,
    STATELESS_REVISIONS,
    UNSUPPORTED_REVISION,
    McpCall,
    RpcError,
    read_message,
    render_answer,
    render_error,
    render_notification,
)
from docgraph.mcp.sections import Mcp
from docgraph.mcp.toolbox import Toolbox
from docgraph.plugins.kinds import Service
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Instance
from docgraph.runtime.instance import CALLS
from docgraph.runtime.sections import Core

_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
_ACCEPTED: Final = frozenset((_JSON, "application/*", "*/*"))
_REVISION: Final = "mcp-protocol-version"
_METHOD: Final = "mcp-method"
_NAME: Final = "mcp-name"
# The parameter that `Mcp-Name` repeats.
_NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_ENCODED: Final = re.compile(r"=\?base64\?(.*)\?=")
# Of the revisions without a handshake; other errors are 200.
_STATUS: Final = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    UNSUPPORTED_REVISION: 400,
    METHOD_NOT_FOUND: 404,
}


async def answer(methods: McpMethods, call: McpCall, message: Mapping[str, Any]) -> Body:
    """Return the response to a checked message."""
    headers = call.exchange.request.headers
    notes: list[bytes] = []
    if _check_accepted(headers.get("accept") or ""):
        call.notify = lambda method, params: notes.append(render_notification(method, params))
    revision = headers.get(_REVISION)
    if revision is not None and revision not in HANDSHAKE_REVISIONS:
        return _add_notes(await _answer_stateless(methods, call, message, headers), notes)
    if "id" not in message:
        return Body(202)
    call.revision = revision or DEFAULT_REVISION
    result: Mapping[str, Any] | RpcError
    try:
        result = await methods.answer(call, message["method"], message.get("params") or {})
    except RpcError as error:
        result = error
    return _add_notes(Body(200, render_answer(message["id"], result), _JSON), notes)


def _add_notes(answer: Body, notes: list[bytes]) -> Body:
    if not notes or answer.status != HTTPStatus.OK:
        return answer
    events = [b"event: message\ndata: " + content + b"\n\n" for content in (*notes, answer.content)]
    return Body(200, b"".join(events), _EVENTS)


async def _answer_stateless(
    methods: McpMethods, call: McpCall, message: Mapping[str, Any], headers: Headers
) -> Body:
    try:
        if "id" not in message:
            check_revision(headers.get(_REVISION))
            return Body(202)
        call.revision = check_envelope(message, headers)
        result = await methods.answer(call, message["method"], message["params"])
    except RpcError as error:
        status = _STATUS.get(error.code, 200)
        return Body(status, render_answer(message.get("id"), error), _JSON)
    return Body(200, render_answer(message["id"], result), _JSON)


def check_envelope(message: Mapping[str, Any], headers: Headers | None) -> str:
    """Return the revision of a request without a handshake; headers must repeat the body."""
    if headers is not None:
        for name in (_REVISION, _METHOD, _NAME):
            if len(headers.get_list(name)) > 1:
                raise RpcError(HEADER_MISMATCH, f"{name} header appears more than once")
    meta = (message.get("params") or {}).get("_meta")
    if not isinstance(meta, dict):
        raise RpcError(
            INVALID_PARAMS,
            f"params._meta must be an object with the keys '{REVISION_KEY}' and "
            f"'{CAPABILITIES_KEY}'",
        )
    missing = [key for key in (REVISION_KEY, CAPABILITIES_KEY) if key not in meta]
    if missing:
        raise RpcError(INVALID_PARAMS, f"params._meta lacks {', '.join(missing)}")
    if headers is not None:
        _compare_headers(message, meta[REVISION_KEY], headers)
    return check_revision(meta[REVISION_KEY])


def check_revision(revision: Any) -> str:
    """Return a revision without a handshake that is supported; raise for all others."""
    if not isinstance(revision, str):
        raise RpcError(INVALID_PARAMS, f"'{REVISION_KEY}' must be a string")
    if revision not in STATELESS_REVISIONS:
        data = {"supported": STATELESS_REVISIONS, "requested": revision[:100]}
        raise RpcError(UNSUPPORTED_REVISION, "Unsupported protocol version", data)
    return revision


def _compare_headers(message: Mapping[str, Any], revision: Any, headers: Headers) -> None:
    method = message["method"]
    wrong = ""
    if headers.get(_REVISION) != revision:
        wrong = _REVISION
    elif headers.get(_METHOD) != method:
        wrong = _METHOD
    elif method in _NAMED:
        name = message["params"].get(_NAMED[method])
        if name is not None and _decode_header(headers.get(_NAME)) != name:
            wrong = _NAME
    if wrong:
        raise RpcError(HEADER_MISMATCH, f"{wrong} header does not match the request body")


def _decode_header(value: str | None) -> str | None:
    """Return the value of a header, decoded if it is base64; None for a malformed one."""
    match = _ENCODED.fullmatch(value or "")
    if match is None:
        return value
    try:
        content = base64.b64decode(match[1], validate=True)
        is_canonical = base64.b64encode(content).decode() == match[1]
        return content.decode() if is_canonical else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def _check_accepted(accept: str) -> bool:
    """Return whether the caller accepts an event stream; JSON must be accepted by all."""
    kinds = {kind.partition(";")[0].strip().lower() for kind in accept.split(",")}
    if kinds.isdisjoint(_ACCEPTED):
        raise NotAcceptable(f"Accept must name {_JSON}")
    return _EVENTS in kinds


_WINDOW = 1.0  # seconds


class McpService(Service):
    """Offers the apps to agents."""

    name: ClassVar[str] = "mcp"
    description: ClassVar[str] = "the GraphQL apps for agents (Model Context Protocol)"
    uri: ClassVar[str] = "/mcp"
    exact: ClassVar[bool] = True
    methods: ClassVar[tuple[str, ...]] = ("POST",)
    accepted_headers: ClassVar[tuple[str, ...]] = (
        "MCP-Protocol-Version",
        "Mcp-Session-Id",
        "Mcp-Method",
        "Mcp-Name",
    )
    enabled_by_default: ClassVar[bool] = False
    Config = Mcp

    def __init__(
        self,
        config: Mcp,
        *,
        registry: PluginRegistry,
        instance: Instance,
        core: Core,
        gql_app_definition_cache: Apps,
        imagined_requests: RequestDryRun,
    ) -> None:
        self.config = config
        self.max_body_size = config.max_body_size
        self._registry = registry
        self._instance = instance
        self._apps = gql_app_definition_cache
        self._dry_run = imagined_requests
        self._gate = HostCheck(config, core)
        self._rate_limit: McpRateLimit | None = None
        self.protocol: McpMethods | None = None

    async def provision(self) -> None:
        """Build the tools, and open the counters of the rate limit."""
        access = build_access(self._registry, self._apps, self._dry_run, self.config)
        self.protocol = build_methods(access, self.config)
        counters = self._instance.open_counters(_WINDOW, CALLS)
        self._rate_limit = McpRateLimit(counters, self.config.calls_per_second)

    async def close(self) -> None:
        if self._rate_limit is not None:
            self._rate_limit.close()

    def time_limit_ms(self, exchange: Exchange) -> int:
        limit: int = self._registry.find("graphql").config.query_time_limit  # type: ignore[union-attr]
        return limit

    def parse(self, exchange: Exchange) -> Parsed:
        """Reject requests that foreign pages may have sent."""
        self._gate.check(exchange.request)
        return Parsed()

    async def handle(self, exchange: Exchange) -> Answer:
        # `provision` has built both.
        assert self._rate_limit is not None and self.protocol is not None  # noqa: S101, PT018
        self._rate_limit.count(exchange)
        message = await exchange.request.run(read_message)
        return await answer(self.protocol, McpCall(exchange), message)

    def render_error(self, error: DocgraphError) -> Body | None:
        """Render as a message of the protocol, whatever went wrong."""
        return render_error(error)


def build_access(
    registry: PluginRegistry, apps: Apps, dry_runs: RequestDryRun, settings: Mcp | None = None
) -> AppAccess:
    """Build the access that finds apps for callers, under the current rules."""
    graphql = registry.find("graphql")
    if graphql is None:
        raise StartupError("agents ask the GraphQL apps, and 'graphql' is off")
    is_plain = settings is not None and settings.json_mode == "plain"
    mode = JsonMode.GRAPHQL_PLAIN if is_plain else None
    return AppAccess(graphql, apps, dry_runs, mode)


def build_methods(access: AppAccess, settings: Mcp) -> McpMethods:
    """Build the methods of the protocol with our tools, resources and prompts."""
    toolbox, resources = Toolbox(access, settings), Resources(access, settings)
    return McpMethods(toolbox, resources, Prompts(access, toolbox.operations), __version__)
