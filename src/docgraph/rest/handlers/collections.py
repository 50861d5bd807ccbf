"""Collections: create, describe and drop a collection; the schema store is one of them."""

from __future__ import annotations

from docgraph.codec.bson_types import ObjectId
from docgraph.exchange import Answer, Body, ResourceType, Write, WriteKind
from docgraph.exchange.errors import RequestError
from docgraph.rest.bodies.properties import find_idle
from docgraph.rest.call import Handlers, RestCall
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
from docgraph.rest.schemas.schema_store import load_schema
from docgraph.rest.service_paths import check_reachable
from docgraph.store.mounts import SCHEMA_STORE, split_mount


async def _put(call: RestCall) -> Answer:
    properties = await read_properties(call)
    created = await _ensure_collection(call)
    if not created and (refusal := await reject_existing(call)) is not None:
        return refusal
    etag = ObjectId()
    condition = None if created else await find_etag_condition(call)
    refusal = await put_metadata(call, properties, etag, condition)
    if refusal is not None:
        return refusal
    return await _answer(call, 201 if created else 200, etag)


async def _ensure_collection(call: RestCall) -> bool:
    """Create the collection if it does not exist; return true if this call created it."""
    catalog = call.context.catalog
    # Not from the cache: another instance may have dropped it.
    if call.collection in await catalog.list_collections(call.db, call.exchange.deadline):
        return False
    if not _is_mounted_by_name(call):
        await call.require_database()
    check_reachable(call)
    result = await call.write(Write(WriteKind.CREATE))
    return bool(result.inserted)


def _is_mounted_by_name(call: RestCall) -> bool:
    """Check if the configuration names the database: then it counts as existing, empty or not."""
    return any(
        mount.what[:1] == (call.db,)
        for mount in map(split_mount, call.context.settings.mongo_mounts)
    )


async def _patch(call: RestCall) -> Answer:
    if call.collection.startswith("_") and call.resource.type is ResourceType.COLLECTION:
        raise RequestError("wrong request, collection name cannot be empty or start with _")
    await call.require_collection()
    etag = ObjectId()
    refusal = await patch_metadata(call, etag)
    if refusal is not None:
        return refusal
    return await _answer(call, 200, etag)


async def _answer(call: RestCall, status: int, etag: ObjectId) -> Answer:
    """Return the response with the warnings for the caller."""
    headers = [("ETag", str(etag))]
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


async def _delete(call: RestCall) -> Answer:
    await call.require_collection()
    refusal = await claim_metadata(call)
    if refusal is not None:
        return refusal
    # Otherwise orphaned metadata would apply to the next collection of that name.
    await call.context.store.writes.finish(f"drop {call.db}.{call.collection}", lambda: _drop(call))
    return Body(204)


async def _drop(call: RestCall) -> None:
    await call.write(Write(WriteKind.DROP))
    await forget_metadata(call)


HANDLERS: Handlers = {
    (type, method): handler
    for type in (ResourceType.COLLECTION, ResourceType.SCHEMA_STORE)
    for method, handler in (("PUT", _put), ("PATCH", _patch), ("DELETE", _delete))
}
