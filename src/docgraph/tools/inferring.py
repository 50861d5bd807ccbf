"""`infer`: a definition that is read off the collections which the caller may read whole.

Never off those that docgraph keeps for itself. One at a time: each makes the database work.
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
from docgraph.graphql.infer.infer import build_app, infer, name_app
from docgraph.graphql.infer.survey import MOST_SECONDS, Scope
from docgraph.graphql.sections import Graphql
from docgraph.runtime import Lane, run_blocking
from docgraph.store.mounts import SCHEMA_STORE
from docgraph.tools.visits import Visits
from docgraph.tools.wanted import Wanted

__all__ = ["Inferring", "find_own"]

T = TypeVar("T")

_SAMPLE: Final = 1_000
_SHARE: Final = 0.8  # of the time that a request has


def find_own(
    apps: Graphql, users: DbRealmAuthenticator, rules: DbAclAuthorizer, db: str
) -> frozenset[str]:
    """The collections of a database that docgraph keeps for itself: apps, users, rules, schemas."""
    places = (
        (apps.db, apps.collection),
        (users.users_db, users.users_collection),
        (rules.acl_db, rules.acl_collection),
    )
    return frozenset({SCHEMA_STORE, *(name for place, name in places if place == db)})


@dataclass(frozen=True, slots=True)
class Inferring:
    """Infers definitions for callers of the tools."""

    visits: Visits
    lane: Lane
    default_db: str
    find_own: Callable[[str], frozenset[str]]  # of a database, what docgraph keeps for itself
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def infer(self, exchange: Exchange, wanted: Wanted) -> dict[str, Any]:
        """The definition in the form that the other tools take, and what is to be said about it."""
        db = wanted.db or self.default_db
        async with self._turn:
            found = await infer(self.visits.store, self._scope(exchange, wanted, db))
        app = build_app(name_app(db), db)
        schema, mappings = await self._run(lambda: (found.schema, found.render_mappings()))
        return {"definition": {**app, "schema": schema, "mappings": mappings}, "notes": found.notes}

    def _scope(self, exchange: Exchange, wanted: Wanted, db: str) -> Scope:
        left = exchange.deadline.remaining()
        is_root = self.visits.is_root(exchange)
        limits = self.visits.limits
        if limits is None and not is_root:
            raise Forbidden("only the root role may infer definitions here")

        async def may_read(collection: str) -> bool:
            return limits is not None and await limits.may_read_whole(exchange, (db, collection))

        return Scope(
            db,
            wanted.collections,
            wanted.sample or _SAMPLE,
            own=self.find_own(db),
            may_read=None if is_root else may_read,
            seconds=MOST_SECONDS if left is None else min(MOST_SECONDS, left * _SHARE),
            tells=self.visits.graphql.may_explain(exchange.account),
            run=self._run,
        )

    async def _run(self, work: Callable[[], T]) -> T:
        return await run_blocking(self.lane, work)
