"""Indexes of a collection: list, create and drop. They cannot be changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from docgraph.codec.pieces import check_size
from docgraph.exchange import Answer, Body, Document, ResourceType
from docgraph.exchange.errors import (
    Conflict,
    NotFound,
    QueryError,
    RequestError,
    StoreError,
    StoreRejected,
)
from docgraph.rest.call import Handlers, RestCall, read_object
from docgraph.rest.etags import find_exclusion
from docgraph.store.administration import Administration

_OPTIONS: Final = frozenset(
    (
        "2dsphereIndexVersion bits collation default_language expireAfterSeconds hidden "
        "language_override max min partialFilterExpression sparse storageEngine "
        "textIndexVersion unique weights wildcardProjection"
    ).split()
)
# `background` has no effect since MongoDB 4.2, and the name is that of the path.
_IGNORED: Final = frozenset({"background", "name"})
_COLLATION: Final = {
    "collationAlternate": "alternate",
    "collationCaseFirst": "caseFirst",
    "collationMaxVariable": "maxVariable",
    "collationStrength": "strength",
}


class DefaultIndex(RequestError):
    """An index that the collection cannot exist without."""

    status: ClassVar[int] = 403
    code: ClassVar[str] = "default-index"


async def _list(call: RestCall) -> Answer:
    await call.require_collection()
    administration = _administration(call)
    indexes = await administration.list_indexes(call.db, call.collection, call.exchange.deadline)
    return call.answer([_render(index) for index in indexes])


def _administration(call: RestCall) -> Administration:
    return Administration(call.context.store, call.parameters.write_concern)


def _render(index: Mapping[str, Any]) -> Document:
    shown = {key: value for key, value in index.items() if key not in ("name", "ns")}
    return {**shown, "_id": index["name"]}


async def _put(call: RestCall) -> Answer:
    name = call.resource.id
    if name.startswith("_"):
        raise RequestError("index name cannot start with _")
    await call.require_collection()
    keys, options = read_index(await read_object(call.request))
    if await _is_unwanted(call):
        return Body(412)
    try:
        is_made = await _administration(call).create_index(
            call.db,
            call.collection,
            name,
            keys,
            options,
            exchange=call.exchange,
            collection_id=call.find_id(call.resource),
        )
    except (StoreError, Conflict, QueryError) as error:
        if type(error) not in (StoreError, StoreRejected, Conflict, QueryError):
            raise
        raise RequestError(f"error creating the index: {error.message}", hint=error.hint) from error
    # Another caller may have created it since the check.
    return Body(201 if is_made or not _wants_none(call) else 412)


def _wants_none(call: RestCall) -> bool:
    """Check if the request requires that the index does not exist: `If-None-Match: *`."""
    condition = find_exclusion(call.request.headers)
    return condition is not None and condition.excludes(None)


async def _is_unwanted(call: RestCall) -> bool:
    if not _wants_none(call):
        return False
    administration = _administration(call)
    indexes = await administration.list_indexes(call.db, call.collection, call.exchange.deadline)
    return any(index["name"] == call.resource.id for index in indexes)


def read_index(body: Mapping[str, Any]) -> tuple[Document, Document]:
    """Return the keys and options of an index, as the database expects them."""
    check_size(body, "the index")
    keys, given = body.get("keys"), body.get("ops", {})
    if not isinstance(keys, dict) or not keys:
        raise RequestError("keys must be a json object", hint='such as {"keys": {"name": 1}}')
    if not isinstance(given, dict):
        raise RequestError("ops must be a json object")
    options = {key: value for key, value in given.items() if key not in _IGNORED}
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown:
        raise RequestError(
            f"the option '{unknown[0]}' of an index is not known",
            hint=f"known are {', '.join(sorted(_OPTIONS))}",
        )
    collation = options.get("collation")
    if isinstance(collation, dict):
        options["collation"] = {_COLLATION.get(key, key): value for key, value in collation.items()}
    return keys, options


async def _delete(call: RestCall) -> Answer:
    name = call.resource.id
    if name.startswith("_"):
        raise DefaultIndex(f"{name} is a default index and cannot be deleted")
    await call.require_collection()
    if await _is_unwanted(call):
        return Body(412)
    try:
        await _administration(call).drop_index(call.db, call.collection, name)
    except NotFound:
        raise NotFound(f"index '{name}' does not exist") from None
    return Body(204)


HANDLERS: Handlers = {
    (ResourceType.INDEXES, "GET"): _list,
    (ResourceType.INDEX, "PUT"): _put,
    (ResourceType.INDEX, "DELETE"): _delete,
}
