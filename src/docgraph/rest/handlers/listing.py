"""Documents of a collection: pages (keyset or offset pagination), counts, POST of documents."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any, Final

from docgraph.codec.csv_table import MAX_SAMPLE
from docgraph.codec.keyset import (
    SortKey,
    behind,
    build_key,
    check_order,
    is_doubtful,
    match_key,
    read_key,
)
from docgraph.codec.request_body import read_documents
from docgraph.exchange import Answer, Body, Document, Read, ResourceType, Stream
from docgraph.exchange.data import SORT_KEY, Keyset
from docgraph.exchange.errors import RequestError
from docgraph.exchange.parsed import SortOrder
from docgraph.rest.call import Handlers, RestCall
from docgraph.rest.etags import etag_headers
from docgraph.rest.handlers.bulk import insert_many
from docgraph.rest.ids import next_page
from docgraph.rest.page_tokens import PageStart, parse_token, render_token
from docgraph.rest.parameters import Count
from docgraph.rest.single import post_document
from docgraph.rest.streamed_lists import VARY, CsvList, JsonList, csv_headers
from docgraph.runtime.tasks import concurrently
from docgraph.store.catalog import Inventory
from docgraph.store.collection_stats import BY_BYTES
from docgraph.store.driver.lenient_decode import is_readable
from docgraph.store.names import namespace_of


async def _get_size(call: RestCall) -> Answer:
    catalog, deadline = call.context.catalog, call.exchange.deadline
    if call.resource.db is None:
        return call.answer({"_size": len(await catalog.list_databases(deadline))})
    if call.resource.collection is None:
        await call.require_database()
        return call.answer({"_size": len(await catalog.list_collections(call.db, deadline))})
    await call.require_collection()
    headers = etag_headers(await call.find_metadata(call.collection))
    strategy, size = await count_documents(call)
    content = {"_size": size}
    if call.parameters.bytes and _is_whole(call):
        inventory = Inventory(call.context.store)
        measure = await inventory.measure(call.db, call.collection, deadline)
        if measure.bytes is not None:
            content["_bytes"] = measure.bytes
    return call.answer(content, [*headers, ("X-Count-Strategy", strategy.value)])


def _is_whole(call: RestCall) -> bool:
    """Check if the request counts all documents, and no rule hides a part of them."""
    parameters, permission = call.parameters, call.exchange.permission
    is_narrow = permission is not None and permission.project_response is not None
    has_rows = (call.rows or {}).get(f"{call.db}.{call.collection}")
    account = call.exchange.account
    hidden = call.context.store.guard.unnamed(call.db, call.collection, account)
    return not (parameters.restriction or is_narrow or has_rows or hidden)


async def count_documents(call: RestCall) -> tuple[Count, int]:
    """Return the number of matching documents and the method; an estimate ignores filters."""
    parameters = call.parameters
    given = parameters.restriction
    place = (call.db, call.collection)
    row = (call.rows or {}).get(namespace_of(*place))
    if parameters.count is Count.ESTIMATED and not given and not row:
        deadline, consistency = call.exchange.deadline, call.consistency
        views, comment = call.context.store.reads.views, {"request": call.exchange.id}
        check = await views.check(call.rows, [place], deadline, consistency, comment)
        size = await call.context.catalog.estimate(*place, deadline, consistency)
        if check is not None:
            await check.confirm()
        return Count.ESTIMATED, size
    return Count.EXACT, await call.count({"$and": given} if given else {})


def with_tiebreak(order: SortOrder) -> SortOrder:
    """Return the order with `_id` at its end, in the direction of the last key."""
    if obstacle := check_order(order):
        hint = None if "$meta" in obstacle else "use page instead of after"
        raise RequestError(f"after cannot be used with {obstacle}", hint=hint)
    if any(path == "_id" for path, _ in order):
        return order
    return (*order, ("_id", order[-1][1] if order else -1))


_NEWEST_FIRST: Final[SortOrder] = (("_id", -1),)


@dataclass(frozen=True, slots=True)
class _Page:
    """The documents of a page, and the header that leads to the next one."""

    documents: JsonList | CsvList
    next: tuple[str, str] | None = None


async def list_documents(call: RestCall) -> Answer:
    """Return a page of documents, newest first by default."""
    await call.require_collection()
    if call.wants_csv:
        headers = csv_headers(call.collection)
    else:
        headers = [*etag_headers(await call.find_metadata(call.collection)), VARY]
    # A long page is sent while it is read; with `after`, its `Link` depends on its end.
    parameters = call.parameters
    if call.wants_csv and parameters.pagesize > MAX_SAMPLE and parameters.after is None:
        if parameters.count is not None:
            headers += await _count(call)
        order = _NEWEST_FIRST if parameters.sort is None else parameters.sort
        export = call.open_export()
        read = call.read(_build_read(call, order), export.add)
        answer = await export.answer(read, headers)
        if isinstance(answer, Stream) or export.count >= parameters.pagesize:
            answer.headers.append(next_page(call.request, page=str(parameters.page + 1)))
        return answer
    if parameters.count is None:
        page = await _read_page(call)
    else:
        calls: list[Coroutine[Any, Any, Any]] = [_read_page(call), _count(call)]
        page, counted = await concurrently(calls)
        headers += counted
    if page.next is not None:
        headers.append(page.next)
    return Body(200, page.documents.render(), page.documents.media_type, headers)


async def _read_page(call: RestCall) -> _Page:
    parameters, documents = call.parameters, call.open_list()
    if parameters.pagesize == 0:
        return _Page(documents)
    order = _NEWEST_FIRST if parameters.sort is None else parameters.sort
    if parameters.after is not None:
        return await _read_keyset_page(call, with_tiebreak(order), parameters.after)
    await call.read(_build_read(call, order), documents.receiver)
    if documents.count < parameters.pagesize:
        return _Page(documents)
    last = await documents.find_last() if order == _NEWEST_FIRST else {}
    if "_id" in last and is_readable(last["_id"]):
        token = render_token(order, PageStart([last["_id"]]))
        return _Page(documents, next_page(call.request, after=token))
    return _Page(documents, next_page(call.request, page=str(parameters.page + 1)))


def _build_read(call: RestCall, order: SortOrder) -> Read:
    parameters = call.parameters
    filters = parameters.restriction
    return Read(
        filter={"$and": filters} if len(filters) > 1 else filters[0] if filters else {},
        projection=parameters.keys,
        sort=order,
        skip=parameters.skip,
        limit=parameters.pagesize,
        hint=parameters.hint,
    )


async def _read_keyset_page(call: RestCall, order: SortOrder, token: str) -> _Page:
    """Return the page after the token; the database returns the sort keys, too."""
    place = parse_token(order, token) if token else PageStart()
    parts = [None] if place.key is None else behind(order, place.key)
    size = call.parameters.pagesize + place.skip
    shown = call.open_list()
    keys: list[SortKey] = []  # of all documents, also of those that are not shown
    ids: list[Any] = []

    async def add(portion: list[Document]) -> None:
        begin = max(0, place.skip - len(keys))
        ids.extend(document.get("_id") for document in portion)
        keys.extend(document.pop(SORT_KEY, None) for document in portion)
        await shown.add(portion[begin:])

    read = _build_read(call, order)
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
    call: RestCall, order: SortOrder, keys: list[SortKey], ids: list[Any], begin: PageStart
) -> PageStart:
    """Return the position after the last key, or after the last one that a filter can express."""
    for skip, key in enumerate(reversed(keys)):
        if not is_readable(key) or (skip and is_doubtful(key)):
            continue
        stored = await _find_stored(call, order, key, ids[-1 - skip])
        if not is_doubtful(stored) or await _is_exact(call, order, stored):
            return PageStart(stored, skip)
    return PageStart(begin.key, len(keys))


async def _is_exact(call: RestCall, order: SortOrder, key: SortKey) -> bool:
    """Check if the database has this very key; only the last one of a page is looked up."""
    keyset = Keyset(match_key(order, key), {})
    return bool(await call.read(Read({}, {"_id": 1}, order, limit=1, keyset=keyset)))


async def _find_stored(call: RestCall, order: SortOrder, key: SortKey, id: Any) -> SortKey:
    """Return the sort key with the stored values.

    The driver reads empty arrays and nulls as None, and with a collation the texts of a sort key
    are those that it compares, also that of `_id`.
    """
    paths = [path for path, _ in order]
    has_null = any(value is None and path != "_id" for path, value in zip(paths, key, strict=True))
    has_text = any(isinstance(value, str) for value in key)
    stats = call.context.store.stats
    is_stored = not has_text or await stats.collation(call.db, call.collection) == BY_BYTES
    if not has_null and is_stored:
        return key
    last = {"_id": {"$eq": key[paths.index("_id")] if id is None else id}}
    keyset = Keyset(last, {SORT_KEY: build_key(order)})
    documents = await call.read(Read({}, {"_id": 1}, order, limit=1, keyset=keyset))
    return read_key(documents[0][SORT_KEY]) if documents and SORT_KEY in documents[0] else key


async def _count(call: RestCall) -> list[tuple[str, str]]:
    strategy, total = await count_documents(call)
    return [("X-Total-Count", str(total)), ("X-Count-Strategy", strategy.value)]


async def _post(call: RestCall) -> Answer:
    await call.require_collection()
    content = await read_documents(call.request)
    if isinstance(content, list):
        return await insert_many(call, content)
    return await post_document(call, content)


HANDLERS: Handlers = {
    (ResourceType.COLLECTION, "GET"): list_documents,
    (ResourceType.COLLECTION, "POST"): _post,
    (ResourceType.SIZE, "GET"): _get_size,
}
