"""Databases: create, describe and drop.

A database exists if it has a collection, even an internal one.
"""

from __future__ import annotations

from collections.abc import Sequence

from docgraph.codec.bson_types import ObjectId
from docgraph.exchange import Answer, Body, Resource, ResourceType, Write, WriteKind
from docgraph.rest.call import Handlers, RestCall
from docgraph.rest.handlers.metadata import (
    claim_metadata,
    find_etag_condition,
    patch_metadata,
    put_metadata,
    read_properties,
    reject_existing,
)
from docgraph.rest.service_paths import check_reachable
from docgraph.rest.writes.etags import find_exclusion
from docgraph.store.administration import Administration

_DROP = Write(WriteKind.DROP)


async def _put(call: RestCall) -> Answer:
    properties = await read_properties(call)
    exists = await call.context.catalog.has_database(call.db, call.exchange.deadline)
    if not exists:
        check_reachable(call)
    elif (refusal := await reject_existing(call)) is not None:
        return refusal
    etag = ObjectId()
    # If several requests create it at the same time with `If-None-Match: *`, the first metadata
    # wins.
    exclusion = find_exclusion(call.request.headers)
    condition = await find_etag_condition(call) if exists else exclusion
    refusal = await put_metadata(call, properties, etag, condition)
    if refusal is not None:
        return refusal
    return Body(200 if exists else 201, headers=[("ETag", str(etag))])


async def _patch(call: RestCall) -> Answer:
    await call.require_database()
    etag = ObjectId()
    refusal = await patch_metadata(call, etag)
    if refusal is not None:
        return refusal
    return Body(200, headers=[("ETag", str(etag))])


async def _delete(call: RestCall) -> Answer:
    await call.require_database()
    store, catalog = call.context.store, call.context.catalog
    names = await catalog.list_collections(call.db, call.exchange.deadline)
    collections = [Resource(ResourceType.COLLECTION, call.db, name) for name in names]
    for collection in collections:  # a caller who must not drop one of them drops none
        await store.writes.rehearse(collection, _DROP, exchange=call.exchange)
    refusal = await claim_metadata(call)
    if refusal is not None:
        return refusal
    await store.writes.finish(f"drop {call.db}", lambda: _drop(call, collections))
    return Body(204)


async def _drop(call: RestCall, collections: Sequence[Resource]) -> None:
    try:
        # One at a time, so that interceptors see each dropped collection.
        for collection in collections:
            await call.write_at(collection, _DROP)
        administration = Administration(call.context.store, call.parameters.write_concern)
        await administration.drop_database(call.db)
    finally:
        call.context.catalog.announce()


HANDLERS: Handlers = {
    (ResourceType.DATABASE, "PUT"): _put,
    (ResourceType.DATABASE, "PATCH"): _patch,
    (ResourceType.DATABASE, "DELETE"): _delete,
}
