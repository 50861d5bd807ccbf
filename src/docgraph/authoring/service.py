"""Service `/_tools/…`: check, try, explain, infer and advise; nothing is stored.

It is a service like any other: the root role may use it, and callers whom a rule permits. Such a
caller sees nothing here that is hidden from them elsewhere (`app_sessions`).

A server imports only this module of the workbench: most servers never get a request for a tool. The
first request imports the rest, in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from docgraph.access.dry_run import RequestDryRun
from docgraph.access.explain_decision import Bindings
from docgraph.access.rulebook import RuleBook
from docgraph.access.sections import DbAclAuthorizer
from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.authoring.sections import Tools
from docgraph.exchange import Answer, Body, DocgraphError, Exchange, Parsed
from docgraph.exchange.errors import NotFound
from docgraph.graphql.apps.apps import Apps
from docgraph.graphql.errors import OperationRefused
from docgraph.graphql.http.response_shape import render_error
from docgraph.graphql.sections import Graphql
from docgraph.plugins.kinds import Service
from docgraph.plugins.packages import TOOLS, list_parts
from docgraph.plugins.registry import PluginRegistry, bound_path
from docgraph.rest.sections import Mongo
from docgraph.runtime import Blocking, run_blocking
from docgraph.store import Store

if TYPE_CHECKING:
    from docgraph.authoring.toolset import Toolset

_BEFORE: Final = ("check", "draft", "plan", "matrix", "history")
_AFTER: Final = ("realm", "rules")
_POST: Final = ("POST",)
_METHODS: Final[Mapping[str, tuple[str, ...]]] = {
    "matrix": ("GET", "POST"),
    "realm": ("GET",),
    "rules": ("GET", "POST"),
}


@dataclass(frozen=True, slots=True)
class ToolRequest(Parsed):
    """A request to the tool of that name; its body has the arguments."""

    tool: str = ""


class ToolsService(Service):
    """The tools for authors of apps."""

    name: ClassVar[str] = "tools"
    description: ClassVar[str] = "checks, tries, explains, infers and advises on app definitions"
    part_of: ClassVar[str] = "graphql"
    uri: ClassVar[str] = "/_tools"
    methods: ClassVar[tuple[str, ...]] = _POST
    Config = Tools

    def __init__(  # noqa: PLR0913 - the providers and sections
        self,
        config: Tools,
        *,
        registry: PluginRegistry,
        graphql: Graphql,
        mongo: Mongo,
        users: DbRealmAuthenticator,
        rules: DbAclAuthorizer,
        store: Store,
        blocking: Blocking,
        acl_rules: RuleBook,
        gql_app_definition_cache: Apps,
        imagined_requests: RequestDryRun,
        account_bindings: Bindings | None = None,
    ) -> None:
        self.config = config
        self.max_body_size = config.max_body_size
        self._base = len(bound_path(self, config))
        self._query_time_limit = graphql.query_time_limit
        self._lane = lane = blocking.lane("tools", concurrency=1, queue=16)
        self.tools: Sequence[str] = ()
        self._loading = asyncio.Lock()
        self.toolset: Toolset | None = None

        def build_toolset() -> Toolset:
            from docgraph.authoring.toolset import Toolset

            return Toolset(
                registry=registry,
                graphql=graphql,
                mongo=mongo,
                users=users,
                rules=rules,
                store=store,
                lane=lane,
                book=acl_rules,
                apps=gql_app_definition_cache,
                dry_runs=imagined_requests,
                bindings=account_bindings,
            )

        self._build_toolset = build_toolset

    async def provision(self) -> None:
        """Find the tools of installed packages; reading what they declare takes a moment."""
        added = await run_blocking(self._lane, list_parts, TOOLS)
        self.tools = (*_BEFORE, *added, *_AFTER)

    def parse(self, exchange: Exchange) -> ToolRequest:
        tool = self._find_tool(exchange)
        if tool not in self.tools:
            tools = ", ".join(self.tools)
            raise NotFound("there is no such tool", hint=f"there are {tools}")
        return ToolRequest(tool=tool)

    def _find_tool(self, exchange: Exchange) -> str:
        """Return the path below that of the service, if it is a single segment."""
        below = exchange.request.segments[self._base :]
        return below[0] if len(below) == 1 else ""

    def allowed_methods(self, exchange: Exchange) -> Sequence[str]:
        """Return POST, where a tool exists; also GET for tools that need no body."""
        return _METHODS.get(self._find_tool(exchange), _POST)

    def time_limit_ms(self, exchange: Exchange) -> int:
        """Return the limit of queries, or its own if that is less: drafts may be expensive."""
        limits = (self._query_time_limit, self.config.query_time_limit)
        return min((limit for limit in limits if limit > 0), default=0)

    async def handle(self, exchange: Exchange) -> Answer:
        parsed = exchange.parsed
        assert isinstance(parsed, ToolRequest)  # noqa: S101 - `parse` made it
        toolset = self.toolset or await self._load_toolset()
        return await toolset.run(parsed.tool, exchange)

    async def _load_toolset(self) -> Toolset:
        """Import the tools in a thread, once: requests that arrive meanwhile wait for it.

        They wait for the lock, not in the lane, so that its queue has space for work.
        """
        async with self._loading:
            if self.toolset is None:
                self.toolset = await run_blocking(self._lane, self._build_toolset)
            return self.toolset

    def render_error(self, error: DocgraphError) -> Body | None:
        """Render as the app's endpoint would, if a query is wrong; otherwise the general shape."""
        return render_error(error) if isinstance(error, OperationRefused) else None
