"""Resources for the description: collections, their metadata and schemas, the apps.

The number is bounded: the description of a very large database is partial and reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from docgraph.codec import as_meant
from docgraph.exchange import DataPoint, Deadline, Document, Resource, ResourceType
from docgraph.exchange.errors import DefinitionError
from docgraph.graphql.definition.declared_operations import read_operations
from docgraph.graphql.definition.definition import read_uri
from docgraph.graphql.sections import Graphql
from docgraph.openapi.endpoints import CollectionPaths, Mounted
from docgraph.openapi.schemas import SchemaKey, find_references
from docgraph.plugins.kinds import DataInterceptor
from docgraph.plugins.points import stands_at
from docgraph.rest.bodies.pipelines import Aggregation, find_aggregation
from docgraph.rest.bodies.stream_definitions import StreamDefinition, find_stream
from docgraph.rest.schemas.schema_store import load_schema
from docgraph.store import Store
from docgraph.store.catalog import Catalog
from docgraph.store.metadata import metadata_id
from docgraph.store.mounts import METADATA_STORE, SCHEMA_STORE

_MAX_APPS: Final = 500
_MAX_SCHEMAS: Final = 200

_T = TypeVar("_T")
Place = tuple[str, str, str]  # database, collection, uri


@dataclass(frozen=True, slots=True)
class ServedApp:
    """A GraphQL app that is served."""

    uri: tuple[str, ...]
    name: str
    description: str = ""
    operations: tuple[tuple[str, str], ...] = ()  # names and descriptions
    csv: bool = False


@dataclass(frozen=True, slots=True)
class Survey:
    """The current resources; `left_out` are collections beyond the bound."""

    collections: tuple[CollectionPaths, ...] = ()
    left_out: int = 0
    aggregations: Mapping[Place, Aggregation] = field(default_factory=dict)
    streams: Mapping[Place, StreamDefinition] = field(default_factory=dict)
    schema_of: Mapping[tuple[str, str], SchemaKey] = field(default_factory=dict)
    schemas: Mapping[SchemaKey, Document] = field(default_factory=dict)
    apps: tuple[ServedApp, ...] = ()


class Surveyor:
    """Reads the databases that are mounted."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        mounts: Sequence[Mounted],
        *,
        most: int,
        writers: Callable[[], Sequence[DataInterceptor]] = tuple,
    ) -> None:
        self._writers = writers
        self._store = store
        self._catalog = catalog
        self._mounts = mounts
        self._most = most

    async def survey(self, graphql: Graphql | None, deadline: Deadline) -> Survey:
        """Read the resources; `graphql` is None if there are no apps."""
        names = await self._list(deadline)
        listed = names[: self._most]
        metadata = await self._read_metadata(listed, deadline)
        aggregations = _find_stored(metadata, "aggrs", find_aggregation)
        streams = _find_stored(metadata, "streams", find_stream)
        schema_of = {
            namespace: key
            for namespace, one in metadata.items()
            if (key := _schema_of(namespace, one))
        }
        return Survey(
            collections=tuple(
                replace(
                    self._describe(namespace, metadata.get(namespace, {})),
                    aggregations=_uris_in(namespace, aggregations),
                    streams=_uris_in(namespace, streams),
                )
                for namespace in listed
            ),
            left_out=len(names) - len(listed),
            aggregations=aggregations,
            streams=streams,
            schema_of=schema_of,
            schemas=await self._load_schemas(schema_of.values()),
            apps=await self._find_apps(graphql, deadline) if graphql is not None else (),
        )

    def _describe(self, namespace: tuple[str, str], metadata: Document) -> CollectionPaths:
        setting = metadata.get("jsonSchema")
        resource = Resource(ResourceType.COLLECTION, *namespace)
        is_whole = any(
            stands_at(type(one), DataPoint.BEFORE_WRITE)
            and one.wants_whole_documents
            and one.resolve(resource)
            for one in self._writers()
        )
        is_skipped = isinstance(setting, dict) and setting.get("skipNotSupported") is True
        return CollectionPaths(
            *namespace,
            takes_pipelines=not is_whole and setting is None,
            takes_bulk_patch=not is_whole and (setting is None or is_skipped),
        )

    async def survey_apps(self, graphql: Graphql | None, deadline: Deadline) -> Survey:
        """Read the apps alone, if the REST API is off."""
        if graphql is None:
            return Survey()
        return Survey(apps=await self._find_apps(graphql, deadline))

    async def _list(self, deadline: Deadline) -> list[tuple[str, str]]:
        """Return the collections that a mount leads to."""
        wanted: dict[str, set[str] | None] = {}  # None: all of the database
        for mount in self._mounts:
            if mount.is_open:
                continue
            match mount.what:
                case ():
                    wanted |= dict.fromkeys(await self._catalog.list_databases(deadline))
                case (db,):
                    wanted[db] = None
                case (db, name):
                    only = wanted.setdefault(db, set())
                    if only is not None:
                        only.add(name)
        return [
            (db, name)
            for db, only in sorted(wanted.items())
            for name in await self._catalog.list_collections(db, deadline)
            if name != SCHEMA_STORE and (only is None or name in only)
        ]

    async def _read_metadata(
        self, namespaces: Sequence[tuple[str, str]], deadline: Deadline
    ) -> dict[tuple[str, str], Document]:
        found: dict[tuple[str, str], Document] = {}
        for db in sorted({db for db, _ in namespaces}):
            ids = {metadata_id(name): name for of, name in namespaces if of == db}
            stored = await self._store.reads.find(
                db,
                METADATA_STORE,
                {"_id": {"$in": list(ids)}},
                limit=len(ids),
                deadline=deadline,
                projection={"aggrs": 1, "jsonSchema": 1, "streams": 1},
            )
            found |= {(db, ids[one["_id"]]): as_meant(one) for one in stored}
        return found

    async def _load_schemas(self, keys: Any) -> dict[SchemaKey, Document]:
        """Return the schemas of collections, and those that they refer to."""
        loaded: dict[SchemaKey, Document] = {}
        waiting = list(dict.fromkeys(keys))
        while waiting and len(loaded) < _MAX_SCHEMAS:
            key = waiting.pop()
            schema = await load_schema(self._store, *key) if key not in loaded else None
            if schema is not None:
                loaded[key] = schema
                waiting += find_references(schema)
        return loaded

    async def _find_apps(self, graphql: Graphql, deadline: Deadline) -> tuple[ServedApp, ...]:
        definitions = await self._store.reads.find(
            graphql.db,
            graphql.collection,
            {"descriptor.enabled": {"$ne": False}},
            limit=_MAX_APPS,
            deadline=deadline,
            projection={"descriptor": 1},
            sort=[("_id", 1)],
        )
        return tuple(map(_read_app, definitions))


