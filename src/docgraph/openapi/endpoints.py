"""Mounts to path templates of the REST API, each with its kind of resource.

A database, collection or document that a mount fixes is not a parameter; the names that a path
leaves open are. Pure: the caller passes the existing collections.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from docgraph.exchange import ResourceType
from docgraph.exchange.request import parse_path
from docgraph.store.mounts import split_mount
from docgraph.store.names import SCHEMA_STORE
from docgraph.store.sections import MongoMount

_VARIABLE = re.compile(r"\{([^{}/]+)\}")
_BY_DEPTH = ("root", "database", "collection", "document")


@dataclass(frozen=True, slots=True)
class CollectionPaths:
    """An existing collection, with its stored aggregations and change streams.

    If documents are validated as a whole, the result of an update must be known in advance:
    pipelines are rejected and, unless metadata allows it, updates of many, too.
    """

    db: str
    name: str
    aggregations: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    takes_pipelines: bool = True
    takes_bulk_patch: bool = True


@dataclass(frozen=True, slots=True)
class Mounted:
    """A mount: its path as a template, and the names that it fixes.

    `is_open`: `what` depends on the request, so that its resources cannot be listed.
    """

    where: str
    what: tuple[str, ...]
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A path template and its kind of resource; `collection` only if the path fixes it."""

    path: str
    type: ResourceType
    of: str = "collection"  # what a size or metadata belongs to
    collection: CollectionPaths | None = None
    aggregation: str | None = None
    stream: str | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names that the path leaves open, in order."""
        return tuple(_VARIABLE.findall(self.path))


def read_mounts(mounts: Sequence[MongoMount], prefix: str) -> tuple[Mounted, ...]:
    """Return the mounts below the path of the service, the longest first."""
    base = tuple(map(_encode, parse_path(prefix.encode())))
    mounted = []
    for mount in map(split_mount, mounts):
        path = "".join(f"/{part}" for part in (*base, *map(_encode, mount.where)))
        mounted.append(Mounted(path, mount.what, any(map(_VARIABLE.search, mount.what))))
    return tuple(sorted(mounted, key=lambda mount: -mount.where.count("/")))


def find_endpoints(mount: Mounted, collections: Iterable[CollectionPaths]) -> Iterator[Endpoint]:
    """Yield every path of a mount: of the existing collections, then of any."""
    match _BY_DEPTH[len(mount.what)]:
        case "root":
            yield Endpoint(mount.where or "/", ResourceType.ROOT)
            yield Endpoint(f"{mount.where}/_size", ResourceType.SIZE, "root")
            for collection in collections:
                base = f"{mount.where}/{_encode(collection.db)}/{_encode(collection.name)}"
                yield from _in_collection(base, collection)
            yield from _in_database(f"{mount.where}/{{db}}", ())
        case "database":
            listed = [collection for collection in collections if collection.db == mount.what[0]]
            yield from _in_database(mount.where, () if mount.is_open else listed)
        case "collection":
            named = [
                collection
                for collection in collections
                if (collection.db, collection.name) == mount.what
            ]
            yield from _in_collection(mount.where, named[0] if named else None)
        case _:
            yield Endpoint(mount.where, ResourceType.DOCUMENT)


def _in_database(base: str, collections: Iterable[CollectionPaths]) -> Iterator[Endpoint]:
    yield Endpoint(base or "/", ResourceType.DATABASE)
    yield Endpoint(f"{base}/_size", ResourceType.SIZE, "database")
    yield Endpoint(f"{base}/_meta", ResourceType.METADATA, "database")
    store = f"{base}/{SCHEMA_STORE}"
    yield Endpoint(store, ResourceType.SCHEMA_STORE)
    yield Endpoint(f"{store}/_size", ResourceType.SIZE, "schema store")
    yield Endpoint(f"{store}/_meta", ResourceType.METADATA, "schema store")
    yield Endpoint(f"{store}/{{id}}", ResourceType.SCHEMA)
    for collection in collections:
        yield from _in_collection(f"{base}/{_encode(collection.name)}", collection)
    yield from _in_collection(f"{base}/{{collection}}", None)


def _in_collection(base: str, collection: CollectionPaths | None) -> Iterator[Endpoint]:
    for path, type in (
        (base or "/", ResourceType.COLLECTION),
        (f"{base}/_size", ResourceType.SIZE),
        (f"{base}/_meta", ResourceType.METADATA),
        (f"{base}/*", ResourceType.BULK),
        (f"{base}/_indexes", ResourceType.INDEXES),
        (f"{base}/_indexes/{{name}}", ResourceType.INDEX),
        (f"{base}/_streams", ResourceType.STREAMS),
    ):
        yield Endpoint(path, type, collection=collection)
    if collection is None:
        yield Endpoint(f"{base}/_aggrs/{{aggregation}}", ResourceType.AGGREGATION)
        yield Endpoint(f"{base}/_streams/{{stream}}", ResourceType.STREAM)
    else:
        for uri in collection.aggregations:
            path = f"{base}/_aggrs/{quote(uri, safe='')}"
            yield Endpoint(path, ResourceType.AGGREGATION, collection=collection, aggregation=uri)
        for uri in collection.streams:
            path = f"{base}/_streams/{quote(uri, safe='')}"
            yield Endpoint(path, ResourceType.STREAM, collection=collection, stream=uri)
    yield Endpoint(f"{base}/{{id}}", ResourceType.DOCUMENT, collection=collection)


def _encode(segment: str) -> str:
    """Return a segment for a template: braces only around the name of a variable."""
    return segment if _VARIABLE.fullmatch(segment) else quote(segment, safe="")
