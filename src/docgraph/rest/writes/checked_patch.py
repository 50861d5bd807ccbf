"""PATCH with validation of the whole document before it is written (decision 4).

The document is read, patched in memory and replaced, guarded by the etag it was read with: the
checked document is the written one. A write of another client in between leads to a retry. Only
documents that the caller may write are read, so a failed check reveals nothing about others.
"""

from __future__ import annotations

from dataclasses import replace

from docgraph.codec.bson_types import ObjectId
from docgraph.exchange import (
    Answer,
    Document,
    Read,
    Write,
    WriteKind,
    WriteMode,
    WriteResult,
)
from docgraph.exchange.errors import Conflict, RequestError
from docgraph.rest.call import RestCall
from docgraph.rest.parameters.ids import show_id
from docgraph.rest.writes.etags import ETAG, attempts
from docgraph.rest.writes.patch import apply_update
from docgraph.rest.writes.single import (
    Target,
    announce,
    explain_collision,
    explain_miss,
    rehearse_representation,
    target_of,
)
from docgraph.store.guard.fence import check_found
from docgraph.store.names import namespace_of


async def needs_whole_document(call: RestCall) -> bool:
    """Check if an interceptor, or the schema of the collection, validates whole documents.

    Not if properties are hidden: unreadable properties cannot be written back.
    """
    if call.context.store.guard.loses(call.db, call.collection):
        return False
    if "jsonSchema" in (await call.find_metadata(call.collection) or {}):
        return True
    return any(
        one.wants_whole_documents and one.resolve(call.resource) for one in call.context.writers
    )


async def patch_whole_document(call: RestCall, update: Document, etag: ObjectId) -> Answer:
    """Read, patch, replace; retry if another client was faster."""
    target = await target_of(call, call.resource.id)
    if call.write_filter or (call.rows or {}).get(namespace_of(call.db, call.collection)):
        check_found(target.filter)
    # The read below ignores the caller's read permissions, so they are checked here.
    await call.rehearse_read(Read(filter=target.filter_without_etag, limit=1))
    await rehearse_representation(call, target.id)
    try:
        async with call.turn(call.collection, target.id):
            result = await _patch(call, target, update)
    except Conflict as conflict:
        return await explain_collision(call, target, conflict)
    if result is None:
        return await explain_miss(call, target)
    return await announce(call, target.id, etag, result)


async def _patch(call: RestCall, target: Target, update: Document) -> WriteResult | None:
    """Return the result of the write; None: there is no document that this caller may change."""
    tried: Document | None = None
    async for _ in attempts("the document"):
        document = await _read(call, target)
        if document is None:
            if call.mode is WriteMode.UPDATE:
                return None
            try:
                return await _insert(call, target, update)
            except Conflict:
                if call.mode is WriteMode.INSERT or await _read(call, target) is None:
                    raise
                continue  # another caller created it in the meantime
        if target.condition is not None and not target.condition.admits(document.get(ETAG)):
            return None
        if call.mode is WriteMode.INSERT:
            raise Conflict(f"the document {show_id(target.id)} exists already")
        if document == tried:
            return None  # it did not change: an interceptor prevents the write
        tried = document
        result = await _replace(call, target, document, update)
        if result.matched:
            return result
    return None


async def _insert(call: RestCall, target: Target, update: Document) -> WriteResult:
    created = apply_update({"_id": target.id}, update)
    return await call.write(Write(WriteKind.INSERT, (created,), applied=update))


async def _replace(
    call: RestCall, target: Target, document: Document, update: Document
) -> WriteResult:
    write = Write(
        WriteKind.REPLACE,
        (document,),
        filter={
            "$and": [{"_id": target.id, ETAG: {"$eq": document.get(ETAG)}}, *target.restriction]
        },
        applied=update,
    )
    return await call.write(await _apply(call, write, document, update))


async def _apply(call: RestCall, write: Write, document: Document, update: Document) -> Write:
    """Return the write of the patched document; only callers who may write learn why it fails."""
    try:
        return replace(write, documents=(apply_update(document, update),))
    except RequestError:
        await call.context.store.writes.rehearse(call.resource, write, exchange=call.exchange)
        raise


async def _read(call: RestCall, target: Target) -> Document | None:
    """Return the full document, with hidden properties, if this caller may write it.

    Otherwise the outcome of the checks would reveal the content of a document they may not write.
    """
    rows = {namespace_of(call.db, call.collection): call.write_filter or {}}
    read = Read(filter=target.filter_without_etag, limit=1, consistency=call.consistency)
    exchange = call.exchange
    found = await call.context.store.reads.read(
        call.resource, read, deadline=exchange.deadline, rows=rows, transaction=exchange.transaction
    )
    return found[0] if found else None
