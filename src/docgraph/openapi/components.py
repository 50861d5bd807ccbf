"""OpenAPI components, and the operations that use them: each method of each kind of resource.

All components are in `components.yaml`, except for errors and for what follows from the
configuration and the enums of the REST API. Tests compare the table of operations with the table of
handlers, and with the responses of a server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib.resources import files
from typing import Final

from msgspec.yaml import decode

from docgraph.exchange import Document, ResourceType, WriteMode
from docgraph.rest.ids import IdType
from docgraph.rest.parameters import WRITE_CONCERNS
from docgraph.rest.sections import Mongo
from docgraph.store.driver.concerns import READ_CONCERNS, READ_PREFERENCES

JSON: Final = "application/json"


def refer(kind: str, name: str) -> Document:
    """Return a reference to a component."""
    return {"$ref": f"#/components/{kind}/{name}"}


_STATIC: Final = decode(
    files(__package__).joinpath("components.yaml").read_bytes(), type=dict[str, dict[str, Document]]
)
SCHEMAS: Final = _STATIC["schemas"]
HEADERS: Final = _STATIC["headers"]
GRAPHQL_BODIES: Final = _STATIC["requestBodies"]
GRAPHQL_RESPONSES: Final = _STATIC["responses"]
SECURITY_SCHEMES: Final = _STATIC["securitySchemes"]


def documents_of(item: Document) -> Document:
    """Return the schema of a body that is one document or many."""
    return {"anyOf": [item, {"type": "array", "items": item}]}


def _fill_enums(parameters: dict[str, Document]) -> dict[str, Document]:
    """Return the parameters with the values that the REST API accepts."""
    enums = {
        "id_type": IdType,
        "wm": WriteMode,
        "readPreference": READ_PREFERENCES,
        "readConcern": READ_CONCERNS,
    }
    for name, values in enums.items():
        parameters[name]["schema"]["enum"] = list(values)
    parameters["writeConcern"]["schema"]["anyOf"][1]["enum"] = list(WRITE_CONCERNS)
    return parameters


_PARAMETERS: Final = _fill_enums(_STATIC["rest"]["parameters"])
BODIES: Final = _STATIC["rest"]["requestBodies"]
_RESPONSES: Final = _STATIC["rest"]["responses"]


def build_parameters(settings: Mongo) -> dict[str, Document]:
    """Return every parameter, with the bounds of the configuration."""
    size = {
        "type": "integer",
        "minimum": 0,
        "maximum": settings.max_pagesize,
        "default": min(settings.default_pagesize, settings.max_pagesize),
    }
    described = {"name": "pagesize", "in": "query", "description": "documents of a page"}
    return {**_PARAMETERS, "pagesize": {**described, "schema": size}}


def build_responses(item: Document | None = None) -> dict[str, Document]:
    """Return the success responses; `item` is the schema of a document, if known."""
    if item is None:
        return _RESPONSES
    schemas = {"Page": {"type": "array", "items": item}, "One": item}
    shaped = {
        name: {
            **_RESPONSES[name],
            "content": {**_RESPONSES[name]["content"], JSON: {"schema": schema}},
        }
        for name, schema in schemas.items()
    }
    return {**_RESPONSES, **shaped}


_DESCRIPTIONS: Final = {
    400: "the request, a parameter or the body is wrong",
    401: "the caller is not authenticated",
    403: "the caller has no permission, or a name is reserved",
    404: "the database, collection, document or index does not exist",
    405: "the resource does not take this method",
    408: "the time for the request is used up",
    409: "it collides with what is stored, or an etag is demanded",
    412: "the etag is another one by now; no body",
    413: "the body is too large",
    414: "the address is too long",
    415: "the content type is none that is read here",
    422: "the aggregation cannot be run",
    429: "too many failed logins, open change streams, or requests of a caller who is limited",
    431: "the headers are too large",
    500: "the database cannot be reached or failed, or docgraph has a fault",
    501: "understood, and deliberately not done",
    503: "the instance has as much to do as it accepts",
}
_OWN_HEADERS: Final[dict[int, tuple[str, ...]]] = {
    401: ("WWW-Authenticate",),
    405: ("Allow",),
    409: ("ETag",),
    412: ("ETag",),
    429: ("Retry-After", "RateLimit", "RateLimit-Policy"),
    503: ("Retry-After",),
}
# Usually empty: a generated client that parses JSON there would fail.
_BODILESS: Final = frozenset({412})


def _error(status: int) -> Document:
    text = f"{HTTPStatus(status).phrase}: {_DESCRIPTIONS[status]}"
    response: Document = {"description": text}
    if status in _OWN_HEADERS:
        response["headers"] = {name: refer("headers", name) for name in _OWN_HEADERS[status]}
    if status not in _BODILESS:
        response["content"] = {JSON: {"schema": refer("schemas", "Error")}}
    return response


ERRORS: Final = {f"Error{status}": _error(status) for status in _DESCRIPTIONS}


@dataclass(frozen=True, slots=True)
class OperationSpec:
    """One method of one kind of resource; `answers` by status, besides the common ones."""

    summary: str
    answers: Mapping[int, str]
    parameters: tuple[str, ...] = ()
    body: str | None = None
    errors: tuple[int, ...] = field(default=())
    is_missing_possible: bool = True

    @property
    def statuses(self) -> dict[int, str]:
        """Every status with the name of its response."""
        errors = {*_ALWAYS, *self.errors, *((404,) if self.is_missing_possible else ())}
        if self.body is not None:
            errors |= {*_OF_BODIES}
        return dict(
            sorted({**{status: f"Error{status}" for status in errors}, **self.answers}.items())
        )


_ALWAYS: Final = (400, 401, 403, 405, 408, 414, 429, 431, 500, 501, 503)
_OF_BODIES: Final = (413, 415)
_CONDITIONAL: Final = (409, 412)

_PAGING = ("page", "pagesize")
_CONSISTENCY = ("readPreference", "readConcern")
_READING = ("filter", "keys", "hint", "shardkey", "jsonMode", *_CONSISTENCY)
_LIST = (*_PAGING, "after", "sort", *_READING, "count", "nocache")
_FORMAT = ("format", "csv-formulas")
_OF_ONE = ("id_type", "filter", "shardkey")
_WRITING = ("If-Match", "If-None-Match", "checkEtag", "writeConcern")
_WRITE_ONE = (*_OF_ONE, "wm", *_WRITING, "Prefer")

_MADE = {200: "Written", 201: "Created"}
_GONE = {204: "Removed"}


def _describe_container(
    type: ResourceType, name: str, contents: str = ""
) -> dict[tuple[ResourceType, str], OperationSpec]:
    """Return the writes of what has metadata and is dropped as a whole."""
    changes, written = f"Change the metadata of the {name}", {200: "Written"}
    made = f"Make the {name}, or replace its metadata"
    dropped = f"Drop the {name}{contents}"
    return {
        (type, "PUT"): OperationSpec(made, _MADE, _WRITING, "Metadata", _CONDITIONAL),
        (type, "PATCH"): OperationSpec(changes, written, _WRITING, "MetadataChanges", _CONDITIONAL),
        (type, "DELETE"): OperationSpec(dropped, _GONE, _WRITING, errors=_CONDITIONAL),
    }


OPERATIONS: Final[dict[tuple[ResourceType, str], OperationSpec]] = {
    (ResourceType.ROOT, "GET"): OperationSpec(
        "The names of the databases", {200: "Names"}, (*_PAGING, "count"), is_missing_possible=False
    ),
    (ResourceType.DATABASE, "GET"): OperationSpec(
        "The names of the collections", {200: "Names"}, (*_PAGING, "count", "nocache")
    ),
    **_describe_container(ResourceType.DATABASE, "database", " with all that is in it"),
    (ResourceType.COLLECTION, "GET"): OperationSpec(
        "A page of documents", {200: "Page"}, (*_LIST, *_FORMAT)
    ),
    (ResourceType.COLLECTION, "POST"): OperationSpec(
        "Add a document, or many",
        {200: "Bulk", 201: "Created", 207: "PartialBulk"},
        (*_OF_ONE, "wm", *_WRITING, "Prefer"),
        "Documents",
        _CONDITIONAL,
    ),
    **_describe_container(ResourceType.COLLECTION, "collection"),
    (ResourceType.DOCUMENT, "GET"): OperationSpec(
        "One document",
        {200: "One", 304: "NotModified"},
        (*_OF_ONE, "keys", "hint", "jsonMode", *_CONSISTENCY, "If-None-Match"),
    ),
    (ResourceType.DOCUMENT, "PUT"): OperationSpec(
        "Replace the document", _MADE, _WRITE_ONE, "Document", _CONDITIONAL
    ),
    (ResourceType.DOCUMENT, "PATCH"): OperationSpec(
        "Change the document", _MADE, _WRITE_ONE, "Changes", _CONDITIONAL
    ),
    (ResourceType.DOCUMENT, "DELETE"): OperationSpec(
        "Remove the document", _GONE, (*_OF_ONE, *_WRITING), errors=_CONDITIONAL
    ),
    (ResourceType.BULK, "PATCH"): OperationSpec(
        "Change all documents that match",
        {200: "Bulk"},
        ("requiredFilter", "shardkey", *_WRITING),
        "BulkChanges",
        _CONDITIONAL,
    ),
    (ResourceType.BULK, "DELETE"): OperationSpec(
        "Remove all documents that match",
        {200: "Bulk"},
        ("requiredFilter", "shardkey", *_WRITING),
        errors=_CONDITIONAL,
    ),
    (ResourceType.SIZE, "GET"): OperationSpec(
        "How many there are",
        {200: "Size"},
        ("filter", "shardkey", "count", "bytes", "nocache", *_CONSISTENCY),
    ),
    (ResourceType.METADATA, "GET"): OperationSpec(
        "The metadata", {200: "Meta"}, ("jsonMode", "nocache")
    ),
    (ResourceType.INDEXES, "GET"): OperationSpec("The indexes of the collection", {200: "Indexes"}),
    (ResourceType.INDEX, "PUT"): OperationSpec(
        "Make an index; it cannot be changed afterwards",
        {201: "IndexMade"},
        ("If-None-Match", "writeConcern"),
        "Index",
        (412,),
    ),
    (ResourceType.INDEX, "DELETE"): OperationSpec(
        "Drop the index", _GONE, ("If-None-Match", "writeConcern"), errors=(412,)
    ),
    (ResourceType.AGGREGATION, "GET"): OperationSpec(
        "Run the stored aggregation",
        {200: "Results"},
        ("avars", *_PAGING, *_FORMAT, "jsonMode", "nocache", *_CONSISTENCY),
        errors=(422,),
    ),
    (ResourceType.STREAMS, "GET"): OperationSpec(
        "The change streams that the caller may open", {200: "Streams"}, ("jsonMode", "nocache")
    ),
    (ResourceType.STREAM, "GET"): OperationSpec(
        "Follow the change stream, by WebSocket or by server-sent events",
        {101: "Switched", 200: "Events"},
        (
            "avars",
            "jsonMode",
            "nocache",
            "event-ids",
            "resume-after",
            "snapshot",
            "before",
            "Last-Event-ID",
        ),
        errors=(422,),
    ),
    (ResourceType.SCHEMA_STORE, "GET"): OperationSpec(
        "A page of JSON schemas", {200: "Schemas"}, _LIST
    ),
    (ResourceType.SCHEMA_STORE, "POST"): OperationSpec(
        "Add a JSON schema, or several",
        {200: "Bulk", 201: "Created", 207: "PartialBulk"},
        ("wm", *_WRITING, "Prefer"),
        "Documents",
        _CONDITIONAL,
    ),
    **_describe_container(ResourceType.SCHEMA_STORE, "schema store"),
    (ResourceType.SCHEMA, "GET"): OperationSpec(
        "One JSON schema",
        {200: "One", 304: "NotModified"},
        (*_OF_ONE, "keys", "jsonMode", *_CONSISTENCY, "If-None-Match"),
    ),
    (ResourceType.SCHEMA, "PUT"): OperationSpec(
        "Replace the JSON schema", _MADE, _WRITE_ONE, "Document", _CONDITIONAL
    ),
    (ResourceType.SCHEMA, "DELETE"): OperationSpec(
        "Remove the JSON schema", _GONE, (*_OF_ONE, *_WRITING), errors=_CONDITIONAL
    ),
}
