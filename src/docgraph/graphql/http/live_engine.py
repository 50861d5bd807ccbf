"""Execution of live queries: authorize the request again, then execute it or share an execution."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple, Protocol

from docgraph.exchange import Account, Body, Exchange
from docgraph.exchange.errors import StoreUnavailable
from docgraph.graphql.apps.apps import Apps
from docgraph.graphql.apps.compiled_app import App
from docgraph.graphql.cache.answer_key import NoKeyError, build_key
from docgraph.graphql.errors import Classification, OperationRefused
from docgraph.graphql.execute.result import Result
from docgraph.graphql.freshness.change_watch import ChangeWatch
from docgraph.graphql.freshness.database_watch import BROKEN, LAGGING, STARTING
from docgraph.graphql.freshness.dependency import Dependency
from docgraph.graphql.freshness.recorder import DependencyRecorder
from docgraph.graphql.freshness.trackability import find_untrackable, find_untrackable_request
from docgraph.graphql.http.body import AppRequest, GraphqlRequest
from docgraph.graphql.http.response_shape import MEDIA_TYPE, render_result
from docgraph.graphql.live.live_query import LiveQuery, Worked
from docgraph.graphql.live.shared_answers import LiveAnswer, OnChange, SharedAnswers
from docgraph.graphql.plan.plan import Plan
from docgraph.graphql.plan.plan_tree import PlanTree
from docgraph.plugins.kinds import Interceptor, Kind
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Lane
from docgraph.store import Store
from docgraph.variables import Resolvers


class LiveEndpoint(Protocol):
    """The part of the GraphQL service that live queries use."""

    resolvers: Resolvers
    watch: ChangeWatch

    async def plan(self, app: App, request: GraphqlRequest, exchange: Exchange) -> Plan:
        """Return the plan of an operation for the caller; raise `OperationRefused`."""

    async def run_recorded(
        self,
        app: App,
        request: GraphqlRequest,
        exchange: Exchange,
        recorder: DependencyRecorder | None,
    ) -> Result:
        """Execute an operation in time."""

    def may_explain(self, account: Account | None) -> bool:
        """Return whether a caller may see the collections behind a query."""


@dataclass(eq=False)
class AppEngine:
    """Executes operations of apps for live queries."""

    endpoint: LiveEndpoint
    _apps: Apps
    _store: Store
    _lane: Lane
    _registry: PluginRegistry

    async def find_app(self, exchange: Exchange) -> App:
        app = await self._apps.find(AppRequest.of(exchange).uri)
        exchange.app = str(app.definition.id)
        return app

    async def has_live_apps(self) -> bool:
        served = await self._apps.list_served()
        descriptors = (entry.document.get("descriptor") for entry in served)
        return any(isinstance(each, dict) and each.get("live") for each in descriptors)

    async def grow(self, plan: Plan, request: GraphqlRequest) -> PlanTree:
        """Return the tree of the plan for the variables of a request."""
        return await plan.grow(plan.variables.read(request.variables).coerced, self._lane)

    async def find_key(
        self, plan: Plan, tree: PlanTree, request: GraphqlRequest, exchange: Exchange
    ) -> Hashable:
        """Return the key of the answer, which equal queries of equal callers have."""
        names = sorted(name for name in tree.variables if name.startswith("@"))
        resolvers, permission = self.endpoint.resolvers, exchange.permission
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
        return find_untrackable(tree, self.endpoint.resolvers)

    def find_untrackable_request(self, exchange: Exchange) -> str | None:
        """Return why the caller's row filters or plugins prevent live queries; None if not."""
        interceptors: list[Interceptor] = self._registry.of_kind(Kind.INTERCEPTOR)
        return find_untrackable_request(exchange, self.endpoint.resolvers, interceptors)

    async def run_recorded(
        self, app: App, request: GraphqlRequest, exchange: Exchange
    ) -> tuple[Result, tuple[Dependency, ...] | str]:
        """Execute an operation; return what its answer depends on, or why that is not known."""
        recorder = DependencyRecorder(self.endpoint.watch.sources)
        result = await self.endpoint.run_recorded(app, request, exchange, recorder)
        return result, await recorder.finish()


_PATIENCE: Final = 5.0  # seconds to wait until changes of a database are followed
_ATTEMPTS: Final = 3
_HIDDEN_REASON: Final = "it depends on something whose changes cannot be noticed"
_PASSING: Final = frozenset({STARTING, BROKEN, LAGGING})  # obstacles of the watch


class LiveRequest(NamedTuple):
    """An authorized request of a live query; `outer` is the request that opened it."""

    exchange: Exchange
    request: GraphqlRequest
    outer: Exchange


Authorize = Callable[[], Awaitable[LiveRequest]]


