"""Find what the rules hide from a caller, and plant canaries there in two worlds.

The same authorizers decide as in a server. Everything is written to scratch databases only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from docgraph import Document, Exchange, Permission, Request
from docgraph.tools.data import METADATA_STORE, is_shown, to_stored
from docgraph.tools.installation import (
    LoadedConfiguration,
    find_own_places,
    find_rest_paths,
    find_service_uri,
)
from docgraph_workbench.fuzz.fuzz_values import Canary, Finder, pool_value
from docgraph_workbench.fuzz.surface import PropertyShape, find_constants, mark_path
from docgraph_workbench.leak_check.documents import Barrier, Made, build_documents
from docgraph_workbench.leak_check.leaks import LeakReport
from docgraph_workbench.leak_check.material import Material, list_entries
from docgraph_workbench.leak_check.request_makers import ServedCollection
from docgraph_workbench.leak_check.scratch import Scratch
from docgraph_workbench.leak_check.world import Renaming, World


class Barriers:
    """Row filters by namespace, and the collections that the caller can reach by REST."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Barrier]] = {}
        self.collections: list[ServedCollection] = []
        self.notes: list[str] = []

    def add(self, namespace: str, filter: Mapping[str, Any], reason: str) -> None:
        """Add a filter, unless it is already known."""
        barriers = self.rows.setdefault(namespace, [])
        if all(barrier.filter != filter for barrier in barriers):
            barriers.append(Barrier(filter, reason))


def app_path(world: World, material: Material) -> str:
    """Return the endpoint of the app."""
    uri = find_service_uri(world.app, "graphql") or ""
    return f"{uri.rstrip('/')}/{quote(material.app.definition.uri)}"


def _find_names(value: Any) -> Iterator[str]:
    """Yield the variables of an aggregation."""
    if isinstance(value, list):
        for part in value:
            yield from _find_names(part)
    for key, inner in value.items() if isinstance(value, Mapping) else ():
        if key == "$var":
            yield str(inner[0] if isinstance(inner, list) and inner else inner)
        else:
            yield from _find_names(inner)


async def find_barriers(world: World, material: Material) -> Barriers:
    """Authorize hypothetical requests that reach the collections of the app."""
    barriers = Barriers()
    shapes = material.surface.shapes
    renamed = {world.renaming.namespace(name): name for name in shapes}
    for name, shape in shapes.items():
        for path in _find_paths(world, name):
            await _inspect(world, material, barriers, ServedCollection(name, path, shape), renamed)
        for hidden in world.app.store.guard.shield().hidden.get(world.renaming.namespace(name), ()):
            _hide(shape, {".".join(hidden): 0}, "docgraph itself")
    agents = find_service_uri(world.app, "mcp")
    for path in (app_path(world, material), *([] if agents is None else [agents])):
        permission, reason = await _find_permission(world, material, path, is_post=True)
        if permission is None:
            barriers.notes.append(f"the caller may not ask {path}: {reason}")
        _record_rows(barriers, permission, renamed, path)
    for name, rows in barriers.rows.items():
        for barrier in rows:
            list(find_constants(shapes[name], barrier.filter))
    return barriers


async def _inspect(
    world: World,
    material: Material,
    barriers: Barriers,
    collection: ServedCollection,
    renamed: Mapping[str, str],
) -> None:
    """Inspect a collection at one path, with its aggregations and streams."""
    metadata = material.metadata.get(collection.namespace)
    collection.aggregations = {
        entry["uri"]: sorted({name for name in _find_names(entry) if name[:1] != "@"})
        for entry in list_entries(metadata, "aggrs")
    }
    below = ["/_size", f"/{quote(str(pool_value(collection.id_kind, 0)))}"]
    below += [f"/_aggrs/{quote(name)}" for name in collection.aggregations]
    below += [f"/_streams/{quote(stream['uri'])}" for stream in list_entries(metadata, "streams")]
    is_open, reason = False, ""
    for path in (collection.path, *(f"{collection.path}{suffix}" for suffix in below)):
        permission, reason = await _find_permission(world, material, path)
        if permission is None:
            continue
        is_open = True
        _record_rows(barriers, permission, renamed, path)
        if permission.project_response:
            reason = f"projectResponse of the rule {permission.rule}"
            _hide(collection.shape, permission.project_response, reason)
    if is_open:
        barriers.collections.append(collection)
    else:
        barriers.notes.append(f"the caller may not read {collection.path}: {reason}")


def _find_paths(world: World, namespace: str) -> list[str]:
    db, _, collection = world.renaming.namespace(namespace).partition(".")
    return find_rest_paths(world.app, (db, collection))


async def _find_permission(
    world: World, material: Material, path: str, *, is_post: bool = False
) -> tuple[Permission | None, str]:
    """Return the permission of a request, and why; None: denied. Without a rule it is empty."""
    dry_runs = world.app.plugins.values["imagined-requests"]
    outer = Exchange(Request("GET", b"/"), "fuzz", account=material.account)
    if is_post:
        other = dry_runs.build_post(outer, path, b"{}", material.account)
    else:
        other = dry_runs.build_get(outer, path)
    decision = await dry_runs.find_decision(other)
    if not decision.allowed:
        return None, decision.reason
    return decision.permission or Permission(rule=""), decision.reason


