"""Writes of one document: write modes, etags and responses.

A required etag is a part of the write's own filter. If the write finds nothing, one read of the
document finds the reason: it is missing, or it has another etag.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from docgraph.codec.bson_types import ObjectId
from docgraph.exchange import (
    Answer,
    Body,
    Document,
    Read,
    Resource,
    ResourceType,
    Write,
    WriteKind,
    WriteMode,
    WriteResult,
)
from docgraph.exchange.errors import Conflict, NotFound, RequestError
from docgraph.exchange.request import encode_path
from docgraph.rest.call import RestCall
from docgraph.rest.etags import (
    ETAG,
    Condition,
    etag_header,
    etag_headers,
    find_condition,
    find_exclusion,
    is_demanded,
    new_etag,
)
from docgraph.rest.flatten import prepare_document
from docgraph.rest.ids import IdType, build_location, check_id, document_path, show_id

NOTHING: Final[Mapping[str, Any]] = {"$nor": [{}]}  # matches no document


@dataclass(frozen=True, slots=True)
class Target:
    """The document of a write, and the condition on its etag."""

    id: Any
    condition: Condition | None = None
    restriction: tuple[Mapping[str, Any], ...] = ()

    @property
    def filter(self) -> Mapping[str, Any]:
        """The filter that finds the document if all conditions hold."""
        by_id: Document = {"_id": self.id}
        if self.condition is not None:
            by_id[ETAG] = self.condition.stored
        return {"$and": [by_id, *self.restriction]} if self.restriction else by_id

    @property
    def filter_without_etag(self) -> Mapping[str, Any]:
        """The filter that finds the document regardless of its etag."""
        return replace(self, condition=None).filter


async def post_document(call: RestCall, body: Document) -> Answer:
    """Insert or replace one document: POST to a collection."""
    body = call.identify(body)
    if "_id" not in body:
        check_missing_id(call)
        return await _create(call, {"_id": ObjectId(), **body})
    check_id(body["_id"])
    if call.mode is WriteMode.INSERT:
        return await _create(call, body)
    return await _replace(call, body, await target_of(call, body["_id"]))


async def put_document(call: RestCall, body: Document) -> Answer:
    """Write the document at the path: PUT."""
    id = call.resource.id
    if "_id" in body and (type(body["_id"]) is not type(id) or body["_id"] != id):
        raise RequestError("_id in content body is different than id in URL")
    body = {"_id": None, **body}  # before the other keys
    body["_id"] = id
    if call.mode is WriteMode.INSERT:
        return await _create(call, body)
    return await _replace(call, body, await target_of(call, id))


async def update(call: RestCall, write: Write, etag: ObjectId) -> Answer:
    """Update the document at the path by operators or a pipeline: PATCH."""
    target = await target_of(call, call.resource.id)
    if call.mode is WriteMode.INSERT:
        # The same semantics for a document that may not exist: the insertion collides if it does.
        write = replace(write, filter={"_id": target.id, **NOTHING}, upsert=True)
    else:
        write = replace(write, filter=target.filter, upsert=call.mode is WriteMode.UPSERT)
    return await _run(call, write, target, etag)


async def delete(call: RestCall) -> Answer:
    """Delete the document at the path."""
    target = await target_of(call, call.resource.id)
    result = await call.write(Write(WriteKind.DELETE, filter=target.filter))
    if result.deleted == 0:
        return await explain_miss(call, target)
    return Body(204)


async def target_of(call: RestCall, id: Any) -> Target:
    """Return the document with this id and the conditions of the request."""
    if call.request.method != "DELETE" and call.mode is WriteMode.INSERT:
        condition = find_exclusion(call.request.headers)  # no etag is required
    else:
        condition = await condition_of(call)
    return Target(id, condition, tuple(call.parameters.restriction))


async def condition_of(call: RestCall) -> Condition | None:
    """Return the condition of the request, or of the policy, on the etag of a document."""
    demanded = call.parameters.check_etag or is_demanded(
        [
            (await call.find_metadata(call.collection) or {}).get("etagDocPolicy"),
            (await call.find_metadata(None) or {}).get("etagDocPolicy"),
        ],
        call.context.settings.etag_check_policy.doc,
        deleting=call.request.method == "DELETE",
    )
    return find_condition(call.request.headers, demanded=demanded)


async def explain_miss(call: RestCall, target: Target) -> Answer:
    """Explain why a write found nothing: 404, 409 without `If-Match`, 412 by another header."""
    read = Read(filter=target.filter_without_etag, projection={ETAG: 1}, limit=1)
    documents = await call.read(read)
    condition = target.condition
    if not documents or condition is None or condition.admits(documents[0].get(ETAG)):
        raise _missing(call, target.id)
    if not condition.is_lacking or condition.excludes(documents[0].get(ETAG)):
        return Body(412, headers=etag_headers(documents[0]))
    raise Conflict(
        _DEMANDS[call.request.method],
        hint="GET the document; its ETag is in the header of the answer",
        headers=etag_headers(documents[0]),
    )


async def explain_collision(call: RestCall, target: Target, conflict: Conflict) -> Answer:
    """Explain why an insertion collided: an upsert inserts if a wrong etag found nothing."""
    if target.condition is None:
        raise conflict
    try:
        return await explain_miss(call, target)
    except NotFound:
        raise conflict from None


async def _find_collision(call: RestCall, target: Target) -> Answer | None:
    """Predict why an insertion will collide: a transaction allows no query after the collision."""
    if call.exchange.transaction is None or target.condition is None:
        return None
    try:
        return await explain_miss(call, target)
    except NotFound:
        return None


async def announce(call: RestCall, id: Any, etag: ObjectId, result: WriteResult) -> Answer:
    """Return the response to a successful write: empty unless there are warnings or content."""
    created = bool(result.inserted or result.upserted)
    headers = [etag_header(etag)]
    if created:
        headers += _location(call, id)
    status = 201 if created else 200
    if (document := await find_representation(call, id)) is not None:
        current = etag_headers(document) or headers[:1]
        warnings = {"_warnings": list(result.warnings)} if result.warnings else {}
        return call.answer({**document, **warnings}, [*current, *headers[1:], APPLIED], status)
    if result.warnings:
        return call.answer({"_warnings": list(result.warnings)}, headers, status)
    return Body(status, headers=headers)


async def _create(call: RestCall, body: Document) -> Answer:
    etag = new_etag()
    document = {**await call.request.work(prepare_document, body), ETAG: etag}
    id = document["_id"]
    target = Target(id, find_exclusion(call.request.headers))
    await rehearse_representation(call, id)
    if (refusal := await _find_collision(call, target)) is not None:
        return refusal
    try:
        result = await call.write(Write(WriteKind.INSERT, (document,)))
    except Conflict as conflict:
        return await explain_collision(call, target, conflict)
    return await announce(call, id, etag, result)


async def _replace(call: RestCall, body: Document, target: Target) -> Answer:
    etag = new_etag()
    document = {**await call.request.work(prepare_document, body), ETAG: etag}
    write = Write(
        WriteKind.REPLACE, (document,), filter=target.filter, upsert=call.mode is WriteMode.UPSERT
    )
    return await _run(call, write, target, etag)


async def _run(call: RestCall, write: Write, target: Target, etag: ObjectId) -> Answer:
    await rehearse_representation(call, target.id)
    if write.upsert and (refusal := await _find_collision(call, target)) is not None:
        return refusal
    try:
        result = await call.write(write)
    except Conflict as conflict:
        if not write.upsert:
            raise
        return await explain_collision(call, target, conflict)
    if not result.matched and not result.upserted:
        return await explain_miss(call, target)
    return await announce(call, target.id, etag, result)


def _location(call: RestCall, id: Any) -> list[tuple[str, str]]:
    segments = call.request.segments
    if call.resource.type is ResourceType.DOCUMENT:
        segments = segments[:-1]
    path = document_path(segments, id)
    if path is None:
        return []
    return [("Location", build_location(call.request, path, call.context.base_url))]


def check_missing_id(call: RestCall) -> None:
    """Reject a missing `_id` if the request updates, or needs an id type that is not generated."""
    if call.mode is WriteMode.UPDATE:
        raise RequestError(
            "_id in content body is mandatory to update a document",
            hint="leave out wm=update to create a document",
        )
    id_type = call.parameters.id_type
    if id_type not in (IdType.OID, IdType.STRING_OID):
        raise RequestError(f"_id in content body is mandatory for documents with id type {id_type}")


def _missing(call: RestCall, id: Any) -> NotFound:
    hint = "wm=upsert creates it" if call.request.method in ("PUT", "PATCH", "POST") else None
    return NotFound(f"document {show_id(id)} does not exist", hint=hint)


_DEMANDS = {
    "PUT": "The document's ETag must be provided using the 'If-Match' header",
    "DELETE": "The document's ETag must be provided using the 'If-Match' header",
    "POST": "The document's ETag must be provided using the 'If-Match' header.",
    "PATCH": "The ETag must be provided using the 'If-Match' header",
}


APPLIED: Final = ("Preference-Applied", "return=representation")


async def rehearse_representation(call: RestCall, id: Any) -> None:
    """Reject forbidden `keys` before the write, not after it.

    With `Prefer: return=representation` the response to a write has the document: it has what a
    plain GET of the document would return to the same caller. A caller who may write but not read
    gets an empty body: a permission to write does not include reading.
    """
    keys = call.parameters.keys
    if keys is None or not _is_wanted(call):
        return
    if (seen := await _check_get(call, id)) is not None:
        await seen.rehearse_read(Read(projection=keys, limit=1))


async def find_representation(call: RestCall, id: Any) -> Document | None:
    """Return the written document as the caller sees it; None if not requested or denied."""
    if not _is_wanted(call) or (seen := await _check_get(call, id)) is None:
        return None
    documents = await seen.read(Read(filter={"_id": id}, projection=call.parameters.keys, limit=1))
    return documents[0] if documents else None


async def _check_get(call: RestCall, id: Any) -> RestCall | None:
    """Return the call under the permission of a GET of that document; None: it is denied."""
    segments = call.request.segments
    if call.resource.type is ResourceType.DOCUMENT:
        segments = segments[:-1]
    # Documents whose ids have no path are found in the list.
    path = document_path(segments, id) or encode_path(segments)
    resource = Resource(ResourceType.DOCUMENT, call.db, call.collection, id)
    return await call.as_get(path, resource)


def _is_wanted(call: RestCall) -> bool:
    preferences = ",".join(call.request.headers.get_list("prefer")).lower()
    return any(
        word.replace(" ", "").replace('"', "") == "return=representation"
        for part in preferences.split(",")
        for word in part.split(";")[:1]
    )
