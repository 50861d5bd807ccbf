"""The leak check: copy, plant, ask, look, shrink."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from docgraph.access.explain import Question
from docgraph.access.sections import DbAclAuthorizer
from docgraph.cli.fuzz.agents import AgentMaker, message, read_result
from docgraph.cli.fuzz.barriers import Barriers, app_path, find_barriers
from docgraph.cli.fuzz.documents import Made, build_documents
from docgraph.cli.fuzz.judge import Judge
from docgraph.cli.fuzz.leaks import DIFFERENCE, Findings, Leak, Showing, advise
from docgraph.cli.fuzz.material import Material, gather
from docgraph.cli.fuzz.operation import GRAPHQL, MCP, REST, STREAMS, Operation
from docgraph.cli.fuzz.renaming import Renaming
from docgraph.cli.fuzz.rest import RestMaker
from docgraph.cli.fuzz.streams import Listener
from docgraph.cli.fuzz.world import World, open_world, prepare_world
from docgraph.cli.workbench import open_workbench
from docgraph.codec import to_stored
from docgraph.config import Sources
from docgraph.exchange import Document
from docgraph.graphql.fuzz.queries import QueryMaker
from docgraph.graphql.fuzz.values import Finder, Guesses
from docgraph.graphql.sections import Graphql
from docgraph.mcp.sections import Mcp
from docgraph.server.prepare import Prepared
from docgraph.store.driver.scratch import Scratch, open_scratch
from docgraph.store.mounts import METADATA_STORE
from docgraph.store.sections import MClient

__all__ = ["Bounds", "Task", "check_leaks"]

_MOST_LEAKS: Final = 20
_GUESSED: Final = 8  # canaries of a kind that a caller may guess
_WORLDS: Final = "ab"


@dataclass(frozen=True, slots=True)
class Bounds:
    """When it is enough: so many operations, or so many seconds."""

    operations: int | None
    seconds: float | None
    seed: int


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be checked: an app of a configuration, as a caller; `tell` hears of progress."""

    sources: Sources
    prepared: Prepared
    app: str
    question: Question
    bounds: Bounds
    tell: Callable[[int, int], None]


