"""Toolset behind `/_tools`: reads a request, runs the tool, renders the response.

Importing this module imports most of the workbench, so `service` does it at the first request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson

from docgraph.access.author_limits import DEFINITION_LIMITS
from docgraph.access.dry_run import RequestDryRun
from docgraph.access.explain_decision import Bindings, Explainer
from docgraph.access.rule_warnings import Comparison, find_row_filters
from docgraph.access.rulebook import RuleBook
from docgraph.access.sections import DbAclAuthorizer
from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.codec import JsonMode, to_json
from docgraph.config.render import render_block
from docgraph.exchange import Answer, Body, DocgraphError, Exchange, StartupError
from docgraph.exchange.errors import DefinitionError, Forbidden, StoreUnavailable
from docgraph.graphql.apps.apps import Apps
from docgraph.graphql.apps.compiled_app import App
from docgraph.graphql.apps.definition_writes import Drafts
from docgraph.graphql.errors import OperationsOnly
from docgraph.graphql.http.app_access import AppAccess
from docgraph.graphql.sections import Graphql
from docgraph.plugins.registry import PluginRegistry
from docgraph.rest.sections import Mongo
from docgraph.runtime import Lane, run_blocking
from docgraph.store import Store
from docgraph.store.catalog import Inventory
from docgraph.store.guard.row_filters import RowFilter
from docgraph.store.names import SCHEMA_STORE
from docgraph.workbench.advise.advice import Advice, advise_broken
from docgraph.workbench.advise.advise import AdviceScope, advise, find_places
from docgraph.workbench.app_sessions import AppSessions
from docgraph.workbench.infer.existing_definition import Existing, read_existing
from docgraph.workbench.infer.infer import Inferred, KnownNames, build_app, infer, name_app
from docgraph.workbench.infer.merge import merge
from docgraph.workbench.infer.survey import MAX_SECONDS, SurveyScope, measure_collections
from docgraph.workbench.infer.yaml_additions import add_entries, merge_entries
from docgraph.workbench.requests import (
    Draft,
    ToolArguments,
    read_body,
    read_parameters,
    read_wanted,
)
from docgraph.workbench.responses import ToolResponses
from docgraph.workbench.users_and_rules import UsersAndRules

_SHORT: Final = 16_384  # bytes of a body that is parsed on the event loop
# Also for callers whom `graphql.operations-only` restricts: these tools show and run no app.
_FOR_BOUND: Final = frozenset({"check", "realm", "rules"})


class Toolset:
    """The tools for authors of apps."""

    def __init__(  # noqa: PLR0913 - the providers and sections of the service
        self,
        *,
        registry: PluginRegistry,
        graphql: Graphql,
        mongo: Mongo,
        users: DbRealmAuthenticator,
        rules: DbAclAuthorizer,
        store: Store,
        lane: Lane,
        book: RuleBook,
        apps: Apps,
        dry_runs: RequestDryRun,
        bindings: Bindings | None = None,
    ) -> None:
        self._lane = lane
        comparison = Comparison(graphql, mongo, store, book, registry)
        self._sessions = sessions = AppSessions(
            # `/_tools` is part of the plugin `graphql`, which is therefore enabled.
            access=AppAccess(registry.find("graphql"), apps, dry_runs),  # type: ignore[arg-type]
            drafts=Drafts(graphql, store, registry, lane),
            limits=registry.find(DEFINITION_LIMITS),
            explainer=Explainer(dry_runs, book, comparison, bindings),
            store=store,
            registry=registry,
        )
        answers = ToolResponses(sessions, lane)
        realm = UsersAndRules(
            sessions, lane, book=book, users_section=users, rules_section=rules, mongo=mongo
        )
        inferring = Inferring(sessions, lane, graphql.db, partial(find_own, graphql, users, rules))
        advising = Advising(sessions, lane, settings=graphql, rules=book, mongo=mongo)
        self._answers: Mapping[str, Callable[[Exchange, ToolArguments], Awaitable[Any]]] = {
            "check": answers.check,
            "draft": answers.draft,
            "plan": answers.plan,
            "matrix": answers.matrix,
            "infer": inferring.infer,
            "advise": advising.advise,
            "realm": realm.realm,
            "rules": realm.rules,
        }

    async def run(self, tool: str, known: Sequence[str], exchange: Exchange) -> Answer:
        """Run the tool of this name; `known` are the members that its requests may have."""
        if tool not in _FOR_BOUND and self._sessions.access.graphql.is_bound(exchange.account):
            raise OperationsOnly
        wanted = await self._read(exchange, known)
        answer = await self._answers[tool](exchange, wanted)
        if isinstance(answer, Body):
            return answer
        return Body(200, orjson.dumps(answer), "application/json")

    async def _read(self, exchange: Exchange, known: Sequence[str]) -> ToolArguments:
        request = exchange.request
        if request.method in ("GET", "HEAD"):
            return read_wanted(read_parameters(request, known), known)
        body = await request.read_body()

        def read() -> ToolArguments:
            return read_wanted(read_body(body, request.content_type), known)

        if len(body) > _SHORT:
            return await run_blocking(self._lane, read)
        content = read_body(body, request.content_type)
        if "definition" in content:  # a few bytes of YAML may expand to very many values
            return await run_blocking(self._lane, read_wanted, content, known)
        return read_wanted(content, known)


T = TypeVar("T")

_SAMPLE: Final = 1_000
_SHARE: Final = 0.8  # of the time that a request has


def _find_seconds(exchange: Exchange) -> float:
    left = exchange.deadline.remaining()
    return MAX_SECONDS if left is None else min(MAX_SECONDS, left * _SHARE)


@dataclass(frozen=True, slots=True)
class Advising:
    """The tool `advise`: what could be better about apps and their data (`docgraph apps advise`).

    The response has counts, indexes and examples. So it requires the root role, or
    `graphql.explain` and permission to read all definitions and all of the apps' collections. Only
    one runs at a time: each puts load on the database.
    """

    sessions: AppSessions
    lane: Lane
    settings: Graphql
    rules: RuleBook
    mongo: Mongo
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def advise(self, exchange: Exchange, wanted: ToolArguments) -> dict[str, Any]:
        """Return the findings on an app, a draft, or all apps that are served."""
        await self._require_rights(exchange)
        is_all = wanted.app is None and wanted.draft is None
        broken: list[Advice] = []
        if is_all:
            apps, broken = await self._find_all(exchange)
        else:
            apps = [(await self.sessions.enter(exchange, wanted)).app]
            if not await self._may_read(exchange, apps[0]):
                raise Forbidden("the app is about collections that you may not read whole")
        async with self._turn:
            scope = self._scope(exchange, wanted, is_all=is_all and not broken)
            scope = replace(scope, rows=await self._find_rows(exchange, apps))
            report = await advise(self.sessions.store, self.settings, apps, scope)
        report.advice += broken
        content = await self._run(report.as_dict)
        for one in content["indexes"]:
            one["path"] = self.sessions.find_path(self.mongo, one["db"], one["collection"])
        return content

    async def _require_rights(self, exchange: Exchange) -> None:
        if self.sessions.is_root(exchange):
            return
        limits = self.sessions.limits
        may = limits is not None and self.sessions.access.graphql.may_explain(exchange.account)
        if limits is None or not may or not await limits.may_see_apps(exchange):
            raise Forbidden("only the root role may ask for advice here")

    async def _may_read(self, exchange: Exchange, app: App) -> bool:
        limits = self.sessions.limits
        if self.sessions.is_root(exchange):
            return True
        if limits is None:
            return False
        for place in find_places(app):
            if not await limits.may_read_whole(exchange, place):
                return False
        return True

    async def _find_all(self, exchange: Exchange) -> tuple[list[App], list[Advice]]:
        apps: list[App] = []
        broken: list[Advice] = []
        for entry in await self.sessions.access.apps.list_served():
            try:
                app = await self.sessions.access.apps.get(entry.id)
            except StoreUnavailable:
                raise
            except DocgraphError as error:
                broken.append(advise_broken(str(entry.id), error))
                continue
            if app is not None and await self._may_read(exchange, app):
                apps.append(app)
        return apps, broken

    async def _find_rows(self, exchange: Exchange, apps: list[App]) -> list[RowFilter]:
        """Return the row filters on the collections of the apps, for callers with the root role."""
        if not self.sessions.is_root(exchange):
            return []
        places = sorted({place for app in apps for place in find_places(app)})
        return list(find_row_filters(await self.rules.find_all(), places, self.mongo))

    def _scope(self, exchange: Exchange, wanted: ToolArguments, *, is_all: bool) -> AdviceScope:
        async def is_open(app: App) -> bool | None:
            decision = await self.sessions.authorize(exchange, app, None)
            return None if decision is None else decision.allowed

        limits, is_root = self.sessions.limits, self.sessions.is_root(exchange)

        async def may_read(place: tuple[str, str]) -> bool:
            return limits is not None and await limits.may_read_whole(exchange, place)

        return AdviceScope(
            wanted.sample or _SAMPLE,
            _find_seconds(exchange),
            is_all=is_all and is_root,
            is_open=is_open,
            run=self._run,
            may_read=None if is_root else may_read,
        )

    async def _run(self, work: Callable[[], T]) -> T:
        return await run_blocking(self.lane, work)


_MAPPINGS: Final = Path("mappings.yml")


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
    """The tool `infer`: a definition inferred from collections that the caller may read entirely.

    docgraph's own collections are never read. Only one runs at a time, as for `advise`.
    """

    sessions: AppSessions
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
            found = await infer(self.sessions.store, scope, names)
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
        store, notes = self.sessions.store, list[str]()
        measured = await measure_collections(store, scope, notes)
        databases = [scope.db]
        if self.sessions.is_root(exchange):
            databases = await Inventory(store).list_databases(exchange.deadline)
        collections = [
            {"name": one.name, "kind": one.kind, "documents": count} for one, count in measured
        ]
        found = {"databases": databases, "collections": collections, "notes": notes}
        return {"db": scope.db, **found}

    def _scope(self, exchange: Exchange, wanted: ToolArguments, db: str) -> SurveyScope:
        is_root = self.sessions.is_root(exchange)
        limits = self.sessions.limits
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
            seconds=_find_seconds(exchange),
            is_explained=self.sessions.access.graphql.may_explain(exchange.account),
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