def _record_rows(
    barriers: Barriers, permission: Permission | None, renamed: Mapping[str, str], path: str
) -> None:
    if permission is None:
        return
    for namespace, filter in permission.read_filters.items():
        if namespace in renamed and filter:
            barriers.add(renamed[namespace], filter, f"the rule {permission.rule} at {path}")


def _hide(shape: PropertyShape, shown: Mapping[str, int], reason: str) -> None:
    for path in shown:
        mark_path(shape, path)
    for steps, node in shape.leaves():
        if not is_shown(".".join(steps), shown) and steps[0] != "_id":
            node.hidden_by += [reason] if reason not in node.hidden_by else []


@dataclass(slots=True)
class Planting:
    """The content of the worlds, and how to restore it."""

    prepared: LoadedConfiguration
    scratch: Scratch
    material: Material
    findings: LeakReport
    seed: int
    worlds: list[World] = field(default_factory=list)
    made: dict[str, tuple[Made, Made]] = field(default_factory=dict)
    finder: Finder = field(default_factory=Finder)

    async def copy(self, renaming: Renaming) -> None:
        """Copy the definitions, under the names of a world."""
        (db, apps), (rules_db, rules) = self._own
        app = to_stored(renaming.definition(self.material.definition))
        await self.scratch.fill(renaming.db(db), apps, [app])
        # Rules are stored as they are written.
        copied = [renaming.rule(rule) for rule in self.material.rules]
        await self.scratch.fill(renaming.db(rules_db), rules, copied)
        metadata: dict[str, list[Document]] = {}
        for name, document in self.material.metadata.items():
            db_documents = metadata.setdefault(name.partition(".")[0], [])
            db_documents.append(to_stored(renaming.definition(document)))
        for db, documents in metadata.items():
            await self.scratch.fill(renaming.db(db), METADATA_STORE, documents)
        for name in self.material.surface.shapes:
            db, _, collection = renaming.namespace(name).partition(".")
            view = self.material.views.get(name)
            source = None if view is None else view.source
            stages = [] if view is None else renaming.definition(list(view.stages))
            await self.scratch.create(db, collection, source, stages)

    async def plant(self, name: str, barriers: Barriers) -> None:
        """Insert documents of one collection; the database decides which ones filters permit."""
        if name in (f"{db}.{collection}" for db, collection in self._own):
            self.findings.notes.append(f"{name}: left as it is, it holds definitions")
            return
        if name in self.material.views:
            return  # it shows the documents of its sources
        rows = barriers.rows.get(name, [])
        shape = self.material.surface.shapes[name]
        made = build_documents(name, shape, rows, f"{self.seed}")
        self.made[name] = made
        await self.restore(name)
        if rows:
            for world, planted in zip(self.worlds, made, strict=True):
                db, _, collection = world.renaming.namespace(name).partition(".")
                whole = {"$and": [dict(barrier.filter) for barrier in rows]}
                passing = await self.scratch.match(db, collection, whole)
                seen = [doc["_id"] for doc in planted.seen if doc["_id"] in passing]
                hidden = [doc["_id"] for doc in planted.excluded if doc["_id"] not in passing]
                planted.keep([*seen, *hidden])
            await self.restore(name)
            self._record_missing(name, made[0])
        for planted in made:
            for _, canary in planted.canaries:
                self.finder.add(canary)

    def _record_missing(self, name: str, made: Made) -> None:
        if not made.seen:
            self.findings.notes.append(f"{name}: no document could be made that its filters pass")
        if not made.excluded:
            self.findings.notes.append(f"{name}: no document could be made that is filtered out")

    @property
    def _own(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """The collections of apps and rules."""
        places = find_own_places(self.prepared)
        return places.apps, places.rules

    async def restore(self, name: str) -> None:
        """Restore the documents of a collection in both worlds."""
        for world, planted in zip(self.worlds, self.made.get(name, ()), strict=False):
            db, _, collection = world.renaming.namespace(name).partition(".")
            await self.scratch.fill(db, collection, planted.documents)

    def record_hidden(self, barriers: Barriers) -> None:
        """Report what is hidden from the caller, and which parts have no canary."""
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
            len(planted.canaries) for both in self.made.values() for planted in both
        )

    async def equalise(self, leaking: Iterable[Canary]) -> list[str]:
        """Make secrets that are known to leak equal in both worlds; return changed collections."""
        changed: dict[str, Made] = {}
        for canary in leaking:
            first, second = self.made[canary.namespace]
            made = changed.setdefault(
                canary.namespace, Made(deepcopy(second.seen), second.excluded)
            )
            if canary.is_row:
                made.excluded = first.excluded
                continue
            values = {str(document["_id"]): document for document in first.seen}
            step = canary.path.partition(".")[0]
            for document in made.seen:
                if step in (other := values.get(str(document["_id"]), {})):
                    document[step] = other[step]
        for name, made in changed.items():
            db, _, collection = self.worlds[1].renaming.namespace(name).partition(".")
            await self.scratch.fill(db, collection, made.documents)
        return list(changed)
