"""Limits for the authors of definitions: they can publish only what they may read themselves.

A stored aggregation or a GraphQL app reads collections for every caller who may run it. An author
without the root role can therefore use only collections that a plain `GET` returns to that author
completely: without `readFilter` and `projectResponse`. Such an author cannot name a hidden
property, such as the password, in an aggregation, an app, a stream or a schema. Expressions have
the same cost limits as those in requests. Definitions that were stored before may stay unchanged:
an entry of the metadata, or an app, as a whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar, Final

from docgraph.access.authorize import FullAuthorizer, report_denial
from docgraph.access.dry_run import RequestDryRun
from docgraph.access.rule_authorizers import AUTHORIZER, DbAclAuthorizer
from docgraph.codec import as_meant
from docgraph.codec.equality import equality_key, is_equal
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
from docgraph.exchange.data import CollectionName
from docgraph.exchange.errors import SecurityViolation
from docgraph.exchange.request import encode_path
from docgraph.graphql.sections import Graphql
from docgraph.plugins.kinds import DataInterceptor, Decision, Kind
from docgraph.plugins.registry import PluginRegistry
from docgraph.rest.sections import Mongo
from docgraph.store import RevealKey, Store
from docgraph.store.catalog import metadata_id
from docgraph.store.guard.expression_checks import check_filter_cost, check_pipeline_cost
from docgraph.store.guard.references import find_references
from docgraph.store.guard.shield import find_named, find_property, hide_marker
from docgraph.store.guard.shown import Paths
from docgraph.store.mounts import Mounts, find_paths
from docgraph.store.names import METADATA_STORE, SCHEMA_STORE, namespace_of
from docgraph.variables import GRAPHQL, REST, flatten_stages

DEFINITION_LIMITS: Final = "permissionDefinitions"

_PRIMARY: Final = Consistency(preference="primary")
_PIPELINES: Final = ("aggrs", "streams")
_LOOK_MS: Final = 10_000
_MAX_BOUND: Final = 10_000
_FREE: Final = ("description", "enabled")  # of a descriptor: they show nothing more to any caller
_HINT: Final = "only the root role may"


class DefinitionLimits(DataInterceptor):
    """Rejects definitions that would show more than their author may see."""

    name: ClassVar[str] = DEFINITION_LIMITS
    description: ClassVar[str] = "refuses definitions that read more than their author may"
    security: ClassVar[bool] = True
    priority: ClassVar[int] = 950  # after the interceptors that validate a definition

    def __init__(
        self,
        config: PluginConfig,
        *,
        registry: PluginRegistry,
        imagined_requests: RequestDryRun,
        store: Store,
        graphql: Graphql,
        mongo: Mongo,
    ) -> None:
        self._registry = registry
        self._store = store
        self._graphql = graphql
        self._mongo = mongo
        self._mounts = Mounts(mongo.mongo_mounts, mongo.uri)
        self._dry_run = imagined_requests

    async def provision(self) -> None:
        authorizer = self._registry.find(AUTHORIZER)
        if isinstance(authorizer, DbAclAuthorizer):
            self._store.guard.trust(authorizer.config.root_role)

    def resolve(self, resource: Resource) -> bool:
        """Return whether the resource stores metadata, schemas or GraphQL apps."""
        return resource.collection in (METADATA_STORE, SCHEMA_STORE) or self._is_app(resource)

    def _is_app(self, resource: Resource) -> bool:
        return resource.is_in(self._graphql.db, self._graphql.collection)

    async def before_write(
        self, exchange: Exchange | None, resource: Resource, write: Write
    ) -> Write:
        """Return the write unchanged, or raise 403 with what its author may not show."""
        if exchange is None or self._store.guard.is_trusted(exchange.account):
            return write
        for document in write.documents:
            try:
                await self._check(exchange, resource, as_meant(document))
            except SecurityViolation as error:
                report_denial(exchange, self.name, error.message)
                raise
        return write

    async def check_draft(self, exchange: Exchange, document: Document) -> None:
        """Check an app that is about to be tried: 403 when storing and serving it would be 403.

        A draft is checked whether it is enabled or not: trying a disabled app returns data that the
        stored app does not return to any caller.
        """
        if self._store.guard.is_trusted(exchange.account):
            return
        draft = as_meant(document)
        descriptor = draft.get("descriptor")
        if isinstance(descriptor, dict):
            draft["descriptor"] = {**descriptor, "enabled": True}
        await self._check_app(exchange, draft)

    async def may_see_apps(self, exchange: Exchange) -> bool:
        """Return whether a plain GET returns all stored GraphQL apps to the caller."""
        if self._store.guard.is_trusted(exchange.account):
            return True
        return await self._may_read(exchange, (self._graphql.db, self._graphql.collection))

    async def may_read_whole(self, exchange: Exchange, namespace: CollectionName) -> bool:
        """Return whether the caller can read the whole collection, and this request can, too.

        A plain GET of the collection decides.
        """
        permission = exchange.permission
        if permission is not None and not _is_whole(permission, namespace):
            return False
        return await self._may_read(exchange, namespace)

    async def _check(self, exchange: Exchange, resource: Resource, document: Document) -> None:
        db = resource.db or ""
        if self._is_app(resource):
            await self._check_app(exchange, document)
        elif resource.collection == SCHEMA_STORE:
            hidden = tuple(
                path
                for namespace, paths in self._store.guard.shield().hidden.items()
                if namespace.startswith(f"{db}.")
                for path in paths
            )
            if name := find_property(document, hidden):
                raise _reject_name("the schema", name)
            await self._check_bound(exchange, db)
        else:
            await self._check_metadata(exchange, db, document)

    async def _check_metadata(self, exchange: Exchange, db: str, document: Document) -> None:
        collection = str(document.get("_id")).removeprefix(f"{METADATA_STORE}.")
        if document.get("_id") != metadata_id(collection):
            return  # of the database: nothing in it is executed
        stored = await self._find((db, METADATA_STORE), document["_id"], exchange)
        for place, stages in await exchange.request.offload(_find_new, document, stored):
            await self._check_pipeline(exchange, (db, collection), stages, place)
            await asyncio.sleep(0)  # there may be thousands
        binding = document.get("jsonSchema")
        if binding is not None and not is_equal(binding, stored.get("jsonSchema")):
            await self._check_binding(exchange, (db, collection), binding)

    async def _check_pipeline(
        self, exchange: Exchange, source: CollectionName, stages: list[Any], place: str
    ) -> None:
        # The collection itself is read with the row filters of the caller who runs the aggregation.
        read = {
            (reference.db, reference.collection) for reference in find_references(stages, source[0])
        } - {source}
        for joined in sorted(read):
            if not await self._may_read(exchange, joined):
                raise SecurityViolation(
                    f"{place}.stages: the collection '{joined[1]}' may not be joined by an author "
                    "who may not read all of it",
                    hint=_HINT,
                )
        hidden = self._hidden({source, *read})
        if hidden and (name := find_named(stages, hidden)):
            raise _reject_name(f"{place}.stages", name)

    async def _check_binding(
        self, exchange: Exchange, namespace: CollectionName, binding: Any
    ) -> None:
        """Reject a schema of another database for a collection with hidden properties.

        Schemas of other databases may name properties that are hidden here.
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
            raise _reject_schema("jsonSchema", collection)

    async def _check_bound(self, exchange: Exchange, db: str) -> None:
        """Reject a change of the schemas for an author who sees only a part of a collection there.

        Validation would reveal hidden values. Schemas refer to others, so every schema counts.
        """
        bound = await self._store.reads.find(
            db,
            METADATA_STORE,
            {"jsonSchema": {"$exists": True}},
            projection={"_id": 1},
            limit=_MAX_BOUND + 1,
            deadline=Deadline.after_ms(_LOOK_MS),
            consistency=_PRIMARY,
        )
        if len(bound) > _MAX_BOUND:
            raise SecurityViolation(
                f"the schema: more than {_MAX_BOUND} collections of the database have one, "
                "too many to check whether its author sees all of them",
                hint=_HINT,
            )
        for metadata in bound:
            collection = str(metadata["_id"]).removeprefix(f"{METADATA_STORE}.")
            if await self._sees_part(exchange, (db, collection)):
                raise _reject_schema("the schema", collection)

    async def _check_app(self, exchange: Exchange, document: Document) -> None:
        definitions = (self._graphql.db, self._graphql.collection)
        stored = await self._find(definitions, document.get("_id"), exchange)
        if _shows_no_more(document, stored):
            return
        checked: set[tuple[str, CollectionName]] = set()
        readable: set[CollectionName] = set()
        for place, namespace, mapping in _find_mapped(document.get("mappings")):
            if (place, namespace) in checked:
                continue  # stages may name a collection a thousand times
            checked.add((place, namespace))
            # Expressions in a mapping must not cost more than those in requests may.
            check_filter_cost(mapping.get("find"), f"{place}.find")
            stages = flatten_stages(mapping.get("stages", []), GRAPHQL.optional)
            check_pipeline_cost(stages, f"{place}.stages")
            if namespace not in readable and not await self._may_read(exchange, namespace):
                raise SecurityViolation(
                    f"{place}: the collection '{namespace_of(*namespace)}' may not be mapped by "
                    "an author who may not read all of it",
                    hint=_HINT,
                )
            readable.add(namespace)
            await asyncio.sleep(0)  # the check is long and never waits
            hidden = self._hidden({namespace})
            if hidden and (name := find_named(mapping, hidden)):
                raise _reject_name(place, name)

    async def _may_read(self, exchange: Exchange, namespace: CollectionName) -> bool:
        """Return whether a plain GET returns the whole collection, at one of its paths."""
        if not self._find_paths(exchange, namespace):
            # No request reads it, but a caller with all permissions needs no restriction.
            authorizers = self._registry.of_kind(Kind.AUTHORIZER)
            return any(isinstance(authorizer, FullAuthorizer) for authorizer in authorizers)
        decisions = await self._decide_reads(exchange, namespace)
        return any(_shows_all(decision, namespace) for decision in decisions)

    async def _sees_part(self, exchange: Exchange, namespace: CollectionName) -> bool:
        """Return whether GETs return a part of the collection, and none of them all of it."""
        decisions = await self._decide_reads(exchange, namespace)
        return bool(decisions) and not any(
            _shows_all(decision, namespace) for decision in decisions
        )

    async def _decide_reads(self, exchange: Exchange, namespace: CollectionName) -> list[Decision]:
        """Return the decisions on plain GETs of the collection, at all its paths."""
        decisions = []
        for path in self._find_paths(exchange, namespace):
            service, decision = await self._dry_run.decide_get(exchange, encode_path(path))
            if service == "mongo" and decision is not None:
                decisions.append(decision)
        return decisions

    def _find_paths(self, exchange: Exchange, namespace: CollectionName) -> list[tuple[str, ...]]:
        """Return the paths of the collection: its mounts, and the one next to the resource.

        The values of mounts with variables are known only from the request.
        """
        collection = Resource(ResourceType.COLLECTION, *namespace)
        paths = [
            *find_paths(collection, self._mongo.mongo_mounts, self._mongo.uri),
            (*exchange.request.segments[:-1], namespace[1]),
        ]
        host = exchange.request.headers.get("host") or ""
        resolved = ((path, self._mounts.resolve(path, host)) for path in dict.fromkeys(paths))
        return [
            path
            for path, resource in resolved
            if resource is not None and resource.is_in(*namespace)
        ]

    def _hidden(self, namespaces: set[CollectionName]) -> Paths:
        hidden = self._store.guard.shield().hidden
        return tuple(
            path for namespace in namespaces for path in hidden.get(namespace_of(*namespace), ())
        )

    async def _find(self, place: CollectionName, id: Any, exchange: Exchange) -> Document:
        document = await self._store.reads.find_one(
            *place,
            {"_id": {"$eq": id}},
            deadline=Deadline.after_ms(_LOOK_MS),
            consistency=_PRIMARY,
            reveal=(self._key,),
            transaction=exchange.transaction,
        )
        return as_meant(document or {})

    @cached_property
    def _key(self) -> RevealKey:
        return hide_marker(self._store.guard, self._graphql.db, self._graphql.collection)


