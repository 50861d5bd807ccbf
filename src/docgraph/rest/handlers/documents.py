"""Documents: read, replace, patch and delete one document."""

from __future__ import annotations

from dataclasses import replace

from docgraph.codec.pieces import check_size
from docgraph.codec.request_body import read_documents
from docgraph.exchange import (
    Answer,
    Body,
    Document,
    Read,
    ResourceType,
    Write,
    WriteKind,
    WriteMode,
    WriteResult,
)
from docgraph.exchange.errors import Conflict, NotFound, RequestError
from docgraph.rest.call import Handlers, RestCall, read_object
from docgraph.rest.etags import ETAG, attempts, etag_headers, etag_of, new_etag, parse_tags
from docgraph.rest.ids import show_id
from docgraph.rest.patch import apply_update, build_pipeline, build_update
from docgraph.rest.single import (
    Target,
    announce,
    delete,
    explain_collision,
    explain_miss,
    put_document,
    rehearse_representation,
    target_of,
    update,
)
from docgraph.store.guard.fence import check_found
from docgraph.store.names import namespace_of

MAX_PIPELINE = 5_000  # values: the store computes their cost on the event loop


async def _get(call: RestCall) -> Answer:
    await call.require_collection()
    parameters = call.parameters
    by_id: Document = {"_id": call.resource.id}
    added, restriction = _is_etag_left_out(call), parameters.restriction
    read = Read(
        filter={"$and": [by_id, *restriction]} if restriction else by_id,
        projection={**(parameters.keys or {}), ETAG: 1} if added else parameters.keys,
        limit=1,
        hint=parameters.hint,
    )
    documents = await call.read(read)
    if not documents:
        raise NotFound(f"document {show_id(call.resource.id)} does not exist")
    document = documents[0]
    headers = etag_headers(document)
    fields = call.exchange.request.headers
    if b"if-match" in fields.first:
        wanted = parse_tags(fields.get_list("if-match"))
        if wanted is not None and await _find_etag(call, document) not in wanted:
            return Body(412, headers=headers)
    if b"if-none-match" in fields.first:
        tags = parse_tags(fields.get_list("if-none-match"))
        if tags is not None and (tags.any or etag_of(document) in tags):
            return Body(304, headers=headers)
    if added:
        document.pop(ETAG, None)
    return await call.answer_found(document, documents, headers)


async def _find_etag(call: RestCall, document: Document) -> str | None:
    """Return the etag of the document, even if `keys` leaves it out."""
    if ETAG in document or ETAG not in (call.parameters.keys or {}):
        return etag_of(document)
    documents = await call.read(Read({"_id": call.resource.id}, {ETAG: 1}, limit=1))
    return etag_of(documents[0] if documents else None)


def _is_etag_left_out(call: RestCall) -> bool:
    """Check if `keys` selects properties without the etag, which the response needs anyway.

    If a permission defines the shown properties, the etag is not added to them.
    """
    permission = call.exchange.permission
    if permission is not None and permission.project_response:
        return False
    keys = call.parameters.keys
    if not keys:
        return False
    # `_id` next to others has no influence: both kinds of projection can show or hide it.
    deciding = [flag for key, flag in keys.items() if key != "_id" or len(keys) == 1]
    return ETAG not in keys and any(flag == 1 for flag in deciding)


async def _put(call: RestCall) -> Answer:
    await call.require_collection()
    return await put_document(call, await read_object(call.request))


async def _patch(call: RestCall) -> Answer:
    await call.require_collection()
    content = await read_documents(call.request)
    if not content:
        raise RequestError("no data provided")
    etag = new_etag()
    if isinstance(content, list):
        if await needs_whole_document(call):
            raise RequestError(
                "documents of this collection cannot be updated with a pipeline",
                hint="use $set, $unset or plain keys, or PUT the whole document",
            )
        check_size(content, "the pipeline", MAX_PIPELINE)
        pipeline = build_pipeline(content, etag)
        return await update(call, Write(WriteKind.UPDATE, pipeline=pipeline), etag)
    changes = await call.request.work(build_update, _without_id(content, call), etag)
    if await needs_whole_document(call):
        target = await target_of(call, call.resource.id)
        if call.write_filter or (call.rows or {}).get(namespace_of(call.db, call.collection)):
            check_found(target.filter)
        # The read below ignores the caller's read permissions, so they are checked here.
        await call.rehearse_read(Read(filter=target.filter_without_etag, limit=1))
        await rehearse_representation(call, target.id)
        try:
            async with call.turn(call.collection, target.id):
                result = await _replace_patched(call, target, changes)
        except Conflict as conflict:
            return await explain_collision(call, target, conflict)
        if result is None:
            return await explain_miss(call, target)
        return await announce(call, target.id, etag, result)
    return await update(call, Write(WriteKind.UPDATE, update=changes), etag)


def _without_id(body: Document, call: RestCall) -> Document:
    if "_id" not in body:
        return body
    given, id = body["_id"], call.resource.id
    if type(given) is not type(id) or given != id:
        raise RequestError("_id in json data cannot be different than id in URL")
    return {key: value for key, value in body.items() if key != "_id"}


async def _delete(call: RestCall) -> Answer:
    await call.require_collection()
    return await delete(call)


HANDLERS: Handlers = {
    (ResourceType.DOCUMENT, "GET"): _get,
    (ResourceType.DOCUMENT, "PUT"): _put,
    (ResourceType.DOCUMENT, "PATCH"): _patch,
    (ResourceType.DOCUMENT, "DELETE"): _delete,
}


async def needs_whole_document(call: RestCall) -> bool:
    """Check if an interceptor, or the schema of the collection, validates whole documents.

    Not if properties are hidden: unreadable properties cannot be written back.

    PATCH then validates the whole document before it is written (decision 4). The document is read,
    patched in memory and replaced, guarded by the etag it was read with: the checked document is
    the written one. A write of another client in between leads to a retry. Only documents that the
    caller may write are read, so a failed check reveals nothing about others.
    """
    if call.context.store.guard.loses(call.db, call.collection):
        return False
    if "jsonSchema" in (await call.find_metadata(call.collection) or {}):
        return True
    return any(
        writer.wants_whole_documents and writer.resolve(call.resource)
        for writer in call.context.writers
    )


async def _replace_patched(call: RestCall, target: Target, update: Document) -> WriteResult | None:
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
    documents = await call.context.store.reads.read(
        call.resource, read, deadline=exchange.deadline, rows=rows, transaction=exchange.transaction
    )
    return documents[0] if documents else None
