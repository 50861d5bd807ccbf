"""Databases and collections: list, create, describe and drop; the schema store is a collection.

A database exists if it has a collection, even an internal one.
"""

from __future__ import annotations

from collections.abc import Sequence

from docgraph.codec.bson_types import ObjectId
from docgraph.exchange import Answer, Body, Resource, ResourceType, Write, WriteKind
from docgraph.exchange.errors import RequestError
from docgraph.exchange.request import Segments
from docgraph.rest.call import Handlers, RestCall
from docgraph.rest.etags import etag_header, etag_headers, find_exclusion, new_etag
from docgraph.rest.handlers.metadata import (
    claim_metadata,
    find_etag_condition,
    forget_metadata,
    patch_metadata,
    put_metadata,
    read_properties,
    reject_existing,
)
from docgraph.rest.handlers.stream_checks import find_doubtful
from docgraph.rest.ids import next_page
from docgraph.rest.properties import find_idle
from docgraph.rest.schema_store import load_schema
from docgraph.store.administration import Administration
from docgraph.store.mounts import find_paths, split_mount
from docgraph.store.names import SCHEMA_STORE, ReservedResource


async def _list_databases(call: RestCall) -> Answer:
    return _page(call, await call.context.catalog.list_databases(call.exchange.deadline), [])


async def _list_collections(call: RestCall) -> Answer:
    await call.require_database()
    metadata = await call.find_metadata(None)
    names = await call.context.catalog.list_collections(call.db, call.exchange.deadline)
    return _page(call, names, etag_headers(metadata))


def _page(call: RestCall, names: Sequence[str], headers: list[tuple[str, str]]) -> Answer:
    parameters = call.parameters
    end = parameters.skip + parameters.pagesize
    if parameters.count is not None:
        headers += [("X-Total-Count", str(len(names))), ("X-Count-Strategy", "exact")]
    if parameters.pagesize and end < len(names):
        headers.append(next_page(call.request, page=str(parameters.page + 1)))
    return call.answer(names[parameters.skip : end], headers)


_DROP = Write(WriteKind.DROP)


async def _put_database(call: RestCall) -> Answer:
    properties = await read_properties(call)
    exists = await call.context.catalog.has_database(call.db, call.exchange.deadline)
    if not exists:
        check_reachable(call)
    else:
        await reject_existing(call)
    etag = new_etag()
    # If several requests create it at the same time with `If-None-Match: *`, the first metadata
    # wins.
    exclusion = find_exclusion(call.request.headers)
    condition = await find_etag_condition(call) if exists else exclusion
    await put_metadata(call, properties, etag, condition)
    return Body(200 if exists else 201, headers=[etag_header(etag)])


async def _patch_database(call: RestCall) -> Answer:
    await call.require_database()
    etag = new_etag()
    await patch_metadata(call, etag)
    return Body(200, headers=[etag_header(etag)])


async def _delete_database(call: RestCall) -> Answer:
    await call.require_database()
    store, catalog = call.context.store, call.context.catalog
    names = await catalog.list_collections(call.db, call.exchange.deadline)
    collections = [Resource(ResourceType.COLLECTION, call.db, name) for name in names]
    for collection in collections:  # a caller who must not drop one of them drops none
        await store.writes.rehearse(collection, _DROP, exchange=call.exchange)
    await claim_metadata(call)
    await store.writes.finish(f"drop {call.db}", lambda: _drop_database(call, collections))
    return Body(204)


async def _drop_database(call: RestCall, collections: Sequence[Resource]) -> None:
    try:
        # One at a time, so that interceptors see each dropped collection.
        for collection in collections:
            await call.write_at(collection, _DROP)
        administration = Administration(call.context.store, call.parameters.write_concern)
        await administration.drop_database(call.db)
    finally:
        call.context.catalog.announce()


async def _put_collection(call: RestCall) -> Answer:
    properties = await read_properties(call)
    created = await _ensure_collection(call)
    if not created:
        await reject_existing(call)
    etag = new_etag()
    condition = None if created else await find_etag_condition(call)
    await put_metadata(call, properties, etag, condition)
    return await _answer(call, 201 if created else 200, etag)


