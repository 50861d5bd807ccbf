"""The documents of a collection: GET of a page, POST of one or many."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from docgraph.codec.csv_table import MAX_SAMPLE
from docgraph.codec.documents import read_documents
from docgraph.codec.keyset import Key, behind, build_key, read_key
from docgraph.exchange import Answer, Body, Document, Read, ResourceType, Stream
from docgraph.exchange.data import SORT_KEY, Keyset
from docgraph.exchange.parsed import Order
from docgraph.exchange.response import HeaderList
from docgraph.rest.call import Handlers, RestCall
from docgraph.rest.csv_lists import VARY, CsvList, csv_headers
from docgraph.rest.handlers.bulk import insert_many
from docgraph.rest.handlers.sizes import count_documents
from docgraph.rest.links import next_page
from docgraph.rest.parameters.page_tokens import PageStart, parse_token, render_token, with_tiebreak
from docgraph.rest.streamed_lists import JsonList
from docgraph.rest.writes.etags import etag_headers
from docgraph.rest.writes.single import post_document
from docgraph.runtime.tasks import concurrently
from docgraph.store.collection_stats import BY_BYTES
from docgraph.store.driver.lenient_decode import is_readable

_NEWEST_FIRST: Final[Order] = (("_id", -1),)


@dataclass(frozen=True, slots=True)
class _Page:
    """The documents of a page, and the header that leads to the next one."""

    documents: JsonList | CsvList
    next: tuple[str, str] | None = None


async def list_documents(call: RestCall) -> Answer:
    """A page, newest first by default."""
    await call.require_collection()
    headers = await _find_headers(call)
    if call.wants_csv and _is_long(call):
        return await _export_page(call, headers)
    if call.parameters.count is None:
        page = await _read_page(call)
    else:
        page, counted = await _read_and_count(call)
        headers += counted
    if page.next is not None:
        headers.append(page.next)
    return Body(200, page.documents.render(), page.documents.media_type, headers)


async def _find_headers(call: RestCall) -> HeaderList:
    """The headers of the format; the etag is that of the collection, not of a table."""
    if call.wants_csv:
        return csv_headers(call.collection)
    return [*etag_headers(await call.find_metadata(call.collection)), VARY]


def _is_long(call: RestCall) -> bool:
    """Check if the page is sent while it is read; with `after`, its `Link` depends on its end."""
    return call.parameters.pagesize > MAX_SAMPLE and call.parameters.after is None


async def _export_page(call: RestCall, headers: HeaderList) -> Answer:
    parameters = call.parameters
    if parameters.count is not None:
        headers += await _count(call)
    order = _NEWEST_FIRST if parameters.sort is None else parameters.sort
    export = call.open_export()
    read = call.read(_build_read(call, order, parameters.filter), export.add)
    answer = await export.answer(read, headers)
    if isinstance(answer, Stream) or export.count >= parameters.pagesize:
        answer.headers.append(next_page(call.request, page=str(parameters.page + 1)))
    return answer


async def _read_and_count(call: RestCall) -> tuple[_Page, list[tuple[str, str]]]:
    calls: list[Coroutine[Any, Any, Any]] = [_read_page(call), _count(call)]
    read, counted = await concurrently(calls)
    return read, counted


async def _read_page(call: RestCall) -> _Page:
    parameters, documents = call.parameters, call.open_list()
    if parameters.pagesize == 0:
        return _Page(documents)
    order = _NEWEST_FIRST if parameters.sort is None else parameters.sort
    if parameters.after is not None:
        return await _read_keyset_page(call, with_tiebreak(order), parameters.after)
    await call.read(_build_read(call, order, parameters.filter), documents.receiver)
    if documents.count < parameters.pagesize:
        return _Page(documents)
    last = await documents.find_last() if order == _NEWEST_FIRST else {}
    if "_id" in last and is_readable(last["_id"]):
        token = render_token(order, PageStart([last["_id"]]))
        return _Page(documents, next_page(call.request, after=token))
    return _Page(documents, next_page(call.request, page=str(parameters.page + 1)))


def _build_read(call: RestCall, order: Order, filter: Mapping[str, Any] | None) -> Read:
    parameters = call.parameters
    return Read(
        filter=combine(parameters.shardkey, filter),
        projection=parameters.keys,
        sort=order,
        skip=parameters.skip,
        limit=parameters.pagesize,
        hint=parameters.hint,
    )


async def _read_keyset_page(call: RestCall, order: Order, token: str) -> _Page:
    """The page after the token; the database returns the sort keys with the documents."""
    place = parse_token(order, token) if token else PageStart()
    parts = [None] if place.key is None else behind(order, place.key)
    size = call.parameters.pagesize + place.skip
    shown = call.open_list()
    keys: list[Key] = []  # of all documents, also of those that are not shown
    ids: list[Any] = []

    async def add(portion: list[Document]) -> None:
        begin = max(0, place.skip - len(keys))
        ids.extend(document.get("_id") for document in portion)
        keys.extend(document.pop(SORT_KEY, None) for document in portion)
        await shown.add(portion[begin:])

    read = _build_read(call, order, call.parameters.filter)
    for part in parts:
        keyset = Keyset(part, {SORT_KEY: {"$meta": "sortKey"}})
        await call.read(replace(read, limit=size - len(keys), keyset=keyset), add)
        if len(keys) == size:
            break
    if len(keys) < size or keys[-1] is None:
        return _Page(shown)
    next_token = render_token(order, await _find_place(call, order, keys, ids, place))
    if next_token == token:  # pages that lead nowhere must end
        return _Page(shown)
    return _Page(shown, next_page(call.request, after=next_token))


async def _find_place(
    call: RestCall, order: Order, keys: list[Key], ids: list[Any], begin: PageStart
) -> PageStart:
    """Behind the last key, or the last one that can be read."""
    for skip, key in enumerate(reversed(keys)):
        if is_readable(key):
            return PageStart(await _find_stored(call, order, key, ids[-1 - skip]), skip)
    return PageStart(begin.key, len(keys))


async def _find_stored(call: RestCall, order: Order, key: Key, id: Any) -> Key:
    """The key with the stored values.

    The driver reads empty arrays and nulls as None, and with a collation the texts of a sort key
    are those that it compares, also that of `_id`.
    """
    paths = [path for path, _ in order]
    has_null = any(one is None and path != "_id" for path, one in zip(paths, key, strict=True))
    has_text = any(isinstance(one, str) for one in key)
    stats = call.context.store.facts
    is_stored = not has_text or await stats.collation(call.db, call.collection) == BY_BYTES
    if not has_null and is_stored:
        return key
    last = {"_id": {"$eq": key[paths.index("_id")] if id is None else id}}
    keyset = Keyset(last, {SORT_KEY: build_key(order)})
    found = await call.read(Read({}, {"_id": 1}, order, limit=1, keyset=keyset))
    return read_key(found[0][SORT_KEY]) if found and SORT_KEY in found[0] else key


async def _count(call: RestCall) -> list[tuple[str, str]]:
    strategy, total = await count_documents(call)
    return [("X-Total-Count", str(total)), ("X-Count-Strategy", strategy.value)]


def combine(*filters: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """All of the filters that there are."""
    given = [filter for filter in filters if filter]
    if len(given) <= 1:
        return given[0] if given else {}
    return {"$and": given}


async def _post(call: RestCall) -> Answer:
    await call.require_collection()
    content = await read_documents(call.request)
    if isinstance(content, list):
        return await insert_many(call, content)
    return await post_document(call, content)


HANDLERS: Handlers = {
    (ResourceType.COLLECTION, "GET"): list_documents,
    (ResourceType.COLLECTION, "POST"): _post,
}
