"""HTTP body → operation → plan → result → HTTP status.

The service finds the app of the uri, the part of it that the caller sees, the plan of the
operation, and has it executed within the time limit. What cannot be answered is raised; the
pipeline hands it back to `render_error`, so that every answer has the same shape.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from docgraph.codec import decode
from docgraph.config.section import Section
from docgraph.config.sections import DbAclAuthorizer, Graphql
from docgraph.exchange import Account, Answer, Body, Deadline, DocgraphError, Exchange
from docgraph.exchange.errors import NotFound, TimeLimitExceeded
from docgraph.exchange.path import parse_path
from docgraph.graphql.app import App
from docgraph.graphql.apps import Apps
from docgraph.graphql.body import GraphqlRequest, parse_body
from docgraph.graphql.execute import Result, execute
from docgraph.graphql.operations import Operations, may_introspect
from docgraph.graphql.plan import Plan
from docgraph.graphql.shape import render_error, render_result
from docgraph.plugins.kinds import Kind, Service
from docgraph.plugins.registry import PluginRegistry
from docgraph.store import Store
from docgraph.variables import Resolvers

__all__ = ["GraphqlService", "Ran"]


@dataclass(frozen=True, slots=True)
class Ran:
    """An operation that was run: its plan, its result, and whether the plan was kept."""

    plan: Plan
    result: Result
    kept: bool

    def explain(self) -> dict[str, Any]:
        """What `graphql.verbose` shows to administrators, and `docgraph explain` to people."""
        return {
            "plan": self.plan.explain(),
            "planCached": self.kept,
            "commands": [command.as_dict() for command in self.result.commands],
            "documents": self.result.documents,
        }


class GraphqlService(Service):
    """One endpoint per app, at `<uri>/<app uri>`."""

    name: ClassVar[str] = "graphql"
    description: ClassVar[str] = "the GraphQL apps"
    uri: ClassVar[str] = "/graphql"
    methods: ClassVar[tuple[str, ...]] = ("POST",)
    Config = Graphql

    def __init__(
        self,
        config: Graphql,
        store: Store,
        registry: PluginRegistry,
        configuration: Mapping[str, Section],
        gql_app_definition_cache: Apps,
    ) -> None:
        self.max_body_size = config.max_body_size
        self._config = config
        self._store = store
        self._registry = registry
        self._apps = gql_app_definition_cache
        self._operations = Operations(config)
        self._base = len(parse_path(config.uri.encode()))
        self._root_role = _find_root_role(configuration)

    async def provision(self) -> None:
        """Know the variables of all plugins."""
        self._resolvers = Resolvers(decode, self._registry.of_kind(Kind.VARIABLE_RESOLVER))

    async def handle(self, exchange: Exchange) -> Answer:
        """Run one operation."""
        exchange.deadline = Deadline.after_ms(self._config.query_time_limit)
        segments = exchange.request.segments[self._base :]
        if not segments:
            raise NotFound("GraphQL app not found")
        app = await self._apps.find("/".join(segments))
        exchange.app = str(app.definition.id)
        request = parse_body(await exchange.request.read_body(), exchange.request.content_type)
        ran = await self.run(app, request, exchange)
        extensions = None
        if self._config.verbose and self._is_administrator(exchange.account):
            extensions = ran.explain()
        return render_result(ran.result, limit=app.limits.response_bytes, extensions=extensions)

    async def run(self, app: App, request: GraphqlRequest, exchange: Exchange) -> Ran:
        """Plan and execute an operation of an app for the caller of the exchange."""
        plan, kept = self._operations.find(
            app.visible_to(exchange.roles),
            request,
            introspection=may_introspect(self._config.introspection, exchange.account),
        )
        return Ran(plan, await self._execute(plan, request, exchange), kept)

    def render_error(self, error: DocgraphError) -> Body | None:
        """GraphQL-shaped, whatever went wrong."""
        return render_error(error)

    async def _execute(self, plan: Plan, request: GraphqlRequest, exchange: Exchange) -> Result:
        """Execute within the deadline; every command has it, and so has what lies between them."""
        deadline = exchange.deadline
        try:
            async with asyncio.timeout(deadline.remaining()):
                return await execute(
                    plan,
                    store=self._store,
                    exchange=exchange,
                    variable_values=request.variables,
                    variables_resolver=self._resolvers,
                    settings=self._config,
                    limits=plan.app.limits,
                )
        except TimeoutError:
            raise TimeLimitExceeded(
                f"maximum query time limit of {deadline.limit_ms}ms exceeded"
            ) from None

    def _is_administrator(self, account: Account | None) -> bool:
        return account is not None and self._root_role in account.roles


def _find_root_role(configuration: Mapping[str, Section]) -> str | None:
    section = configuration.get("dbAclAuthorizer")
    return section.root_role if isinstance(section, DbAclAuthorizer) else None
