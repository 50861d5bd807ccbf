"""The tool `infer`: a definition inferred from collections that the caller may read entirely.

docgraph's own collections are never read. Only one runs at a time: each puts load on the database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from docgraph.access.sections import DbAclAuthorizer
from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.codec import JsonMode, to_json
from docgraph.config.render import render_block
from docgraph.exchange import Exchange, StartupError
from docgraph.exchange.errors import DefinitionError, Forbidden
from docgraph.graphql.sections import Graphql
from docgraph.runtime import Lane, run_blocking
from docgraph.store.catalog import Inventory
from docgraph.store.mounts import SCHEMA_STORE
from docgraph.workbench.app_sessions import AppSessions
from docgraph.workbench.infer.build import KnownNames
from docgraph.workbench.infer.existing import Existing, read_existing
from docgraph.workbench.infer.infer import Inferred, build_app, infer, name_app
from docgraph.workbench.infer.merge import add_entries, merge, merge_entries
from docgraph.workbench.infer.survey import MAX_SECONDS, SurveyScope, measure_collections
from docgraph.workbench.requests import Draft, ToolArguments

T = TypeVar("T")

_SAMPLE: Final = 1_000
_MAPPINGS: Final = Path("mappings.yml")
_SHARE: Final = 0.8  # of the time that a request has


def find_own(
    apps: Graphql, users: DbRealmAuthenticator, rules: DbAclAuthorizer, db: str
) -> frozenset[str]:
    """Return docgraph's own collections in a database: apps, users, rules, schemas."""
    places = (
        (apps.db, apps.collection),
        (users.users_db, users.users_collection),
        (rules.acl_db, rules.acl_collection),
    )
    return frozenset({SCHEMA_STORE, *(name for place, name in places if place == db)})


@dataclass(frozen=True, slots=True)
class Inferring:
    """Infers definitions for callers of the tools."""

    visits: AppSessions
    lane: Lane
    default_db: str
    find_own: Callable[[str], frozenset[str]]  # of a database, docgraph's own collections
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def infer(self, exchange: Exchange, wanted: ToolArguments) -> dict[str, Any]:
        """Return the definition in the form that the other tools accept, and notes on it.

        With a definition in the request: what to add to it. With `run: false`: what can be read.
        """
        draft = wanted.draft
        existing = None if draft is None else await self._run(lambda: _read_draft(draft))
        db = wanted.db or (existing and existing.find_db()) or self.default_db
        scope = self._scope(exchange, wanted, db)
        if not wanted.run:
            return await self._list(exchange, scope)
        names = KnownNames()
        if existing is not None:
            names = KnownNames(existing.name_collections(db), existing.name_nested())
        async with self._turn:
            found = await infer(self.visits.store, scope, names)
        told = {**found.model.describe(), "notes": found.notes}
        if draft is not None and existing is not None:
            return told | await self._run(lambda: _merge(draft, existing, found))
        app = build_app(name_app(db), db)
        is_text = wanted.texts is not False
        schema, mappings = await self._run(
            lambda: (found.schema, found.render_mappings() if is_text else found.mappings)
        )
        return {"definition": {**app, "schema": schema, "mappings": mappings}, **told}

    async def _list(self, exchange: Exchange, scope: SurveyScope) -> dict[str, Any]:
        """Return the collections that a definition can be inferred from, with their sizes."""
        store, notes = self.visits.store, list[str]()
        measured = await measure_collections(store, scope, notes)
        databases = [scope.db]
        if self.visits.is_root(exchange):
            databases = await Inventory(store).list_databases(exchange.deadline)
        collections = [
            {"name": one.name, "kind": one.kind, "documents": count} for one, count in measured
        ]
        found = {"databases": databases, "collections": collections, "notes": notes}
        return {"db": scope.db, **found}

    def _scope(self, exchange: Exchange, wanted: ToolArguments, db: str) -> SurveyScope:
        left = exchange.deadline.remaining()
        is_root = self.visits.is_root(exchange)
        limits = self.visits.limits
        if limits is None and not is_root:
            raise Forbidden("only the root role may infer definitions here")

        async def may_read(collection: str) -> bool:
            return limits is not None and await limits.may_read_whole(exchange, (db, collection))

        return SurveyScope(
            db,
            wanted.collections,
            wanted.sample or _SAMPLE,
            own=self.find_own(db),
            may_read=None if is_root else may_read,
            seconds=MAX_SECONDS if left is None else min(MAX_SECONDS, left * _SHARE),
            is_explained=self.visits.access.graphql.may_explain(exchange.account),
            run=self._run,
        )

    async def _run(self, work: Callable[[], T]) -> T:
        return await run_blocking(self.lane, work)


def _read_draft(draft: Draft) -> Existing:
    if draft.flaws:
        raise DefinitionError(f"the definition cannot be read: {draft.flaws[0].what}")
    mappings = draft.document.get("mappings")
    schema = str(draft.document.get("schema") or "")
    return read_existing(schema, mappings if isinstance(mappings, Mapping) else {})


def _merge(draft: Draft, existing: Existing, found: Inferred) -> dict[str, Any]:
    """Return schema and mappings with what is new; the author's lines stay as they are."""
    merged = merge(existing, found.model)
    try:
        text = draft.sources.get("mappings", "")
        mappings = add_entries(text, merged.mappings, _MAPPINGS) if text.strip() else None
    except StartupError:  # such as JSON in one line: it is written again
        mappings = None
    if mappings is None:
        whole = merge_entries(existing.mappings, merged.mappings)
        mappings = render_block(to_json(whole, JsonMode.STANDARD))
    definition = {"schema": merged.schema, "mappings": mappings}
    notes = [*found.notes, *merged.notes]
    return {"definition": definition, "added": merged.added, "notes": notes}
