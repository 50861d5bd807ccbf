"""The documents of a collection: GET of a page, POST of one or many."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from docgraph.codec.documents import read_documents
from docgraph.exchange import Answer, Document, Read, ResourceType
from docgraph.exchange.data import SORT_KEY
from docgraph.exchange.parsed import Order
from docgraph.rest.call import Call, Handlers
from docgraph.rest.handlers.bulk import insert_many
from docgraph.rest.handlers.sizes import count_documents
from docgraph.rest.links import next_page
from docgraph.rest.parameters.keyset import (
    EMPTY,
    Key,
    Place,
    behind,
    parse_token,
    render_token,
    with_tiebreak,
)
from docgraph.rest.writes.etags import etag_headers
from docgraph.rest.writes.single import post_document
from docgraph.runtime.concurrent import concurrently
from docgraph.store.driver.salvage import is_readable

__all__ = ["HANDLERS", "combine", "list_documents"]

_NEWEST_FIRST: Final[Order] = (("_id", -1),)
# Of a view, the sort key alone would be all that is shown; to leave something out shows the rest.
_EVERYTHING: Final = {"_docgraph_nothing": 0}


@dataclass(frozen=True, slots=True)
class _Page:
    """The documents of a page, and the header that leads to the next one."""

    documents: list[Document]
    next: tuple[str, str] | None = None


async def list_documents(call: Call) -> Answer:
    """A page, newest first unless asked otherwise."""
    await call.require_collection()
    metadata = await call.find_metadata(call.collection)
    headers = etag_headers(metadata)
    if call.parameters.count is None:
        page = await _read_page(call)
    else:
        page, counted = await _read_and_count(call)
        headers += counted
    if page.next is not None:
        headers.append(page.next)
    return call.answer(page.documents, headers)


async def _read_and_count(call: Call) -> tuple[_Page, list[tuple[str, str]]]:
    calls: list[Coroutine[Any, Any, Any]] = [_read_page(call), _count(call)]
    read, counted = await concurrently(calls)
    return read, counted


async def _read_page(call: Call) -> _Page:
    parameters = call.parameters
    if parameters.pagesize == 0:
        return _Page([])
    order = _NEWEST_FIRST if parameters.sort is None else parameters.sort
    if parameters.after is not None:
        return await _read_keyset_page(call, with_tiebreak(order), parameters.after)
    documents = await call.read(_build_read(call, order, parameters.filter))
    if len(documents) < parameters.pagesize:
        return _Page(documents)
    last = documents[-1]
    if order == _NEWEST_FIRST and "_id" in last and is_readable(last["_id"]):
        token = render_token(order, Place([last["_id"]]))
        return _Page(documents, next_page(call.request, after=token))
    return _Page(documents, next_page(call.request, page=str(parameters.page + 1)))


def _build_read(call: Call, order: Order, filter: Mapping[str, Any] | None) -> Read:
    parameters = call.parameters
    return Read(
        filter=combine(parameters.shardkey, filter),
        projection=parameters.keys,
        sort=order,
        skip=parameters.skip,
        limit=parameters.pagesize,
        hint=parameters.hint,
    )


async def _read_keyset_page(call: Call, order: Order, token: str) -> _Page:
    """The page after the token; the database returns the sort keys with the documents."""
    place = parse_token(order, token) if token else Place()
    parts = [None] if place.key is None else behind(order, place.key)
    size = call.parameters.pagesize + place.skip
    documents: list[Document] = []
    for part in parts:
        read = _build_read(call, order, combine(call.parameters.filter, part))
        projection = {**(read.projection or _EVERYTHING), SORT_KEY: {"$meta": "sortKey"}}
        limit = size - len(documents)
        documents += await call.read(replace(read, projection=projection, limit=limit))
        if len(documents) == size:
            break
    keys = [document.pop(SORT_KEY, None) for document in documents]
    shown = documents[place.skip :]
    if len(documents) < size or keys[-1] is None:
        return _Page(shown)
    next_token = render_token(order, await _find_place(call, order, keys, place))
    return _Page(shown, next_page(call.request, after=next_token))


async def _find_place(call: Call, order: Order, keys: list[Key], begin: Place) -> Place:
    """Behind the last key, or the last one that can be read."""
    for skip, key in enumerate(reversed(keys)):
        if is_readable(key):
            return Place(await _mark_empty_arrays(call, order, key), skip)
    return Place(begin.key, len(keys))


async def _mark_empty_arrays(call: Call, order: Order, key: Key) -> Key:
    """The key with its empty arrays: the driver reads both them and nulls as None."""
    directions = dict(order)
    id = key[list(directions).index("_id")]
    marked: list[Any] = []
    for path, value in zip(directions, key, strict=True):
        if value is None and path != "_id":
            filter = {"_id": id, path: {"$size": 0}}
            marked.append(EMPTY if await call.count(filter) else None)
        else:
            marked.append(value)
    return marked


async def _count(call: Call) -> list[tuple[str, str]]:
    strategy, total = await count_documents(call)
    return [("X-Total-Count", str(total)), ("X-Count-Strategy", strategy.value)]


def combine(*filters: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """All of the filters that there are."""
    given = [filter for filter in filters if filter]
    if len(given) <= 1:
        return given[0] if given else {}
    return {"$and": given}


async def _post(call: Call) -> Answer:
    await call.require_collection()
    content = await read_documents(call.request)
    if isinstance(content, list):
        return await insert_many(call, content)
    return await post_document(call, content)


HANDLERS: Handlers = {
    (ResourceType.COLLECTION, "GET"): list_documents,
    (ResourceType.COLLECTION, "POST"): _post,
}
