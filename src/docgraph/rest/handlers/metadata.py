"""Metadata of a database or collection: read, replace, patch and delete `_meta`.

A required etag is a part of the write's own filter, as with documents: if two writes have the same
etag, only one wins. Missing metadata satisfies every condition.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from docgraph.codec import as_written
from docgraph.codec.bson_types import ObjectId
from docgraph.codec.pieces import check_size
from docgraph.codec.request_body import read_documents
from docgraph.exchange import (
    Answer,
    Body,
    Document,
    Resource,
    ResourceType,
    Write,
    WriteKind,
    WriteResult,
)
from docgraph.exchange.errors import Conflict, NotFound, RequestError
from docgraph.rest.call import Handlers, RestCall
from docgraph.rest.etags import (
    ETAG,
    Condition,
    ConditionUnmet,
    attempts,
    etag_headers,
    find_condition,
    find_exclusion,
    is_demanded,
    new_etag,
)
from docgraph.rest.flatten import prepare_document
from docgraph.rest.handlers.stream_checks import check_operators, check_streams
from docgraph.rest.parameters import FROM_PRIMARY
from docgraph.rest.patch import apply_update, build_update
from docgraph.rest.properties import check_properties, to_stored
from docgraph.rest.schema_store import require_library
from docgraph.store.catalog import metadata_id
from docgraph.store.names import METADATA_STORE, SCHEMA_STORE

_DEMAND: Final = "The ETag must be provided using the 'If-Match' header"


async def _get(call: RestCall) -> Answer:
    if call.resource.collection is None:
        await call.require_database()
    else:
        await call.require_collection()
    stored = await call.find_metadata(call.resource.collection)
    if stored is None:
        raise NotFound(f"resource _meta is not defined for this {_name_kind(call)}.")
    content = {**as_written(stored), "_id": "_meta"}
    return call.answer(content, etag_headers(stored))


def _name_kind(call: RestCall) -> str:
    match call.resource.collection:
        case None:
            return "db"
        case name if name == SCHEMA_STORE:
            return "schema store"
    return "collection"


async def read_properties(call: RestCall) -> Document:
    """Return the validated properties in the body of PUT."""
    body = await _read_body(call)
    properties: Document = await call.request.work(prepare_document, body)
    await _check(call, properties)
    return properties


async def _read_body(call: RestCall) -> Document:
    content = await read_documents(call.request)
    if isinstance(content, list):
        raise RequestError("data must be a json object")
    return {key: value for key, value in content.items() if key not in ("_id", ETAG)}


async def _check(call: RestCall, properties: Mapping[str, Any]) -> None:
    check_size(properties, "the metadata")
    if "jsonSchema" in properties:
        require_library()
    of_collection = call.resource.collection is not None
    policy = call.context.store.policy
    check = partial(check_properties, db=call.db, policy=policy, of_collection=of_collection)
    await call.request.offload(check, properties)
    if of_collection:
        await check_operators(call, properties)
        call.warnings[:] = await check_streams(call, properties)


async def find_etag_condition(call: RestCall) -> Condition | None:
    """Return the condition of the request, or of the policy, on the etag of the resource."""
    policies = call.context.settings.etag_check_policy
    of_database = (await call.find_metadata(None) or {}).get("etagPolicy")
    overrides, default = [of_database], policies.db
    if call.resource.collection is not None:
        policy = (await call.find_metadata(call.collection) or {}).get("etagPolicy")
        overrides, default = [policy, of_database], policies.coll
    demanded = call.parameters.check_etag or is_demanded(
        overrides, default, deleting=call.request.method == "DELETE"
    )
    return find_condition(call.request.headers, demanded=demanded)


async def reject_existing(call: RestCall) -> None:
    """Reject `If-None-Match: *` with 412 if the database or collection exists."""
    condition = find_exclusion(call.request.headers)
    if condition is not None and condition.excludes(None):
        raise await _build_rejection(call, condition)


async def put_metadata(
    call: RestCall, properties: Document, etag: ObjectId, condition: Condition | None
) -> None:
    document = {"_id": _id_of(call), **to_stored(properties), ETAG: etag}
    filter: Document = {"_id": _id_of(call)}
    # Missing metadata has none of the requested etags.
    may_insert = condition is None or condition.tags is None
    if condition is not None:
        filter[ETAG] = condition.stored
    try:
        write = Write(WriteKind.REPLACE, (document,), filter=filter, upsert=may_insert)
        result = await _write(call, write)
    except Conflict:
        # Neither found by its etag nor inserted: it exists with another etag.
        if condition is None:
            raise
        raise await _build_rejection(call, condition) from None
    if condition is not None and not result.matched and not result.upserted:
        raise await _build_rejection(call, condition)


async def patch_metadata(call: RestCall, etag: ObjectId) -> None:
    """Patch the metadata and validate the result before it is written."""
    body = await _read_body(call)
    if not body:
        raise RequestError("no data provided")
    update = await call.request.work(build_update, body, etag)
    await reject_existing(call)
    condition = await find_etag_condition(call)
    async with call.turn(METADATA_STORE, _id_of(call)):
        async for _ in attempts("the metadata"):
            stored = await _read(call)
            if condition is not None and not condition.admits((stored or {}).get(ETAG)):
                raise await _build_rejection(call, condition)
            if stored is None and call.resource.collection is not None:
                # Metadata of a collection that another instance dropped would outlive it.
                await call.require_collection(fresh=True)
            properties = await call.request.work(apply_update, as_written(stored or {}), update)
            await _check(call, properties)
            if await _replace_known(call, stored, {**to_stored(properties), ETAG: etag}):
                break


async def _replace_known(call: RestCall, stored: Document | None, properties: Document) -> bool:
    """Replace the metadata that was read; return false if it changed in the meantime."""
    write = Write(
        WriteKind.REPLACE,
        ({"_id": _id_of(call), **properties},),
        filter={"_id": _id_of(call), ETAG: {"$eq": (stored or {}).get(ETAG)}},
        upsert=stored is None,
    )
    try:
        result = await _write(call, write)
    except Conflict:
        return False
    return bool(result.matched or result.upserted)


async def claim_metadata(call: RestCall) -> None:
    """Renew the etag before the resource is dropped: if several requests try, one continues."""
    await reject_existing(call)
    condition = await find_etag_condition(call)
    filter: Document = {"_id": _id_of(call)}
    if condition is not None:
        filter[ETAG] = condition.stored
    claim = Write(WriteKind.UPDATE, update={"$set": {ETAG: new_etag()}}, filter=filter)
    result = await _write(call, claim)
    if result.matched or condition is None:
        return
    if condition.tags is not None or await _read(call) is not None:
        raise await _build_rejection(call, condition)


async def forget_metadata(call: RestCall) -> None:
    await _write(call, Write(WriteKind.DELETE, filter={"_id": _id_of(call)}))


async def _build_rejection(call: RestCall, condition: Condition) -> Exception:
    """Return 412 for a wrong etag, 409 for a missing one; both include the current etag."""
    stored = await _read(call)
    headers = etag_headers(stored)
    if not condition.is_lacking or condition.excludes((stored or {}).get(ETAG)):
        return ConditionUnmet(Body(412, headers=headers))
    return Conflict(_name_demand(call), hint="its ETag is in the header", headers=headers)


def _name_demand(call: RestCall) -> str:
    if call.resource.collection is None:
        return "The database's ETag must be provided using the 'If-Match' header."
    if call.request.method == "PUT":
        return "The collection's ETag must be provided using the 'If-Match' header."
    return _DEMAND


def _id_of(call: RestCall) -> str:
    return metadata_id(call.resource.collection)


async def _read(call: RestCall) -> Document | None:
    """Return the current metadata, without the cache."""
    return await call.context.store.reads.find_one(
        call.db,
        METADATA_STORE,
        {"_id": _id_of(call)},
        deadline=call.exchange.deadline,
        consistency=FROM_PRIMARY,
    )


async def _write(call: RestCall, write: Write) -> WriteResult:
    """Write metadata in the same way as documents, so that interceptors see the write."""
    resource = Resource(ResourceType.METADATA, call.db, METADATA_STORE, _id_of(call))
    return await call.write_at(resource, write)


HANDLERS: Handlers = {(ResourceType.METADATA, "GET"): _get}