def _shows_all(decision: Decision, namespace: CollectionName) -> bool:
    return decision.permission is None or _is_whole(decision.permission, namespace)


def _is_whole(permission: Permission, namespace: CollectionName) -> bool:
    """Return whether a permission for the collection shows all of it."""
    return not permission.project_response and namespace_of(*namespace) not in (
        permission.read_filters
    )


def _reject_schema(place: str, collection: str) -> SecurityViolation:
    return SecurityViolation(
        f"{place}: what is checked in the collection '{collection}' may not be chosen by an author "
        "who sees only a part of it",
        hint=_HINT,
    )


def _reject_name(place: str, name: str) -> SecurityViolation:
    return SecurityViolation(f"{place}: the property '{name}' may not be named here", hint=_HINT)


def _find_new(metadata: Document, stored: Document) -> list[tuple[str, list[Any]]]:
    """Return the stages of pipelines that are not stored yet, with their locations.

    Raises for stages that are too expensive.
    """
    new: list[tuple[str, list[Any]]] = []
    for property in _PIPELINES:
        for place, entry in _new_entries(property, metadata.get(property), stored.get(property)):
            stages = flatten_stages(entry.get("stages"), REST.optional)
            check_pipeline_cost(stages, f"{place}.stages")
            new.append((place, stages))
    return new


