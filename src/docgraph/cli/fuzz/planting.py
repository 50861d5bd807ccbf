"""Planting: two worlds with renamed definitions, documents, and canaries in hidden data.

Everything is written to scratch databases only.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field

from docgraph.access.sections import DbAclAuthorizer
from docgraph.cli.fuzz.barriers import Barriers
from docgraph.cli.fuzz.documents import Made, build_documents
from docgraph.cli.fuzz.leaks import LeakReport
from docgraph.cli.fuzz.material import Material
from docgraph.cli.fuzz.world import Renaming, World
from docgraph.codec import to_stored
from docgraph.exchange import Document
from docgraph.graphql.sections import Graphql
from docgraph.server.prepare import LoadedConfiguration
from docgraph.store.driver.scratch import Scratch
from docgraph.store.mounts import METADATA_STORE
from docgraph.workbench.fuzz.fuzz_values import Canary, Finder


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
        copied = [renaming.rule(one) for one in self.material.rules]  # stored as they are written
        await self.scratch.fill(renaming.db(rules_db), rules, copied)
        metadata: dict[str, list[Document]] = {}
        for name, one in self.material.metadata.items():
            known = metadata.setdefault(name.partition(".")[0], [])
            known.append(to_stored(renaming.definition(one)))
        for db, documents in metadata.items():
            await self.scratch.fill(renaming.db(db), METADATA_STORE, documents)
        for name in self.material.surface.shapes:
            db, _, collection = renaming.namespace(name).partition(".")
            await self.scratch.create(db, collection)

    async def plant(self, name: str, barriers: Barriers) -> None:
        """Insert documents of one collection; the database decides which ones filters permit."""
        if name in (f"{db}.{collection}" for db, collection in self._own):
            self.findings.notes.append(f"{name}: left as it is, it holds definitions")
            return
        rows = barriers.rows.get(name, [])
        shape = self.material.surface.shapes[name]
        made = build_documents(name, shape, rows, f"{self.seed}")
        self.made[name] = made
        await self.restore(name)
        if rows:
            for world, one in zip(self.worlds, made, strict=True):
                db, _, collection = world.renaming.namespace(name).partition(".")
                whole = {"$and": [dict(barrier.filter) for barrier in rows]}
                passing = await self.scratch.match(db, collection, whole)
                seen = [doc["_id"] for doc in one.seen if doc["_id"] in passing]
                hidden = [doc["_id"] for doc in one.excluded if doc["_id"] not in passing]
                one.keep([*seen, *hidden])
            await self.restore(name)
            self._record_missing(name, made[0])
        for one in made:
            for _, canary in one.canaries:
                self.finder.add(canary)

    def _record_missing(self, name: str, made: Made) -> None:
        if not made.seen:
            self.findings.notes.append(f"{name}: no document could be made that its filters pass")
        if not made.excluded:
            self.findings.notes.append(f"{name}: no document could be made that is filtered out")

    @property
    def _own(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """The collections of apps and rules."""
        config = self.prepared.config
        graphql, rules = config.get(Graphql), config.get(DbAclAuthorizer)
        return (graphql.db, graphql.collection), (rules.acl_db, rules.acl_collection)

    async def restore(self, name: str) -> None:
        """Restore the documents of a collection in both worlds."""
        for world, one in zip(self.worlds, self.made.get(name, ()), strict=False):
            db, _, collection = world.renaming.namespace(name).partition(".")
            await self.scratch.fill(db, collection, one.documents)

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
            len(one.canaries) for both in self.made.values() for one in both
        )

    async def equalise(self, known: Iterable[Canary]) -> list[str]:
        """Make secrets that are known to leak equal in both worlds; return changed collections."""
        changed: dict[str, Made] = {}
        for canary in known:
            first, second = self.made[canary.namespace]
            made = changed.setdefault(
                canary.namespace, Made(deepcopy(second.seen), second.excluded)
            )
            if canary.is_row:
                made.excluded = first.excluded
                continue
            values = {str(one["_id"]): one for one in first.seen}
            step = canary.path.partition(".")[0]
            for document in made.seen:
                if step in (other := values.get(str(document["_id"]), {})):
                    document[step] = other[step]
        for name, made in changed.items():
            db, _, collection = self.worlds[1].renaming.namespace(name).partition(".")
            await self.scratch.fill(db, collection, made.documents)
        return list(changed)
