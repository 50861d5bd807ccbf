"""Request parsing of the REST API: resource, id and parameters, parsed once.

It needs only the request and the configuration, and runs before authorization. Rules and handlers
use the same parsed value.
"""

from __future__ import annotations

from docgraph.exchange import DataRequest, DocgraphError, Request, Resource, ResourceType
from docgraph.exchange.errors import NotFound, NotSupported
from docgraph.rest.parameters.ids import IdType, parse_id, served_segment
from docgraph.rest.parameters.parameters import Parameters, parse_parameters
from docgraph.rest.sections import Mongo
from docgraph.store.mounts import Mounts, check_names

_SESSIONS = "_sessions"


class RequestParser:
    """Parses requests by the mounts and bounds of the configuration."""

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
