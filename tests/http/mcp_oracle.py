"""The oracle of the protocol: the same tools and resources, answered by the official library.

`answer_by_library` is what a server on the library would respond to the bytes of a request.
"""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

from docgraph import __version__
from docgraph.exchange import Exchange, Request
from docgraph.exchange.errors import NotFound
from docgraph.exchange.headers import Headers
from docgraph.mcp.mcp_methods import INSTRUCTIONS, McpMethods
from docgraph.mcp.resources import McpResource
from docgraph.mcp.rpc import CompleteParams, McpCall, RpcError, convert
from docgraph.mcp.service import McpService
from docgraph.mcp.tool import Tool
from tests.http.harness import Service

_RESOURCE_NOT_FOUND = -32002
_READ_ONLY = types.ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


def find_protocol(service: Service) -> McpMethods:
    """The methods of a running application."""
    (found,) = (one for one in service.app.plugins.plugins if isinstance(one, McpService))
    assert found.protocol is not None
    return found.protocol


async def answer_by_library(
    service: Service, body: bytes, headers: Mapping[str, str]
) -> tuple[int, Any]:
    """The status and the JSON of the library's answer, for a caller without an account."""
    return await service.there(_answer(find_protocol(service), body, headers))


async def _answer(protocol: McpMethods, body: bytes, headers: Mapping[str, str]) -> tuple[int, Any]:
    handlers = _Handlers(protocol)
    with warnings.catch_warnings():  # logging is deprecated in the newest revision
        warnings.simplefilter("ignore")
        server = _build_server(handlers)
    server.middleware.clear()
    collected = _Collected(body)
    manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http",
        "method": "POST", "root_path": "", "path": "/mcp", "raw_path": b"/mcp",
        "query_string": b"", "headers": raw, "client": None, "server": None, "state": {},
    }  # fmt: skip
    async with manager.run():
        await manager.handle_request(scope, collected.receive, collected.send)
    content = bytes(collected.content)
    return collected.status, json.loads(content) if content else None


def _build_server(handlers: _Handlers) -> Server[Any]:
    return Server(
        "docgraph",
        version=__version__,
        title="docgraph",
        instructions=INSTRUCTIONS,
        get_tool_input_schema=lambda name: None,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
        on_completion=handlers.complete,
        on_set_logging_level=handlers.set_level,
    )


def _open_call(context: Any) -> McpCall:
    return McpCall(Exchange(Request("POST", b"/mcp", headers=Headers()), "oracle", service="mcp"))


class _Handlers:
    """The methods of the protocol."""

    def __init__(self, protocol: McpMethods) -> None:
        self._toolbox = protocol.toolbox
        self._resources = protocol.resources
        self._prompts = protocol.prompts

    async def list_prompts(self, context: Any, params: Any) -> types.ListPromptsResult:
        found, cursor = await self._prompts.list_page(_open_call(context), params and params.cursor)
        prompts = [types.Prompt.model_validate(one) for one in found]
        return types.ListPromptsResult(prompts=prompts, next_cursor=cursor)

    async def get_prompt(self, context: Any, params: Any) -> types.GetPromptResult:
        with _translated():
            found = await self._prompts.get(
                _open_call(context), params.name, params.arguments or {}
            )
        return types.GetPromptResult.model_validate(found)

    async def complete(self, context: Any, params: Any) -> types.CompleteResult:
        wanted = convert(params.model_dump(by_alias=True, exclude_none=True), CompleteParams)
        with _translated():
            found = await self._prompts.complete(_open_call(context), wanted)
        return types.CompleteResult.model_validate({"completion": found})

    async def set_level(self, context: Any, params: Any) -> types.EmptyResult:
        return types.EmptyResult()

    async def list_tools(self, context: Any, params: Any) -> types.ListToolsResult:
        call = _open_call(context)
        tools = await self._toolbox.list_tools(call)
        return types.ListToolsResult(tools=[_render_tool(tool) for tool in tools])

    async def call_tool(
        self, context: Any, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        call = _open_call(context)
        tool = await self._toolbox.find(call, params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:100]}")
        arguments = params.arguments or {}
        outcome = await self._toolbox.use(call, tool, arguments)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=outcome.text)],
            structured_content=json.loads(outcome.text) if outcome.is_structured else None,
            is_error=outcome.is_error,
        )

    async def list_resources(self, context: Any, params: Any) -> types.ListResourcesResult:
        call = _open_call(context)
        found, cursor = await self._resources.list_page(call, params and params.cursor)
        return types.ListResourcesResult(
            resources=[_render_resource(one) for one in found], next_cursor=cursor
        )

    async def list_templates(self, context: Any, params: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template=one.uri,
                    name=one.name,
                    description=one.description,
                    mime_type=one.media_type,
                )
                for one in self._resources.templates
            ]
        )

    async def read_resource(
        self, context: Any, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        call = _open_call(context)
        uri = str(params.uri)
        try:
            text = await self._resources.read(call, uri)
        except NotFound:
            modern = context.protocol_version in types.version.MODERN_PROTOCOL_VERSIONS
            code = types.INVALID_PARAMS if modern else _RESOURCE_NOT_FOUND
            raise MCPError(code, "Resource not found", {"uri": uri[:1000]}) from None
        content = types.TextResourceContents(uri=uri, mime_type="text/plain", text=text)
        return types.ReadResourceResult(contents=[content])


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except RpcError as error:
        raise MCPError(error.code, error.message, error.data) from None


class _Collected:
    """The two ends of an ASGI application: passes the body in, collects the answer."""

    def __init__(self, body: bytes) -> None:
        self.status = 500
        self.content = bytearray()
        self._body: bytes | None = body

    async def receive(self) -> MutableMapping[str, Any]:
        if self._body is None:
            await asyncio.Event().wait()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.content += message.get("body", b"")


def _render_tool(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=_READ_ONLY,
    )


def _render_resource(resource: McpResource) -> types.Resource:
    return types.Resource(
        uri=resource.uri,
        name=resource.name,
        description=resource.description or None,
        mime_type=resource.media_type,
    )
