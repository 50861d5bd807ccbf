"""The tool `infer`: a definition inferred from collections that the caller may read entirely.

docgraph's own collections are never read. Only one runs at a time: each puts load on the database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from docgraph.access.sections import DbAclAuthorizer
from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.exchange import Exchange
from docgraph.exchange.errors import Forbidden
from docgraph.graphql.sections import Graphql
from docgraph.runtime import Lane, run_blocking
from docgraph.store.mounts import SCHEMA_STORE
from docgraph.workbench.app_sessions import AppSessions
from docgraph.workbench.infer.infer import build_app, infer, name_app
from docgraph.workbench.infer.survey import MAX_SECONDS, SurveyScope
from docgraph.workbench.requests import ToolArguments

T = TypeVar("T")

_SAMPLE: Final = 1_000
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
        """Return the definition in the form that the other tools accept, and notes on it."""
        db = wanted.db or self.default_db
        async with self._turn:
            found = await infer(self.visits.store, self._scope(exchange, wanted, db))
        app = build_app(name_app(db), db)
        schema, mappings = await self._run(lambda: (found.schema, found.render_mappings()))
        return {"definition": {**app, "schema": schema, "mappings": mappings}, "notes": found.notes}

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
            tells=self.visits.access.graphql.may_explain(exchange.account),
            run=self._run,
        )

    async def _run(self, work: Callable[[], T]) -> T:
        return await run_blocking(self.lane, work)
