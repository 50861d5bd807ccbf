"""Optimistic locking of bulk writes: the etag policy of one document applies to each of them.

The condition is a part of the write's own filter, as with single documents. `If-Match` has the
etags of all the documents, or `*`; `If-None-Match` has etags that none of them may have. A document
without an etag is written without `If-Match` or with `*`, and inserts are never blocked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from docgraph.codec import JsonMode, encode
from docgraph.exchange import Document, WriteFailure
from docgraph.exchange.errors import Conflict
from docgraph.rest.call import RestCall
from docgraph.rest.writes.etags import ETAG, Condition
from docgraph.rest.writes.single import condition_of

_HINT: Final = "If-Match takes a list of ETags, or * for any"
_MISSING: Final = "The documents' ETags must be provided using the 'If-Match' header"
_MISSING_ONE: Final = "The document's ETag must be provided using the 'If-Match' header."
_WRONG_ONE: Final = "the ETag of the document is not one that the request admits"


async def restrict_to_etags(call: RestCall, filter: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the etags of the request to the filter of a bulk PATCH or DELETE; 409 without them.

    If the policy requires etags and the request has none, documents with an etag would be skipped
    silently. So nothing is written.
    """
    condition = await condition_of(call)
    if condition is None:
        return filter
    if condition.is_lacking:
        raise Conflict(_MISSING, hint=_HINT)
    return {"$and": [{ETAG: condition.stored}, filter]}


async def is_stale(
    call: RestCall, filter: Mapping[str, Any], restricted: Mapping[str, Any]
) -> bool:
    """Check if a bulk write changed nothing because of the etags."""
    if restricted is filter or not await call.count(filter):
        return False
    return not await call.count(restricted)


async def find_stale(
    call: RestCall, documents: Sequence[Document], condition: Condition | None, etag: Any
) -> dict[int, WriteFailure]:
    """Return the documents of an array that were not written because of their etags, by index."""
    if condition is None:
        return {}
    ids = [document["_id"] for document in documents]
    found = await call.context.store.reads.find(
        call.db,
        call.collection,
        {"$and": [{"_id": {"$in": ids}}, call.parameters.filter or {}]},
        projection={ETAG: 1},
        limit=len(ids),
        deadline=call.exchange.deadline,
        rows=call.rows,
        consistency=call.consistency,
        transaction=call.exchange.transaction,
    )
    stored = {key_of(one["_id"]): one.get(ETAG) for one in found}
    stale: dict[int, WriteFailure] = {}
    for index, key in enumerate(map(key_of, ids)):
        if key in stored and stored[key] != etag and not condition.admits(stored[key]):
            is_lacking = condition.is_lacking and not condition.excludes(stored[key])
            status, message = (409, _MISSING_ONE) if is_lacking else (412, _WRONG_ONE)
            stale[index] = WriteFailure(index, message, status)
    return stale


def key_of(id: Any) -> bytes:
    """Return a hashable key for an id: an id that is a document is not hashable."""
    return encode(id, JsonMode.EXTENDED)
