"""The metadata of a database or collection: `_meta`, and how it is replaced, changed and given up.

An etag that a request demands is a part of the write's own filter, as with documents: of two that
carry the same etag only one wins. Metadata that is not there yet fulfils every condition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from docgraph.codec import as_written
from docgraph.codec.documents import read_documents
from docgraph.codec.pieces import check_size
from docgraph.codec.types import ObjectId
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
from docgraph.rest.bodies.properties import check_properties, to_stored
from docgraph.rest.call import Call, Handlers
from docgraph.rest.handlers.doubts import check_operators
from docgraph.rest.parameters.concerns import FROM_PRIMARY
from docgraph.rest.schemas.store import require_library
from docgraph.rest.writes.attempts import attempts
from docgraph.rest.writes.etags import (
    ETAG,
    Condition,
    etag_headers,
    find_condition,
    find_exclusion,
    is_demanded,
)
from docgraph.rest.writes.flatten import prepare_document
from docgraph.rest.writes.patch import apply_update, build_update
from docgraph.store.metadata import metadata_id
from docgraph.store.mounts import METADATA_STORE, SCHEMA_STORE

__all__ = [
    "HANDLERS",
    "claim_metadata",
    "find_etag_condition",
    "forget_metadata",
    "patch_metadata",
    "put_metadata",
    "read_properties",
    "refuse_existing",
]

_DEMAND: Final = "The ETag must be provided using the 'If-Match' header"


async def _get(call: Call) -> Answer:
    if call.resource.collection is None:
        await call.require_database()
    else:
        await call.require_collection()
    stored = await call.find_metadata(call.resource.collection)
    if stored is None:
        raise NotFound(f"resource _meta is not defined for this {_name_kind(call)}.")
    content = {**as_written(stored), "_id": "_meta"}
    return call.answer(content, etag_headers(stored))


def _name_kind(call: Call) -> str:
    match call.resource.collection:
        case None:
            return "db"
        case name if name == SCHEMA_STORE:
            return "schema store"
    return "collection"


# --- bodies ---------------------------------------------------------------------------------------


async def read_properties(call: Call) -> Document:
    """The properties that the body of PUT holds, checked."""
    body = await _read_body(call)
    properties: Document = prepare_document(body)
    await _check(call, properties)
    return properties


async def _read_body(call: Call) -> Document:
    content = await read_documents(call.request)
    if isinstance(content, list):
        raise RequestError("data must be a json object")
    return {key: value for key, value in content.items() if key not in ("_id", ETAG)}


async def _check(call: Call, properties: Mapping[str, Any]) -> None:
    check_size(properties, "the metadata")
    if "jsonSchema" in properties:
        require_library()
    of_collection = call.resource.collection is not None
    policy = call.context.store.policy
    check_properties(properties, db=call.db, policy=policy, of_collection=of_collection)
    if of_collection and "aggrs" in properties:
        await check_operators(call, properties)


# --- writes ---------------------------------------------------------------------------------------


async def find_etag_condition(call: Call) -> Condition | None:
    """What the request, or the policy, demands of the etag of the database or collection."""
    policies = call.context.settings.etag_check_policy
    of_database = (await call.find_metadata(None) or {}).get("etagPolicy")
    overrides, default = [of_database], policies.db
    if call.resource.collection is not None:
        own = (await call.find_metadata(call.collection) or {}).get("etagPolicy")
        overrides, default = [own, of_database], policies.coll
    demanded = call.parameters.check_etag or is_demanded(
        overrides, default, deleting=call.request.method == "DELETE"
    )
    return find_condition(call.request.headers, demanded=demanded)


async def refuse_existing(call: Call) -> Answer | None:
    """412 for `If-None-Match: *`, where the database or collection is known to be there."""
    condition = find_exclusion(call.request.headers)
    if condition is None or not condition.excludes(None):
        return None
    return await _refuse(call, condition)


async def put_metadata(
    call: Call, properties: Document, etag: ObjectId, condition: Condition | None
) -> Answer | None:
    """Replace the metadata; an answer is the refusal."""
    document = {"_id": _id_of(call), **to_stored(properties), ETAG: etag}
    filter: Document = {"_id": _id_of(call)}
    # Metadata that does not exist has none of the etags that are asked for.
    may_insert = condition is None or condition.tags is None
    if condition is not None:
        filter[ETAG] = condition.stored
    try:
        write = Write(WriteKind.REPLACE, (document,), filter=filter, upsert=may_insert)
        result = await _write(call, write)
    except Conflict:
        # Not found by its etag, it could not be inserted either: it is there with another one.
        if condition is None:
            raise
        return await _refuse(call, condition)
    if condition is None or result.matched or result.upserted:
        return None
    return await _refuse(call, condition)


async def patch_metadata(call: Call, etag: ObjectId) -> Answer | None:
    """Change the metadata, which is checked as a whole before it is written."""
    body = await _read_body(call)
    if not body:
        raise RequestError("no data provided")
    update = build_update(body, etag)
    if (refusal := await refuse_existing(call)) is not None:
        return refusal
    condition = await find_etag_condition(call)
    async with call.turn(METADATA_STORE, _id_of(call)):
        async for _ in attempts("the metadata"):
            stored = await _read(call)
            if condition is not None and not condition.admits((stored or {}).get(ETAG)):
                return await _refuse(call, condition)
            if stored is None and call.resource.collection is not None:
                # Metadata of a collection that another instance has dropped would outlive it.
                await call.require_collection(fresh=True)
            properties = apply_update(as_written(stored or {}), update)
            await _check(call, properties)
            if await _replace_known(call, stored, {**to_stored(properties), ETAG: etag}):
                break
    return None


async def _replace_known(call: Call, stored: Document | None, properties: Document) -> bool:
    """Replace the metadata that was read; false when it is another one by now."""
    write = Write(
        WriteKind.REPLACE,
        ({"_id": _id_of(call), **properties},),
        filter={"_id": _id_of(call), ETAG: (stored or {}).get(ETAG)},
        upsert=stored is None,
    )
    try:
        result = await _write(call, write)
    except Conflict:
        return False
    return bool(result.matched or result.upserted)


async def claim_metadata(call: Call) -> Answer | None:
    """Renew the etag before the resource is removed: of several who try, one goes on."""
    if (refusal := await refuse_existing(call)) is not None:
        return refusal
    condition = await find_etag_condition(call)
    filter: Document = {"_id": _id_of(call)}
    if condition is not None:
        filter[ETAG] = condition.stored
    claim = Write(WriteKind.UPDATE, update={"$set": {ETAG: ObjectId()}}, filter=filter)
    result = await _write(call, claim)
    if result.matched or condition is None:
        return None
    if condition.tags is None and await _read(call) is None:
        return None
    return await _refuse(call, condition)


async def forget_metadata(call: Call) -> None:
    """Remove the metadata of a collection that is gone."""
    await _write(call, Write(WriteKind.DELETE, filter={"_id": _id_of(call)}))


async def _refuse(call: Call, condition: Condition) -> Answer:
    """412 for a wrong etag, 409 for none; both tell the present one."""
    stored = await _read(call)
    headers = etag_headers(stored)
    if not condition.is_lacking or condition.excludes((stored or {}).get(ETAG)):
        return Body(412, headers=headers)
    raise Conflict(_name_demand(call), hint="its ETag is in the header", headers=headers)


def _name_demand(call: Call) -> str:
    if call.resource.collection is None:
        return "The database's ETag must be provided using the 'If-Match' header."
    if call.request.method == "PUT":
        return "The collection's ETag must be provided using the 'If-Match' header."
    return _DEMAND


def _id_of(call: Call) -> str:
    return metadata_id(call.resource.collection)


async def _read(call: Call) -> Document | None:
    """The metadata as it is now, past the cache."""
    return await call.context.store.find_one(
        call.db,
        METADATA_STORE,
        {"_id": _id_of(call)},
        deadline=call.exchange.deadline,
        consistency=FROM_PRIMARY,
    )


async def _write(call: Call, write: Write) -> WriteResult:
    """Metadata is written like documents are, so that interceptors see the write."""
    resource = Resource(ResourceType.METADATA, call.db, METADATA_STORE, _id_of(call))
    return await call.write_at(resource, write)


HANDLERS: Handlers = {(ResourceType.METADATA, "GET"): _get}
