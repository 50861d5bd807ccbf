"""Counts: documents of a collection, collections of a database, databases."""

from __future__ import annotations

from docgraph.exchange import Answer, ResourceType
from docgraph.rest.call import Handlers, RestCall
from docgraph.rest.parameters.parameters import Count
from docgraph.rest.writes.etags import etag_headers
from docgraph.store.catalog import Inventory


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
    is_given = parameters.shardkey is not None or parameters.filter is not None
    has_rows = (call.rows or {}).get(f"{call.db}.{call.collection}")
    account = call.exchange.account
    hidden = call.context.store.guard.unnamed(call.db, call.collection, account)
    return not (is_given or is_narrow or has_rows or hidden)


async def count_documents(call: RestCall) -> tuple[Count, int]:
    """Return the number of matching documents and the method; an estimate ignores filters."""
    parameters = call.parameters
    given = [one for one in (parameters.shardkey, parameters.filter) if one is not None]
    row = (call.rows or {}).get(f"{call.db}.{call.collection}")
    if parameters.count is Count.ESTIMATED and not given and not row:
        catalog, deadline = call.context.catalog, call.exchange.deadline
        return Count.ESTIMATED, await catalog.estimate(
            call.db, call.collection, deadline, call.consistency
        )
    return Count.EXACT, await call.count({"$and": given} if given else {})


HANDLERS: Handlers = {(ResourceType.SIZE, "GET"): _get_size}
