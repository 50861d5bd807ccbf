"""MCP endpoint: `POST /mcp`.

It is in the pipeline like any other service: authentication and authorization come before. This
service adds the check of hosts and origins, and the rate limit.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any, ClassVar

from docgraph.access.dry_run import RequestDryRun
from docgraph.exchange import Answer, Body, DocgraphError, Exchange, Parsed, StartupError
from docgraph.graphql.apps.apps import Apps
from docgraph.graphql.http.app_access import AppAccess
from docgraph.mcp.call import McpCall
from docgraph.mcp.host_check import HostCheck
from docgraph.mcp.message import find_arguments, read_message, render_error
from docgraph.mcp.rates import Rates
from docgraph.mcp.resources import Resources
from docgraph.mcp.sections import Mcp
from docgraph.mcp.toolbox import Toolbox
from docgraph.plugins.kinds import Service
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Instance
from docgraph.runtime.instance import CALLS
from docgraph.runtime.sections import Core

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
        self._imagination = imagined_requests
        self._gate = HostCheck(config.allowed_hosts, config.allowed_origins, core.base_url)
        self._rates: Rates | None = None
        self._server: Any = None
        self._transport: Any = None

    async def provision(self) -> None:
        """Import the library in a thread: it takes a second."""
        protocol, self._transport = await asyncio.to_thread(
            load_library, "mcp_protocol", "transport"
        )
        access = build_access(self._registry, self._apps, self._imagination)
        toolbox, resources = Toolbox(access, self.config), Resources(access, self.config)
        self._server = protocol.build_server(
            toolbox, resources, self._transport.find_call, _find_version()
        )
        counters = self._instance.open_counters(_WINDOW, CALLS)
        self._rates = Rates(counters, self.config.calls_per_second)

    async def close(self) -> None:
        """Release the rate counters."""
        if self._rates is not None:
            self._rates.close()

    def time_limit_ms(self, exchange: Exchange) -> int:
        """Return the time limit of queries."""
        limit: int = self._registry.find("graphql").config.query_time_limit  # type: ignore[union-attr]
        return limit

    def parse(self, exchange: Exchange) -> Parsed:
        """Reject requests that foreign pages may have sent."""
        self._gate.check(exchange.request)
        return Parsed()

    async def handle(self, exchange: Exchange) -> Answer:
        """Answer one message."""
        assert self._rates is not None  # noqa: S101 - provisioned
        self._rates.count(exchange)
        body = await exchange.request.read_body()
        message = await exchange.request.run(read_message)
        call = McpCall(exchange, find_arguments(message))
        answer: Body = await self._transport.answer(self._server, call, body)
        return answer

    def render_error(self, error: DocgraphError) -> Body | None:
        """Render as a message of the protocol, whatever went wrong."""
        return render_error(error)


def load_library(*names: str) -> list[Any]:
    """Import and return the modules of this package that need the protocol's library."""
    try:
        return [import_module(f"docgraph.mcp.{name}") for name in names]
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise StartupError(
            "agents need the package 'mcp', which is not installed",
            hint="pip install 'docgraph[mcp]', or turn off mcp",
        ) from error


def build_access(registry: PluginRegistry, apps: Apps, imagination: RequestDryRun) -> AppAccess:
    """Build the access that finds apps for callers, under the current rules."""
    graphql = registry.find("graphql")
    if graphql is None:
        raise StartupError("agents ask the GraphQL apps, and 'graphql' is off")
    return AppAccess(graphql, apps, imagination)


def _find_version() -> str:
    from docgraph import __version__

    return __version__
