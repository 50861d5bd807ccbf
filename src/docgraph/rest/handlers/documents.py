"""One document: read, replace, change, remove."""

from __future__ import annotations

from docgraph.codec.documents import read_documents
from docgraph.codec.pieces import check_size
from docgraph.codec.types import ObjectId
from docgraph.exchange import Answer, Body, Document, Read, ResourceType, Write, WriteKind
from docgraph.exchange.errors import NotFound, RequestError
from docgraph.rest.bodies.bodies import read_object
from docgraph.rest.call import Call, Handlers
from docgraph.rest.parameters.ids import show_id
from docgraph.rest.writes.checked_patch import needs_whole_document, patch_whole_document
from docgraph.rest.writes.etags import ETAG, etag_headers, etag_of, parse_tags
from docgraph.rest.writes.patch import build_pipeline, build_update
from docgraph.rest.writes.single import delete, put_document, update

__all__ = ["HANDLERS"]


async def _get(call: Call) -> Answer:
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
    known = parse_tags(call.request.headers.get_list("if-none-match"))
    if known is not None and (known.any or etag_of(document) in known):
        return Body(304, headers=headers)
    if added:
        document.pop(ETAG, None)
    return call.answer(document, headers)


def _is_etag_left_out(call: Call) -> bool:
    """Whether `keys` names what to show, and the etag, which the answer tells anyway, is not in it.

    Where a permission says what is shown, the etag is not asked for behind its back.
    """
    permission = call.exchange.permission
    if permission is not None and permission.project_response:
        return False
    keys = call.parameters.keys or {}
    # `_id` beside others says nothing: it can be shown or not in either kind of projection.
    deciding = [one for key, one in keys.items() if key != "_id" or len(keys) == 1]
    return ETAG not in keys and any(one == 1 for one in deciding)


async def _put(call: Call) -> Answer:
    await call.require_collection()
    return await put_document(call, await read_object(call.request))


async def _patch(call: Call) -> Answer:
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
        check_size(content, "the pipeline")
        pipeline = build_pipeline(content, etag)
        return await update(call, Write(WriteKind.UPDATE, pipeline=pipeline), etag)
    changes = await call.request.work(build_update, _without_id(content, call), etag)
    if await needs_whole_document(call):
        return await patch_whole_document(call, changes, etag)
    return await update(call, Write(WriteKind.UPDATE, update=changes), etag)


def _without_id(body: Document, call: Call) -> Document:
    if "_id" not in body:
        return body
    given, id = body["_id"], call.resource.id
    if type(given) is not type(id) or given != id:
        raise RequestError("_id in json data cannot be different than id in URL")
    return {key: value for key, value in body.items() if key != "_id"}


async def _delete(call: Call) -> Answer:
    await call.require_collection()
    return await delete(call)


HANDLERS: Handlers = {
    (ResourceType.DOCUMENT, "GET"): _get,
    (ResourceType.DOCUMENT, "PUT"): _put,
    (ResourceType.DOCUMENT, "PATCH"): _patch,
    (ResourceType.DOCUMENT, "DELETE"): _delete,
}
