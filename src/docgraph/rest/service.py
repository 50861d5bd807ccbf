"""REST service: from request to resource, handler and response.

The table of handlers defines the methods of each resource; each module of the package contributes
its own rows. The handlers check if a collection exists, after the caller was authorized.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from docgraph.codec import decode
from docgraph.config.section import Section
from docgraph.exchange import (
    Answer,
    DataPoint,
    DataRequest,
    DocgraphError,
    EventStreams,
    Exchange,
    Request,
    Resource,
    ResourceType,
)
from docgraph.exchange.errors import NotFound, NotSupported, StoreError, StoreRejected
from docgraph.graphql.sections import Graphql
from docgraph.plugins.check import has_method_for
from docgraph.plugins.kinds import Kind, Service
from docgraph.plugins.registry import PluginRegistry, bound_path
from docgraph.rest.call import Context, GetDryRun, Handlers, RestCall, RestHandler
from docgraph.rest.etags import ConditionUnmet
from docgraph.rest.handlers import (
    aggregations,
    bulk,
    databases,
    documents,
    indexes,
    listing,
    metadata,
    schemas,
    streams,
)
from docgraph.rest.ids import IdType, parse_id, served_segment
from docgraph.rest.parameters import Parameters, parse_parameters
from docgraph.rest.rejections import find_rejection, name_operator
from docgraph.rest.sections import Mongo
from docgraph.runtime import Generations
from docgraph.runtime.sections import Core
from docgraph.store import Store
from docgraph.store.catalog import Catalog, Metadata
from docgraph.store.driver.errors import CollectionGone
from docgraph.store.mounts import Mounts
from docgraph.store.names import check_names
from docgraph.variables import Resolvers

HANDLERS: Handlers = {
    **documents.HANDLERS,
    **listing.HANDLERS,
    **bulk.HANDLERS,
    **databases.HANDLERS,
    **metadata.HANDLERS,
    **indexes.HANDLERS,
    **aggregations.HANDLERS,
    **schemas.HANDLERS,
    **streams.HANDLERS,
}

_SNAPSHOT_PAGES = 10  # a snapshot may have this many times the documents of a query
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_READING = frozenset({"GET", "HEAD"})
_WITHOUT_BODY = frozenset({"GET", "DELETE"})
_TAKEN: dict[ResourceType, tuple[str, ...]] = {
    type: tuple(method for method in _METHODS if (type, method) in HANDLERS)
    for type in ResourceType
}
_OF_STREAMS = frozenset({ResourceType.STREAMS, ResourceType.STREAM})


class MongoService(Service):
    """Serves databases, collections and documents at the paths where they are mounted."""

    name: ClassVar[str] = "mongo"
    description: ClassVar[str] = "the REST API for databases, collections and documents"
    uri: ClassVar[str] = "/"
    methods: ClassVar[tuple[str, ...]] = _METHODS
    takes_entries: ClassVar[bool] = True  # of a batch
    Config = Mongo

    def __init__(  # noqa: PLR0913 - the providers and sections
        self,
        config: Mongo,
        *,
        store: Store,
        registry: PluginRegistry,
        generations: Generations,
        configuration: Mapping[str, Section],
        imagined_requests: GetDryRun,
        core: Core,
        graphql: Graphql,
        event_streams: EventStreams | None = None,
    ) -> None:
        self.max_body_size = config.max_body_size
        self._config = config
        self._parser = RequestParser(config)
        self._registry = registry
        self._configuration = configuration
        ttl = config.local_cache_ttl / 1000 if config.local_cache_enabled else 0.0
        self._context = Context(
            settings=config,
            store=store,
            catalog=Catalog(store, generations, ttl=ttl),
            metadata=Metadata(store, generations, ttl=ttl),
            dry_run=imagined_requests,
            base_url=core.base_url,
            max_snapshot=_SNAPSHOT_PAGES * graphql.max_limit,
            streams=event_streams,
        )

    async def provision(self) -> None:
        """Find the other plugins: interceptors of writes, and paths of other services."""
        writers = self._registry.of_kind(Kind.DATA_INTERCEPTOR)
        others = [
            service for service in self._registry.of_kind(Kind.SERVICE) if service is not self
        ]
        self._context = replace(
            self._context,
            writers=tuple(
                writer for writer in writers if has_method_for(type(writer), DataPoint.BEFORE_WRITE)
            ),
            services=tuple(self._find_path(service) for service in others),
            resolvers=Resolvers(decode, self._registry.of_kind(Kind.VARIABLE_RESOLVER)),
        )

    async def close(self) -> None:
        await self._context.metadata.close()

    def parse(self, exchange: Exchange) -> DataRequest:
        return self._parser.parse(exchange.request)

    def allowed_methods(self, exchange: Exchange) -> Sequence[str]:
        """Return the methods of the resource; a path without one allows any, and is then 404."""
        parsed = exchange.parsed
        if isinstance(parsed, DataRequest):
            resource = parsed.resource
        else:  # OPTIONS is not parsed
            resource = self._parser.locate(exchange.request)
        if resource is None:
            return _METHODS
        if resource.type is ResourceType.AGGREGATION and resource.id is None:
            return ()  # there is no list of aggregations
        if resource.type in _OF_STREAMS and self._context.streams is None:
            return ()
        return _TAKEN[resource.type]

    def time_limit_ms(self, exchange: Exchange) -> int:
        """Return the time limit of queries, for requests that only read."""
        return self._config.query_time_limit if exchange.request.method in _READING else 0

    async def handle(self, exchange: Exchange) -> Answer:
        request, parsed = exchange.request, exchange.parsed
        assert isinstance(parsed, DataRequest)  # noqa: S101 - `parse` made it
        resource, parameters = parsed.resource, parsed.parameters
        assert resource is not None  # noqa: S101 - there is no refusal
        assert isinstance(parameters, Parameters)  # noqa: S101 - `parse` made them
        method = "GET" if request.method == "HEAD" else request.method
        handler = HANDLERS[resource.type, method]
        try:
            return await self._run(handler, RestCall(exchange, resource, parameters, self._context))
        except ConditionUnmet as unmet:
            return unmet.answer
        except (StoreError, NotFound) as error:
            has_body = isinstance(error, StoreRejected) and method not in _WITHOUT_BODY
            content = await request.get_content() if has_body else None
            keys = content if isinstance(content, dict) else ()
            rejection = name_operator(error, request.query_string, keys) or find_rejection(error)
            if rejection is None:
                raise
            raise rejection from error.__cause__

    async def _run(self, handler: RestHandler, call: RestCall) -> Answer:
        """Run the handler; run it again if a collection was dropped in the meantime.

        Then the collection is missing, or a new one exists whose metadata was not read yet.
        """
        try:
            return await handler(call)
        except CollectionGone:
            gone = call.find_id(call.resource)
            self._context.catalog.forget(call.db, call.collection, gone)
            if call.exchange.transaction is not None:
                raise  # a transaction cannot continue; it is retried as a whole
        return await handler(replace(call, checked={}))

    def _find_path(self, service: Service) -> tuple[str, ...]:
        return bound_path(service, self._configuration.get(service.name))


_SESSIONS = "_sessions"


class RequestParser:
    """Parses requests by the mounts and bounds of the configuration.

    Resource, id and parameters are parsed once. That needs only the request and the configuration,
    and runs before authorization. Rules and handlers use the same parsed value.
    """

    def __init__(self, config: Mongo) -> None:
        self._config = config
        self._mounts = Mounts(config.mongo_mounts, config.uri)
        self._defaults = Parameters(pagesize=min(config.default_pagesize, config.max_pagesize))

    def parse(self, request: Request) -> DataRequest:
        """Return the request as it will be executed, or what is wrong with it."""
        segments, resource = request.segments, self.locate(request)
        try:
            if segments[:1] == (_SESSIONS,):  # known regardless of the mounts
                raise NotSupported("sessions and transactions are not supported")
            if resource is None:
                raise NotFound(
                    f"No MongoDB resource bound for {request.path}",
                    hint="mongo.mongo-mounts lists the databases and collections that are served",
                )
            check_names(resource)
            parameters = self._defaults
            if request.query_string:
                parameters = parse_parameters(request.query, self._config, self._defaults)
            if resource.type is not ResourceType.DOCUMENT:
                return DataRequest(None, resource, segments, parameters=parameters)
            return self._identify(resource, segments, parameters)
        except DocgraphError as error:
            return DataRequest(error, resource, segments, parameters=self._defaults)

    def _identify(
        self, resource: Resource, segments: tuple[str, ...], parameters: Parameters
    ) -> DataRequest:
        """Return the document with its typed id; callers cannot change the type of a mounted id."""
        text = resource.id
        usual = id = parse_id(text)
        if not self._mounts.names_document(segments):
            if parameters.id_type is not IdType.STRING_OID:
                id = parse_id(text, parameters.id_type)
            segments = (*segments[:-1], served_segment(text, id))
        resource = Resource(resource.type, resource.db, resource.collection, id)
        is_retyped = type(id) is not type(usual) or id != usual
        return DataRequest(None, resource, segments, is_retyped, parameters)

    def locate(self, request: Request) -> Resource | None:
        """Return the resource of the path, with the raw id; None: nothing is mounted there."""
        if request.segments[:1] == (_SESSIONS,):
            return None
        return self._mounts.resolve(request.segments, request.headers.get("host") or "")