def _find_stored(
    metadata: Mapping[tuple[str, str], Document],
    key: str,
    compile: Callable[[Document, str], _T | None],
) -> dict[Place, _T]:
    """Return the entries under this key of the metadata that can be run."""
    found: dict[Place, _T] = {}
    for (db, name), properties in metadata.items():
        entries = properties.get(key)
        for entry in entries if isinstance(entries, list) else ():
            uri = entry.get("uri") if isinstance(entry, dict) else None
            if isinstance(uri, str) and uri:
                try:
                    one = compile(properties, uri)
                except DefinitionError:  # stored by other means; requests for it get the error
                    continue
                if one is not None:
                    found[db, name, uri] = one
    return found


def _uris_in(namespace: tuple[str, str], places: Iterable[Place]) -> tuple[str, ...]:
    return tuple(uri for *of, uri in places if tuple(of) == namespace)


def _schema_of(namespace: tuple[str, str], properties: Document) -> SchemaKey | None:
    setting = properties.get("jsonSchema")
    if not isinstance(setting, dict):
        return None
    id = setting.get("schemaId")
    if id is None or isinstance(id, dict | list):
        return None
    return setting.get("schemaStoreDb") or namespace[0], id


def _read_app(definition: Document) -> ServedApp:
    descriptor = definition.get("descriptor")
    descriptor = descriptor if isinstance(descriptor, dict) else {}
    own, description = descriptor.get("uri"), descriptor.get("description")
    uri = read_uri(own) if isinstance(own, str) else str(definition["_id"])
    return ServedApp(
        tuple(segment for segment in uri.split("/") if segment),
        str(definition["_id"]),
        description if isinstance(description, str) else "",
        tuple(
            (one.name, one.description) for one in read_operations(descriptor.get("operations"), [])
        ),
        descriptor.get("csv") is True,
    )
