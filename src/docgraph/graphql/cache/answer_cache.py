"""Answer cache: answers operations of apps with `descriptor.cache`.

It is below authentication, authorization, limits, log and metrics, which all apply to each request,
and above the execution. Equal requests at the same time are executed once (single flight). A
request that waits for another one has its own deadline, and runs itself if that one has no complete
answer.

The service executes what is missed. So a request that is executed without being stored, which is
the common kind of a miss, passes through one function of the cache, and waits for nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from docgraph.exchange import Body, Exchange
from docgraph.graphql.cache.answer_key import NoKeyError, build_key
from docgraph.graphql.cache.answer_store import AnswerStore
from docgraph.graphql.freshness.change_watch import ChangeWatch, WatchMark
from docgraph.graphql.freshness.recorder import DependencyRecorder
from docgraph.graphql.freshness.trackability import find_untrackable, find_untrackable_request
from docgraph.graphql.plan.plan import Plan
from docgraph.graphql.plan.plan_tree import PlanTree
from docgraph.observe import emit
from docgraph.observe.engine_events import CacheUsed
from docgraph.plugins.kinds import Interceptor
from docgraph.runtime import Generations, Lane
from docgraph.runtime.clock import elapsed
from docgraph.store import Store
from docgraph.variables import Resolvers

PRIVATE: Final = ("Cache-Control", "private, no-store")
_REFRESHING: Final = ("no-cache", "no-store")
_HIT, _COLLAPSED = CacheUsed("hit"), CacheUsed("hit", "collapsed")
_MISS, _FIRST = CacheUsed("miss"), CacheUsed("miss", "first")


class CachedBody(NamedTuple):
    """An answer that is not executed; `status` and `age` are for those who may see them."""

    body: Body
    status: str
    age: int | None = None


class Miss:
    """An execution in progress; equal requests that came later may wait for its answer."""

    content: bytes | None = None  # if the answer is complete
    landed: asyncio.Event | None = None  # if others wait
    recorder: DependencyRecorder | None = None  # if its answer is stored
    mark: WatchMark
    counted: Sequence[int]  # writes by slot, see `AnswerStore.put`
    status = "fwd=miss; detail=first"

    def __init__(self, key: bytes, began: float, writes: int) -> None:
        self.key = key  # empty: no one waits
        self.began = began
        self.writes = writes  # through this instance, before its first command

    async def wait(self) -> bytes | None:
        """Return the answer; None if the caller has to execute the operation itself."""
        if self.landed is None:
            self.landed = asyncio.Event()
        await self.landed.wait()
        return self.content


def add_headers(body: Body, status: str, age: int | None, *, is_shown: bool) -> Body:
    body.headers.append(PRIVATE)
    if is_shown:
        body.headers.append(("Cache-Status", f"docgraph; {status}"))
        if age is not None:
            body.headers.append(("Age", str(age)))
    return body


class AnswerCache:
    """The cache of one process; live queries use its `watch`, too."""

    resolvers: Resolvers  # set before the first request, as are the interceptors of responses
    interceptors: Sequence[Interceptor] = ()

    def __init__(
        self,
        store: Store,
        generations: Generations,
        watch: ChangeWatch,
        max_bytes: int,
        media_type: str,
    ) -> None:
        self._generations = generations
        self._watch = watch
        self._media_type = media_type
        self._obstacle = "" if store.reads_primary else "read-preference"  # for every request
        if not max_bytes:
            self._obstacle = "disabled"
        self._flights: dict[bytes, Miss] = {}
        self.answers = AnswerStore(watch, generations, max_bytes)
        store.writes.on_written = generations.record_writes  # live queries compare them, too

    def find_now(
        self, plan: Plan, variables: Mapping[str, Any], exchange: Exchange
    ) -> CachedBody | Miss | None:
        """Return the answer, or what the caller has to execute; None: `find` has to wait first."""
        tree = plan.only_tree
        if tree is None or tree.variables:
            return None
        reason = self._find_obstacle(tree, exchange)
        if reason:
            return bypass(reason)
        key = _find_key(plan, variables, {}, exchange)
        if key is None:
            return bypass("no-key")
        flight = self._flights.get(key)
        if flight is not None and self._may_share(flight):
            return None
        return self._find_stored(key, plan, tree)

    async def find(
        self, plan: Plan, variables: Mapping[str, Any], exchange: Exchange, lane: Lane
    ) -> CachedBody | Miss:
        """Return the same as `find_now`; the lane is for a plan that takes long to build."""
        tree = plan.only_tree
        if tree is None:  # otherwise the execution checks variables
            coerced = plan.variables.read(variables).coerced
            tree = plan.kept_tree(coerced) or await plan.grow(coerced, lane)
        reason = self._find_obstacle(tree, exchange)
        if reason:
            return bypass(reason)
        values = await self.resolvers.resolve_all(sorted(tree.variables), exchange)
        key = _find_key(plan, variables, values, exchange)
        if key is None:
            return bypass("no-key")
        flight = self._flights.get(key)
        if flight is not None and self._may_share(flight):
            content = await flight.wait()
            if content is not None:
                emit(_COLLAPSED)
                return CachedBody(Body(200, content, self._media_type), "fwd=miss; collapsed")
        return self._find_stored(key, plan, tree)

    def _find_stored(self, key: bytes, plan: Plan, tree: PlanTree) -> CachedBody | Miss:
        """Return the stored answer, or let the caller execute the operation."""
        if self.answers.is_first(key):
            return self._begin(key, _FIRST)
        mark = self._watch.begin_now(tree.collections)
        if mark is None:
            return bypass(self._watch.bypass_reason)
        options = plan.app.app.definition.cache
        stored = self.answers.find(key, None if options is None else options.max_age)
        if stored is not None:
            emit(_HIT)
            entry, age = stored
            return CachedBody(Body(200, entry.content, self._media_type), "hit", int(age))
        if self.answers.is_first(key):  # an answer that was never used was dropped just now
            return self._begin(key, _FIRST)
        miss = self._begin(key, _MISS)
        miss.mark, miss.counted = mark, self.answers.begin(key)
        miss.recorder = DependencyRecorder(self._watch.sources)
        miss.status = "fwd=miss"
        return miss

    def _may_share(self, flight: Miss) -> bool:
        """Return whether a request that comes now may have the answer of this execution.

        It began within the longest lag, and this instance has written nothing since.
        """
        is_recent = elapsed() - flight.began <= self._watch.max_lag
        return is_recent and self._generations.read("writes") == flight.writes

    def _begin(self, key: bytes, use: CacheUsed) -> Miss:
        """Begin an execution, for all who will wait for it."""
        emit(use)
        # Another one in progress is not shared any more: requests that come later share this one.
        miss = self._flights[key] = Miss(key, elapsed(), self._generations.read("writes"))
        return miss

    async def keep(self, miss: Miss, recorder: DependencyRecorder, content: bytes) -> None:
        """Store a complete answer, if it was not outdated since the execution began."""
        dependencies = await recorder.finish()
        if not isinstance(dependencies, str) and self.answers.put(
            miss.key, content, miss.mark, miss.counted, dependencies
        ):
            miss.status = "fwd=miss; stored"

    def end(self, miss: Miss) -> None:
        """Let those who wait for an execution continue, however it ended."""
        if self._flights.get(miss.key) is miss:
            del self._flights[miss.key]
        if miss.landed is not None:
            miss.landed.set()

    def _find_obstacle(self, tree: PlanTree, exchange: Exchange) -> str:
        """Return why an operation is executed without the cache; empty if it is not."""
        if self._obstacle:
            return self._obstacle
        request = exchange.request
        if "cache-control" in request.headers and _wants_refresh(exchange):
            return "request"
        if request.is_large:
            return "large-request"
        if not tree.fetches:
            return "no-data"
        if tree.untrackable.get(self.resolvers) != "" and find_untrackable(tree, self.resolvers):
            return "untrackable"
        if exchange.permission is None and not self.interceptors:
            return ""
        reason = find_untrackable_request(exchange, self.resolvers, self.interceptors)
        return "untrackable" if reason else ""


def _find_key(
    plan: Plan, variables: Mapping[str, Any], values: Mapping[str, Any], exchange: Exchange
) -> bytes | None:
    """Return the key of an answer, also by the caller's row filters; None: it has none."""
    permission = exchange.permission
    try:
        rows = None if permission is None else permission.read_filters
        return build_key(plan, variables, values, rows)
    except NoKeyError:
        return None


def bypass(reason: str) -> Miss:
    """Let the caller execute an operation without the cache."""
    emit(CacheUsed("bypass", reason))
    miss = Miss(b"", 0, 0)
    miss.status = "fwd=request" if reason == "request" else f"fwd=bypass; detail={reason}"
    return miss


def _wants_refresh(exchange: Exchange) -> bool:
    """Return whether the caller wants an answer that does not come from the cache."""
    for value in exchange.request.headers.get_list("cache-control"):
        directives = {directive.partition("=")[0].strip().lower() for directive in value.split(",")}
        if not directives.isdisjoint(_REFRESHING):
            return True
    return False
