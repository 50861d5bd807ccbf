"""OpenAPI components (`components.yaml`), and the operations that use them (`operations.yaml`).

The configuration and the enums of the REST API fill in the rest. Tests compare the operations with
the table of handlers, and with the responses of a server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
    return {"$ref": f"#/components/{kind}/{name}"}


def _read(name: str) -> bytes:
    return files(__package__).joinpath(name).read_bytes()


_STATIC: Final = decode(_read("components.yaml"), type=dict[str, dict[str, Document]])
SCHEMAS: Final = _STATIC["schemas"]
HEADERS: Final = _STATIC["headers"]
GRAPHQL_BODIES: Final = _STATIC["requestBodies"]
RESPONSES: Final = _STATIC["responses"]
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
_REST_RESPONSES: Final = _STATIC["rest"]["responses"]


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
        return _REST_RESPONSES
    schemas = {"Page": {"type": "array", "items": item}, "One": item}
    shaped = {
        name: {
            **_REST_RESPONSES[name],
            "content": {**_REST_RESPONSES[name]["content"], JSON: {"schema": schema}},
        }
        for name, schema in schemas.items()
    }
    return {**_REST_RESPONSES, **shaped}


_ALWAYS: Final = (400, 401, 403, 405, 408, 414, 429, 431, 500, 501, 503)
_OF_BODIES: Final = (413, 415)


@dataclass(frozen=True, slots=True)
class OperationSpec:
    """One method of one kind of resource; `answers` by status, besides the common ones."""

    summary: str
    answers: Mapping[int, str]
    parameters: tuple[str, ...] = ()
    body: str | None = None
    errors: tuple[int, ...] = ()
    is_missing_possible: bool = True

    @property
    def statuses(self) -> dict[int, str]:
        """Every status with the name of its response."""
        bodies = _OF_BODIES if self.body is not None else ()
        missing = (404,) if self.is_missing_possible else ()
        errors = {code: f"Error{code}" for code in (*_ALWAYS, *self.errors, *bodies, *missing)}
        return dict(sorted({**errors, **self.answers}.items()))


OPERATIONS: Final = decode(
    _read("operations.yaml"), type=dict[ResourceType, dict[str, OperationSpec]]
)