async def _ensure_collection(call: RestCall) -> bool:
    """Create the collection if it does not exist; return true if this call created it."""
    catalog = call.context.catalog
    # Not from the cache: another instance may have dropped it.
    if call.collection in await catalog.list_collections(call.db, call.exchange.deadline):
        return False
    # A database that the configuration names counts as existing, empty or not.
    if not any(
        mount.what[:1] == (call.db,)
        for mount in map(split_mount, call.context.settings.mongo_mounts)
    ):
        await call.require_database()
    check_reachable(call)
    result = await call.write(Write(WriteKind.CREATE))
    return bool(result.inserted)


async def _patch_collection(call: RestCall) -> Answer:
    if call.collection.startswith("_") and call.resource.type is ResourceType.COLLECTION:
        raise RequestError("wrong request, collection name cannot be empty or start with _")
    await call.require_collection()
    etag = new_etag()
    await patch_metadata(call, etag)
    return await _answer(call, 200, etag)


async def _answer(call: RestCall, status: int, etag: ObjectId) -> Answer:
    headers = [etag_header(etag)]
    properties = await call.find_metadata(call.collection) or {}
    warnings = [*call.warnings, *find_idle(properties), *await find_doubtful(call, properties)]
    if properties.get("streams"):
        warnings += await _prepare_streams(call)
    setting = properties.get("jsonSchema")
    if isinstance(setting, dict):
        db, id = setting.get("schemaStoreDb") or call.db, setting.get("schemaId")
        if await load_schema(call.context.store, db, id) is None:
            warnings.append(f"jsonSchema.schemaId: schema {db}/{SCHEMA_STORE}/{id} does not exist")
    if warnings:
        return call.answer({"_warnings": warnings}, headers, status)
    return Body(status, headers=headers)


async def _prepare_streams(call: RestCall) -> list[str]:
    """Enable pre-images in the database: without them, some events cannot be filtered."""
    deadline = call.exchange.deadline
    if await call.context.store.streams.enable_images(call.db, call.collection, deadline=deadline):
        return []
    return [
        "streams: the database stores no documents as they were before a change, so that readers "
        "with a readFilter get no events for deletions and for documents that leave their rows"
    ]


async def _delete_collection(call: RestCall) -> Answer:
    await call.require_collection()
    await claim_metadata(call)
    # Otherwise orphaned metadata would apply to the next collection of that name.
    await call.context.store.writes.finish(
        f"drop {call.db}.{call.collection}", lambda: _drop_collection(call)
    )
    return Body(204)


async def _drop_collection(call: RestCall) -> None:
    await call.write(_DROP)
    await forget_metadata(call)


HANDLERS: Handlers = {
    (ResourceType.ROOT, "GET"): _list_databases,
    (ResourceType.DATABASE, "GET"): _list_collections,
    (ResourceType.DATABASE, "PUT"): _put_database,
    (ResourceType.DATABASE, "PATCH"): _patch_database,
    (ResourceType.DATABASE, "DELETE"): _delete_database,
    **{
        (type, method): handler
        for type in (ResourceType.COLLECTION, ResourceType.SCHEMA_STORE)
        for method, handler in (
            ("PUT", _put_collection),
            ("PATCH", _patch_collection),
            ("DELETE", _delete_collection),
        )
    },
}


def check_reachable(call: RestCall) -> None:
    """Reject with 403 if a path of the database or collection belongs to another service.

    A database or collection at the path of a service could not be reached (decision 41).
    """
    settings, resource = call.context.settings, call.resource
    name = resource.db if resource.collection is None else resource.collection
    # If mounts are templates, only the path of the request itself is known.
    paths = find_paths(resource, settings.mongo_mounts, settings.uri)
    for path in (call.request.segments, *paths):
        service = _find_service(path, name, call.context.services)
        if service is not None:
            raise ReservedResource(
                f"reserved resource: /{'/'.join(path)} belongs to the service at "
                f"/{'/'.join(service)}"
            )


def _find_service(
    path: Segments, name: str | None, services: Sequence[Segments]
) -> Segments | None:
    """Return the service at the path or above it; for a new name, also one below it.

    A service below a database does not prevent its creation: it hides one of the collections.
    """
    is_of_name = path[-1:] == (name,)
    for service in services:
        is_above = bool(service) and path[: len(service)] == service
        if is_above or (is_of_name and service[: len(path)] == path):
            return service
    return None
