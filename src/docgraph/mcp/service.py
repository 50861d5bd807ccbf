"""MCP endpoint: `POST /mcp`.

It is in the pipeline like any other service: authentication and authorization come before. This
service adds the check of hosts and origins, and the rate limit.
"""

from __future__ import annotations

from typing import ClassVar

from docgraph import __version__
from docgraph.access.dry_run import RequestDryRun
from docgraph.codec import JsonMode
from docgraph.exchange import Answer, Body, DocgraphError, Exchange, Parsed, StartupError
from docgraph.graphql.apps.apps import Apps
from docgraph.graphql.http.app_access import AppAccess
from docgraph.mcp.host_check import HostCheck, Rates
from docgraph.mcp.mcp_methods import McpMethods
from docgraph.mcp.prompts import Prompts
from docgraph.mcp.resources import Resources
from docgraph.mcp.rpc import McpCall, read_message, render_error
from docgraph.mcp.sections import Mcp
from docgraph.mcp.toolbox import Toolbox
from docgraph.mcp.transport import answer
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
        self.protocol: McpMethods | None = None

    async def provision(self) -> None:
        """Build the tools, and open the counters of the rate limit."""
        access = build_access(self._registry, self._apps, self._imagination, self.config)
        self.protocol = build_methods(access, self.config)
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
        assert self._rates is not None and self.protocol is not None  # noqa: S101, PT018
        self._rates.count(exchange)
        message = await exchange.request.run(read_message)
        return await answer(self.protocol, McpCall(exchange), message)

    def render_error(self, error: DocgraphError) -> Body | None:
        """Render as a message of the protocol, whatever went wrong."""
        return render_error(error)


def build_access(
    registry: PluginRegistry, apps: Apps, imagination: RequestDryRun, settings: Mcp | None = None
) -> AppAccess:
    """Build the access that finds apps for callers, under the current rules."""
    graphql = registry.find("graphql")
    if graphql is None:
        raise StartupError("agents ask the GraphQL apps, and 'graphql' is off")
    is_plain = settings is not None and settings.json_mode == "plain"
    mode = JsonMode.GRAPHQL_PLAIN if is_plain else None
    return AppAccess(graphql, apps, imagination, mode)


def build_methods(access: AppAccess, settings: Mcp) -> McpMethods:
    """Build the methods of the protocol with our tools, resources and prompts."""
    toolbox, resources = Toolbox(access, settings), Resources(access, settings)
    return McpMethods(toolbox, resources, Prompts(access, toolbox.operations), __version__)
