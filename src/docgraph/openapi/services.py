"""Other services in the description: GraphQL, the server's own services, and plugins'.

docgraph's services are known by their names (`services.yaml`). A plugin's service is described by
its path and methods, which is all that is known of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote

from msgspec.yaml import decode

from docgraph.exchange import Document
from docgraph.openapi.components import GRAPHQL_BODIES, JSON, refer
from docgraph.openapi.described_resources import DescribedApp

_OFTEN: Final = (400, 401, 403, 408, 414, 429, 431, 500, 503)


@dataclass(frozen=True, slots=True)
class Bound:
    """A service and its path."""

    name: str
    path: str  # without a slash at the end
    description: str
    methods: tuple[str, ...]
    exact: bool
    secured: bool
    parts: Sequence[str] | None = None  # what it has below its path, if packages add to it


PathItem = dict[str, Any]

_KNOWN: Final = decode(
    files(__package__).joinpath("services.yaml").read_bytes(), type=dict[str, dict[str, PathItem]]
)


def describe_service(service: Bound) -> dict[str, PathItem]:
    paths = _KNOWN.get(service.name)
    if paths is None:
        return _describe_unknown(service)
    has_user = "/{user}" in paths  # the service itself authenticates the caller
    return {
        f"{service.path}{below}": {
            key: value
            if key == "parameters"
            else _complete(service, value, is_checked=has_user or below != "")
            for key, value in item.items()
        }
        for below, item in paths.items()
        if service.parts is None or below[1:] in service.parts
    }


def _complete(service: Bound, operation: Document, *, is_checked: bool = False) -> Document:
    """Return the operation with the common errors and its security requirement.

    `is_checked`: the service itself decides who may use it.
    """
    errors = (*_OFTEN, 404, 405) if is_checked else _OFTEN
    responses = {status: refer("responses", f"Error{status}") for status in errors}
    responses |= operation["responses"]
    return {
        "tags": ["server"],
        **operation,
        "responses": {str(status): response for status, response in sorted(responses.items())},
        **({} if service.secured or is_checked else {"security": []}),
    }


def _describe_unknown(service: Bound) -> dict[str, PathItem]:
    answer = {"description": "what the plugin answers"}
    operation: Document = {
        "tags": ["plugins"],
        "summary": service.description or service.name,
        "responses": {"default": answer},
        **({} if service.secured else {"security": []}),
    }
    if service.methods == ():
        return {}
    return {service.path or "/": {method.lower(): operation for method in service.methods}}


def describe_apps(service: Bound, apps: Iterable[DescribedApp]) -> dict[str, PathItem]:
    return {
        f"{service.path}/{'/'.join(quote(part, safe='') for part in app.uri)}": {
            "post": _describe_app(service, app)
        }
        for app in apps
    }


def _describe_app(service: Bound, app: DescribedApp) -> Document:
    statuses = (400, 404, 405, *((406,) if app.csv else ()), 408, 413, 500, 503)
    answers = {status: refer("responses", "GraphqlError") for status in statuses}
    answers[200] = refer("responses", "GraphqlTable" if app.csv else "GraphqlResult")
    operation = _complete(service, {"summary": f"Query the app {app.name}", "responses": answers})
    return {
        **operation,
        **({"description": app.description} if app.description else {}),
        "tags": ["GraphQL"],
        "requestBody": _describe_body(app),
    }


def _describe_body(app: DescribedApp) -> Document:
    """Return the common body of apps, with the app's stored operations as examples."""
    if not app.operations:
        return refer("requestBodies", "Graphql")
    examples = {
        name: {
            **({"summary": description} if description else {}),
            "value": {"operation": name, "variables": {}},
        }
        for name, description in app.operations
    }
    body = GRAPHQL_BODIES["Graphql"]
    as_json = {**body["content"][JSON], "examples": examples}
    return {**body, "content": {**body["content"], JSON: as_json}}
