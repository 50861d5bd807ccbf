"""Writes of many documents: an array to a collection, and all that match a filter.

What succeeds is kept and what fails is reported element by element; the whole is 207 when something
failed. Every document that is touched gets a new etag, the same for all of one request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from docgraph.codec import JsonMode, encode
from docgraph.codec.bson_types import ObjectId
from docgraph.codec.equality import equality_key
from docgraph.exchange import (
    Answer,
    Body,
    Document,
    ResourceType,
    Write,
    WriteFailure,
    WriteKind,
    WriteMode,
    WriteResult,
)
from docgraph.exchange.errors import BodyTooLarge, Conflict, DocgraphError, RequestError
from docgraph.rest.call import Handlers, RestCall, read_object
from docgraph.rest.etags import ETAG, Condition, etag_header, find_exclusion, new_etag
from docgraph.rest.flatten import Expansion, prepare_document
from docgraph.rest.ids import check_id, document_path
from docgraph.rest.patch import build_update
from docgraph.rest.rejections import reject
from docgraph.rest.single import check_missing_id, condition_of
from docgraph.store import Rows

MAX_DOCUMENTS = 10_000  # of an array: preparing and reporting them takes 0.1 s of the event loop

_CREATED = 201
_FAILED = 400
_CONFLICT = 409
_UNKNOWN = 500


async def insert_many(call: RestCall, bodies: Sequence[Document]) -> Answer:
    """Insert or update the documents of an array: POST to a collection."""
    if not bodies:
        return call.answer(_render_counts(WriteResult()))
    if len(bodies) > MAX_DOCUMENTS:
        raise BodyTooLarge(
            f"the body has {len(bodies)} documents, {MAX_DOCUMENTS} are allowed",
            hint="send several requests",
        )
    etag = new_etag()
    documents = await call.request.work(_prepare_all, call, bodies, etag)
    if call.mode is WriteMode.INSERT:
        condition = find_exclusion(call.request.headers)
    else:
        condition = await condition_of(call)
    result = await _write_array(call, documents, condition, etag)
    missing = await _find_missing(call, documents, result, etag)
    return _render(call, documents, result, missing, etag)


async def _write_array(
    call: RestCall, documents: list[Document], condition: Condition | None, etag: ObjectId
) -> WriteResult:
    """Write the array; a document with another etag is not found, or collides as an insert."""
    result = await call.write(_build_write(call, documents, condition))
    done = len(result.inserted) + len(result.upserted) + result.matched
    if condition is None or done == len(documents):
        return result
    failures = {failure.index: failure for failure in result.failures}
    failures |= await find_stale(call, documents, condition, etag)
    return replace(result, failures=tuple(failures.values()))


async def _patch_many(call: RestCall) -> Answer:
    await call.require_collection()
    filter = _require_filter(call)
    body = await read_object(call.request)
    if not body:
        raise RequestError("no data provided")
    if "_id" in body:
        raise RequestError("the _id of a document cannot be changed")
    etag = new_etag()
    condition = await restrict_to_etags(call, filter)
    update = await call.request.work(build_update, body, etag)
    write = Write(WriteKind.UPDATE, update=update, filter=condition, many=True)
    result = await call.write(write)
    if not result.matched and await is_stale(call, filter, condition):
        return Body(412)
    return call.answer(_render_counts(result), [etag_header(etag)])


async def _delete_many(call: RestCall) -> Answer:
    await call.require_collection()
    filter = _require_filter(call)
    condition = await restrict_to_etags(call, filter)
    result = await call.write(Write(WriteKind.DELETE, filter=condition, many=True))
    if not result.deleted and await is_stale(call, filter, condition):
        return Body(412)
    return call.answer(_render_counts(result))


def _require_filter(call: RestCall) -> Document:
    filter = call.parameters.filter
    if filter is None:
        raise RequestError("filter parameter is mandatory for bulk write requests")
    shardkey = call.parameters.shardkey
    return {"$and": [shardkey, filter]} if shardkey else dict(filter)


def _prepare_all(call: RestCall, bodies: Sequence[Document], etag: ObjectId) -> list[Document]:
    expansion = Expansion()
    return [_prepare(call, body, index, etag, expansion) for index, body in enumerate(bodies)]


def _prepare(
    call: RestCall, body: Document, index: int, etag: ObjectId, expansion: Expansion
) -> Document:
    body = call.identify(body)
    try:
        if "_id" in body:
            check_id(body["_id"], several=True)
        else:
            check_missing_id(call)
            body = {"_id": ObjectId(), **body}
        return {**prepare_document(body, expansion), ETAG: etag}
    except DocgraphError as error:
        error.details = {"index": index}
        raise


def _build_write(call: RestCall, documents: list[Document], condition: Condition | None) -> Write:
    if call.mode is WriteMode.INSERT:
        return Write(WriteKind.INSERT, tuple(documents), ordered=False)
    filter: Any = call.parameters.filter or {}
    if condition is not None:
        wanted = {ETAG: condition.stored}
        filter = {"$and": [wanted, filter]} if filter else wanted
    if len(documents) == 1 and filter:
        # The store finds a single replacement by the filter alone.
        filter = {"$and": [{"_id": documents[0]["_id"]}, filter]}
    return Write(
        WriteKind.REPLACE,
        tuple(documents),
        filter=filter,
        upsert=call.mode is WriteMode.UPSERT,
        ordered=False,
    )


async def _find_missing(
    call: RestCall, documents: Sequence[Document], result: WriteResult, etag: ObjectId
) -> frozenset[bytes]:
    """Return the ids that an update did not find: without the etag of this request."""
    done = result.matched + len(result.failures)
    if call.mode is not WriteMode.UPDATE or done >= len(documents):
        return frozenset()
    stored = await _find_etags(call, documents, {ETAG: etag}, rows=None)
    return frozenset(key_of(document["_id"]) for document in documents) - stored.keys()


def _render(
    call: RestCall,
    documents: Sequence[Document],
    result: WriteResult,
    missing: frozenset[bytes],
    etag: ObjectId,
) -> Answer:
    created = {key_of(id) for id in (*result.inserted, *result.upserted)}
    failures = {failure.index: failure for failure in result.failures}
    segments = call.request.segments
    results: list[Document] = []
    for index, document in enumerate(documents):
        element: Document = {"index": index}
        key = key_of(document["_id"])
        if index in failures:
            element |= _render_failure(failures[index])
        elif key in missing:
            element |= {"httpStatus": 404, "message": "document does not exist"}
        else:
            element["httpStatus"] = _CREATED if key in created else 200
            created.discard(key)  # another element with this _id has found the document
            if link := document_path(segments, document["_id"]):
                element["link"] = link
        results.append(element)
    return _finish(call, results, result, etag)


def _finish(call: RestCall, results: list[Document], result: WriteResult, etag: ObjectId) -> Answer:
    created = (entry for entry in results if entry["httpStatus"] == _CREATED)
    content = _render_counts(result, [entry["link"] for entry in created if "link" in entry])
    failed = [entry for entry in results if entry["httpStatus"] >= _FAILED]
    if failed:
        content["errors"] = failed
    content["results"] = results
    return call.answer(content, [etag_header(etag)], 207 if failed else 200)


def _render_counts(result: WriteResult, links: Sequence[str] = ()) -> Document:
    """Return the counters, and the paths of the documents that were created."""
    content: Document = {
        "inserted": len(result.inserted) + len(result.upserted),
        "links": list(links),
        "deleted": result.deleted,
        "modified": result.modified,
        "matched": result.matched,
    }
    if result.warnings:
        content["_warnings"] = list(result.warnings)
    return content


def _render_failure(failure: WriteFailure) -> Document:
    rejection = reject(failure.code) if failure.status == _UNKNOWN else None
    error = rejection or failure
    element: Document = {"httpStatus": error.status, "message": error.message}
    if failure.code is not None and failure.status != _CONFLICT:
        element["mongodbErrorCode"] = failure.code
    return element


HANDLERS: Handlers = {
    (ResourceType.BULK, "PATCH"): _patch_many,
    (ResourceType.BULK, "DELETE"): _delete_many,
}


_MISSING_ONE: Final = "The document's ETag must be provided using the 'If-Match' header."
_MAX_ALIKE: Final = 100  # texts that are compared by a collation, each with one query
_WRONG_ONE: Final = "the ETag of the document is not one that the request admits"


async def restrict_to_etags(call: RestCall, filter: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the etags of the request to the filter of a bulk PATCH or DELETE; 409 without them.

    If the policy requires etags and the request has none, documents with an etag would be skipped
    silently. So nothing is written.

    Optimistic locking of bulk writes: the etag policy of one document applies to each of them. The
    condition is a part of the write's own filter, as with single documents. `If-Match` has the
    etags of all the documents, or `*`; `If-None-Match` has etags that none of them may have. A
    document without an etag is written without `If-Match` or with `*`, and inserts are never
    blocked.
    """
    condition = await condition_of(call)
    if condition is None:
        return filter
    if condition.is_lacking:
        raise Conflict(
            "The documents' ETags must be provided using the 'If-Match' header",
            hint="If-Match takes a list of ETags, or * for any",
        )
    return {"$and": [{ETAG: condition.stored}, filter]}