@dataclass(slots=True)
class Check:
    """One run, from the copy to the findings."""

    task: Task
    address: str
    scratch: Scratch
    material: Material
    findings: Findings
    worlds: list[World] = field(default_factory=list)
    made: dict[str, tuple[Made, Made]] = field(default_factory=dict)
    finder: Finder = field(default_factory=Finder)

    async def run(self, stack: AsyncExitStack, prefix: str) -> None:
        """All of it."""
        for letter in _WORLDS:
            renaming = Renaming(f"{prefix}{letter}_")
            self.worlds.append(await self._start(stack, renaming))
        barriers = await find_barriers(self.worlds[0], self.material)
        for name in self.material.surface.shapes:
            await self._plant(name, barriers)
        self._note_hidden(barriers)
        judge = Judge(self.worlds, self.finder, self.material.surface.secret_names, self._restore)
        await self._search(judge, barriers)

    # --- the copy ---------------------------------------------------------------------------------

    async def _start(self, stack: AsyncExitStack, renaming: Renaming) -> World:
        parts: dict[str, Any] = {
            "databases": self.material.databases,
            "file_rules": self.material.file_rules,
        }
        account = self.material.account
        prepared = prepare_world(self.task.sources, self.task.prepared, renaming, account, **parts)
        await self._copy(renaming)
        return await stack.enter_async_context(open_world(prepared, self.address, renaming))

    async def _copy(self, renaming: Renaming) -> None:
        """The definitions, under the names of a world."""
        graphql, rules = (
            self.task.prepared.config.get(Graphql),
            self.task.prepared.config.get(DbAclAuthorizer),
        )
        app = to_stored(renaming.definition(self.material.definition))
        await self.scratch.fill(renaming.db(graphql.db), graphql.collection, [app])
        copied = [to_stored(renaming.rule(one)) for one in self.material.rules]
        await self.scratch.fill(renaming.db(rules.acl_db), rules.acl_collection, copied)
        metadata: dict[str, list[Document]] = {}
        for name, one in self.material.metadata.items():
            known = metadata.setdefault(name.partition(".")[0], [])
            known.append(to_stored(renaming.definition(one)))
        for db, documents in metadata.items():
            await self.scratch.fill(renaming.db(db), METADATA_STORE, documents)
        for name in self.material.surface.shapes:
            db, _, collection = renaming.namespace(name).partition(".")
            await self.scratch.create(db, collection)

    async def _plant(self, name: str, barriers: Barriers) -> None:
        """Documents for one collection; the database itself tells which ones filters let pass."""
        if self._is_own(name):
            self.findings.notes.append(f"{name}: left as it is, it holds definitions")
            return
        rows = barriers.rows.get(name, [])
        shape = self.material.surface.shapes[name]
        made = build_documents(name, shape, rows, f"{self.task.bounds.seed}")
        self.made[name] = made
        await self._restore(name)
        if rows:
            for world, one in zip(self.worlds, made, strict=True):
                db, _, collection = world.renaming.namespace(name).partition(".")
                whole = {"$and": [dict(barrier.filter) for barrier in rows]}
                passing = await self.scratch.match(db, collection, whole)
                seen = [doc["_id"] for doc in one.seen if doc["_id"] in passing]
                hidden = [doc["_id"] for doc in one.excluded if doc["_id"] not in passing]
                one.keep([*seen, *hidden])
            await self._restore(name)
            self._note_missing(name, made[0])
        for one in made:
            for _, canary in one.canaries:
                self.finder.add(canary)

    def _note_missing(self, name: str, made: Made) -> None:
        if not made.seen:
            self.findings.notes.append(f"{name}: no document could be made that its filters pass")
        if not made.excluded:
            self.findings.notes.append(f"{name}: no document could be made that is filtered out")

    def _is_own(self, name: str) -> bool:
        graphql, rules = (
            self.task.prepared.config.get(Graphql),
            self.task.prepared.config.get(DbAclAuthorizer),
        )
        own = (f"{graphql.db}.{graphql.collection}", f"{rules.acl_db}.{rules.acl_collection}")
        return name in own

    async def _restore(self, name: str) -> None:
        """Make the documents of a collection new in both worlds."""
        for world, one in zip(self.worlds, self.made.get(name, ()), strict=False):
            db, _, collection = world.renaming.namespace(name).partition(".")
            await self.scratch.fill(db, collection, one.documents)

    def _note_hidden(self, barriers: Barriers) -> None:
        for name, shape in self.material.surface.shapes.items():
            for path, node in shape.leaves():
                if node.hidden_by:
                    self.findings.hidden.append(f"{name}: {'.'.join(path)} ({node.hidden_by[0]})")
                    if node.is_key or node.kind == "enum":
                        what = "a key" if node.is_key else "an enum"
                        self.findings.notes.append(
                            f"{name}: {'.'.join(path)} holds no canary, since it is {what}"
                        )
            for barrier in barriers.rows.get(name, ()):
                self.findings.hidden.append(f"{name}: rows ({barrier.reason})")
        self.findings.canaries = sum(
            len(one.canaries) for both in self.made.values() for one in both
        )

    # --- the search -------------------------------------------------------------------------------

    async def _search(self, judge: Judge, barriers: Barriers) -> None:
        random = Random(self.task.bounds.seed)  # noqa: S311 - to be repeated
        clock, end = time.monotonic, self.task.bounds.seconds
        started, count = clock(), 0
        async for operation, shown in self._ask_all(judge, barriers, random):
            count += 1
            for showing in shown:
                await self._add(judge, operation, showing)
            self.task.tell(count, len(self.findings.leaks))
            if self.task.bounds.operations is not None and count >= self.task.bounds.operations:
                break
            if end is not None and clock() - started >= end:
                break
            if len(self.findings.leaks) >= _MOST_LEAKS:
                self.findings.notes.append(f"ended after {_MOST_LEAKS} leaks: there may be more")
                break
        self._drop_symptoms()

    async def _ask_all(
        self, judge: Judge, barriers: Barriers, random: Random
    ) -> AsyncIterator[tuple[Operation, list[Showing]]]:
        """What everybody tries first, streams, and then anything, without end."""
        makers = await self._build_makers(barriers, random)
        for operation in _take_turns([sweep for sweep, _ in makers.values()]):
            yield operation, await self._try(judge, operation)
        listener = Listener(self.worlds[0], self.scratch, judge, random)
        for collection in barriers.collections:
            if made := self.made.get(collection.namespace):
                async for operation, shown, is_open in listener.listen(
                    self.material, collection, made[0]
                ):
                    self._count(operation, is_open)
                    yield operation, shown
                    await self._restore(collection.namespace)
        doors = list(makers)
        weights = [3 if self.findings.answered.get(door) else 1 for door in doors]
        while True:
            make = makers[random.choices(doors, weights)[0]][1]
            operation = make()
            yield operation, await self._try(judge, operation)

    async def _build_makers(
        self, barriers: Barriers, random: Random
    ) -> dict[str, tuple[Iterator[Operation], Callable[[], Operation]]]:
        """For each door that is open: what is tried in any case, and what comes by chance."""
        guesses = Guesses(random, self._collect_guesses())
        material, sections = self.material, self.worlds[0].app.plugins.values["configuration"]
        queries = QueryMaker(material.app, material.roles, random, guesses, self._collect_words())
        path = app_path(material, sections[Graphql.section_name])

        def ask(text: str, variables: dict[str, Any]) -> Operation:
            body = {"query": text} | ({"variables": variables} if variables else {})
            return Operation(GRAPHQL, "POST", path, body=body)

        def ask_once() -> Operation:
            query = queries.make()
            return ask(query.text, query.variables)

        swept = [ask(one.text, one.variables) for one in queries.sweep()]
        stored = [{"operation": one.name} for one in material.app.definition.operations]
        swept += [Operation(GRAPHQL, "POST", path, body=one) for one in stored]
        makers: dict[str, Any] = {GRAPHQL: (iter(swept), ask_once)}
        if barriers.collections:
            for one in barriers.collections:
                made = self.made.get(one.namespace, (Made(),))[0]
                one.strangers = [doc["_id"] for doc in made.excluded][-2:]
            rest = RestMaker(barriers.collections, random, guesses)
            makers[REST] = (rest.sweep(), rest.make)
        agents = sections.get(Mcp.section_name)
        if isinstance(agents, Mcp) and agents.enabled:
            reply = await self.worlds[0].send(message(agents.uri, "tools/list"))
            tools = read_result(reply.body).get("tools") or []
            uri = material.app.definition.uri
            if tools:
                agent = AgentMaker(agents.uri, tools, uri, queries, random, guesses)
                makers[MCP] = (agent.sweep(), agent.make)
        self._note_doors(makers, agents)
        return makers

    def _note_doors(self, makers: dict[str, Any], agents: Any) -> None:
        if REST not in makers:
            self.findings.notes.append("REST: no rule lets the caller read these collections")
        if MCP not in makers:
            is_on = isinstance(agents, Mcp) and agents.enabled
            why = "no tool is offered to the caller" if is_on else "mcp.enabled is off"
            self.findings.notes.append(f"MCP: {why}")

    def _collect_guesses(self) -> dict[str, list[Any]]:
        """Secrets of the first world that a caller happens to guess, by kind."""
        found: dict[str, list[Any]] = {}
        for name, (first, _) in self.made.items():
            shape = self.material.surface.shapes[name]
            for _, canary in first.canaries:
                known = found.setdefault(shape.at(canary.path.split(".")).kind or "string", [])
                if len(known) < _GUESSED:
                    known.append(canary.value)
        return found

    def _collect_words(self) -> list[str]:
        """Texts that definitions compare with."""
        return sorted(
            {
                value
                for shape in self.material.surface.shapes.values()
                for _, node in shape.leaves()
                for value in node.values
                if isinstance(value, str)
            }
        )

    async def _try(self, judge: Judge, operation: Operation) -> list[Showing]:
        before = judge.answered
        shown = await judge.try_out(operation)
        self._count(operation, judge.answered > before)
        return shown

    def _count(self, operation: Operation, is_answered: bool) -> None:
        tried, answered = self.findings.tried, self.findings.answered
        tried[operation.door] = tried.get(operation.door, 0) + 1
        answered[operation.door] = answered.get(operation.door, 0) + is_answered

    async def _add(self, judge: Judge, operation: Operation, showing: Showing) -> None:
        key = showing.key(operation)
        if any(one.showing.key(one.operation) == key for one in self.findings.leaks):
            return
        smallest = operation
        if operation.door != STREAMS:
            smallest = await judge.shrink(operation, showing)
        self.findings.leaks.append(Leak(smallest, showing, advise(smallest, showing)))

    def _drop_symptoms(self) -> None:
        """Where rows are shown that should not be, counts and orders differ, too."""
        rows = {
            (one.operation.door, one.showing.canary.namespace)
            for one in self.findings.leaks
            if one.showing.canary is not None and one.showing.canary.is_row
        }
        doors = {door for door, _ in rows}
        self.findings.leaks = [
            one
            for one in self.findings.leaks
            if one.showing.kind != DIFFERENCE
            or not (
                (one.operation.door, one.operation.namespace) in rows
                or (not one.operation.namespace and one.operation.door in doors)
            )
        ]


def _take_turns(several: list[Iterator[Operation]]) -> Iterator[Operation]:
    """One of each in turn, so that few operations reach every door."""
    pending = list(several)
    while pending:
        for one in list(pending):
            try:
                yield next(one)
            except StopIteration:
                pending.remove(one)


async def check_leaks(task: Task, address: str) -> Findings:
    """Look for leaks; the scratch databases are gone at the end."""
    prepared = task.prepared
    prefix = f"docgraph_fuzz_{secrets.token_hex(4)}_"
    async with open_scratch(prepared.config.get(MClient), address, prefix) as scratch:
        async with open_workbench(prepared, address) as bench:
            material = await gather(bench, scratch, prepared, task.app, task.question)
        uri, seed = material.app.definition.uri, task.bounds.seed
        findings = Findings(uri, _describe(material), seed, notes=list(material.notes))
        async with AsyncExitStack() as stack:
            await Check(task, address, scratch, material, findings).run(stack, prefix)
    return findings


def _describe(material: Material) -> str:
    if material.account is None:
        return "an unknown caller"
    return f"{material.account.name} (roles: {', '.join(material.roles) or 'none'})"
