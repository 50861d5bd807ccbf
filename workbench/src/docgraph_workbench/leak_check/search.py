"""Leak search: the obvious requests first, then random ones, until the budget is used."""

from __future__ import annotations

import asyncio
import secrets
import signal
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from docgraph.tools.commands import ConfigSources
from docgraph.tools.data import JsonMode, to_json
from docgraph.tools.installation import (
    ExplainedRequest,
    LoadedConfiguration,
    find_service_uri,
    open_application,
)
from docgraph_workbench.fuzz.argument_probes import ArgumentProbes
from docgraph_workbench.fuzz.fuzz_values import Canary, Guesses
from docgraph_workbench.fuzz.random_queries import Query
from docgraph_workbench.leak_check.documents import Made
from docgraph_workbench.leak_check.leaks import (
    DIFFERENCE,
    Leak,
    LeakOracle,
    LeakReport,
    Showing,
    advise,
)
from docgraph_workbench.leak_check.material import Material, gather
from docgraph_workbench.leak_check.operation import GRAPHQL, MCP, REST, STREAMS, FuzzRequest
from docgraph_workbench.leak_check.planting import Barriers, Planting, app_path, find_barriers
from docgraph_workbench.leak_check.request_makers import (
    AgentMaker,
    RestMaker,
    build_failing_filters,
    message,
    read_result,
)
from docgraph_workbench.leak_check.scratch import open_scratch
from docgraph_workbench.leak_check.streams import StreamListener, list_streams
from docgraph_workbench.leak_check.world import Renaming, World, open_world, prepare_world

_MAX_LEAKS: Final = 20
_MAX_CAUSES: Final = 30
_GUESSED: Final = 8  # canaries of a kind that a caller may guess

Makers = dict[str, tuple[Iterator[FuzzRequest], Callable[[], FuzzRequest]]]


@dataclass(frozen=True, slots=True)
class SearchBudget:
    """When to stop: after so many operations, or so many seconds."""

    operations: int | None
    seconds: float | None
    seed: int


