"""Requests to the tools: strict parsing of their members, without I/O."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from graphql import (
    GraphQLError,
    InterfaceTypeDefinitionNode,
    ObjectTypeDefinitionNode,
    ObjectTypeExtensionNode,
    parse,
)

from docgraph.access.explain_decision import ExplainedRequest
from docgraph.codec.pieces import Irregular, walk_levels
from docgraph.config.config_node import ConfigNode, Origin, to_plain
from docgraph.config.parse import DOCUMENT_BOUNDS, ParsedText, parse_yaml
from docgraph.exchange import Document, Request
from docgraph.exchange.errors import BodyError, Problem, RequestError, UnsupportedMediaType
from docgraph.graphql.definition.findings import Finding, TextPosition
from docgraph.graphql.definition.inputs import build_bson
from docgraph.graphql.http.body import (
    GraphqlRequest,
    check_variables,
    load_quickly,
    parse_exactly,
    read_request,
)

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
    "version": int,
    "since": int,
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
    version: int | None = None
    since: int | None = None

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
        content = load_quickly(body)
    except Irregular:
        raise BodyError("the body is nested too deep, or has a duplicate key") from None
    if not isinstance(content, dict):
        raise BodyError("the body must be a JSON object", hint='such as {"definition": {…}}')
    count = -1  # not counting the body itself
    for level in walk_levels(content, "the body", _MAX_LEVELS):
        count += len(level)
        if count > _MAX_VALUES:
            raise BodyError(f"the body has more than {_MAX_VALUES} values")
    members: dict[str, Any] = parse_exactly(body)
    return members


def read_parameters(request: Request, members: Collection[str]) -> dict[str, Any]:
    """Read the same members from parameters of a GET: `role` may be repeated."""
    query = request.query
    takes = {
        "role" if member == "roles" else member: member
        for member in members
        if _MEMBERS[member] in (str, list)
    }
    content: dict[str, Any] = {}
    for name in sorted(query.names()):
        if name not in takes:
            hint = f"there are: {', '.join(takes)}" if takes else "it takes none"
            raise RequestError(f"unknown parameter {name[:100]!r}", hint=hint)
        member = takes[name]
        content[member] = query.get_list(name) if member == "roles" else query.get(name)
    return content


def read_wanted(content: Mapping[str, Any], members: Collection[str]) -> ToolArguments:
    """Read the members of a request; null counts as not given."""
    given = {name: value for name, value in content.items() if value is not None}
    for name, value in given.items():
        if name not in members:
            hint = f"there are: {', '.join(members)}"
            raise BodyError(f"unknown member {name[:100]!r}", hint=hint)
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
        version=given.get("version"),
        since=given.get("since"),
    )


def _read_request(given: Mapping[str, Any]) -> GraphqlRequest | None:
    members = {name: given[name] for name in _QUERY if name in given}
    if not members:
        return None
    check_variables(members.get("variables") or {})
    return read_request(members)


def _read_sample(given: Mapping[str, Any]) -> int | None:
    sample: int | None = given.get("sample")
    if sample is not None and not 1 <= sample <= _MAX_SAMPLED:
        raise BodyError(f"'sample' must be from 1 to {_MAX_SAMPLED}")
    return sample


def _read_texts(given: Mapping[str, Any], member: str, most: int) -> tuple[str, ...] | None:
    texts = given.get(member)
    if texts is None:
        return None
    if not all(isinstance(text, str) and len(text) <= _LONGEST_NAME for text in texts):
        raise BodyError(f"{member!r} must be a list of strings")
    if len(texts) > most:
        raise BodyError(f"{member!r} has more than {most} elements")
    return tuple(dict.fromkeys(texts))


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


TEXT_PARTS: Final = ("mappings", "descriptor")
_LONGEST_PLACE: Final = 1_000
_FIELD: Final = re.compile(r"mappings\.([_A-Za-z]\w*)\.([_A-Za-z]\w*)")
_TYPES: Final = (ObjectTypeDefinitionNode, ObjectTypeExtensionNode, InterfaceTypeDefinitionNode)
_INDEX: Final = re.compile(r"\[([0-9]{1,9})\]")


@dataclass(frozen=True, slots=True)
class Draft:
    """The definition; `texts` are the parts that were texts, `flaws` why some cannot be parsed.

    `sources` are these texts as they were written.

    `mappings` and `descriptor` may be YAML or JSON texts. A finding in such a part has its line and
    column there. A text that cannot be parsed is a finding, too.
    """

    document: Document
    texts: Mapping[str, ConfigNode] = field(default_factory=dict)
    flaws: tuple[Finding, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    def describe(self, finding: Finding) -> dict[str, Any]:
        """Return a finding for JSON, with its field, and its line and column if a text has them.

        A field that the mappings do not contain is located in the schema (`part`).
        """
        place = finding.place or self._locate(finding.where)
        content = finding.as_dict()
        named = _FIELD.match(finding.where)
        if named is not None:
            content["field"] = f"{named[1]}.{named[2]}"
            mappings = self.document.get("mappings")
            fields = mappings.get(named[1]) if isinstance(mappings, Mapping) else None
            if not isinstance(fields, Mapping) or named[2] not in fields:
                position = _find_fields(str(self.document.get("schema", ""))).get(content["field"])
                if position is not None:
                    return content | position._asdict() | {"part": "schema"}
        return content if place is None else content | place._asdict()

    def _locate(self, where: str) -> TextPosition | None:
        """Return the position of the deepest key of a text that the path leads to."""
        part = next((name for name in self.texts if where.startswith(name)), None)
        return None if part is None else locate(self.texts[part], where[len(part) :])


@lru_cache(maxsize=2)
def _find_fields(schema: str) -> Mapping[str, TextPosition]:
    """Return the positions of the fields of a schema, by `Type.field`; none if it is no schema."""
    try:
        definitions = parse(schema).definitions
    except (GraphQLError, RecursionError):  # the check reports it
        return {}
    positions: dict[str, TextPosition] = {}
    for node in definitions:
        if isinstance(node, _TYPES):
            for field_node in node.fields or ():
                if field_node.name.loc is not None:
                    start = field_node.name.loc.start_token
                    place = TextPosition(start.line, start.column)
                    positions[f"{node.name.value}.{field_node.name.value}"] = place
    return positions


def read_draft(source: Mapping[str, Any]) -> Draft:
    """Parse the definition from JSON, which may contain texts."""
    document: Document = {}
    texts: dict[str, ConfigNode] = {}
    flaws: list[Finding] = []
    for key, value in source.items():
        content = value
        if key in TEXT_PARTS and isinstance(value, str):
            parsed = _parse(value)
            if parsed.node is None or parsed.problems:
                flaws += [_read_problem(key, problem) for problem in parsed.problems]
                continue
            texts[key] = parsed.node
            content = to_plain(parsed.node)
        try:
            document[key] = build_bson(content)
        except ValueError as error:
            flaws.append(Finding(key, str(error)))
    sources = {part: source[part] for part in TEXT_PARTS if isinstance(source.get(part), str)}
    return Draft(document, texts, tuple(flaws), sources)


def read_text(text: str) -> ConfigNode | None:
    """Parse YAML or JSON with the positions of its keys; None if it is neither."""
    parsed = _parse(text)
    return None if parsed.problems else parsed.node


def _parse(text: str) -> ParsedText:
    return parse_yaml(
        text, lambda line, column: Origin("", line + 1, column + 1), bounds=DOCUMENT_BOUNDS
    )


def locate(node: ConfigNode, where: str) -> TextPosition | None:
    """Return the position of the deepest key that steps such as `.author.$in[0]` lead to."""
    rest = where
    if len(rest) > _LONGEST_PLACE:
        return None
    while step := _find_step(node, rest):
        node, rest = step
    return TextPosition(node.place.line, node.place.column)


def _read_problem(part: str, problem: Problem) -> Finding:
    """Convert a mistake of the text; its origin is written as `:line:column`."""
    numbers = [int(number) for number in problem.origin.split(":") if number.isdigit()]
    place = TextPosition(numbers[0], numbers[1]) if len(numbers) > 1 else None
    where = (part + problem.path.replace("/", ".")).rstrip(".")
    return Finding(where, problem.message, problem.hint, place)


def _find_step(node: ConfigNode, rest: str) -> tuple[ConfigNode, str] | None:
    """Return the child that the path begins with, and the rest of the path.

    Keys may have dots and brackets in them: of several that match, the longest is meant.
    """
    if isinstance(node.value, tuple):
        index = _INDEX.match(rest)
        if index is None or int(index[1]) >= len(node.value):
            return None
        return node.value[int(index[1])], rest[index.end() :]
    if isinstance(node.value, Mapping) and rest[:1] == ".":
        ends = [number for number, character in enumerate(rest) if number and character in ".["]
        for end in (len(rest), *reversed(ends)):
            child = node.value.get(rest[1:end])
            if child is not None:
                return child, rest[end:]
    return None
