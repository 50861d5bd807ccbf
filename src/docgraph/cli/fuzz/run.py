"""Leak check, all steps: read, copy, plant, search, drop."""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

from docgraph.access.explain_decision import ExplainedRequest
from docgraph.cli.application import open_application
from docgraph.cli.fuzz.barriers import find_barriers
from docgraph.cli.fuzz.leaks import LeakReport
from docgraph.cli.fuzz.material import Material, gather
from docgraph.cli.fuzz.planting import Planting
from docgraph.cli.fuzz.renaming import Renaming
from docgraph.cli.fuzz.search import Search, SearchBudget
from docgraph.cli.fuzz.world import World, open_world, prepare_world
from docgraph.config import ConfigSources
from docgraph.rest.sections import Mongo
from docgraph.server.prepare import LoadedConfiguration
from docgraph.store.driver.scratch import open_scratch
from docgraph.store.sections import MClient

_WORLDS = "ab"


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
    async with open_scratch(prepared.config.get(MClient), address, prefix) as scratch:
        async with open_application(prepared, address) as bench:
            material = await gather(bench, scratch, prepared, task.app, task.question)
        uri = material.app.definition.uri
        findings = LeakReport(uri, _describe(material), seed, notes=list(material.notes))
        findings.notes += _find_limits(prepared, material)
        planting = Planting(prepared, scratch, material, findings, seed)
        async with AsyncExitStack() as stack:
            for letter in _WORLDS:
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
    for mount in prepared.config.get(Mongo).mongo_mounts:
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
