"""Answer cache: answers operations of apps with `descriptor.cache`.

It is below authentication, authorization, limits, log and metrics, which all apply to each request,
and above the execution. Equal requests at the same time are executed once (single flight). A
request that waits for another one has its own deadline, and runs itself if that one has no complete
answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
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
from docgraph.observe.event import CacheUsed
from docgraph.plugins.kinds import Interceptor
from docgraph.runtime import Generations, Lane
from docgraph.runtime.clock import elapsed
from docgraph.store import Store
from docgraph.variables import Resolvers

PRIVATE: Final = ("Cache-Control", "private, no-store")
_REFRESHING: Final = ("no-cache", "no-store")
_HIT, _COLLAPSED = CacheUsed("hit"), CacheUsed("hit", "collapsed")
_MISS, _FIRST = CacheUsed("miss"), CacheUsed("miss", "first")


class FreshAnswer(NamedTuple):
    """An answer of an execution; `is_complete`: without errors and extensions."""

    body: Body
    is_complete: bool


# Executes the operation, and records what its answer depends on.
Execution = Callable[[DependencyRecorder | None], Awaitable[FreshAnswer]]


class CacheRequest(NamedTuple):
    """An operation's variables; `has_extensions`: its answer has parts that differ each time."""

    variables: Mapping[str, Any]
    has_extensions: bool
    lane: Lane  # for a plan that takes long to build


class CacheUse(NamedTuple):
    """An answer, and what the cache did: `status` and `age` are for those who may see them."""

    body: Body
    status: str
    age: int | None = None

    def render(self, *, is_shown: bool) -> Body:
        """Return the answer with its headers."""
        self.body.headers.append(PRIVATE)
        if is_shown:
            self.body.headers.append(("Cache-Status", f"docgraph; {self.status}"))
        if is_shown and self.age is not None:
            self.body.headers.append(("Age", str(self.age)))
        return self.body


@dataclass(eq=False, slots=True)
class _Flight:
    """An execution in progress; equal requests that came later may wait for its answer."""

    began: float
    writes: int  # through this instance, before its first command
    content: bytes | None = None  # if the answer is complete
    landed: asyncio.Event | None = None  # if others wait

    async def wait(self) -> bytes | None:
        """Return the answer; None if the caller has to execute the operation itself."""
        if self.landed is None:
            self.landed = asyncio.Event()
        await self.landed.wait()
        return self.content

    def land(self) -> None:
        """Let those who wait continue."""
        if self.landed is not None:
            self.landed.set()


class AnswerCache:
    """The cache of one process; `watch` also serves others who want to know about changes."""

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
        self._flights: dict[bytes, _Flight] = {}
        self.answers = AnswerStore(watch, generations, max_bytes)
        store.writes.on_written = generations.record_writes  # live queries compare them, too

    async def answer(
        self, plan: Plan, request: CacheRequest, exchange: Exchange, execution: Execution
    ) -> CacheUse:
        """Return the answer to an operation, from the cache if that has it."""
        variables, has_extensions, lane = request
        tree = plan.only_tree
        if tree is None:  # otherwise the execution checks variables
            coerced = plan.variables.read(variables).coerced
            tree = plan.kept_tree(coerced) or await plan.grow(coerced, lane)
        reason = "extensions" if has_extensions else self._find_obstacle(tree, exchange)
        if reason:
            return await _bypass(reason, execution)
        names = tree.variables and sorted(tree.variables)
        values = await self.resolvers.resolve_all(names, exchange) if names else {}
        permission = exchange.permission
        rows = None if permission is None else permission.read_filters
        try:
            key = build_key(plan, variables, values, rows)
        except NoKeyError:
            return await _bypass("no-key", execution)
        flight = self._flights.get(key)
        if flight is not None and self._may_share(flight):
            content = await flight.wait()
            if content is not None:
                emit(_COLLAPSED)
                return CacheUse(Body(200, content, self._media_type), "fwd=miss; collapsed")
        if self.answers.is_first(key):
            emit(_FIRST)
            return await self._run(key, execution)
        return await self._answer_again(key, plan, tree, execution)

    async def _answer_again(
        self, key: bytes, plan: Plan, tree: PlanTree, execution: Execution
    ) -> CacheUse:
        """Return the answer to a request that was missed before, or store it."""
        mark = self._watch.begin_now(tree.collections)
        if mark is None:
            return await _bypass(self._watch.bypass_reason, execution)
        options = plan.app.definition.cache
        found = self.answers.find(key, None if options is None else options.max_age)
        if found is not None:
            emit(_HIT)
            entry, age = found
            return CacheUse(Body(200, entry.content, self._media_type), "hit", int(age))
        if self.answers.is_first(key):  # an answer that was never used was dropped just now
            emit(_FIRST)
            return await self._run(key, execution)
        emit(_MISS)
        return await self._run(key, execution, mark)

    def _may_share(self, flight: _Flight) -> bool:
        """Return whether a request that comes now may have the answer of this execution.

        It began within the longest lag, and this instance has written nothing since.
        """
        is_recent = elapsed() - flight.began <= self._watch.max_lag
        return is_recent and self._generations.read("writes") == flight.writes

    async def _run(
        self, key: bytes, execution: Execution, mark: WatchMark | None = None
    ) -> CacheUse:
        """Execute the operation, for all who wait for it; store its answer if there is a mark."""
        # Another one in progress is not shared any more: requests that come later share this one.
        flight = self._flights[key] = _Flight(elapsed(), self._generations.read("writes"))
        try:
            if mark is None:
                (body, is_complete), status = await execution(None), "fwd=miss; detail=first"
            else:
                body, is_complete, status = await self._fill(key, mark, execution)
            flight.content = body.content if is_complete else None
        finally:
            if self._flights.get(key) is flight:
                del self._flights[key]
            flight.land()
        return CacheUse(body, status)

    async def _fill(
        self, key: bytes, mark: WatchMark, execution: Execution
    ) -> tuple[Body, bool, str]:
        """Execute the operation; store its answer if it is complete, and was not outdated since."""
        writes = self.answers.begin(key)
        recorder = DependencyRecorder(self._watch.sources)
        body, is_complete = await execution(recorder)
        found = await recorder.finish() if is_complete else ""
        is_stored = not isinstance(found, str) and self.answers.put(
            key, body.content, mark, writes, found
        )
        return body, is_complete, "fwd=miss; stored" if is_stored else "fwd=miss"

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
        is_trackable = not (
            find_untrackable(tree, self.resolvers)
            or find_untrackable_request(exchange, self.resolvers, self.interceptors)
        )
        return "" if is_trackable else "untrackable"


async def _bypass(reason: str, execution: Execution) -> CacheUse:
    emit(CacheUsed("bypass", reason))
    status = "fwd=request" if reason == "request" else f"fwd=bypass; detail={reason}"
    return CacheUse((await execution(None)).body, status)


def _wants_refresh(exchange: Exchange) -> bool:
    """Return whether the caller wants an answer that does not come from the cache."""
    for value in exchange.request.headers.get_list("cache-control"):
        directives = {one.partition("=")[0].strip().lower() for one in value.split(",")}
        if not directives.isdisjoint(_REFRESHING):
            return True
    return False
