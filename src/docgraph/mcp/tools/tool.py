"""What a tool is, what comes of it, and how its arguments are read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from docgraph.exchange.errors import BodyError
from docgraph.mcp.call import Call

__all__ = ["Outcome", "Run", "Tool", "as_json", "check_arguments", "object_schema", "text_of"]

Schema = dict[str, Any]

_KINDS: Mapping[str, tuple[type, str]] = {
    "string": (str, "a string"),
    "object": (dict, "an object"),
    "array": (list, "a list of strings"),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the agent reads; `structured` is the same for programs, where the tool declares it."""

    text: str
    structured: Mapping[str, Any] | None = None
    is_error: bool = False


Run = Callable[[Call, Mapping[str, Any]], Awaitable[Outcome]]


@dataclass(frozen=True, slots=True)
class Tool:
    """Something that an agent can ask for; all of them only read."""

    name: str
    title: str
    description: str
    input_schema: Schema
    run: Run
    output_schema: Schema | None = None


def object_schema(properties: Mapping[str, Schema], *required: str) -> Schema:
    """The JSON Schema of arguments."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def text_of(description: str) -> Schema:
    """The schema of an argument that is text."""
    return {"type": "string", "description": description}


def as_json(content: Any) -> Outcome:
    """A value as the agent reads it."""
    return Outcome(orjson.dumps(content).decode())


def check_arguments(schema: Schema, arguments: Mapping[str, Any]) -> None:
    """Raise for arguments that the schema of a built-in tool does not have, or has otherwise.

    Null counts as not given.
    """
    known: Mapping[str, Schema] = schema["properties"]
    for name, value in arguments.items():
        if name not in known:
            given = ", ".join(known) or "none"
            raise BodyError(f"unknown argument {name[:100]!r}", hint=f"the arguments are: {given}")
        kind, noun = _KINDS[known[name]["type"]]
        fits = value is None or isinstance(value, kind)
        if fits and isinstance(value, list):
            fits = all(isinstance(one, str) for one in value)
        if not fits:
            raise BodyError(f"the argument {name!r} must be {noun}")
    for name in schema["required"]:
        if arguments.get(name) is None:
            raise BodyError(f"the argument {name!r} is missing")
