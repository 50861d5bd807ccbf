"""Execution for live queries: plans, keys and dependencies of operations."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from docgraph.exchange import Account, Exchange
from docgraph.graphql.apps.apps import Apps
from docgraph.graphql.apps.compiled_app import App
from docgraph.graphql.cache.answer_key import NoKeyError, build_key
from docgraph.graphql.execute.result import Result
from docgraph.graphql.freshness.change_watch import ChangeWatch
from docgraph.graphql.freshness.dependency import Dependency
from docgraph.graphql.freshness.recorder import DependencyRecorder
from docgraph.graphql.freshness.trackability import find_untrackable, find_untrackable_request
from docgraph.graphql.http.body import GraphqlRequest
from docgraph.graphql.http.persisted import AppRequest
from docgraph.graphql.plan.plan import Plan
from docgraph.graphql.plan.plan_tree import PlanTree
from docgraph.plugins.kinds import Interceptor, Kind
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Lane
from docgraph.store import Store
from docgraph.variables import Resolvers


class LiveEndpoint(Protocol):
    """The service, as far as it is needed here."""

    resolvers: Resolvers
    watch: ChangeWatch

    async def plan(self, app: App, request: GraphqlRequest, exchange: Exchange) -> Plan:
        """Return the plan of an operation for the caller; raise `OperationRefused`."""
        ...

    async def run_recorded(
        self,
        app: App,
        request: GraphqlRequest,
        exchange: Exchange,
        recorder: DependencyRecorder | None,
    ) -> Result:
        """Execute an operation in time."""
        ...

    def may_explain(self, account: Account | None) -> bool:
        """Return whether a caller may see the collections behind a query."""
        ...


class AppEngine:
    """Executes operations of apps for live queries."""

    def __init__(
        self, endpoint: LiveEndpoint, apps: Apps, store: Store, lane: Lane, registry: PluginRegistry
    ) -> None:
        self.watch = endpoint.watch
        self._endpoint = endpoint
        self._apps = apps
        self._store = store
        self._lane = lane
        self._registry = registry

    async def find_app(self, exchange: Exchange) -> App:
        """Return the app that a request is sent to."""
        parsed = exchange.parsed
        assert isinstance(parsed, AppRequest)  # noqa: S101 - the endpoint made it
        app = await self._apps.find(parsed.uri)
        exchange.app = str(app.definition.id)
        return app

    async def has_live_apps(self) -> bool:
        """Return whether any app has live queries."""
        served = await self._apps.list_served()
        descriptors = (one.document.get("descriptor") for one in served)
        return any(isinstance(one, dict) and one.get("live") for one in descriptors)

    async def plan(self, app: App, request: GraphqlRequest, exchange: Exchange) -> Plan:
        """Return the plan of an operation for the caller; raise `OperationRefused`."""
        return await self._endpoint.plan(app, request, exchange)

    async def grow(self, plan: Plan, request: GraphqlRequest) -> PlanTree:
        """Return the tree of the plan for the variables of a request."""
        return await plan.grow(plan.variables.read(request.variables).coerced, self._lane)

    async def find_key(
        self, plan: Plan, tree: PlanTree, request: GraphqlRequest, exchange: Exchange
    ) -> Hashable:
        """Return the key of the answer, which equal queries of equal callers have."""
        names = sorted(name for name in tree.variables if name.startswith("@"))
        resolvers, permission = self._endpoint.resolvers, exchange.permission
        values = await resolvers.resolve_all(names, exchange) if names else {}
        try:
            rows = permission.read_filters if permission else None
            return build_key(plan, request.variables, values, rows), request.limits
        except NoKeyError:
            return object()  # it is equal to no other

    def find_untrackable(self, tree: PlanTree) -> str | None:
        """Return why changes of an operation's answer cannot be noticed; None if they can."""
        if not self._store.reads_primary:
            return "queries read from secondary members of the replica set"
        return find_untrackable(tree, self._endpoint.resolvers)

    def find_untrackable_request(self, exchange: Exchange) -> str | None:
        """Return the same for the caller's row filters and for plugins."""
        interceptors: list[Interceptor] = self._registry.of_kind(Kind.INTERCEPTOR)
        return find_untrackable_request(exchange, self._endpoint.resolvers, interceptors)

    def may_explain(self, account: Account | None) -> bool:
        """Return whether a caller may see the collections behind a query."""
        return self._endpoint.may_explain(account)

    async def run_once(self, app: App, request: GraphqlRequest, exchange: Exchange) -> Result:
        """Execute an operation that is not live."""
        return await self._endpoint.run_recorded(app, request, exchange, None)

    async def run_recorded(
        self, app: App, request: GraphqlRequest, exchange: Exchange
    ) -> tuple[Result, tuple[Dependency, ...] | str]:
        """Execute an operation; return what its answer depends on, or why that is not known."""
        recorder = DependencyRecorder(self.watch.sources)
        result = await self._endpoint.run_recorded(app, request, exchange, recorder)
        return result, await recorder.finish()
