"""Route templates for tracing spans: a small set, without any text that a caller wrote."""

from __future__ import annotations

from typing import Final

from docgraph.exchange import DataRequest, Exchange, ResourceType

_DATABASE: Final = "{database}"
_COLLECTION: Final = f"{_DATABASE}/{{collection}}"
_PLACES: Final = {
    ResourceType.ROOT: "",
    ResourceType.DATABASE: _DATABASE,
    ResourceType.COLLECTION: _COLLECTION,
    ResourceType.DOCUMENT: f"{_COLLECTION}/{{document}}",
    ResourceType.BULK: f"{_COLLECTION}/*",
    ResourceType.INDEXES: f"{_COLLECTION}/_indexes",
    ResourceType.INDEX: f"{_COLLECTION}/_indexes/{{index}}",
    ResourceType.AGGREGATION: f"{_COLLECTION}/_aggrs/{{aggregation}}",
    ResourceType.STREAMS: f"{_COLLECTION}/_streams",
    ResourceType.STREAM: f"{_COLLECTION}/_streams/{{stream}}",
    ResourceType.SCHEMA_STORE: f"{_DATABASE}/_schemas",
    ResourceType.SCHEMA: f"{_DATABASE}/_schemas/{{schema}}",
}


def describe_route(exchange: Exchange) -> str:
    """Return the path of the service, and the kind of the rest; empty for no service.

    Paths of the REST API are shown as if nothing were mounted elsewhere: the configuration decides
    how many segments of a mount are names of databases.
    """
    prefix = exchange.route
    if prefix is None:
        return ""
    parts = [*prefix, rest] if (rest := _describe_rest(exchange, len(prefix))) else prefix
    return "/" + "/".join(parts)


def _describe_rest(exchange: Exchange, bound: int) -> str:
    parsed = exchange.parsed
    if isinstance(parsed, DataRequest):
        resource = parsed.resource
        return "{path}" if resource is None else _PLACES.get(resource.type, "{path}")
    if len(exchange.request.segments) <= bound:
        return ""
    return "{app}" if exchange.app else "{path}"
