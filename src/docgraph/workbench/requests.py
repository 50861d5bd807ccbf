"""Requests to the tools: members parsed strictly; nothing is looked up here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from docgraph.access.explain_decision import ExplainedRequest
from docgraph.codec.pieces import Irregular, load, walk_levels
from docgraph.exchange import Request
from docgraph.exchange.errors import BodyError, RequestError, UnsupportedMediaType
from docgraph.graphql.http.body import (
    GraphqlRequest,
    check_variables,
    parse_exactly,
    read_request,
)
from docgraph.workbench.draft import Draft, read_draft

_MAX_LEVELS: Final = 100  # nesting of a MongoDB document
_MAX_VALUES: Final = 200_000
_MAX_ROLES: Final = 64
_MAX_COLLECTIONS: Final = 500
_MAX_SAMPLED: Final = 10_000
_LONGEST_NAME: Final = 1_024
_LONGEST_BODY: Final = 32_768  # of a hypothetical request: rules evaluate it on the event loop
_QUERY: Final = ("query", "variables", "operationName")
_QUESTION: Final = ("method", "path", "query", "body")
_NOUNS: Final[Mapping[type, str]] = {
    str: "a string",
    dict: "an object",
    bool: "true or false",
    list: "a list of strings",
    int: "a whole number",
}
_MEMBERS: Final[Mapping[str, type]] = {
    "app": str,
    "definition": dict,
    "query": str,
    "variables": dict,
    "operationName": str,
    "roles": list,
    "user": str,
    "run": bool,
    "texts": bool,
    "request": dict,
    "db": str,
    "collections": list,
    "sample": int,
    "rule": dict,
}


@dataclass(frozen=True, slots=True)
class ToolArguments:
    """The arguments; None if the request does not set one.

    `roles` and `user` are those of another user whom the caller impersonates.
    """

    app: str | None = None
    draft: Draft | None = None
    request: GraphqlRequest | None = None
    roles: tuple[str, ...] | None = None
    user: str | None = None
    run: bool = True
    texts: bool | None = None
    question: ExplainedRequest | None = None
    db: str | None = None
    collections: tuple[str, ...] | None = None
    sample: int | None = None
    rule: Mapping[str, Any] | None = None

    @property
    def is_for_another(self) -> bool:
        """Whether the caller impersonates another user."""
        return self.roles is not None or self.user is not None


def read_body(body: bytes, content_type: str) -> dict[str, Any]:
    """Parse a JSON body without losing digits; bounded in depth and number of values."""
    if content_type != "application/json":
        raise UnsupportedMediaType(
            "the body must be JSON", hint="send it with Content-Type: application/json"
        )
    try:
        content = load(body)
    except Irregular:
        raise BodyError("the body is nested too deep, or has a duplicate key") from None
    except orjson.JSONDecodeError as error:
        raise BodyError(
            f"the body is not valid JSON: line {error.lineno}, column {error.colno}"
        ) from None
    if not isinstance(content, dict):
        raise BodyError("the body must be a JSON object", hint='such as {"definition": {…}}')
    count = -1  # not counting the body itself
    for level in walk_levels(content, "the body", _MAX_LEVELS):
        count += len(level)
        if count > _MAX_VALUES:
            raise BodyError(f"the body has more than {_MAX_VALUES} values")
    members: dict[str, Any] = parse_exactly(body)
    return members


def read_parameters(request: Request, known: Collection[str]) -> dict[str, Any]:
    """Read the same members from parameters of a GET: `role` may be repeated."""
    query = request.query
    takes = {
        "role" if one == "roles" else one: one for one in known if _MEMBERS[one] in (str, list)
    }
    content: dict[str, Any] = {}
    for name in sorted(query.names()):
        member = takes.get(name)
        if member is None:
            hint = f"there are: {', '.join(takes)}" if takes else "it takes none"
            raise RequestError(f"unknown parameter {name[:100]!r}", hint=hint)
        content[member] = query.get_list(name) if member == "roles" else query.get(name)
    return content


def read_wanted(content: Mapping[str, Any], known: Collection[str]) -> ToolArguments:
    """Read the members of a request; null counts as not given."""
    given = {name: value for name, value in content.items() if value is not None}
    for name, value in given.items():
        if name not in known:
            raise BodyError(f"unknown member {name[:100]!r}", hint=f"there are: {', '.join(known)}")
        if not isinstance(value, _MEMBERS[name]) or (
            isinstance(value, bool) and _MEMBERS[name] is int
        ):
            raise BodyError(f"{name!r} must be {_NOUNS[_MEMBERS[name]]}")
    roles = _read_texts(given, "roles", _MAX_ROLES)
    return ToolArguments(
        app=_read_name(given, "app"),
        draft=read_draft(given["definition"]) if "definition" in given else None,
        request=_read_request(given),
        roles=roles,
        user=_read_name(given, "user"),
        run=given.get("run", True),
        texts=given.get("texts"),
        question=_read_question(given, roles or ()),
        db=_read_name(given, "db"),
        collections=_read_texts(given, "collections", _MAX_COLLECTIONS),
        sample=_read_sample(given),
        rule=given.get("rule"),
    )


def _read_request(given: Mapping[str, Any]) -> GraphqlRequest | None:
    members = {name: given[name] for name in _QUERY if name in given}
    if not members:
        return None
    check_variables(members.get("variables") or {})
    return read_request(members)


def _read_texts(given: Mapping[str, Any], member: str, most: int) -> tuple[str, ...] | None:
    texts = given.get(member)
    if texts is None:
        return None
    if not all(isinstance(text, str) and len(text) <= _LONGEST_NAME for text in texts):
        raise BodyError(f"{member!r} must be a list of strings")
    if len(texts) > most:
        raise BodyError(f"{member!r} has more than {most} elements")
    return tuple(dict.fromkeys(texts))


def _read_sample(given: Mapping[str, Any]) -> int | None:
    sample: int | None = given.get("sample")
    if sample is not None and not 1 <= sample <= _MAX_SAMPLED:
        raise BodyError(f"'sample' must be from 1 to {_MAX_SAMPLED}")
    return sample


def _read_name(given: Mapping[str, Any], member: str) -> str | None:
    name: str | None = given.get(member)
    if name is not None and len(name) > _LONGEST_NAME:
        raise BodyError(f"{member!r} is longer than {_LONGEST_NAME} characters")
    return name


def _read_question(given: Mapping[str, Any], roles: tuple[str, ...]) -> ExplainedRequest | None:
    """Read `request`: the method, path, parameters and body of a hypothetical request."""
    request = given.get("request")
    if request is None:
        return None
    for name, value in request.items():
        if name not in _QUESTION or not isinstance(value, str):
            raise BodyError(
                f"'request' has no text {name[:100]!r}", hint=f"it has {', '.join(_QUESTION)}"
            )
    path, method = request.get("path", ""), request.get("method", "GET")
    if not path.startswith("/") or "?" in path:
        raise BodyError("'request.path' must begin with a slash", hint="parameters go to 'query'")
    if not method.isascii() or not method.isalpha():
        raise BodyError("'request.method' must be a method such as GET")
    user, body = _read_name(given, "user"), request.get("body", "")
    if len(body) > _LONGEST_BODY:
        raise BodyError(f"'request.body' is longer than {_LONGEST_BODY} characters")
    return ExplainedRequest(method.upper(), path, request.get("query", ""), user, roles, body)