@dataclass(slots=True)
class Search:
    """Sends requests to both worlds, and records what was found."""

    planting: Planting
    barriers: Barriers
    bounds: SearchBudget
    on_progress: Callable[[int, int], None]
    findings: LeakReport
    oracle: LeakOracle = field(init=False)
    _probes: list[FuzzRequest] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        planting = self.planting
        names = planting.material.surface.secret_names
        self.oracle = LeakOracle(planting.worlds, planting.finder, names, planting.restore)

    async def run(self) -> None:
        """Run until the budget is used."""
        random = Random(self.bounds.seed)  # noqa: S311 - to be repeated
        started, count = time.monotonic(), 0
        async with aclosing(self._query_all(random)) as asked:
            async for operation, shown in asked:
                count += 1
                for showing in shown:
                    await self._add(operation, showing)
                self.on_progress(count, len(self.findings.leaks))
                if self._is_enough(count, time.monotonic() - started):
                    break
        await self._drop_symptoms()

    def _is_enough(self, count: int, seconds: float) -> bool:
        if len(self.findings.leaks) >= _MAX_LEAKS:
            self.findings.notes.append(f"ended after {_MAX_LEAKS} leaks: there may be more")
            return True
        most, longest = self.bounds.operations, self.bounds.seconds
        return (most is not None and count >= most) or (longest is not None and seconds >= longest)

    async def _query_all(
        self, random: Random
    ) -> AsyncGenerator[tuple[FuzzRequest, list[Showing]], None]:
        """Yield the likeliest leaks, streams, the obvious requests, and random ones without end."""
        makers = await self._build_makers(random)
        for operation in self._probes:
            yield operation, await self._try(operation)
        listener = StreamListener(
            self.planting.worlds[0], self.planting.scratch, self.oracle, random
        )
        for collection in self.barriers.collections:
            made = self.planting.made.get(collection.namespace)
            if made is None:
                continue
            for operation in list_streams(self.planting.material, collection):
                shown, is_open = await listener.follow(operation, collection, made[0])
                self._count(operation, is_open)
                await self.planting.restore(collection.namespace)
                yield operation, shown
        for operation in _interleave([sweep for sweep, _ in makers.values()]):
            yield operation, await self._try(operation)
        doors = list(makers)
        weights = [3 if self.findings.answered.get(door) else 1 for door in doors]
        while True:
            make = makers[random.choices(doors, weights)[0]][1]
            operation = make()
            yield operation, await self._try(operation)

    async def _build_makers(self, random: Random) -> Makers:
        """Build, for each open door, the obvious requests and the random ones."""
        guesses = Guesses(random, self._collect_guesses())
        material, world = self.planting.material, self.planting.worlds[0]
        queries = ArgumentProbes(
            material.app, material.roles, random, guesses, self._collect_words()
        )
        path = app_path(world, material)

        def build_request(query: Query) -> FuzzRequest:
            variables = {"variables": query.variables} if query.variables else {}
            return FuzzRequest(GRAPHQL, "POST", path, body={"query": query.text} | variables)

        self._probes = list(map(build_request, queries.probe(self._collect_secrets())))
        swept = list(map(build_request, queries.sweep()))
        stored = [{"operation": operation.name} for operation in material.app.definition.operations]
        swept += [FuzzRequest(GRAPHQL, "POST", path, body=body) for body in stored]
        if "@filter" in str(material.definition.get("mappings")):
            failing = self._list_failing()
            sent = [{"filter": to_json(condition, JsonMode.STANDARD)} for condition in failing]
            swept += [
                replace(request, parameters=filter) for filter in sent for request in list(swept)
            ]
        makers: dict[str, Any] = {GRAPHQL: (iter(swept), lambda: build_request(queries.make()))}
        if self.barriers.collections:
            for collection in self.barriers.collections:
                made = self.planting.made.get(collection.namespace, (Made(),))[0]
                collection.strangers = [doc["_id"] for doc in made.excluded][-2:]
                collection.excluded = made.list_comparable(collection.shape)
            batch = find_service_uri(world.app, "batch")
            rest = RestMaker(self.barriers.collections, random, guesses, batch)
            makers[REST] = (rest.sweep(), rest.make)
        agents = find_service_uri(world.app, "mcp")
        if agents is not None:
            reply = await world.send(message(agents, "tools/list"))
            tools = read_result(reply.body).get("tools") or []
            uri = material.app.definition.uri
            if tools:
                agent = AgentMaker(agents, tools, uri, queries, random, guesses)
                makers[MCP] = (agent.sweep(), agent.make)
        self._record_doors(makers, has_agents=agents is not None)
        return makers

    def _record_doors(self, makers: dict[str, Any], *, has_agents: bool) -> None:
        if REST not in makers:
            self.findings.notes.append("REST: nothing was tried, as nothing is open to the caller")
        if MCP not in makers:
            why = "no tool is offered to the caller" if has_agents else "mcp.enabled is off"
            self.findings.notes.append(f"MCP: {why}")

    def _collect_guesses(self) -> dict[str, list[Any]]:
        """Return secrets of the first world that a caller happens to guess, by kind."""
        guesses: dict[str, list[Any]] = {"object": self._list_failing()}
        for name, (first, _) in self.planting.made.items():
            shape = self.planting.material.surface.shapes[name]
            for _, canary in first.canaries:
                kind = shape.at(canary.path.split(".")).kind or "string"
                guessed = guesses.setdefault(kind, [])
                if len(guessed) < _GUESSED and isinstance(canary.value, dict) == (kind == "object"):
                    guessed.append(canary.value)
        return guesses

    def _collect_secrets(self) -> dict[str, list[Any]]:
        """Return the secrets in rows that the caller sees, in the first world, by property."""
        values_by_path: dict[str, list[Any]] = {}
        for first, _ in self.planting.made.values():
            for _, canary in first.canaries:
                if not canary.is_row:
                    values_by_path.setdefault(canary.path, []).append(canary.value)
        return values_by_path

    def _list_failing(self) -> list[dict[str, Any]]:
        """Return for each collection a filter that fails for an excluded row."""
        filters = []
        for name, (first, _) in self.planting.made.items():
            shape = self.planting.material.surface.shapes[name]
            for _, canary in first.list_comparable(shape)[:1]:
                filters.append(next(build_failing_filters(canary.path, canary.value)))
        return filters

    def _collect_words(self) -> list[str]:
        """Return strings that definitions compare with."""
        return sorted(
            {
                value
                for shape in self.planting.material.surface.shapes.values()
                for _, node in shape.leaves()
                for value in node.values
                if isinstance(value, str)
            }
        )

    async def _try(self, operation: FuzzRequest) -> list[Showing]:
        before = self.oracle.answered
        shown = await self.oracle.try_out(operation)
        self._count(operation, self.oracle.answered > before)
        return shown

    def _count(self, operation: FuzzRequest, is_answered: bool) -> None:
        tried, answered = self.findings.tried, self.findings.answered
        tried[operation.door] = tried.get(operation.door, 0) + 1
        answered[operation.door] = answered.get(operation.door, 0) + is_answered

    async def _add(self, operation: FuzzRequest, showing: Showing) -> None:
        if showing.kind == DIFFERENCE:
            await self._add_difference(operation)
        elif not self._is_known(operation, showing):
            await self._keep(operation, showing)

    def _is_known(self, operation: FuzzRequest, showing: Showing) -> bool:
        key = showing.key(operation)
        return any(leak.showing.key(leak.operation) == key for leak in self.findings.leaks)

    async def _keep(self, operation: FuzzRequest, showing: Showing) -> None:
        if operation.door != STREAMS:  # one that is opened again reports other changes
            operation, showing = await self.oracle.shrink(operation, showing)
        self.findings.leaks.append(Leak(operation, showing, advise(operation, showing)))

    async def _add_difference(self, operation: FuzzRequest) -> None:
        """Add a difference only if it remains when the worlds agree on what already leaks."""
        async with self._agreeing(self._list_known(operation)):
            difference = await self.oracle.find_difference(operation)
            if difference is None:
                return
            smallest, showing = await self.oracle.shrink(operation, difference)
        showing = replace(showing, cause=await self._find_cause(smallest))
        if not self._is_known(smallest, showing):
            self.findings.leaks.append(Leak(smallest, showing, advise(smallest, showing)))

    async def _find_cause(self, operation: FuzzRequest) -> Canary | None:
        """Return the one secret without which the worlds give the same response."""
        known_canaries = self._list_known(operation)
        places: dict[tuple[Any, ...], Canary] = {}
        for first, _ in self.planting.made.values():
            for _, secret in first.canaries:
                places.setdefault((secret.namespace, secret.is_row or secret.path), secret)
        for canary in list(places.values())[:_MAX_CAUSES]:
            async with self._agreeing([*known_canaries, canary]):
                if await self.oracle.find_difference(operation) is None:
                    return canary
        return None

    def _list_known(self, operation: FuzzRequest) -> list[Canary]:
        """Return the properties that this door is known to show, or to depend on.

        Failures are reported for each kind of request: fixing one says nothing about the others.
        """
        leaks = (
            leak.showing
            for leak in self.findings.leaks
            if leak.operation.door == operation.door
            and (leak.operation.way == operation.way or not leak.showing.is_failure)
        )
        return [
            canary for leak in leaks for canary in (leak.canary, leak.cause) if canary is not None
        ]

    @asynccontextmanager
    async def _agreeing(self, canaries: Sequence[Canary]) -> AsyncIterator[None]:
        """Make the worlds agree on some secrets inside the block."""
        changed = await self.planting.equalise(canaries)
        try:
            yield
        finally:
            for name in changed:
                await self.planting.restore(name)

    async def _drop_symptoms(self) -> None:
        """Drop earlier differences that a later finding explains."""
        for leak in [leak for leak in self.findings.leaks if leak.showing.kind == DIFFERENCE]:
            door = leak.operation.door
            shown = [
                other.showing.canary
                for other in self.findings.leaks
                if other.operation.door == door
            ]
            async with self._agreeing([canary for canary in shown if canary is not None]):
                if await self.oracle.find_difference(leak.operation) is None:
                    self.findings.leaks.remove(leak)


