"""Databases: made, described, removed. A database exists when it has a collection, if only ours."""

from __future__ import annotations

from collections.abc import Sequence

from docgraph.codec.types import ObjectId
from docgraph.exchange import Answer, Body, Resource, ResourceType, Write, WriteKind
from docgraph.rest.call import Call, Handlers
from docgraph.rest.handlers.metadata import (
    claim_metadata,
    find_etag_condition,
    patch_metadata,
    put_metadata,
    read_properties,
    refuse_existing,
)
from docgraph.rest.service_paths import check_reachable
from docgraph.rest.writes.etags import find_exclusion
from docgraph.store.administration import Administration

__all__ = ["HANDLERS"]

_DROP = Write(WriteKind.DROP)


async def _put(call: Call) -> Answer:
    properties = await read_properties(call)
    exists = await call.context.catalog.has_database(call.db, call.exchange.deadline)
    if not exists:
        check_reachable(call)
    elif (refusal := await refuse_existing(call)) is not None:
        return refusal
    etag = ObjectId()
    # Of several who make it at the same time with `If-None-Match: *`, the first metadata wins.
    exclusion = find_exclusion(call.request.headers)
    condition = await find_etag_condition(call) if exists else exclusion
    refusal = await put_metadata(call, properties, etag, condition)
    if refusal is not None:
        return refusal
    return Body(200 if exists else 201, headers=[("ETag", str(etag))])


async def _patch(call: Call) -> Answer:
    await call.require_database()
    etag = ObjectId()
    refusal = await patch_metadata(call, etag)
    if refusal is not None:
        return refusal
    return Body(200, headers=[("ETag", str(etag))])


async def _delete(call: Call) -> Answer:
    await call.require_database()
    store, catalog = call.context.store, call.context.catalog
    names = await catalog.list_collections(call.db, call.exchange.deadline)
    collections = [Resource(ResourceType.COLLECTION, call.db, name) for name in names]
    for collection in collections:  # who may not remove one of them removes none
        await store.rehearse(collection, _DROP, exchange=call.exchange)
    refusal = await claim_metadata(call)
    if refusal is not None:
        return refusal
    await store.finish(f"drop {call.db}", lambda: _drop(call, collections))
    return Body(204)


async def _drop(call: Call, collections: Sequence[Resource]) -> None:
    try:
        # One by one, so that interceptors see each collection that is dropped.
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
