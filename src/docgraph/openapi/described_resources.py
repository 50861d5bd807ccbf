"""Resources for the description: collections with metadata, schemas converted to OpenAPI, apps.

The number is bounded: the description of a very large database is partial and reports it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from docgraph.codec import as_meant
from docgraph.codec.bson_types import ObjectId
from docgraph.exchange import DataPoint, Deadline, Document, Resource, ResourceType
from docgraph.exchange.errors import DefinitionError
from docgraph.graphql.definition.definition import read_operations, read_uri
from docgraph.graphql.sections import Graphql
from docgraph.openapi.endpoints import CollectionPaths, Mounted
from docgraph.plugins.check import has_method_for
from docgraph.plugins.kinds import DataInterceptor
from docgraph.rest.pipelines import Aggregation, find_aggregation
from docgraph.rest.schema_store import load_schema
from docgraph.rest.stream_definitions import StreamDefinition, find_stream
from docgraph.store import Store
from docgraph.store.catalog import Catalog, metadata_id
from docgraph.store.names import METADATA_STORE, SCHEMA_STORE

_MAX_APPS: Final = 500
_MAX_SCHEMAS: Final = 200

_T = TypeVar("_T")
ResourceKey = tuple[str, str, str]  # database, collection, uri


@dataclass(frozen=True, slots=True)
class DescribedApp:
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
    aggregations: Mapping[ResourceKey, Aggregation] = field(default_factory=dict)
    streams: Mapping[ResourceKey, StreamDefinition] = field(default_factory=dict)
    schema_of: Mapping[tuple[str, str], SchemaKey] = field(default_factory=dict)
    schemas: Mapping[SchemaKey, Document] = field(default_factory=dict)
    apps: tuple[DescribedApp, ...] = ()


@dataclass(frozen=True, slots=True)
class Surveyor:
    """Reads the databases that are mounted."""

    store: Store
    catalog: Catalog
    mounts: Sequence[Mounted]
    most: int
    writers: Callable[[], Sequence[DataInterceptor]] = tuple

    async def survey(self, graphql: Graphql | None, deadline: Deadline) -> Survey:
        """Read the resources; `graphql` is None if there are no apps."""
        names = await self._list(deadline)
        listed = names[: self.most]
        metadata = await self._read_metadata(listed, deadline)
        aggregations = _find_stored(metadata, "aggrs", find_aggregation)
        streams = _find_stored(metadata, "streams", find_stream)
        schema_of = {
            namespace: key
            for namespace, properties in metadata.items()
            if (key := _schema_of(namespace, properties))
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
            has_method_for(type(writer), DataPoint.BEFORE_WRITE)
            and writer.wants_whole_documents
            and writer.resolve(resource)
            for writer in self.writers()
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
        for mount in self.mounts:
            if mount.is_open:
                continue
            match mount.what:
                case ():
                    wanted |= dict.fromkeys(await self.catalog.list_databases(deadline))
                case (db,):
                    wanted[db] = None
                case (db, name):
                    only = wanted.setdefault(db, set())
                    if only is not None:
                        only.add(name)
        return [
            (db, name)
            for db, only in sorted(wanted.items())
            for name in await self.catalog.list_collections(db, deadline)
            if name != SCHEMA_STORE and (only is None or name in only)
        ]

    async def _read_metadata(
        self, namespaces: Sequence[tuple[str, str]], deadline: Deadline
    ) -> dict[tuple[str, str], Document]:
        metadata: dict[tuple[str, str], Document] = {}
        for db in sorted({db for db, _ in namespaces}):
            ids = {metadata_id(name): name for of, name in namespaces if of == db}
            stored = await self.store.reads.find(
                db,
                METADATA_STORE,
                {"_id": {"$in": list(ids)}},
                limit=len(ids),
                deadline=deadline,
                projection={"aggrs": 1, "jsonSchema": 1, "streams": 1},
            )
            metadata |= {(db, ids[document["_id"]]): as_meant(document) for document in stored}
        return metadata

    async def _load_schemas(self, keys: Any) -> dict[SchemaKey, Document]:
        """Return the schemas of collections, and those that they refer to."""
        loaded: dict[SchemaKey, Document] = {}
        waiting = list(dict.fromkeys(keys))
        while waiting and len(loaded) < _MAX_SCHEMAS:
            key = waiting.pop()
            schema = await load_schema(self.store, *key) if key not in loaded else None
            if schema is not None:
                loaded[key] = schema
                waiting += find_references(schema)
        return loaded

    async def _find_apps(self, graphql: Graphql, deadline: Deadline) -> tuple[DescribedApp, ...]:
        definitions = await self.store.reads.find(
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
) -> dict[ResourceKey, _T]:
    """Return the entries under this key of the metadata that can be run."""
    entries_of: dict[ResourceKey, _T] = {}
    for (db, name), properties in metadata.items():
        entries = properties.get(key)
        for entry in entries if isinstance(entries, list) else ():
            uri = entry.get("uri") if isinstance(entry, dict) else None
            if isinstance(uri, str) and uri:
                try:
                    compiled = compile(properties, uri)
                except DefinitionError:  # stored by other means; requests for it get the error
                    continue
                if compiled is not None:
                    entries_of[db, name, uri] = compiled
    return entries_of


def _uris_in(namespace: tuple[str, str], places: Iterable[ResourceKey]) -> tuple[str, ...]:
    return tuple(uri for *of, uri in places if tuple(of) == namespace)


def _schema_of(namespace: tuple[str, str], properties: Document) -> SchemaKey | None:
    setting = properties.get("jsonSchema")
    if not isinstance(setting, dict):
        return None
    id = setting.get("schemaId")
    if id is None or isinstance(id, dict | list):
        return None
    return setting.get("schemaStoreDb") or namespace[0], id


def _read_app(definition: Document) -> DescribedApp:
    descriptor = definition.get("descriptor")
    descriptor = descriptor if isinstance(descriptor, dict) else {}
    address, description = descriptor.get("uri"), descriptor.get("description")
    uri = read_uri(address) if isinstance(address, str) else str(definition["_id"])
    operations = read_operations(descriptor.get("operations"), [])
    return DescribedApp(
        tuple(segment for segment in uri.split("/") if segment),
        str(definition["_id"]),
        description if isinstance(description, str) else "",
        tuple((each.name, each.description) for each in operations),
        descriptor.get("csv") is True,
    )


SchemaKey = tuple[str, Any]  # the database of the store, and the `_id`

_ADDRESS: Final = re.compile(r"http://schema-store/([^/?#]+)/([^/?#]+)(?:#(.*))?")
_HEX: Final = re.compile(r"[0-9a-fA-F]{24}")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_LEFT_OUT: Final = frozenset({"_id", "_etag", "id", "$id", "$schema", "$anchor", "$vocabulary"})
_BOUNDS: Final = (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))
# They contain schemas by name, so that their keys are no keywords.
_NAMED: Final = frozenset(
    {"properties", "patternProperties", "definitions", "$defs", "dependentSchemas"}
)
_VALUES: Final = frozenset(
    {"enum", "const", "default", "examples", "required", "dependentRequired"}
)


def name_component(key: SchemaKey, taken: Mapping[str, Any]) -> str:
    """Return a free name for the component."""
    name = wanted = _UNSAFE.sub("_", f"{key[0]}.{key[1]}")
    number = 2
    while name in taken:
        name, number = f"{wanted}_{number}", number + 1
    return name


def find_references(schema: Any) -> Iterator[SchemaKey]:
    """Yield the schemas of the store that this one refers to."""
    if isinstance(schema, list):
        for element in schema:
            yield from find_references(element)
    elif isinstance(schema, dict):
        for name, value in schema.items():
            match = _ADDRESS.fullmatch(value) if name == "$ref" and isinstance(value, str) else None
            if match is not None:
                yield _key_of(match)
            yield from find_references(value)


def convert_schema(schema: Document, name: str, names: Mapping[SchemaKey, str]) -> Document:
    """Return the schema as the component of that name; `names` are those of all components.

    OpenAPI 3.1 has JSON Schema 2020-12. Older drafts are rewritten where a keyword has changed its
    name or shape. References lead from one component to another. A reference without a target
    accepts everything, since a description may be incomplete but not wrong.
    """
    converted: Document = _Conversion(name, names).convert(schema)
    return converted


class _Conversion:
    """The conversion of one schema."""

    def __init__(self, name: str, names: Mapping[SchemaKey, str]) -> None:
        self._base = f"#/components/schemas/{name}"
        self._names = names

    def convert(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return [self.convert(element) for element in schema]
        if not isinstance(schema, dict):
            return schema
        if "$ref" in schema:
            return self._refer(schema["$ref"])
        converted: Document = {}
        for keyword, value in schema.items():
            converted |= self._convert_keyword(keyword, value)
        for bound, exclusive in _BOUNDS:  # `exclusiveMinimum: true` with `minimum: 1` is one number
            if isinstance(converted.get(exclusive), bool):
                is_exclusive = converted.pop(exclusive)
                if is_exclusive and bound in converted:
                    converted[exclusive] = converted.pop(bound)
        return converted

    def _convert_keyword(self, keyword: str, value: Any) -> Document:
        if keyword in _VALUES:
            return {keyword: value}
        if keyword in ("$dynamicRef", "$recursiveRef") or keyword in _LEFT_OUT:
            return {}
        if keyword in _NAMED and isinstance(value, dict):
            return {keyword: {name: self.convert(inner) for name, inner in value.items()}}
        if keyword == "items" and isinstance(value, list):
            return {"prefixItems": self.convert(value)}
        if keyword == "additionalItems":
            return {}  # only meaningful with a list of items, and can be left open
        if keyword == "dependencies" and isinstance(value, dict):
            names = {key: inner for key, inner in value.items() if isinstance(inner, list)}
            schemas = {key: self.convert(inner) for key, inner in value.items() if key not in names}
            parts = {"dependentRequired": names, "dependentSchemas": schemas}
            return {name: part for name, part in parts.items() if part}
        return {keyword: self.convert(value)}

    def _refer(self, reference: Any) -> Document:
        if not isinstance(reference, str):
            return {}
        base, pointer = self._base, reference.removeprefix("#")
        match = _ADDRESS.fullmatch(reference)
        if match is not None:
            name = self._names.get(_key_of(match))
            base, pointer = f"#/components/schemas/{name}", match[3] or ""
            if name is None:
                return {}
        elif not reference.startswith("#"):
            return {}
        return {"$ref": f"{base}{pointer}"} if pointer[:1] in ("", "/") else {}


def _key_of(match: re.Match[str]) -> SchemaKey:
    db, id = unquote(match[1]), unquote(match[2])
    return db, ObjectId(id) if _HEX.fullmatch(id) else id
