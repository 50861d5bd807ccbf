"""The other services in the description: GraphQL, the services of the server, and plugins'.

Services of ours are known by their names; one of a plugin is described by its path and methods,
which is all that is known of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from docgraph.exchange import Document
from docgraph.openapi.components import JSON, refer
from docgraph.openapi.survey import App

__all__ = ["Bound", "describe_apps", "describe_service"]

_GRAPHQL: Final = "application/graphql-response+json"
_OFTEN: Final = (400, 401, 403, 408, 414, 429, 431, 500, 503)
_TEXT: Document = {"type": "string"}


@dataclass(frozen=True, slots=True)
class Bound:
    """A service and the path it is bound to."""

    name: str
    path: str  # without a slash at the end
    description: str
    methods: tuple[str, ...]
    exact: bool
    secured: bool


PathItem = dict[str, Any]


def describe_service(service: Bound) -> dict[str, PathItem]:
    """The paths of a service."""
    describe = _KNOWN.get(service.name, _describe_unknown)
    return {} if describe is None else describe(service)


# --- the services of the server -------------------------------------------------------------------


def _operation(
    service: Bound, summary: str, answers: Mapping[int, Document], errors: Iterable[int] = _OFTEN
) -> Document:
    responses = {**{one: refer("responses", f"Error{one}") for one in errors}, **answers}
    operation: Document = {
        "tags": ["server"],
        "summary": summary,
        "responses": {str(status): one for status, one in sorted(responses.items())},
    }
    return operation if service.secured else {**operation, "security": []}


def _answer(description: str, properties: Mapping[str, Document]) -> Document:
    schema = {"type": "object", "properties": properties}
    return {"description": description, "content": {JSON: {"schema": schema}}}


def _describe_ping(service: Bound) -> dict[str, PathItem]:
    known = dict.fromkeys(("message", "client_ip", "host", "version"), _TEXT)
    answer = _answer("it answers", known)
    return {service.path: {"get": _operation(service, "Does the server answer?", {200: answer})}}


def _describe_probe(service: Bound) -> dict[str, PathItem]:
    known = {"status": _TEXT, "description": _TEXT, "latencyMs": {"type": "integer"}}
    answers = {
        200: _answer("the database answers", known),
        503: _answer("the database cannot be reached", known),
        504: _answer("the database does not answer in time", known),
    }
    return {service.path: {"get": _operation(service, "Does the database answer?", answers)}}


def _describe_metrics(service: Bound) -> dict[str, PathItem]:
    answer = {
        "description": "the text format of Prometheus",
        "content": {"text/plain": {"schema": _TEXT}},
    }
    return {service.path: {"get": _operation(service, "Counters and timings", {200: answer})}}


def _describe_roles(service: Bound) -> dict[str, PathItem]:
    known: Document = {
        "authenticated": {"type": "boolean"},
        "roles": {"type": "array", "items": _TEXT},
    }
    answer = _answer("who the caller is taken for", known)
    operation = _own(service, "The caller's own roles", {200: answer})
    return {f"{service.path}/{{user}}": {"parameters": [_USER], "get": operation}}


def _describe_tokens(service: Bound) -> dict[str, PathItem]:
    known = {
        "auth_token": _TEXT,
        "auth_token_valid_until": {"type": "string", "format": "date-time"},
    }
    answer = _answer("the token", known)
    return {
        f"{service.path}/{{user}}": {
            "parameters": [_USER],
            "get": _own(service, "The caller's own token", {200: answer}),
            "post": _own(service, "A fresh token", {200: answer}),
            "delete": _own(service, "End the token", {204: {"description": "ended"}}),
        }
    }


def _describe_logout(service: Bound) -> dict[str, PathItem]:
    answer = {"description": "the cookie is cleared and the token has ended"}
    return {service.path: {"post": _operation(service, "Log out", {200: answer})}}


def _describe_description(service: Bound) -> dict[str, PathItem]:
    media = {JSON: {"schema": {"type": "object"}}}
    answers: dict[int, Document] = {
        200: {"description": "an OpenAPI 3.1 document", "content": media},
        304: {"description": "it is still the same"},
    }
    return {service.path: {"get": _operation(service, "This description", answers)}}


def _describe_page(service: Bound) -> dict[str, PathItem]:
    answer = {"description": "a page", "content": {"text/html": {"schema": _TEXT}}}
    operation = _operation(service, "This description for people", {200: answer})
    return {service.path: {"get": operation}}


def _describe_explanation(service: Bound) -> dict[str, PathItem]:
    asked = [
        ("path", "the path of the request", True),
        ("method", "its method, GET without it", False),
        ("query", "its query string", False),
        ("user", "who is asking", False),
        ("role", "one of their roles; may be repeated", False),
    ]
    answer = _answer("the decision and its reasons", {})
    operation = _operation(service, "Why is a request allowed or denied?", {200: answer})
    parameters = [
        {"name": name, "in": "query", "description": text, "required": needed, "schema": _TEXT}
        for name, text, needed in asked
    ]
    return {service.path: {"get": {**operation, "parameters": parameters}}}


_USER: Final[Document] = {
    "name": "user",
    "in": "path",
    "required": True,
    "description": "the caller's own name",
    "schema": {"type": "string", "minLength": 1},
}


def _own(service: Bound, summary: str, answers: Mapping[int, Document]) -> Document:
    """Needs no rule, but the caller has to be known."""
    operation = _operation(service, summary, answers, (*_OFTEN, 404, 405))
    return {key: value for key, value in operation.items() if key != "security"}


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
    return {service.path or "/": {one.lower(): operation for one in service.methods}}


# --- GraphQL --------------------------------------------------------------------------------------


def describe_apps(service: Bound, apps: Iterable[App]) -> dict[str, PathItem]:
    """One path for each app."""
    return {
        f"{service.path}/{'/'.join(quote(one, safe='') for one in app.uri)}": {
            "post": _describe_app(service, app)
        }
        for app in apps
    }


def _describe_app(service: Bound, app: App) -> Document:
    answers = {one: refer("responses", "GraphqlError") for one in (400, 404, 405, 408, 413, 500)}
    answers |= {200: refer("responses", "GraphqlResult"), 503: refer("responses", "GraphqlError")}
    operation = _operation(service, f"Query the app {app.name}", answers)
    return {
        **operation,
        **({"description": app.description} if app.description else {}),
        "tags": ["GraphQL"],
        "requestBody": refer("requestBodies", "Graphql"),
    }


_RESULT: Final[Document] = {
    "type": "object",
    "properties": {
        "data": {"type": ["object", "null"]},
        "errors": {"type": "array", "items": {"type": "object"}},
        "extensions": {"type": "object"},
    },
}
_REQUEST: Final[Document] = {
    "type": "object",
    "required": ["query"],
    "properties": {
        "query": _TEXT,
        "variables": {"type": ["object", "null"]},
        "operationName": {"type": ["string", "null"]},
        "extensions": {"type": ["object", "null"]},
    },
}
COMPONENTS: Final[dict[str, dict[str, Any]]] = {
    "requestBodies": {
        "Graphql": {
            "required": True,
            "content": {
                JSON: {"schema": _REQUEST},
                "application/graphql": {"schema": _TEXT},
            },
        }
    },
    "responses": {
        "GraphqlResult": {
            "description": "a result, which may hold errors beside data",
            "content": {_GRAPHQL: {"schema": _RESULT}},
        },
        "GraphqlError": {
            "description": "errors and no data",
            "content": {_GRAPHQL: {"schema": _RESULT}},
        },
    },
}

_KNOWN: Final[dict[str, Callable[[Bound], dict[str, PathItem]] | None]] = {
    "mongo": None,  # the rest of the description
    "graphql": None,  # by its apps
    "openapi": _describe_description,
    "openapiPage": _describe_page,
    "accessExplain": _describe_explanation,
    "ping": _describe_ping,
    "database-probe": _describe_probe,
    "metrics": _describe_metrics,
    "roles": _describe_roles,
    "authTokenService": _describe_tokens,
    "authCookieRemover": _describe_logout,
}
