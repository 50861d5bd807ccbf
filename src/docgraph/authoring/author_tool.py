"""Tool of a package below `/_tools`, and what it may ask about the server and the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from docgraph.access.rule_filters import find_row_filters
from docgraph.access.rulebook import RuleBook
from docgraph.access.sections import DbAclAuthorizer
from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.authoring.app_sessions import AppSessions
from docgraph.authoring.requests import ToolArguments
from docgraph.exchange import DocgraphError, Exchange
from docgraph.exchange.data import CollectionName
from docgraph.exchange.errors import StoreUnavailable
from docgraph.graphql.apps.compiled_app import App
from docgraph.graphql.sections import Graphql
from docgraph.rest.sections import Mongo
from docgraph.runtime import Lane, run_blocking
from docgraph.store import Store
from docgraph.store.guard.row_filters import RowFilter
from docgraph.store.names import SCHEMA_STORE

T = TypeVar("T")


class OwnPlaces(NamedTuple):
    """The collections of apps, users and rules."""

    apps: CollectionName
    users: CollectionName
    rules: CollectionName

    @classmethod
    def of(cls, apps: Graphql, users: DbRealmAuthenticator, rules: DbAclAuthorizer) -> OwnPlaces:
        """Return those that the sections name."""
        return cls(
            (apps.db, apps.collection),
            (users.users_db, users.users_collection),
            (rules.acl_db, rules.acl_collection),
        )

    def find_in(self, db: str) -> frozenset[str]:
        """Return docgraph's own collections in a database."""
        return frozenset({SCHEMA_STORE, *(name for place, name in self if place == db)})


class AuthorTool(Protocol):
    """A tool: `members` are the arguments that its requests may have, of those in `ToolArguments`.

    One is made at the first request to any tool.
    """

    members: ClassVar[Sequence[str]]

    def __init__(self, access: ToolAccess) -> None: ...

    async def answer(self, exchange: Exchange, wanted: ToolArguments) -> Any:
        """Return the content of the response, which is rendered as JSON."""


@dataclass(frozen=True, slots=True)
class ToolAccess:
    """The server as its tools see it, and what a caller may learn from them."""

    sessions: AppSessions
    lane: Lane
    settings: Graphql
    rules: RuleBook
    mongo: Mongo
    own: OwnPlaces

    @property
    def store(self) -> Store:
        return self.sessions.store

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of computing that takes long; it runs in a thread."""
        return await run_blocking(self.lane, work)

    def is_root(self, exchange: Exchange) -> bool:
        return self.sessions.is_root(exchange)

    def may_explain(self, exchange: Exchange) -> bool:
        """Return whether the caller may see indexes and counts (`graphql.explain`)."""
        return self.sessions.access.graphql.may_explain(exchange.account)

    @property
    def has_author_rules(self) -> bool:
        """Return whether rules decide what callers without the root role may read here."""
        return self.sessions.limits is not None

    async def may_read(self, exchange: Exchange, place: CollectionName) -> bool:
        if self.is_root(exchange):
            return True
        limits = self.sessions.limits
        return limits is not None and await limits.may_read_whole(exchange, place)

    async def may_see_apps(self, exchange: Exchange) -> bool:
        """Return whether the caller may read all definitions."""
        if self.is_root(exchange):
            return True
        limits = self.sessions.limits
        return limits is not None and await limits.may_see_apps(exchange)

    async def open_app(self, exchange: Exchange, wanted: ToolArguments) -> App:
        """Return the requested app or draft; raise an error if the caller may not use it."""
        return (await self.sessions.enter(exchange, wanted)).app

    async def find_apps(self) -> tuple[list[App], list[tuple[str, DocgraphError]]]:
        """Return all apps that are served, and the reasons why others are not."""
        apps: list[App] = []
        broken: list[tuple[str, DocgraphError]] = []
        served = self.sessions.access.apps
        for entry in await served.list_served():
            try:
                app = await served.get(entry.id)
            except StoreUnavailable:
                raise
            except DocgraphError as error:
                broken.append((str(entry.id), error))
                continue
            if app is not None:
                apps.append(app)
        return apps, broken

    async def is_open(self, exchange: Exchange, app: App) -> bool | None:
        """Return whether unauthenticated callers may query the app; None if it is not served."""
        decision = await self.sessions.authorize(exchange, app, None)
        return None if decision is None else decision.allowed

    async def find_row_filters(self, places: Iterable[CollectionName]) -> list[RowFilter]:
        return list(find_row_filters(await self.rules.find_all(), places, self.mongo))

    def find_path(self, place: CollectionName) -> str | None:
        """Return the path of a collection in the REST API, if it is served."""
        return self.sessions.find_path(self.mongo, *place)
