"""OpenAPI components: parameters, bodies, responses, headers and schemas.

All of them are in `components.yaml`, except for errors and for what follows from the configuration
and the enums of the REST API.
"""

from __future__ import annotations

from http import HTTPStatus
from importlib.resources import files
from typing import Final

from msgspec import Struct
from msgspec.yaml import decode

from docgraph.exchange import Document, WriteMode
from docgraph.rest.ids import IdType
from docgraph.rest.parameters import WRITE_CONCERNS
from docgraph.rest.sections import Mongo
from docgraph.store.driver.concerns import READ_CONCERNS, READ_PREFERENCES

JSON: Final = "application/json"


class _Static(Struct):
    """The file `components.yaml`."""

    schemas: dict[str, Document]
    headers: dict[str, Document]
    requestBodies: dict[str, Document]
    responses: dict[str, Document]
    rest: dict[str, dict[str, Document]]
    securitySchemes: dict[str, Document]


def refer(kind: str, name: str) -> Document:
    """Return a reference to a component."""
    return {"$ref": f"#/components/{kind}/{name}"}


# --- independent of the configuration -------------------------------------------------------------

_STATIC: Final = decode(files(__package__).joinpath("components.yaml").read_bytes(), type=_Static)
SCHEMAS: Final = _STATIC.schemas
HEADERS: Final = _STATIC.headers
GRAPHQL_BODIES: Final = _STATIC.requestBodies
GRAPHQL_RESPONSES: Final = _STATIC.responses
SECURITY_SCHEMES: Final = _STATIC.securitySchemes


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


_PARAMETERS: Final = _fill_enums(_STATIC.rest["parameters"])
BODIES: Final = _STATIC.rest["requestBodies"]
_RESPONSES: Final = _STATIC.rest["responses"]


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
            "content": {**_RESPONSES[name]["content"], JSON: {"schema": one}},
        }
        for name, one in schemas.items()
    }
    return {**_RESPONSES, **shaped}


# --- errors ---------------------------------------------------------------------------------------

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
# Usually empty: a generated client that parses JSON there would fail.
_BODILESS: Final = frozenset({401, 403, 412})


def _error(status: int) -> Document:
    text = f"{HTTPStatus(status).phrase}: {_DESCRIPTIONS[status]}"
    response: Document = {"description": text}
    if status in _OWN_HEADERS:
        response["headers"] = {name: refer("headers", name) for name in _OWN_HEADERS[status]}
    if status not in _BODILESS:
        response["content"] = {JSON: {"schema": refer("schemas", "Error")}}
    return response


ERRORS: Final[dict[str, Document]] = {f"Error{one}": _error(one) for one in _DESCRIPTIONS}
