"""The list of streams: those of a collection that the caller may open, by a dry run of each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from itertools import islice
from typing import Any, ClassVar, Final

from docgraph.codec import as_meant
from docgraph.config.section import PluginConfig
from docgraph.exchange import Answer, DataRequest, Exchange, Resource, ResourceType
from docgraph.exchange.request import encode_path
from docgraph.plugins.kinds import Authorizer, Decision
from docgraph.rest.call import GetDryRun, RestCall
from docgraph.rest.sections import Mongo
from docgraph.rest.stream_definitions import StreamDefinition, list_streams
from docgraph.runtime import Generations
from docgraph.store import Store
from docgraph.store.catalog import Metadata


async def list_open_streams(call: RestCall) -> Answer:
    await call.require_collection()
    metadata = await call.find_metadata(call.collection)
    streams = find_open_streams(metadata, call.exchange, call.context.dry_run)
    return call.answer([stream.describe() async for stream in streams])


MAX_LISTED: Final = 100  # streams of a collection: each costs an evaluation of the rules
_AT_ONCE: Final = 16

_NOT_A_LIST: Final = Decision(False, "not a list of change streams")

_NONE_OPEN: Final = Decision(False, "the caller may open no change stream of the collection")

_APPROVED: Final = Decision(True, "the caller may open a change stream of the collection")


async def find_open_streams(
    metadata: Mapping[str, Any] | None, exchange: Exchange, dry_run: GetDryRun
) -> AsyncIterator[StreamDefinition]:
    """Yield the streams in the metadata that the caller of a request for the list may open.

    The list of a collection needs no rule of its own (decision 42). Each stream of the collection
    is authorized as if the caller opened it. A caller who may open none, and has no rule for the
    list, is rejected as at the path of a stream: with the same status whether the collection exists
    or not.
    """
    segments = exchange.request.segments
    for number, stream in enumerate(islice(list_streams(as_meant(metadata or {})), MAX_LISTED)):
        if number and number % _AT_ONCE == 0:
            await asyncio.sleep(0)  # let other tasks run
        path = encode_path((*segments, stream.uri))
        service, decision = await dry_run.decide_get(exchange, path)
        if decision is not None and service == exchange.service:
            yield stream


class StreamListAllower(Authorizer):
    """Approves the list of streams for callers who may open one of them.

    It reads metadata for callers without permissions, so it has a cache of its own: they cannot
    displace what other requests need. Missing metadata is cached as well, so that both cases take
    the same time.
    """

    name: ClassVar[str] = "streamLists"
    description: ClassVar[str] = "approves the list of change streams that a caller may open"
    part_of: ClassVar[str] = "mongo"
    priority: ClassVar[int] = 200  # after the rules, whose approvals cost less

    def __init__(
        self,
        config: PluginConfig,
        *,
        store: Store,
        generations: Generations,
        mongo: Mongo,
        imagined_requests: GetDryRun,
    ) -> None:
        ttl = mongo.local_cache_ttl / 1000 if mongo.local_cache_enabled else 0.0
        self._metadata = Metadata(store, generations, ttl=ttl)
        self._dry_run = imagined_requests

    async def close(self) -> None:
        await self._metadata.close()

    @property
    def is_idle(self) -> bool:
        """Whether it approves nothing by itself: it needs the approval of another allower."""
        return True

    def requires_authentication(self, exchange: Exchange) -> bool:
        """Return whether a login is needed: not for a list, rules decide about each stream."""
        return _find_list(exchange) is None

    async def decide(self, exchange: Exchange) -> Decision:
        """Approve a list with at least one stream that the caller may open."""
        resource = _find_list(exchange)
        if resource is None:
            return _NOT_A_LIST
        assert resource.db is not None  # noqa: S101 - a collection has one
        metadata = await self._metadata.find(resource.db, resource.collection)
        async for _ in find_open_streams(metadata, exchange, self._dry_run):
            return _APPROVED
        return _NONE_OPEN


def _find_list(exchange: Exchange) -> Resource | None:
    """Return the resource of a GET of a list of streams; None for all other requests."""
    parsed = exchange.parsed
    if exchange.request.method not in ("GET", "HEAD") or not isinstance(parsed, DataRequest):
        return None
    resource = parsed.resource
    if parsed.refusal is not None or resource is None or resource.type is not ResourceType.STREAMS:
        return None
    return resource
