"""Lists of names: databases at the root, collections of a database, with pagination."""

from __future__ import annotations

from collections.abc import Sequence

from docgraph.exchange import Answer, ResourceType
from docgraph.rest.call import Handlers, RestCall
from docgraph.rest.links import next_page
from docgraph.rest.writes.etags import etag_headers


async def _list_databases(call: RestCall) -> Answer:
    return _page(call, await call.context.catalog.list_databases(call.exchange.deadline), [])


async def _list_collections(call: RestCall) -> Answer:
    await call.require_database()
    metadata = await call.find_metadata(None)
    names = await call.context.catalog.list_collections(call.db, call.exchange.deadline)
    return _page(call, names, etag_headers(metadata))


def _page(call: RestCall, names: Sequence[str], headers: list[tuple[str, str]]) -> Answer:
    parameters = call.parameters
    end = parameters.skip + parameters.pagesize
    if call.parameters.count is not None:
        headers += [("X-Total-Count", str(len(names))), ("X-Count-Strategy", "exact")]
    if parameters.pagesize and end < len(names):
        headers.append(next_page(call.request, page=str(parameters.page + 1)))
    return call.answer(names[parameters.skip : end], headers)


HANDLERS: Handlers = {
    (ResourceType.ROOT, "GET"): _list_databases,
    (ResourceType.DATABASE, "GET"): _list_collections,
}
