"""Validation of documents and schemas by JSON Schema, on every path (rest-behaviour 5.6).

The schema store accepts only schemas and returns them as they were written. A collection whose
metadata names a schema accepts only valid documents. An update of one document arrives here as the
whole document (see `handlers/documents.py`); other updates are rejected.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Final

from docgraph.codec import as_meant, as_written, to_stored
from docgraph.codec.bson_types import ObjectId
from docgraph.codec.pieces import check_size
from docgraph.config.section import PluginConfig
from docgraph.exchange import Document, Exchange, Read, Resource, ResourceType, Write, WriteKind
from docgraph.exchange.errors import DefinitionError, NotSupported, RequestError
from docgraph.plugins.kinds import DataInterceptor
from docgraph.rest.news import CollectionNotifier
from docgraph.rest.schema_store import InvalidSchema, Schemas, Validator, identify
from docgraph.rest.sections import Mongo
from docgraph.runtime import Blocking, Generations, Lane, run_blocking
from docgraph.store import Store
from docgraph.store.catalog import Metadata
from docgraph.store.guard.shield import reject_marker, reject_marker_in_filter
from docgraph.store.names import SCHEMA_STORE, is_reserved_collection

MAX_CHECKED: Final = 200_000  # values of a document: the check needs a copy of it


def open_lane(blocking: Blocking) -> Lane:
    """Open the lane that compiles schemas: one at a time, as each call blocks all threads."""
    return blocking.lane("schemas", concurrency=1)


class _OnSchemas(DataInterceptor):
    """An interceptor of the schema stores of all databases."""

    def resolve(self, resource: Resource) -> bool:
        return resource.collection == SCHEMA_STORE


class SchemaStoreChecker(_OnSchemas):
    """Accepts only schemas; adds their address and escapes their keys."""

    name: ClassVar[str] = "jsonSchemaStoreChecker"
    description: ClassVar[str] = "checks JSON schemas before they are stored"
    priority: ClassVar[int] = 800

    def __init__(
        self, config: PluginConfig, store: Store, generations: Generations, blocking: Blocking
    ) -> None:
        self.config = config
        self._lane = open_lane(blocking)
        self._schemas = Schemas(store, generations, self._lane, ttl=0)

    async def close(self) -> None:
        await self._schemas.close()

    async def before_write(
        self, exchange: Exchange | None, resource: Resource, write: Write
    ) -> Write:
        reject_marker_in_filter(write.filter)
        if write.kind is WriteKind.UPDATE:
            raise NotSupported("schemas cannot be updated in place", hint="PUT the whole schema")
        db = resource.db or ""
        checked = [await self._check(document, db) for document in write.documents]
        return replace(write, documents=tuple(checked))

    async def _check(self, document: Document, db: str) -> Document:
        schema, stored = await run_blocking(self._lane, _prepare, document, db)
        await self._schemas.compile(schema)
        return stored


def _prepare(document: Document, db: str) -> tuple[Document, Document]:
    """Return the schema as it is used and as it is stored."""
    written = {"_id": ObjectId(), **as_written(document)}
    plain = as_meant(to_stored(written))
    schema = identify(plain, db)
    if not isinstance(schema["_id"], str | ObjectId):
        raise InvalidSchema("the _id of a schema must be a text or an ObjectId")
    ours = {key: value for key, value in schema.items() if plain.get(key) != value}
    return schema, to_stored({**written, **ours})


class SchemaStoreNotifier(CollectionNotifier):
    """Announces a written schema to every worker and instance."""

    name: ClassVar[str] = "jsonSchemaStoreTeller"
    description: ClassVar[str] = "makes written JSON schemas known to all workers"

    def resolve(self, resource: Resource) -> bool:
        return resource.collection == SCHEMA_STORE

    def _is_news(self, resource: Resource, write: Write) -> bool:
        return True


class SchemaStoreReader(_OnSchemas):
    """Returns schemas as they were written."""

    name: ClassVar[str] = "jsonSchemaStoreReader"
    description: ClassVar[str] = "unescapes JSON schemas that are read"
    takes_portions: ClassVar[bool] = True

    async def before_read(self, exchange: Exchange | None, resource: Resource, read: Read) -> Read:
        """Reject reads that use properties which are never shown."""
        reject_marker(read)
        return read

    async def after_read(
        self, exchange: Exchange | None, resource: Resource, documents: list[Document]
    ) -> list[Document]:
        return [as_written(document) for document in documents]


class SchemaChecker(DataInterceptor):
    """Accepts only documents that are valid by the schema of their collection.

    Runs after interceptors that add values to a write, and before passwords are hashed.
    """

    name: ClassVar[str] = "jsonSchemaChecker"
    description: ClassVar[str] = "checks documents against the JSON schema of their collection"
    priority: ClassVar[int] = 800
    security: ClassVar[bool] = True

    def __init__(
        self,
        config: PluginConfig,
        store: Store,
        generations: Generations,
        mongo: Mongo,
        blocking: Blocking,
    ) -> None:
        self.config = config
        cached, kept = mongo.local_cache_enabled, mongo.schema_cache_enabled
        self._metadata = Metadata(
            store, generations, ttl=mongo.local_cache_ttl / 1000 if cached else 0.0
        )
        self._schemas = Schemas(
            store,
            generations,
            open_lane(blocking),
            ttl=mongo.schema_cache_ttl / 1000 if kept else 0.0,
        )

    async def close(self) -> None:
        await self._metadata.close()
        await self._schemas.close()

    def resolve(self, resource: Resource) -> bool:
        """Return whether the resource is a user collection, whose metadata may name a schema."""
        collection = resource.collection
        if resource.type is ResourceType.METADATA or collection is None:
            return False
        return collection != SCHEMA_STORE and not is_reserved_collection(collection)

    async def before_write(
        self, exchange: Exchange | None, resource: Resource, write: Write
    ) -> Write:
        if write.kind in (WriteKind.DELETE, WriteKind.CREATE, WriteKind.DROP):
            return write
        metadata = await self._metadata.find(
            resource.db or "", resource.collection, id=write.collection_id
        )
        setting = (metadata or {}).get("jsonSchema")
        if setting is None:
            return write
        # Another program may have written it.
        if not isinstance(setting, dict) or setting.get("schemaId") is None:
            raise DefinitionError("wrong 'jsonSchema': missing property schemaId")
        if write.kind is WriteKind.UPDATE:
            # The resulting document is not known in advance.
            if setting.get("skipNotSupported") is True:
                return write
            if write.many:
                raise NotSupported(
                    "'jsonSchema' checker does not support bulk PATCH requests. Set "
                    "'skipNotSupported:true' to allow them."
                )
            raise RequestError(
                "'jsonSchema' checker does not support this update",
                hint="write the whole document, or set 'skipNotSupported:true' to allow it "
                "unchecked",
            )
        db, id = setting.get("schemaStoreDb") or resource.db or "", setting["schemaId"]
        validator = await self._schemas.find(db, id)
        if exchange is None:
            _check_documents(write, validator, id)
        elif exchange.request.method == "PATCH" or len(write.documents) > 1:
            # The document may be large, and each of several can take long.
            await exchange.request.offload(_check_documents, write, validator, id)
        else:
            await exchange.request.work(_check_documents, write, validator, id)
        return write


def _check_documents(write: Write, validator: Validator, id: Any) -> None:
    several = len(write.documents) > 1
    for index, document in enumerate(write.documents):
        check_size(document, "the document", MAX_CHECKED)
        violations = validator.find_violations(document)
        if violations:
            place = f"document at index {index}: " if several else ""
            raise RequestError(
                f"Request content violates schema '{id}': {place}{', '.join(violations)}",
                details=violations,
            )
