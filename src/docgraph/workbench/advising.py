"""The tool `advise`: what could be better about apps and their data (`docgraph apps advise`).

The response has counts, indexes and examples. So it requires the root role, or `graphql.explain`
and permission to read all definitions and all of the apps' collections. Only one runs at a time:
each puts load on the database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from docgraph.access.rulebook import RuleBook
from docgraph.access.unfiltered_apps import find_row_filters
from docgraph.exchange import DocgraphError, Exchange
from docgraph.exchange.errors import Forbidden, StoreUnavailable
from docgraph.graphql.apps.compiled_app import App
from docgraph.graphql.sections import Graphql
from docgraph.rest.sections import Mongo
from docgraph.runtime import Lane, run_blocking
from docgraph.store.guard.row_indexes import RowFilter
from docgraph.workbench.advise.advice import Advice, record_broken
from docgraph.workbench.advise.advise import AdviceScope, advise, find_places
from docgraph.workbench.app_sessions import AppSessions
from docgraph.workbench.infer.survey import MAX_SECONDS
from docgraph.workbench.requests import ToolArguments

T = TypeVar("T")

_SAMPLE: Final = 1_000
_SHARE: Final = 0.8  # of the time that a request has


@dataclass(frozen=True, slots=True)
class Advising:
    """Advises callers of the tools."""

    visits: AppSessions
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
            apps = [(await self.visits.enter(exchange, wanted)).app]
            if not await self._may_read(exchange, apps[0]):
                raise Forbidden("the app is about collections that you may not read whole")
        async with self._turn:
            scope = self._scope(exchange, wanted, is_all=is_all and not broken)
            scope = replace(scope, rows=await self._find_rows(exchange, apps))
            report = await advise(self.visits.store, self.settings, apps, scope)
        report.advice += broken
        content = await self._run(report.as_dict)
        for one in content["indexes"]:
            one["path"] = self.visits.find_path(self.mongo, one["db"], one["collection"])
        return content

    async def _require_rights(self, exchange: Exchange) -> None:
        if self.visits.is_root(exchange):
            return
        limits = self.visits.limits
        may = limits is not None and self.visits.access.graphql.may_explain(exchange.account)
        if limits is None or not may or not await limits.may_see_apps(exchange):
            raise Forbidden("only the root role may ask for advice here")

    async def _may_read(self, exchange: Exchange, app: App) -> bool:
        limits = self.visits.limits
        if self.visits.is_root(exchange):
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
        for entry in await self.visits.access.apps.list_served():
            try:
                app = await self.visits.access.apps.get(entry.id)
            except StoreUnavailable:
                raise
            except DocgraphError as error:
                broken.append(record_broken(str(entry.id), error))
                continue
            if app is not None and await self._may_read(exchange, app):
                apps.append(app)
        return apps, broken

    async def _find_rows(self, exchange: Exchange, apps: list[App]) -> list[RowFilter]:
        """Return the row filters on the collections of the apps, for callers with the root role."""
        if not self.visits.is_root(exchange):
            return []
        places = sorted({place for app in apps for place in find_places(app)})
        return list(find_row_filters(await self.rules.find_all(), places, self.mongo))

    def _scope(self, exchange: Exchange, wanted: ToolArguments, *, is_all: bool) -> AdviceScope:
        left = exchange.deadline.remaining()

        async def is_open(app: App) -> bool | None:
            decision = await self.visits.authorize(exchange, app, None)
            return None if decision is None else decision.allowed

        limits, is_root = self.visits.limits, self.visits.is_root(exchange)

        async def may_read(place: tuple[str, str]) -> bool:
            return limits is not None and await limits.may_read_whole(exchange, place)

        return AdviceScope(
            wanted.sample or _SAMPLE,
            MAX_SECONDS if left is None else min(MAX_SECONDS, left * _SHARE),
            is_all=is_all and is_root,
            is_open=is_open,
            run=self._run,
            may_read=None if is_root else may_read,
        )

    async def _run(self, work: Callable[[], T]) -> T:
        return await run_blocking(self.lane, work)
