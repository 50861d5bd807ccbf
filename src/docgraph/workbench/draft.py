"""Draft: a definition in the editor, its parts as values or as texts.

`mappings` and `descriptor` may be YAML or JSON texts. A finding in such a part has its line and
column there. A text that cannot be parsed is a finding, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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

from docgraph.config.config_node import ConfigNode, Origin, to_plain
from docgraph.config.parse import DOCUMENT_BOUNDS, ParsedText, parse_yaml
from docgraph.exchange import Document
from docgraph.exchange.errors import Problem
from docgraph.graphql.definition.findings import Finding, TextPosition
from docgraph.graphql.definition.inputs import build_bson

TEXT_PARTS: Final = ("mappings", "descriptor")
_LONGEST_PLACE: Final = 1_000
_FIELD: Final = re.compile(r"mappings\.([_A-Za-z]\w*)\.([_A-Za-z]\w*)")
_TYPES: Final = (ObjectTypeDefinitionNode, ObjectTypeExtensionNode, InterfaceTypeDefinitionNode)
_INDEX: Final = re.compile(r"\[([0-9]{1,9})\]")


@dataclass(frozen=True, slots=True)
class Draft:
    """The definition; `texts` are the parts that were texts, `flaws` why some cannot be parsed.

    `sources` are these texts as they were written.
    """

    document: Document
    texts: Mapping[str, ConfigNode] = field(default_factory=dict)
    flaws: tuple[Finding, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_text(self) -> bool:
        """Whether a part was a text."""
        return bool(self.sources)

    def describe(self, finding: Finding) -> dict[str, Any]:
        """Return a finding for JSON, with its field, and its line and column if a text has them.

        A field that the mappings do not contain is located in the schema (`part`).
        """
        place = finding.place or self._locate(finding.where)
        content = finding.as_dict()
        named = _FIELD.match(finding.where)
        if named is not None:
            content["field"] = f"{named[1]}.{named[2]}"
            if not self._has_mapping(named[1], named[2]):
                position = _find_fields(str(self.document.get("schema", ""))).get(content["field"])
                if position is not None:
                    return content | position._asdict() | {"part": "schema"}
        return content if place is None else content | place._asdict()

    def _has_mapping(self, type: str, name: str) -> bool:
        mappings = self.document.get("mappings")
        fields = mappings.get(type) if isinstance(mappings, Mapping) else None
        return isinstance(fields, Mapping) and name in fields

    def _locate(self, where: str) -> TextPosition | None:
        """Return the position of the deepest key of a text that the path leads to."""
        part = next((one for one in self.texts if where[: len(one)] == one), None)
        return None if part is None else locate(self.texts[part], where[len(part) :])


@lru_cache(maxsize=2)
def _find_fields(schema: str) -> Mapping[str, TextPosition]:
    """Return the positions of the fields of a schema, by `Type.field`; none if it is no schema."""
    try:
        definitions = parse(schema).definitions
    except (GraphQLError, RecursionError):  # the check reports it
        return {}
    found: dict[str, TextPosition] = {}
    for node in definitions:
        if isinstance(node, _TYPES):
            for one in node.fields or ():
                if one.name.loc is not None:
                    start = one.name.loc.start_token
                    place = TextPosition(start.line, start.column)
                    found[f"{node.name.value}.{one.name.value}"] = place
    return found


def read_draft(source: Mapping[str, Any]) -> Draft:
    """Parse the definition from JSON, which may contain texts."""
    document: Document = {}
    texts: dict[str, ConfigNode] = {}
    flaws: list[Finding] = []
    for key, value in source.items():
        plain = value
        if key in TEXT_PARTS and isinstance(value, str):
            parsed = _parse(value)
            if parsed.node is None or parsed.problems:
                flaws += [_read_problem(key, problem) for problem in parsed.problems]
                continue
            texts[key] = parsed.node
            plain = to_plain(parsed.node)
        try:
            document[key] = build_bson(plain)
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
    numbers = [int(one) for one in problem.origin.split(":") if one.isdigit()]
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
        ends = [number for number, one in enumerate(rest) if number and one in ".["]
        for end in (len(rest), *reversed(ends)):
            child = node.value.get(rest[1:end])
            if child is not None:
                return child, rest[end:]
    return None
