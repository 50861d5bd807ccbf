"""Definitions show to others what their author may read, and nothing more.

A stored aggregation or a GraphQL app reads collections for whoever may run it. So somebody without
the root role can write one only about collections that a plain `GET` of theirs would show them
whole: without `readFilter` and `projectResponse`. Nor can they name a hidden property, such as the
password, in an aggregation, an app, a stream or a schema. Their expressions have the bounds of what
callers write. What was stored before and stays as it is, they may leave there: an entry of the
metadata, or an app, as a whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar, Final

from docgraph.access.database import AUTHORIZER, DbAclAuthorizer
from docgraph.access.definitions.imagined import Imagination
from docgraph.access.full import FullAuthorizer
from docgraph.codec import as_meant
from docgraph.codec.equality import is_equal
from docgraph.config.section import PluginConfig
from docgraph.exchange import (
    Consistency,
    Deadline,
    Document,
    Exchange,
    Permission,
    Resource,
    ResourceType,
    Write,
)
from docgraph.exchange.errors import DocgraphError, SecurityViolation
from docgraph.exchange.path import encode_path
from docgraph.graphql.sections import Graphql
from docgraph.observe import emit
from docgraph.observe.events import AccessDenied
from docgraph.plugins.kinds import DataInterceptor, Decision, Kind
from docgraph.plugins.registry import PluginRegistry
from docgraph.rest.sections import Mongo
from docgraph.store import Key, Store
from docgraph.store.guard.expressions import check_filter_cost, check_pipeline_cost
from docgraph.store.guard.marker import hide_marker
from docgraph.store.guard.naming import find_named, find_property
from docgraph.store.guard.references import find_references
from docgraph.store.guard.rows import Paths
from docgraph.store.metadata import metadata_id
from docgraph.store.mounts import METADATA_STORE, SCHEMA_STORE, Mounts, find_paths
from docgraph.store.names import namespace_of
from docgraph.variables import GRAPHQL, REST, flatten_stages

__all__ = ["DEFINITION_LIMITS", "DefinitionLimits"]

DEFINITION_LIMITS: Final = "permissionDefinitions"

_PRIMARY: Final = Consistency(preference="primary")
_REST: Final = "mongo"
_PIPELINES: Final = ("aggrs", "streams")
_LOOK_MS: Final = 10_000
_MOST_BOUND: Final = 10_000
_FREE: Final = ("description", "enabled")  # of a descriptor: they let nobody see more
_HINT: Final = "only the root role may"

Namespace = tuple[str, str]


class DefinitionLimits(DataInterceptor):
    """Refuses definitions that would show more than their author may see."""

    name: ClassVar[str] = DEFINITION_LIMITS
    description: ClassVar[str] = "refuses definitions that read more than their author may"
    security: ClassVar[bool] = True
    priority: ClassVar[int] = 950  # behind those that tell what is wrong with a definition

    def __init__(
        self,
        config: PluginConfig,
        *,
        registry: PluginRegistry,
        imagined_requests: Imagination,
        store: Store,
        graphql: Graphql,
        mongo: Mongo,
    ) -> None:
        self._registry = registry
        self._store = store
        self._graphql = graphql
        self._mongo = mongo
        self._mounts = Mounts(mongo.mongo_mounts, mongo.uri)
        self._imagination = imagined_requests

    async def provision(self) -> None:
        """Tell the guard of the store which role is above it."""
        authorizer = self._registry.find(AUTHORIZER)
        if isinstance(authorizer, DbAclAuthorizer):
            self._store.guard.trust(authorizer.config.root_role)

    def resolve(self, resource: Resource) -> bool:
        """Metadata, schemas and GraphQL apps."""
        return resource.collection in (METADATA_STORE, SCHEMA_STORE) or self._is_app(resource)

    def _is_app(self, resource: Resource) -> bool:
        return resource.is_in(self._graphql.db, self._graphql.collection)

    async def before_write(
        self, exchange: Exchange | None, resource: Resource, write: Write
    ) -> Write:
        """The write as it is, or 403 with what its author may not show."""
        if exchange is None or self._store.guard.is_trusted(exchange.account):
            return write
        for document in write.documents:
            try:
                await self._check(exchange, resource, as_meant(document))
            except SecurityViolation as error:
                self._report(exchange, error)
                raise
        return write

    async def check_draft(self, exchange: Exchange, document: Document) -> None:
        """The same for an app that is going to be tried: 403 where storing and serving it would be.

        A draft is tried whether it is enabled or not: one of an app that is switched off shows
        what nobody is shown.
        """
        if self._store.guard.is_trusted(exchange.account):
            return
        draft = as_meant(document)
        descriptor = draft.get("descriptor")
        if isinstance(descriptor, dict):
            draft["descriptor"] = {**descriptor, "enabled": True}
        await self._check_app(exchange, draft)

    async def may_see_apps(self, exchange: Exchange) -> bool:
        """Whether a plain GET shows the caller all that is stored of GraphQL apps."""
        if self._store.guard.is_trusted(exchange.account):
            return True
        return await self._may_read(exchange, (self._graphql.db, self._graphql.collection))

    async def may_read_whole(self, exchange: Exchange, namespace: Namespace) -> bool:
        """Whether a plain GET shows the caller all of a collection, and the request itself may."""
        permission = exchange.permission
        if permission is not None and not _is_whole(permission, namespace):
            return False
        return await self._may_read(exchange, namespace)

    async def _check(self, exchange: Exchange, resource: Resource, document: Document) -> None:
        db = resource.db or ""
        if self._is_app(resource):
            await self._check_app(exchange, document)
        elif resource.collection == SCHEMA_STORE:
            self._check_schema(db, document)
            await self._check_bound(exchange, db)
        else:
            await self._check_metadata(exchange, db, document)

    # --- metadata ---------------------------------------------------------------------------------

    async def _check_metadata(self, exchange: Exchange, db: str, document: Document) -> None:
        collection = str(document.get("_id")).removeprefix(f"{METADATA_STORE}.")
        if document.get("_id") != metadata_id(collection):
            return  # of the database: nothing in it is run
        stored = await self._find((db, METADATA_STORE), document["_id"], exchange)
        for property in _PIPELINES:
            before = stored.get(property)
            for place, entry in _new_entries(property, document.get(property), before):
                stages = flatten_stages(entry.get("stages"), REST.optional)
                await self._check_pipeline(exchange, (db, collection), stages, place)
        binding = document.get("jsonSchema")
        if binding is not None and not is_equal(binding, stored.get("jsonSchema")):
            await self._check_binding(exchange, (db, collection), binding)

    async def _check_pipeline(
        self, exchange: Exchange, own: Namespace, stages: list[Any], place: str
    ) -> None:
        check_pipeline_cost(stages, f"{place}.stages")
        # The collection itself is read under the filters of whoever runs the aggregation.
        read = {(one.db, one.collection) for one in find_references(stages, own[0])} - {own}
        for joined in sorted(read):
            if not await self._may_read(exchange, joined):
                raise SecurityViolation(
                    f"{place}.stages: the collection '{joined[1]}' may not be joined by somebody "
                    "who may not read all of it",
                    hint=_HINT,
                )
        hidden = self._hidden({own, *read})
        if hidden and (name := find_named(stages, hidden)):
            raise _refuse_name(f"{place}.stages", name)

    async def _check_binding(self, exchange: Exchange, namespace: Namespace, binding: Any) -> None:
        """The schema of a collection with hidden properties is one of its own database.

        Those of other databases may name what is hidden here.
        """
        db, collection = namespace
        other = binding.get("schemaStoreDb", db) if isinstance(binding, dict) else db
        if other != db and self._hidden({namespace}):
            raise SecurityViolation(
                f"jsonSchema.schemaStoreDb: the schema of '{collection}' must be of its database",
                hint=_HINT,
            )
        permission = exchange.permission
        is_partial = permission is not None and not _is_whole(permission, namespace)
        if is_partial or await self._sees_part(exchange, namespace):
            raise _refuse_schema("jsonSchema", collection)

    async def _check_bound(self, exchange: Exchange, db: str) -> None:
        """Whoever sees a collection in part does not choose what is checked there.

        Schemas refer to others, so that any of them counts.
        """
        bound = await self._store.find(
            db,
            METADATA_STORE,
            {"jsonSchema": {"$exists": True}},
            projection={"_id": 1},
            limit=_MOST_BOUND,
            deadline=Deadline.after_ms(_LOOK_MS),
            consistency=_PRIMARY,
        )
        for metadata in bound:
            collection = str(metadata["_id"]).removeprefix(f"{METADATA_STORE}.")
            if await self._sees_part(exchange, (db, collection)):
                raise _refuse_schema("the schema", collection)

    def _check_schema(self, db: str, document: Document) -> None:
        hidden = tuple(
            path
            for namespace, paths in self._store.guard.shield().hidden.items()
            if namespace.startswith(f"{db}.")
            for path in paths
        )
        if name := find_property(document, hidden):
            raise _refuse_name("the schema", name)

    # --- GraphQL apps -----------------------------------------------------------------------------

    async def _check_app(self, exchange: Exchange, document: Document) -> None:
        own = (self._graphql.db, self._graphql.collection)
        stored = await self._find(own, document.get("_id"), exchange)
        if _shows_no_more(document, stored):
            return
        judged: set[tuple[str, Namespace]] = set()
        readable: set[Namespace] = set()
        for place, namespace, mapping in _find_mapped(document.get("mappings")):
            if (place, namespace) in judged:
                continue  # stages may name a collection a thousand times
            judged.add((place, namespace))
            _check_cost(mapping, place)
            if namespace not in readable and not await self._may_read(exchange, namespace):
                raise SecurityViolation(
                    f"{place}: the collection '{namespace_of(*namespace)}' may not be mapped by "
                    "somebody who may not read all of it",
                    hint=_HINT,
                )
            readable.add(namespace)
            await asyncio.sleep(0)  # judging takes a while, and nothing in it waits
            hidden = self._hidden({namespace})
            if hidden and (name := find_named(mapping, hidden)):
                raise _refuse_name(place, name)

    # --- what the author may ----------------------------------------------------------------------

    async def _may_read(self, exchange: Exchange, namespace: Namespace) -> bool:
        """Whether a plain GET of the collection shows the caller all of it, at one of its paths."""
        if not self._find_paths(exchange, namespace):
            # No request reads it, but who may do everything anyway need not be kept from it.
            known = self._registry.of_kind(Kind.AUTHORIZER)
            return any(isinstance(one, FullAuthorizer) for one in known)
        decisions = await self._decide_reads(exchange, namespace)
        return any(_shows_all(one, namespace) for one in decisions)

    async def _sees_part(self, exchange: Exchange, namespace: Namespace) -> bool:
        """Whether GETs show the caller something of the collection, and none of them all of it."""
        decisions = await self._decide_reads(exchange, namespace)
        return bool(decisions) and not any(_shows_all(one, namespace) for one in decisions)

    async def _decide_reads(self, exchange: Exchange, namespace: Namespace) -> list[Decision]:
        """What admits plain GETs of the collection, at all its paths."""
        decisions = []
        for path in self._find_paths(exchange, namespace):
            service, decision = await self._imagination.decide_get(exchange, encode_path(path))
            if service == _REST and decision is not None:
                decisions.append(decision)
        return decisions

    def _find_paths(self, exchange: Exchange, namespace: Namespace) -> list[tuple[str, ...]]:
        """Where the collection is mounted, and its place beside the resource of the request.

        Of mounts with variables only the request says what they stand for.
        """
        own = Resource(ResourceType.COLLECTION, *namespace)
        paths = [
            *find_paths(own, self._mongo.mongo_mounts, self._mongo.uri),
            (*exchange.request.segments[:-1], namespace[1]),
        ]
        host = exchange.request.headers.get("host") or ""
        found = ((path, self._mounts.resolve(path, host)) for path in dict.fromkeys(paths))
        return [path for path, one in found if one is not None and one.is_in(*namespace)]

    def _hidden(self, namespaces: set[Namespace]) -> Paths:
        hidden = self._store.guard.shield().hidden
        return tuple(path for one in namespaces for path in hidden.get(namespace_of(*one), ()))

    async def _find(self, place: Namespace, id: Any, exchange: Exchange) -> Document:
        found = await self._store.find_one(
            *place,
            {"_id": {"$eq": id}},
            deadline=Deadline.after_ms(_LOOK_MS),
            consistency=_PRIMARY,
            reveal=(self._key,),
            transaction=exchange.transaction,
        )
        return as_meant(found or {})

    @cached_property
    def _key(self) -> Key:
        return hide_marker(self._store.guard, self._graphql.db, self._graphql.collection)

    def _report(self, exchange: Exchange, error: DocgraphError) -> None:
        request, account = exchange.request, exchange.account
        name = account.name if account is not None else ""
        emit(
            AccessDenied(exchange.id, self.name, error.message, name, request.method, request.path)
        )


def _shows_all(decision: Decision, namespace: Namespace) -> bool:
    return decision.permission is None or _is_whole(decision.permission, namespace)


def _is_whole(permission: Permission, namespace: Namespace) -> bool:
    """Whether a permission for the collection shows all of it."""
    return not permission.project_response and namespace_of(*namespace) not in (
        permission.read_filters
    )


def _refuse_schema(place: str, collection: str) -> SecurityViolation:
    return SecurityViolation(
        f"{place}: what is checked in the collection '{collection}' may not be chosen by somebody "
        "who sees only a part of it",
        hint=_HINT,
    )


def _refuse_name(place: str, name: str) -> SecurityViolation:
    return SecurityViolation(f"{place}: the property '{name}' may not be named here", hint=_HINT)


def _new_entries(property: str, entries: Any, stored: Any) -> Iterator[tuple[str, Document]]:
    known = stored if isinstance(stored, list) else []
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, dict) and not any(is_equal(entry, one) for one in known):
            yield f"{property}[{index}]", entry


def _shows_no_more(app: Document, stored: Document) -> bool:
    """Whether an app is what it was, or was switched off.

    Its address and `@visible` say who gets what it maps, so that they count as much as mappings.
    """
    was_served, is_served = (_enabled(one) is not False for one in (stored, app))
    return is_equal(_served(app), _served(stored)) and (was_served or not is_served)


def _enabled(app: Document) -> Any:
    descriptor = app.get("descriptor")
    return descriptor.get("enabled") if isinstance(descriptor, dict) else None


def _served(app: Document) -> Document:
    """What an app answers with, and where."""
    descriptor = app.get("descriptor")
    if isinstance(descriptor, dict):
        descriptor = {key: one for key, one in descriptor.items() if key not in _FREE}
    parts = {"schema": app.get("schema"), "mappings": app.get("mappings")}
    return {**parts, "descriptor": descriptor or None}


def _check_cost(mapping: Document, place: str) -> None:
    """Expressions in a mapping can cost no more than those that callers write."""
    check_filter_cost(mapping.get("find"), f"{place}.find")
    stages = flatten_stages(mapping.get("stages", []), GRAPHQL.optional)
    check_pipeline_cost(stages, f"{place}.stages")


def _find_mapped(mappings: Any) -> Iterator[tuple[str, Namespace, Document]]:
    """Every collection that the mappings of an app read, with the place and mapping that say so."""
    for type, fields in mappings.items() if isinstance(mappings, dict) else ():
        for field, mapping in fields.items() if isinstance(fields, dict) else ():
            match mapping:
                case {"db": str(db), "collection": str(collection)}:
                    place = f"mappings.{type}.{field}"
                    yield place, (db, collection), mapping
                    stages = flatten_stages(mapping.get("stages", []), GRAPHQL.optional)
                    for one in find_references(stages, db):
                        yield f"{place}.stages", (one.db, one.collection), mapping