async def is_stale(
    call: RestCall, filter: Mapping[str, Any], restricted: Mapping[str, Any]
) -> bool:
    """Check if a bulk write changed nothing because of the etags."""
    if restricted is filter or not await call.count(filter):
        return False
    return not await call.count(restricted)


async def find_stale(
    call: RestCall, documents: Sequence[Document], condition: Condition, etag: Any
) -> dict[int, WriteFailure]:
    """Return the documents of an array that were not written because of their etags, by index."""
    stored = await _find_etags(call, documents, call.parameters.filter or {}, call.rows)
    stale: dict[int, WriteFailure] = {}
    for index, key in enumerate(key_of(document["_id"]) for document in documents):
        if key in stored and stored[key] != etag and not condition.admits(stored[key]):
            is_lacking = condition.is_lacking and not condition.excludes(stored[key])
            status, message = (409, _MISSING_ONE) if is_lacking else (412, _WRONG_ONE)
            stale[index] = WriteFailure(index, message, status)
    return stale


async def _find_etags(
    call: RestCall, documents: Sequence[Document], filter: Mapping[str, Any], rows: Rows | None
) -> dict[bytes, Any]:
    """Return the stored etags of those documents that match the filter, by the key of their id."""

    async def find(condition: Any, limit: int) -> list[Document]:
        return await call.context.store.reads.find(
            call.db,
            call.collection,
            {"$and": [{"_id": condition}, filter]},
            projection={ETAG: 1},
            limit=limit,
            deadline=call.exchange.deadline,
            rows=rows,
            consistency=call.consistency,
            transaction=call.exchange.transaction,
        )

    wanted = {key_of(document["_id"]): document["_id"] for document in documents}
    matching = await find({"$in": list(wanted.values())}, len(wanted))
    stored = {key_of(document["_id"]): document.get(ETAG) for document in matching}
    if not stored.keys() <= wanted.keys():
        # Equal to the database, and not the same: numbers of other types, texts by a collation.
        equal = {equality_key(document["_id"]): document.get(ETAG) for document in matching}
        missing = {key: id for key, id in wanted.items() if key not in stored}
        same = {key: equality_key(id) for key, id in missing.items()}
        stored |= {key: equal[equality] for key, equality in same.items() if equality in equal}
        texts = [key for key, id in missing.items() if key not in stored and isinstance(id, str)]
        for key in texts[:_MAX_ALIKE]:
            if alike := await find({"$eq": wanted[key]}, 1):
                stored[key] = alike[0].get(ETAG)
    return stored


def key_of(id: Any) -> bytes:
    """Return a hashable key for an id: an id that is a document is not hashable."""
    return encode(id, JsonMode.EXTENDED)
