"""Documents: read, replace, patch and delete one document."""

from __future__ import annotations

from docgraph.codec.bson_types import ObjectId
from docgraph.codec.form_data import read_documents
from docgraph.codec.pieces import check_size
from docgraph.exchange import Answer, Body, Document, Read, ResourceType, Write, WriteKind
from docgraph.exchange.errors import NotFound, RequestError
from docgraph.rest.call import Handlers, RestCall, read_object
from docgraph.rest.parameters.ids import show_id
from docgraph.rest.writes.checked_patch import needs_whole_document, patch_whole_document
from docgraph.rest.writes.etags import ETAG, etag_headers, etag_of, parse_tags
from docgraph.rest.writes.patch import build_pipeline, build_update
from docgraph.rest.writes.single import delete, put_document, update

MAX_PIPELINE = 5_000  # values: the store computes their cost on the event loop


async def _get(call: RestCall) -> Answer:
    await call.require_collection()
    parameters = call.parameters
    restriction = [one for one in (parameters.shardkey, parameters.filter) if one is not None]
    own: Document = {"_id": call.resource.id}
    added = _is_etag_left_out(call)
    read = Read(
        filter={"$and": [own, *restriction]} if restriction else own,
        projection={**(parameters.keys or {}), ETAG: 1} if added else parameters.keys,
        limit=1,
        hint=parameters.hint,
    )
    found = await call.read(read)
    if not found:
        raise NotFound(f"document {show_id(call.resource.id)} does not exist")
    document = found[0]
    headers = etag_headers(document)
    wanted = parse_tags(call.request.headers.get_list("if-match"))
    if wanted is not None and await _find_etag(call, document) not in wanted:
        return Body(412, headers=headers)
    known = parse_tags(call.request.headers.get_list("if-none-match"))
    if known is not None and (known.any or etag_of(document) in known):
        return Body(304, headers=headers)
    if added:
        document.pop(ETAG, None)
    return await call.answer_found(document, found, headers)


async def _find_etag(call: RestCall, document: Document) -> str | None:
    """Return the etag of the document, even if `keys` leaves it out."""
    if ETAG in document or ETAG not in (call.parameters.keys or {}):
        return etag_of(document)
    found = await call.read(Read({"_id": call.resource.id}, {ETAG: 1}, limit=1))
    return etag_of(found[0] if found else None)


def _is_etag_left_out(call: RestCall) -> bool:
    """Check if `keys` selects properties without the etag, which the response needs anyway.

    If a permission defines the shown properties, the etag is not added to them.
    """
    permission = call.exchange.permission
    if permission is not None and permission.project_response:
        return False
    keys = call.parameters.keys or {}
    # `_id` next to others has no influence: both kinds of projection can show or hide it.
    deciding = [one for key, one in keys.items() if key != "_id" or len(keys) == 1]
    return ETAG not in keys and any(one == 1 for one in deciding)


async def _put(call: RestCall) -> Answer:
    await call.require_collection()
    return await put_document(call, await read_object(call.request))


async def _patch(call: RestCall) -> Answer:
    await call.require_collection()
    content = await read_documents(call.request)
    if not content:
        raise RequestError("no data provided")
    etag = ObjectId()
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
        return await patch_whole_document(call, changes, etag)
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
