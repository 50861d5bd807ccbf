"""The shared parts of the description: parameters, bodies, responses, headers and schemas.

Schemas, headers and what GraphQL takes and gives stand in `components.yaml`; the rest follows the
configuration and the enums of the REST API.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final

from msgspec import Struct
from msgspec.yaml import decode

from docgraph.exchange import Document, WriteMode
from docgraph.rest.parameters.concerns import WRITE_CONCERNS
from docgraph.rest.parameters.ids import IdType
from docgraph.rest.sections import Mongo
from docgraph.store.driver.concerns import READ_CONCERNS, READ_PREFERENCES

__all__ = [
    "BODIES",
    "ERRORS",
    "GRAPHQL_BODIES",
    "GRAPHQL_RESPONSES",
    "HEADERS",
    "JSON",
    "SCHEMAS",
    "build_parameters",
    "build_responses",
    "refer",
]

JSON: Final = "application/json"
_FORMS: Final = ("application/x-www-form-urlencoded", "multipart/form-data")


class _Static(Struct):
    """The file `components.yaml`."""

    schemas: dict[str, Document]
    headers: dict[str, Document]
    requestBodies: dict[str, Document]
    responses: dict[str, Document]


def refer(kind: str, name: str) -> Document:
    """A reference to a component."""
    return {"$ref": f"#/components/{kind}/{name}"}


# --- what depends on nothing ----------------------------------------------------------------------

_STATIC: Final = decode(files(__package__).joinpath("components.yaml").read_bytes(), type=_Static)
SCHEMAS: Final = _STATIC.schemas
HEADERS: Final = _STATIC.headers
GRAPHQL_BODIES: Final = _STATIC.requestBodies
GRAPHQL_RESPONSES: Final = _STATIC.responses
_DOCUMENT = refer("schemas", "Document")

# --- bodies ---------------------------------------------------------------------------------------


def _body(schema: Document, *, required: bool, forms: bool = True) -> Document:
    content = {media: {"schema": schema} for media in (JSON, "application/hal+json")}
    if forms:
        content |= {media: {"schema": {"type": "object"}} for media in _FORMS}
    return {"required": required, "content": content}


def documents_of(item: Document) -> Document:
    """The schema of a body that is one document or many."""
    return {"anyOf": [item, {"type": "array", "items": item}]}


BODIES: Final[dict[str, Document]] = {
    "Document": _body(_DOCUMENT, required=False),
    "Documents": _body(documents_of(_DOCUMENT), required=False),
    "Changes": _body(refer("schemas", "Changes"), required=True),
    # Without pipelines: also for one document, where documents are checked as a whole.
    "BulkChanges": _body({"type": "object", "minProperties": 1}, required=True),
    "Metadata": _body(refer("schemas", "Metadata"), required=False),
    "MetadataChanges": _body({"type": "object", "minProperties": 1}, required=True),
    "Index": _body(refer("schemas", "Index"), required=True),
}

# --- parameters -----------------------------------------------------------------------------------


def build_parameters(settings: Mongo) -> dict[str, Document]:
    """Every parameter, with the bounds of the configuration."""
    size = {
        "type": "integer",
        "minimum": 0,
        "maximum": settings.max_pagesize,
        "default": min(settings.default_pagesize, settings.max_pagesize),
    }
    return {
        **_PARAMETERS,
        "pagesize": _query("pagesize", "documents of a page", size),
    }


def _query(name: str, description: str, schema: Document) -> Document:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _json(name: str, description: str, schema: Document, *, required: bool = False) -> Document:
    """A parameter that is JSON itself."""
    parameter: Document = {
        "name": name,
        "in": "query",
        "description": description,
        "content": {JSON: {"schema": schema}},
    }
    return {**parameter, "required": True} if required else parameter


def _header(name: str, description: str, **schema: Any) -> Document:
    schema = schema or {"type": "string"}
    return {"name": name, "in": "header", "description": description, "schema": schema}


def _path(name: str, description: str) -> Document:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": {"type": "string", "minLength": 1},
    }


_OBJECT: Document = {"type": "object"}
_NOT_EMPTY: Document = {"type": "object", "minProperties": 1}
_FLAG: Document = {"type": "string"}

_PARAMETERS: Final[dict[str, Document]] = {
    "page": _query(
        "page",
        "number of the page; not with `after`",
        {"type": "integer", "minimum": 1, "default": 1},
    ),
    "after": _query(
        "after",
        "the place that the page begins behind: empty for the first page, then as the header "
        "`Link` of the answer before says",
        {"type": "string"},
    ),
    "filter": _json("filter", "a query; may be repeated, then all have to match", _NOT_EMPTY),
    "requiredFilter": _json("filter", "which documents", _NOT_EMPTY, required=True),
    "sort": _query(
        "sort",
        "`name`, `-name` or a JSON object; may be repeated; newest first without it",
        {"type": "string", "minLength": 1},
    ),
    "keys": _json("keys", "which properties: a projection of MongoDB", _OBJECT),
    "hint": _query(
        "hint", "an index by its name, as `+name`, `-name` or as an object", {"type": "string"}
    ),
    "shardkey": _json("shardkey", "the shard key of the documents", _NOT_EMPTY),
    "count": _query(
        "count",
        "tell the total in `X-Total-Count`; `estimated` is fast and knows nothing of filters",
        {"type": "string"},
    ),
    "nocache": _query("nocache", "do not use remembered metadata", _FLAG),
    "jsonMode": _query(
        "jsonMode",
        "how values of types that JSON has not are written; `shell`, which gives no JSON, is "
        "understood, too",
        {"type": "string", "enum": ["strict", "extended", "relaxed"]},
    ),
    "id_type": _query(
        "id_type",
        "what the id in the path is",
        {"type": "string", "enum": list(IdType), "default": IdType.STRING_OID},
    ),
    "wm": _query(
        "wm", "the write mode, also as `writeMode`", {"type": "string", "enum": list(WriteMode)}
    ),
    "readPreference": _query(
        "readPreference",
        "which servers may answer; as the connection says without it",
        {"type": "string", "enum": list(READ_PREFERENCES)},
    ),
    "readConcern": _query(
        "readConcern",
        "how settled the documents have to be; `linearizable` is for the primary only",
        {"type": "string", "enum": list(READ_CONCERNS)},
    ),
    "writeConcern": _query(
        "writeConcern",
        "who has to confirm the write: so many servers, or one of these",
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": 50},
                {"type": "string", "enum": list(WRITE_CONCERNS)},
            ]
        },
    ),
    "checkEtag": _query("checkEtag", "refuse the write without `If-Match`", _FLAG),
    "avars": _json("avars", "the variables of the aggregation or stream", _OBJECT),
    "event-ids": _query(
        "event-ids",
        "events have their id and their time in `_id` and `clusterTime`",
        {"type": "string", "enum": ["true", "false"], "default": "false"},
    ),
    "resume-after": _query(
        "resume-after", "the id of an event: the stream goes on after it", {"type": "string"}
    ),
    "If-Match": _header("If-Match", "write only if the etag is still this one"),
    "If-None-Match": _header(
        "If-None-Match",
        "a read is 304, and a write 412, if the etag is still this one; `*`: if there is anything",
    ),
    "Last-Event-ID": _header(
        "Last-Event-ID", "the same as `resume-after`, sent by browsers that connect again"
    ),
    "Prefer": _header("Prefer", "`return=representation`: answer with what was written"),
    "db": _path("db", "the name of a database"),
    "collection": _path("collection", "the name of a collection"),
    "id": _path("id", "the `_id`, read as `id_type` says"),
    "name": _path("name", "the name of an index"),
    "aggregation": _path("aggregation", "the `uri` of a stored aggregation"),
    "stream": _path("stream", "the `uri` of a change stream"),
}

# --- responses ------------------------------------------------------------------------------------

_DESCRIPTIONS: Final = {
    400: "the request, a parameter or the body is wrong",
    401: "the caller is not known; no body",
    403: "the caller may not do this, with no body; or, with an error, a name is reserved",
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
# Empty, or most often so: a generated client that reads JSON there would stumble.
_BODILESS: Final = frozenset({401, 403, 412})


def _response(
    description: str, schema: Document | None = None, headers: tuple[str, ...] = ()
) -> Document:
    response: Document = {"description": description}
    if headers:
        response["headers"] = {name: refer("headers", name) for name in headers}
    if schema is not None:
        response["content"] = {JSON: {"schema": schema}}
    return response


def _error(status: int) -> Document:
    schema = None if status in _BODILESS else refer("schemas", "Error")
    text = f"{HTTPStatus(status).phrase}: {_DESCRIPTIONS[status]}"
    return _response(text, schema, _OWN_HEADERS.get(status, ()))


ERRORS: Final[dict[str, Document]] = {f"Error{one}": _error(one) for one in _DESCRIPTIONS}

_OBJECTS: Document = {"type": "array", "items": _OBJECT}
_NAMES: Document = {"type": "array", "items": {"type": "string"}}
_SIZE: Document = {
    "type": "object",
    "required": ["_size"],
    "properties": {"_size": {"type": "integer", "minimum": 0}},
}
_COUNTED = ("ETag", "Link", "X-Total-Count", "X-Count-Strategy")
_WRITTEN = ("ETag", "Preference-Applied")


def build_responses(item: Document | None = None) -> dict[str, Document]:
    """The responses that are no errors; `item` is the schema of a document, where one is known."""
    item = item or _DOCUMENT
    # No content: it is there only when `Prefer` asks for it, or when there is a warning.
    represented = "no body, unless `Prefer` asks for the document or there are `_warnings`"
    responses: Mapping[str, Document] = {
        "Names": _response("the names, sorted", _NAMES, _COUNTED),
        "Page": _response("the documents", {"type": "array", "items": item}, _COUNTED),
        "One": _response("the document", item, ("ETag",)),
        "NotModified": _response("the etag is still the same", None, ("ETag",)),
        "Written": _response(f"written; {represented}", None, _WRITTEN),
        "Created": _response(f"created; {represented}", None, (*_WRITTEN, "Location")),
        "Removed": _response("removed"),
        "Bulk": _response("all of it done", refer("schemas", "BulkResult"), ("ETag",)),
        "PartialBulk": _response(
            "a part of it done; `errors` says what failed",
            refer("schemas", "BulkResult"),
            ("ETag",),
        ),
        "Size": _response("the number", _SIZE, ("ETag", "X-Count-Strategy")),
        "Meta": _response("the metadata", refer("schemas", "Metadata"), ("ETag",)),
        "Indexes": _response(
            "the indexes", {"type": "array", "items": refer("schemas", "IndexDescription")}
        ),
        "IndexMade": _response("the index is there"),
        "Results": _response("the results", _OBJECTS),
        "Switched": _response("a WebSocket: every text message is a change event"),
        "Events": {
            "description": "server-sent events: those called `change` are change events, and a "
            "last one, `close`, has the code and the reason of the end",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
    }
    return dict(responses)