class LiveRuns:
    """Runs live queries of this process."""

    def __init__(self, engine: AppEngine, answers: SharedAnswers) -> None:
        self._engine = engine
        self._watch = engine.endpoint.watch
        self._answers = answers

    async def run_again(self, authorize: Authorize, query: LiveQuery) -> Worked:
        """Run a query with the current permissions of its caller."""
        live = await authorize()
        try:
            return await self.run(live, query)
        finally:
            release(live.outer)
            if query.ending is not None:  # its client has left meanwhile
                self._answers.leave(query)

    async def begin(self, live: LiveRequest, query: LiveQuery) -> Worked:
        """Run a query for the first time; reject one whose changes cannot be noticed."""
        worked = await self.run(live, query)
        if worked.answer.untrackable:
            raise self._reject(worked.answer.untrackable, live.exchange)
        return worked

    async def run(self, live: LiveRequest, query: LiveQuery) -> Worked:
        """Return the current answer to an authorized request."""
        app = await self._engine.find_app(live.exchange)
        plan = await self._engine.endpoint.plan(app, live.request, live.exchange)
        tree = await self._engine.grow(plan, live.request)
        if (reason := self._engine.find_untrackable(tree)) is not None:
            raise reject_untrackable(reason)
        if (reason := self._engine.find_untrackable_request(live.exchange)) is not None:
            raise self._reject(reason, live.exchange)
        key = await self._engine.find_key(plan, tree, live.request, live.exchange)
        if query.shared is None and await self._watch.begin(_list_names(tree), _PATIENCE) is None:
            raise self._reject_watch()  # the answer of another query may be too old
        execute = partial(self._execute, live, app, tree)
        answer, is_own = await self._answers.read(key, query, execute)
        return Worked(await finish(answer, live), is_own)

    async def _execute(
        self, live: LiveRequest, app: App, tree: PlanTree, on_change: OnChange
    ) -> tuple[LiveAnswer, Callable[[], None]]:
        """Execute, and register what the answer depends on.

        It is executed again if there was a change meanwhile, or if it turns out that more has to be
        followed.
        """
        names = _list_names(tree)
        has_keys = False
        for _ in range(_ATTEMPTS):
            mark = await self._watch.begin(names, _PATIENCE, documents=has_keys)
            if mark is None:
                raise self._reject_watch()
            result, dependencies = await self._engine.run_recorded(app, live.request, live.exchange)
            answer = render_answer(result, app)
            if isinstance(dependencies, str):
                return answer._replace(untrackable=dependencies), lambda: None
            registration = self._watch.register(mark, dependencies, on_change)
            if registration is not None:
                return answer, registration.release
            names |= {dependency.namespace for dependency in dependencies}
            has_keys = any(dependency.keys for dependency in dependencies)
        on_change()  # it changes all the time
        return answer, lambda: None

    def _reject(self, reason: str, exchange: Exchange) -> OperationRefused:
        """Reject a query; only those who may see its plan get a reason that names its parts."""
        is_shown = self._engine.endpoint.may_explain(exchange.account)
        return reject_untrackable(reason if is_shown else _HIDDEN_REASON)

    def _reject_watch(self) -> Exception:
        reason = self._watch.bypass_reason
        if reason not in _PASSING:
            return reject_untrackable(f"changes of the database cannot be followed: {reason}")
        return StoreUnavailable(f"changes of the database are not known now ({reason}), try again")


def _list_names(tree: PlanTree) -> set[str]:
    return {f"{fetch.mapping.db}.{fetch.mapping.collection}" for fetch in tree.fetches}


def render_answer(result: Result, app: App) -> LiveAnswer:
    """Return the answer as clients of the endpoint get it, without execution details."""
    extensions = {"limits": result.limits} if result.limits else None
    body = render_result(result, limit=app.limits.response_bytes, extensions=extensions)
    return LiveAnswer.build(body.content, has_errors=bool(result.errors) or result.data is None)


async def finish(answer: LiveAnswer, live: LiveRequest) -> LiveAnswer:
    """Return the answer after the interceptors of responses have run for this caller."""
    admission, exchange = live.outer.admission, live.exchange
    if admission is None:
        return answer
    body = Body(200, answer.content, MEDIA_TYPE)
    given = await admission.finish_entry(replace(exchange, answer=body, headers=[]))
    if given is body and body.content is answer.content:
        return answer
    if not isinstance(given, Body):
        raise reject_untrackable("an interceptor replaces the answer by another kind of response")
    return LiveAnswer.build(
        given.content, has_errors=answer.has_errors, untrackable=answer.untrackable
    )


def reject_untrackable(reason: str) -> OperationRefused:
    """Reject a live query whose changes cannot be noticed."""
    return OperationRefused.because(
        f"this query cannot be live: {reason}", "live-not-possible", Classification.UNSUPPORTED
    )


def release(outer: Exchange) -> None:
    """Release the places and the memory of a request that has been answered."""
    if outer.visit is not None:
        outer.visit.end(outer)
    patience = outer.deadline.patience
    if patience is not None and patience.memory is not None and patience.memory.size:
        patience.memory.shrink(0)
