"""Tools below `/_tools`: `infer` and `advise`.

Only one of each runs at a time: each puts load on the database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

from docgraph import DefinitionError, Exchange, Forbidden, StartupError
from docgraph.tools.apps import App
from docgraph.tools.data import CollectionName, Inventory, JsonMode, RowFilter, to_json
from docgraph.tools.endpoints import Draft, ToolAccess, ToolArguments
from docgraph.tools.installation import render_block
from docgraph_workbench.advise.advice import Advice, advise_broken
from docgraph_workbench.advise.advise import AdviceScope, advise, find_places
from docgraph_workbench.infer.existing_definition import Existing, read_existing
from docgraph_workbench.infer.infer import Inferred, KnownNames, build_app, infer, name_app
from docgraph_workbench.infer.merge import merge
from docgraph_workbench.infer.survey import MAX_SECONDS, SurveyScope, measure_collections
from docgraph_workbench.infer.yaml_additions import add_entries, merge_entries

_SAMPLE: Final = 1_000
_SHARE: Final = 0.8  # of the time that a request has
_MAPPINGS: Final = Path("mappings.yml")


def _find_seconds(exchange: Exchange) -> float:
    left = exchange.deadline.remaining()
    return MAX_SECONDS if left is None else min(MAX_SECONDS, left * _SHARE)


class AdviseTool:
    """What could be better about apps and their data (`docgraph apps advise`).

    The response has counts, indexes and examples. So it requires the root role, or
    `graphql.explain` and permission to read all definitions and all of the apps' collections.
    """

    members: ClassVar = ("app", "definition", "sample")

    def __init__(self, access: ToolAccess) -> None:
        self._access = access
        self._turn = asyncio.Lock()

    async def answer(self, exchange: Exchange, wanted: ToolArguments) -> dict[str, Any]:
        """Return the findings on an app, a draft, or all apps that are served."""
        access = self._access
        may_explain = access.is_root(exchange) or access.may_explain(exchange)
        if not (may_explain and await access.may_see_apps(exchange)):
            raise Forbidden("only the root role may ask for advice here")
        is_all = wanted.app is None and wanted.draft is None
        broken: list[Advice] = []
        if is_all:
            apps, failed = await access.find_apps()
            apps = [app for app in apps if await self._may_read(exchange, app)]
            broken = [advise_broken(name, error) for name, error in failed]
        else:
            apps = [await access.open_app(exchange, wanted)]
            if not await self._may_read(exchange, apps[0]):
                raise Forbidden("the app is about collections that you may not read whole")
        async with self._turn:
            scope = self._scope(exchange, wanted, is_all=is_all and not broken)
            scope = replace(scope, rows=await self._find_rows(exchange, apps))
            report = await advise(access.store, access.settings, apps, scope)
        report.advice += broken
        content = await access.run(report.as_dict)
        for index in content["indexes"]:
            index["path"] = access.find_path((index["db"], index["collection"]))
        return content

    async def _may_read(self, exchange: Exchange, app: App) -> bool:
        for place in find_places(app):
            if not await self._access.may_read(exchange, place):
                return False
        return True

    async def _find_rows(self, exchange: Exchange, apps: list[App]) -> list[RowFilter]:
        """Return the row filters on the collections of the apps, for callers with the root role."""
        if not self._access.is_root(exchange):
            return []
        places = sorted({place for app in apps for place in find_places(app)})
        return await self._access.find_row_filters(places)

    def _scope(self, exchange: Exchange, wanted: ToolArguments, *, is_all: bool) -> AdviceScope:
        access, is_root = self._access, self._access.is_root(exchange)

        async def is_open(app: App) -> bool | None:
            return await access.is_open(exchange, app)

        async def may_read(place: CollectionName) -> bool:
            return await access.may_read(exchange, place)

        return AdviceScope(
            wanted.sample or _SAMPLE,
            _find_seconds(exchange),
            is_all=is_all and is_root,
            is_open=is_open,
            run=access.run,
            may_read=None if is_root else may_read,
        )


class InferTool:
    """A definition inferred from collections that the caller may read entirely.

    docgraph's own collections are never read.
    """

    members: ClassVar = ("db", "collections", "sample", "definition", "texts", "run")

    def __init__(self, access: ToolAccess) -> None:
        self._access = access
        self._turn = asyncio.Lock()

    async def answer(self, exchange: Exchange, wanted: ToolArguments) -> dict[str, Any]:
        """Return the definition in the form that the other tools accept, and notes on it.

        With a definition in the request: what to add to it. With `run: false`: what can be read.
        """
        access, draft = self._access, wanted.draft
        existing = None if draft is None else await access.run(lambda: _read_draft(draft))
        db = wanted.db or (existing and existing.find_db()) or access.settings.db
        scope = self._scope(exchange, wanted, db)
        if not wanted.run:
            return await self._list(exchange, scope)
        names = KnownNames()
        if existing is not None:
            names = KnownNames(existing.name_collections(db), existing.name_nested())
        async with self._turn:
            inferred = await infer(access.store, scope, names)
        told = {**inferred.model.describe(), "notes": inferred.notes}
        if draft is not None and existing is not None:
            return told | await access.run(lambda: _merge(draft, existing, inferred))
        app = build_app(name_app(db), db)
        is_text = wanted.texts is not False
        schema, mappings = await access.run(
            lambda: (inferred.schema, inferred.render_mappings() if is_text else inferred.mappings)
        )
        return {"definition": {**app, "schema": schema, "mappings": mappings}, **told}

    async def _list(self, exchange: Exchange, scope: SurveyScope) -> dict[str, Any]:
        """Return the collections that a definition can be inferred from, with their sizes."""
        store, notes = self._access.store, list[str]()
        measured = await measure_collections(store, scope, notes)
        databases = [scope.db]
        if self._access.is_root(exchange):
            databases = await Inventory(store).list_databases(exchange.deadline)
        collections = [
            {"name": listed.name, "kind": listed.kind, "documents": count}
            for listed, count in measured
        ]
        content = {"databases": databases, "collections": collections, "notes": notes}
        return {"db": scope.db, **content}

    def _scope(self, exchange: Exchange, wanted: ToolArguments, db: str) -> SurveyScope:
        access, is_root = self._access, self._access.is_root(exchange)
        if not (is_root or access.has_author_rules):
            raise Forbidden("only the root role may infer definitions here")

        async def may_read(collection: str) -> bool:
            return await access.may_read(exchange, (db, collection))

        return SurveyScope(
            db,
            wanted.collections,
            wanted.sample or _SAMPLE,
            own=access.own.find_in(db),
            may_read=None if is_root else may_read,
            seconds=_find_seconds(exchange),
            is_explained=access.may_explain(exchange),
            run=access.run,
        )


def _read_draft(draft: Draft) -> Existing:
    if draft.flaws:
        raise DefinitionError(f"the definition cannot be read: {draft.flaws[0].what}")
    mappings = draft.document.get("mappings")
    schema = str(draft.document.get("schema") or "")
    return read_existing(schema, mappings if isinstance(mappings, Mapping) else {})


def _merge(draft: Draft, existing: Existing, inferred: Inferred) -> dict[str, Any]:
    """Return schema and mappings with what is new; the author's lines stay as they are."""
    merged = merge(existing, inferred.model)
    try:
        text = draft.sources.get("mappings", "")
        mappings = add_entries(text, merged.mappings, _MAPPINGS) if text.strip() else None
    except StartupError:  # such as JSON in one line: it is written again
        mappings = None
    if mappings is None:
        whole = merge_entries(existing.mappings, merged.mappings)
        mappings = render_block(to_json(whole, JsonMode.STANDARD))
    definition = {"schema": merged.schema, "mappings": mappings}
    notes = [*inferred.notes, *merged.notes]
    return {"definition": definition, "added": merged.added, "notes": notes}