def _interleave(several: list[Iterator[FuzzRequest]]) -> Iterator[FuzzRequest]:
    """Yield one of each in turn, so that few operations reach every door."""
    pending = list(several)
    while pending:
        for requests in list(pending):
            try:
                yield next(requests)
            except StopIteration:
                pending.remove(requests)


@dataclass(frozen=True, slots=True)
class Task:
    """The task: an app of a configuration and a caller; `on_progress` receives the progress."""

    sources: ConfigSources
    prepared: LoadedConfiguration
    app: str
    question: ExplainedRequest
    bounds: SearchBudget
    on_progress: Callable[[int, int], None]


async def check_leaks(task: Task, address: str) -> LeakReport:
    """Search for leaks; the scratch databases are dropped at the end."""
    prepared, seed = task.prepared, task.bounds.seed
    _end_by_signal(signal.SIGTERM)
    prefix = f"docgraph_fuzz_{secrets.token_hex(4)}_"
    async with open_scratch(prepared, address, prefix) as scratch:
        async with open_application(prepared, address) as bench:
            material = await gather(bench, scratch, prepared, task.app, task.question)
        uri = material.app.definition.uri
        findings = LeakReport(uri, _describe(material), seed, notes=list(material.notes))
        findings.notes += _find_limits(prepared, material)
        planting = Planting(prepared, scratch, material, findings, seed)
        async with AsyncExitStack() as stack:
            for letter in "ab":
                renaming = Renaming(f"{prefix}{letter}_")
                await planting.copy(renaming)
                world = await _start(stack, task, material, renaming, address)
                planting.worlds.append(world)
            barriers = await find_barriers(planting.worlds[0], material)
            for name in material.surface.shapes:
                await planting.plant(name, barriers)
            planting.record_hidden(barriers)
            findings.notes += barriers.notes
            if findings.hidden:
                await Search(planting, barriers, task.bounds, task.on_progress, findings).run()
            else:
                findings.notes.append("nothing is hidden from this caller, so nothing was tried")
    return findings


def _find_limits(prepared: LoadedConfiguration, material: Material) -> Iterator[str]:
    """Yield what this configuration prevents the check from covering."""
    if not material.app.definition.enabled:
        yield "the app is disabled: no one can query it"
    rest: Any = prepared.config.sections["mongo"]
    for mount in rest.mongo_mounts:
        if "{" in mount.what or "{" in mount.where:
            yield f"REST: the mount at {mount.where} has variables, and was left out"


def _end_by_signal(number: signal.Signals) -> None:
    """End the check on a signal as on Ctrl-C, so that no scratch database is left."""
    current = asyncio.current_task()
    if current is not None:
        asyncio.get_running_loop().add_signal_handler(number, current.cancel)


async def _start(
    stack: AsyncExitStack, task: Task, material: Material, renaming: Renaming, address: str
) -> World:
    prepared = prepare_world(
        task.sources,
        task.prepared,
        renaming,
        material.account,
        databases=material.databases,
        file_rules=material.file_rules,
    )
    return await stack.enter_async_context(open_world(prepared, address, renaming))


def _describe(material: Material) -> str:
    if material.account is None:
        return "an unauthenticated caller"
    return f"{material.account.name} (roles: {', '.join(material.roles) or 'none'})"
