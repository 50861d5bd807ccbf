"""Compare the rows of a collection that a caller sees in REST and in GraphQL.

`mongo.readFilter` of a rule (row-level security, tenants) protects the collection that a REST
request addresses; GraphQL needs `mongo.readFilters`. `access explain` reports a rule that has the
one without the other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from docgraph.access.rule import READS, Rule
from docgraph.access.rulebook import RuleBook
from docgraph.access.view_rules import ViewWarning, find_view_warnings
from docgraph.codec import as_meant
from docgraph.exchange import (
    Deadline,
    Document,
    Exchange,
    Permission,
    Request,
    Resource,
    ResourceType,
)
from docgraph.exchange.request import Segments, encode_path, parse_path
from docgraph.graphql.sections import Graphql
from docgraph.plugins.registry import PluginRegistry
from docgraph.rest.sections import Mongo
from docgraph.store import Store
from docgraph.store.guard.references import find_reference
from docgraph.store.mounts import find_paths
from docgraph.store.names import namespace_of
from docgraph.store.views import RefusedView

_READ_MS: Final = 10_000

_READ: Final = frozenset(
    {ResourceType.COLLECTION, ResourceType.DOCUMENT, ResourceType.SIZE, ResourceType.AGGREGATION}
)


class ServedApp(Protocol):
    """A definition that is served at its URI."""

    @property
    def uri(self) -> str:
        """Its path below that of the GraphQL service."""

    @property
    def document(self) -> Document:
        """The definition as it is stored."""


class ServedApps(Protocol):
    """The provider `gql-app-definition-cache`, which reads the stored definitions."""

    async def list_served(self) -> Sequence[ServedApp]:
        """Return the definitions that are served."""


@dataclass
class Comparison:
    """Compares the visible rows of a collection in REST and in GraphQL."""

    _graphql: Graphql
    _mongo: Mongo
    _store: Store
    _book: RuleBook
    _registry: PluginRegistry
    _apps: ServedApps | None  # None: GraphQL is off

    async def find_notes(self, exchange: Exchange) -> list[str]:
        """Return notes on row filters of the caller that apply in REST and not in GraphQL."""
        if exchange.permission is None:
            return []
        if exchange.service == "mongo":
            return [note async for note in self._compare_collection(exchange)]
        if exchange.service == "graphql":
            return [note async for note in self._compare_app(exchange)]
        return []

    async def find_view_warnings(self, rules: Sequence[Rule]) -> list[ViewWarning]:
        """Return the views that rules refuse, or that show rows which a rule filters."""

        async def read_apps() -> dict[Segments, set[str]]:
            base = parse_path(self._graphql.uri.encode())
            return {
                (*base, *app.uri.split("/")): set(find_namespaces(as_meant(app.document)))
                for app in await self._list_apps()
            }

        return await find_view_warnings(rules, self._store, self._mongo, read_apps)

    async def find_refused_view(self, exchange: Exchange) -> RefusedView | None:
        """Return the view that the request itself would read and may not."""
        permission, parsed = exchange.permission, exchange.parsed
        resource = getattr(parsed, "resource", None)
        if permission is None or resource is None or exchange.request.method not in READS:
            return None
        if resource.type not in _READ or resource.db is None or resource.collection is None:
            return None
        place = (resource.db, resource.collection)
        views, deadline = self._store.reads.views, Deadline.after_ms(_READ_MS)
        return await views.find_refused(permission.read_filters, [place], deadline)

    async def _compare_collection(self, exchange: Exchange) -> AsyncIterator[str]:
        permission = exchange.permission
        if permission is None or permission.namespace not in permission.read_filters:
            return
        base = self._graphql.uri.rstrip("/")
        for app in await self._list_apps():
            if permission.namespace in set(find_namespaces(as_meant(app.document))):
                path = f"{base}{encode_path(tuple(app.uri.split('/')))}"
                other = await self._permit(exchange, "graphql", "POST", path)
                if other is not None and permission.namespace not in other.read_filters:
                    yield _describe_gap(permission.namespace, permission, app.uri, other)

    async def _compare_app(self, exchange: Exchange) -> AsyncIterator[str]:
        permission = exchange.permission
        base = len(parse_path(self._graphql.uri.encode()))
        asked = "/".join(exchange.request.segments[base:])
        for app in await self._list_apps():
            if app.uri != asked or permission is None:
                continue
            views, read = self._store.reads.views, set(find_namespaces(as_meant(app.document)))
            for namespace in sorted(read):
                place, deadline = namespace.split(".", 1), Deadline.after_ms(_READ_MS)
                refused = await views.find_refused(
                    permission.read_filters, [(place[0], place[1])], deadline
                )
                if refused is not None:
                    yield f"the app {app.uri} answers 403 where it reads {namespace}: {refused}"
            for namespace in sorted(read - permission.read_filters.keys()):
                other = await self._permit(exchange, "mongo", "GET", self._find_path(namespace))
                if other is not None and namespace in other.read_filters:
                    yield _describe_gap(namespace, other, app.uri, permission)

    async def _permit(
        self, exchange: Exchange, service: str, method: str, path: str | None
    ) -> Permission | None:
        """Return the permission of the same caller for another request."""
        if path is None:
            return None
        request = Request(method, path.encode())
        other = Exchange(request, exchange.id, account=exchange.account)
        server = self._registry.find(service)
        if server is None:
            return None
        other.service, other.parsed = service, server.parse(other)
        match = await self._book.match(other)
        return match.permission if match is not None else None

    def _find_path(self, namespace: str) -> str | None:
        """Return a path of the REST API that leads to the collection."""
        resource = Resource(ResourceType.COLLECTION, *namespace.split(".", 1))
        paths = find_paths(resource, self._mongo.mongo_mounts, self._mongo.uri)
        return next(map(encode_path, paths), None)

    async def _list_apps(self) -> Sequence[ServedApp]:
        return () if self._apps is None else await self._apps.list_served()


def find_namespaces(value: Any, db: str | None = None) -> Iterator[str]:
    """Yield every collection that the mappings of a definition read."""
    if isinstance(value, list):
        for item in value:
            yield from find_namespaces(item, db)
    if not isinstance(value, dict):
        return
    if isinstance(value.get("db"), str) and isinstance(value.get("collection"), str):
        db = value["db"]
        yield namespace_of(value["db"], value["collection"])
    for key, inner in value.items():
        joined = find_reference(key, inner, db) if db is not None else None
        if joined is not None:
            yield namespace_of(joined.db, joined.collection)
        yield from find_namespaces(inner, db)


def _describe_gap(namespace: str, rest: Permission, uri: str, graphql: Permission) -> str:
    return (
        f"the rows of {namespace} are filtered in REST by the rule {rest.rule}, and not in the "
        f"GraphQL app {uri}, which the rule {graphql.rule} opens: give that rule "
        f'mongo.readFilters {{"{namespace}": …}}'
    )
