"""The schema store, `/_schemas`, and the schemas in it.

Schemas are documents and are handled as such. Two things are different: `$oid` and `$date` can be
names like any other in their bodies, and their keys are stored escaped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from docgraph.codec import decode, decode_json, escape_keys
from docgraph.codec.pieces import check_size
from docgraph.codec.request_body import read_documents
from docgraph.exchange import Answer, Document, Resource, ResourceType
from docgraph.exchange.errors import BodyError, RequestError
from docgraph.exchange.request import Request
from docgraph.rest.call import Handlers, RestCall, RestHandler
from docgraph.rest.handlers import documents
from docgraph.rest.handlers.bulk import insert_many
from docgraph.rest.handlers.listing import list_documents
from docgraph.rest.ids import parse_id
from docgraph.rest.single import post_document, put_document


async def _post(call: RestCall) -> Answer:
    await call.require_collection()
    content = await _read_schemas(call.request)
    if isinstance(content, list):
        return await insert_many(call, content)
    return await post_document(call, content)


async def _put(call: RestCall) -> Answer:
    await call.require_collection()
    content = await _read_schemas(call.request)
    if isinstance(content, list):
        raise RequestError("request content must be a Json object")
    return await put_document(_as_document(call), content)


def _by(handler: RestHandler) -> RestHandler:
    async def handle(call: RestCall) -> Answer:
        return await handler(_as_document(call))

    return handle


def _as_document(call: RestCall) -> RestCall:
    """Return the request as one for the schema document in its collection."""
    id = parse_id(call.resource.id, call.parameters.id_type)
    resource = Resource(ResourceType.DOCUMENT, call.resource.db, call.resource.collection, id)
    return replace(call, resource=resource)


async def _read_schemas(request: Request) -> Document | list[Document]:
    """Return the body with escaped keys, so that `$schema` is not read as an operator."""
    content = await _read(request)
    check_size(content, "the schema")
    if isinstance(content, list):
        return [_escape(schema) for schema in content]
    return _escape(content)


async def _read(request: Request) -> Any:
    """Return the body parsed as extended JSON; as plain JSON if that fails."""
    try:
        return await read_documents(request)
    except BodyError as error:
        plain = await request.run(_parse_plain)
        if plain is None:
            raise error from None
        return plain


def _parse_plain(body: bytes, _: str) -> Document | list[Document] | None:
    """Return the schemas of a JSON body, in which `$oid` and `$date` are ordinary names."""
    try:
        content: Any = decode_json(body)
    except BodyError:
        return None
    several = content if isinstance(content, list) else [content]
    return content if all(isinstance(schema, dict) for schema in several) else None


def _escape(schema: Document) -> Document:
    escaped = escape_keys(schema)
    if isinstance(schema.get("_id"), dict):
        escaped["_id"] = decode(orjson.dumps(schema["_id"]))  # an ObjectId, most likely
    return escaped


HANDLERS: Handlers = {
    (ResourceType.SCHEMA_STORE, "GET"): list_documents,
    (ResourceType.SCHEMA_STORE, "POST"): _post,
    (ResourceType.SCHEMA, "GET"): _by(documents.HANDLERS[ResourceType.DOCUMENT, "GET"]),
    (ResourceType.SCHEMA, "PUT"): _put,
    (ResourceType.SCHEMA, "DELETE"): _by(documents.HANDLERS[ResourceType.DOCUMENT, "DELETE"]),
}