def _new_entries(property: str, entries: Any, stored: Any) -> Iterator[tuple[str, Document]]:
    before = set(map(equality_key, stored if isinstance(stored, list) else ()))
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, dict) and equality_key(entry) not in before:
            yield f"{property}[{index}]", entry


def _shows_no_more(app: Document, stored: Document) -> bool:
    """Return whether an app is unchanged, or only disabled.

    Its URI and `@visible` decide which callers get what it maps, so they count like mappings.
    """
    was_served, is_served = (_enabled(definition) is not False for definition in (stored, app))
    return is_equal(_served(app), _served(stored)) and (was_served or not is_served)


def _enabled(app: Document) -> Any:
    descriptor = app.get("descriptor")
    return descriptor.get("enabled") if isinstance(descriptor, dict) else None


def _served(app: Document) -> Document:
    """Return the parts of an app that determine its responses and its URI."""
    descriptor = app.get("descriptor")
    if isinstance(descriptor, dict):
        descriptor = {key: value for key, value in descriptor.items() if key not in _FREE}
    parts = {"schema": app.get("schema"), "mappings": app.get("mappings")}
    return {**parts, "descriptor": descriptor or None}


def _find_mapped(mappings: Any) -> Iterator[tuple[str, CollectionName, Document]]:
    """Yield every collection that the mappings of an app read, with location and mapping."""
    for type, fields in mappings.items() if isinstance(mappings, dict) else ():
        for field, mapping in fields.items() if isinstance(fields, dict) else ():
            match mapping:
                case {"db": str(db), "collection": str(collection)}:
                    place = f"mappings.{type}.{field}"
                    yield place, (db, collection), mapping
                    stages = flatten_stages(mapping.get("stages", []), GRAPHQL.optional)
                    for reference in find_references(stages, db):
                        yield f"{place}.stages", (reference.db, reference.collection), mapping
