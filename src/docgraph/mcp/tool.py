"""MCP tool: its definition, its outcome, and parsing of its arguments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any, Final

import msgspec
from msgspec.yaml import decode

from docgraph.exchange.errors import BodyError
from docgraph.graphql.definition.definition_schema import JsonSchema
from docgraph.mcp.rpc import McpCall
from docgraph.mcp.sections import Mcp
from docgraph.runtime import allocations

_READ_ONLY: Final = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}
_KINDS: Mapping[str, tuple[type, str]] = {
    "string": (str, "a string"),
    "object": (dict, "an object"),
    "array": (list, "a list of strings"),
}


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The text for the agent; `is_structured`: it is JSON, and programs also get it as such."""

    text: str
    is_structured: bool = False
    is_error: bool = False


RunTool = Callable[[McpCall, Mapping[str, Any]], Awaitable[ToolOutcome]]


@dataclass(frozen=True)
class Tool:
    """A read-only tool that an agent can call."""

    name: str
    title: str
    description: str
    input_schema: JsonSchema
    run: RunTool
    output_schema: JsonSchema | None = None

    @cached_property
    def rendered(self) -> bytes:
        """The tool as `tools/list` shows it."""
        content = {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "annotations": _READ_ONLY,
        }
        output = {} if self.output_schema is None else {"outputSchema": self.output_schema}
        return allocations.dumps({**content, **output})


class _ToolText(msgspec.Struct, frozen=True):
    title: str
    description: str
    arguments: dict[str, JsonSchema]
    required: list[str] = []


TOOLS: Final = decode(
    files(__package__).joinpath("tools.yaml").read_bytes(), type=dict[str, _ToolText]
)


def build_tool(name: str, run: RunTool, settings: Mcp) -> Tool:
    """Build a tool of `tools.yaml`."""
    text = TOOLS[name]
    schema = {
        "type": "object",
        "properties": text.arguments,
        "required": text.required,
        "additionalProperties": False,
    }
    described = text.description.format_map(msgspec.structs.asdict(settings))
    return Tool(name, text.title, described, schema, run)


def as_json(content: Any) -> ToolOutcome:
    """Return a value as the agent reads it."""
    return ToolOutcome(allocations.dumps(content).decode())


def check_arguments(schema: JsonSchema, arguments: Mapping[str, Any]) -> None:
    """Raise for arguments that the schema of a built-in tool does not allow.

    Null counts as not given.
    """
    declared: Mapping[str, JsonSchema] = schema["properties"]
    for name, value in arguments.items():
        if name not in declared:
            given = ", ".join(declared) or "none"
            raise BodyError(f"unknown argument {name[:100]!r}", hint=f"the arguments are: {given}")
        kind, noun = _KINDS[declared[name]["type"]]
        fits = value is None or isinstance(value, kind)
        if fits and isinstance(value, list):
            fits = all(isinstance(item, str) for item in value)
        if not fits:
            raise BodyError(f"the argument {name!r} must be {noun}")
    for name in schema["required"]:
        if arguments.get(name) is None:
            raise BodyError(f"the argument {name!r} is missing")
