"""OpenAPI 3.1 document from the configuration and the existing resources.

Pure: the same input gives the same document.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from docgraph import __version__
from docgraph.exchange import Document, ResourceType
from docgraph.graphql.definition.definition_schema import build_json_schema
from docgraph.openapi.components import (
    BODIES,
    GRAPHQL_BODIES,
    HEADERS,
    JSON,
    OPERATIONS,
    RESPONSES,
    SCHEMAS,
    OperationSpec,
    build_parameters,
    build_responses,
    documents_of,
    refer,
)
from docgraph.openapi.described_resources import SchemaKey, Survey, convert_schema, name_component
from docgraph.openapi.endpoints import Endpoint, Mounted, find_endpoints
from docgraph.openapi.services import Bound, describe_apps, describe_service
from docgraph.rest.aggregation_variables import find_variables
from docgraph.rest.sections import Mongo
from docgraph.variables import parse_path

_VARIABLE = re.compile(r"\{[^{}/]+\}")
_PATH_PARAMETERS: Final = frozenset({"db", "collection", "id", "name", "aggregation", "stream"})
_OF_STREAMS: Final = frozenset({ResourceType.STREAMS, ResourceType.STREAM})
_SHAPED: Final = frozenset({"Page", "One"})
_REFUSED: Final = "Refused (501): the documents of this collection are checked as a whole"
_APP = "AppDefinition"  # cannot collide with a schema of the store: those have a dot in their names
_ABOUT: Final = (
    "Databases, collections and documents, the GraphQL apps and the services of this instance. "
    "Which caller may do what is decided by its permissions. Every resource that takes GET takes "
    "HEAD, and every resource takes OPTIONS. Input is MongoDB's extended JSON, read leniently."
)


@dataclass(frozen=True, slots=True)
class DescribedServices:
    """The input of the description."""

    title: str
    settings: Mongo | None  # None: the REST API is off
    mounts: tuple[Mounted, ...] = ()
    survey: Survey = field(default_factory=Survey)
    services: tuple[Bound, ...] = ()
    security: Mapping[str, Document] = field(default_factory=dict)
    has_streams: bool = True
    base_url: str | None = None


def build_document(facts: DescribedServices) -> Document:
    names: dict[SchemaKey, str] = {}
    for key in facts.survey.schemas:
        names[key] = name_component(key, {**SCHEMAS, **dict.fromkeys(names.values())})
    paths = _Paths()
    for service in facts.services:
        described = [*describe_service(service).items()]
        if service.name == "graphql":
            described += describe_apps(service, facts.survey.apps).items()
        for path, item in described:
            paths.add(path, item)
    for mount in facts.mounts if facts.settings is not None else ():
        for endpoint in find_endpoints(mount, facts.survey.collections):
            if endpoint.type not in _OF_STREAMS or facts.has_streams:
                paths.add(endpoint.path, _describe_endpoint(endpoint, facts.survey, names))
    left_out = facts.survey.left_out
    return {
        "openapi": "3.1.0",
        "info": {"title": facts.title, "version": __version__, "description": _ABOUT},
        "servers": [{"url": facts.base_url or "/"}],
        # Requests without credentials are possible; permissions decide about them.
        "security": [*({name: []} for name in facts.security), {}],
        "tags": paths.tags,
        "paths": paths.items,
        "components": _build_components(facts, names),
        **({"x-docgraph-collections-left-out": left_out} if left_out else {}),
    }


class _Paths:
    """Path items in insertion order; of two equivalent ones the first counts."""

    def __init__(self) -> None:
        self.items: dict[str, Document] = {}
        self._shapes: set[str] = set()
        self._ids: set[str] = set()

    def add(self, path: str, item: Document) -> None:
        """Add a path; a template with other variable names is the same path."""
        shape = _VARIABLE.sub("{}", path)
        if shape in self._shapes:
            return
        self._shapes.add(shape)
        self.items[path] = {
            key: {"operationId": self._name(key, path), **value}
            if isinstance(value, dict)
            else value
            for key, value in item.items()
        }

    def _name(self, method: str, path: str) -> str:
        name = wanted = re.sub(r"\W+", "_", f"{method}{path.replace('*', 'many')}").strip("_")
        number = 2
        while name in self._ids:
            name, number = f"{wanted}_{number}", number + 1
        self._ids.add(name)
        return name

    @property
    def tags(self) -> list[Document]:
        names = dict.fromkeys(
            tag
            for item in self.items.values()
            for operation in item.values()
            if isinstance(operation, dict)
            for tag in operation["tags"]
        )
        return [{"name": name} for name in names]


def _describe_endpoint(
    endpoint: Endpoint, survey: Survey, names: Mapping[SchemaKey, str]
) -> Document:
    item: Document = {}
    if endpoint.parameters:
        text = {"type": "string", "minLength": 1}
        item["parameters"] = [
            refer("parameters", name)
            if name in _PATH_PARAMETERS
            else {"name": name, "in": "path", "required": True, "schema": text}
            for name in endpoint.parameters
        ]
    collection, name = endpoint.collection, None
    if collection is not None:
        key = survey.schema_of.get((collection.db, collection.name))
        name = None if key is None else names.get(key)
    shape = None if name is None else refer("schemas", name)
    refuses_patch = collection is not None and not collection.takes_bulk_patch
    for method, operation in OPERATIONS[endpoint.type].items():
        if refuses_patch and endpoint.type is ResourceType.BULK and method == "PATCH":
            # The resource has the method, but the collection rejects every such request.
            operation = replace(operation, summary=_REFUSED, answers={})  # noqa: PLW2901
        described: Document = {
            "tags": [_tag_of(endpoint)],
            "summary": _summarise(endpoint, operation),
            "parameters": _describe_parameters(endpoint, operation, survey),
        }
        if operation.body is not None:
            described["requestBody"] = _describe_body(endpoint, operation.body, shape)
        described["responses"] = _describe_responses(endpoint, operation, shape)
        item[method.lower()] = described
    return item


def _describe_parameters(
    endpoint: Endpoint, operation: OperationSpec, survey: Survey
) -> list[Document]:
    """Return the parameters of the operation; stored aggregations and streams have variables."""
    parameters = [refer("parameters", name) for name in operation.parameters]
    collection = endpoint.collection
    if collection is None:
        return parameters
    if endpoint.aggregation is not None:
        stages = survey.aggregations[collection.db, collection.name, endpoint.aggregation].stages
        parameters[operation.parameters.index("avars")] = _describe_variables(stages.source)
    if endpoint.stream is not None:
        stream = survey.streams[collection.db, collection.name, endpoint.stream]
        parameters[operation.parameters.index("avars")] = _describe_variables(*stream.sources)
        allowed = {"snapshot": stream.snapshot is not None, "before": stream.before}
        for name in [name for name, is_allowed in allowed.items() if not is_allowed]:
            parameters.remove(refer("parameters", name))
        if stream.notify_parameter:  # by which a client selects events
            path = ".".join(stream.notify_path)
            text = f"only events that have this text at `{path}`; all of them without it"
            schema = {"type": "string"}
            described = {"name": stream.notify_parameter, "in": "query", "description": text}
            parameters.append({**described, "schema": schema})
    return parameters


def _tag_of(endpoint: Endpoint) -> str:
    if endpoint.collection is not None:
        return endpoint.collection.name
    match endpoint.type:
        case ResourceType.ROOT:
            return "databases"
        case ResourceType.DATABASE:
            return "database"
        case ResourceType.SCHEMA_STORE | ResourceType.SCHEMA:
            return "JSON schemas"
        case ResourceType.SIZE | ResourceType.METADATA if endpoint.of != "collection":
            return {"schema store": "JSON schemas", "root": "databases"}.get(
                endpoint.of, endpoint.of
            )
    return "any collection"


def _summarise(endpoint: Endpoint, operation: OperationSpec) -> str:
    match endpoint.type:
        case ResourceType.SIZE:
            kinds = {"root": "databases", "database": "collections", "schema store": "schemas"}
            return f"How many {kinds.get(endpoint.of, 'documents')} there are"
        case ResourceType.METADATA:
            return f"The metadata of the {endpoint.of}"
        case ResourceType.AGGREGATION if endpoint.aggregation is not None:
            return f"Run the aggregation {endpoint.aggregation}"
        case ResourceType.STREAM if endpoint.stream is not None:
            return f"Follow the change stream {endpoint.stream}"
    return operation.summary


def _describe_body(endpoint: Endpoint, name: str, shape: Document | None) -> Document:
    if name == "Changes" and endpoint.collection and not endpoint.collection.takes_pipelines:
        return refer("requestBodies", "BulkChanges")
    if shape is None or name not in ("Document", "Documents"):
        return refer("requestBodies", name)
    schema = shape if name == "Document" else documents_of(shape)
    general = BODIES[name]
    return {**general, "content": {**general["content"], JSON: {"schema": schema}}}


def _describe_responses(
    endpoint: Endpoint, operation: OperationSpec, shape: Document | None
) -> Document:
    # With `keys`, or stored by other means, a document need not match the schema.
    item = {"anyOf": [shape, refer("schemas", "Document")]} if shape else None
    shaped = build_responses(item) if item else {}
    statuses = operation.statuses
    if endpoint.of == "root":
        statuses.pop(404, None)
    return {
        str(status): shaped[name]
        if name in shaped and name in _SHAPED
        else refer("responses", name)
        for status, name in statuses.items()
    }


def _describe_variables(*sources: Any) -> Document:
    """Return the parameter `avars` with the names that the stages use."""
    heads: dict[str, bool] = {}
    for variable in find_variables(*sources):
        head = parse_path(variable.name)[0]
        heads[head] = heads.get(head, False) or variable.is_required
    schema: Document = {"type": "object", "properties": {head: {} for head in sorted(heads)}}
    required = sorted(head for head, is_required in heads.items() if is_required)
    if required:
        schema["required"] = required
    return {
        "name": "avars",
        "in": "query",
        "description": "the variables of the stages",
        "required": bool(required),
        "content": {JSON: {"schema": schema}},
    }


def _build_components(facts: DescribedServices, names: Mapping[SchemaKey, str]) -> Document:
    components: dict[str, dict[str, Any]] = {
        "schemas": dict(SCHEMAS),
        "responses": dict(RESPONSES),
        "headers": HEADERS,
        "requestBodies": GRAPHQL_BODIES,
        "securitySchemes": dict(facts.security),
    }
    if facts.settings is not None:
        components["parameters"] = build_parameters(facts.settings)
        components["requestBodies"] = {**BODIES, **components["requestBodies"]}
        components["responses"] |= build_responses()
        for key, name in names.items():
            components["schemas"][name] = convert_schema(facts.survey.schemas[key], name, names)
    if any(service.name == "graphql" for service in facts.services):
        components["schemas"][_APP] = convert_schema(build_json_schema(), _APP, {})
    return components
