"""A definition as somebody has it in the editor: its parts as values, or as texts.

`mappings` and `descriptor` may be texts of YAML or JSON. What is found in a part that is a text has
the line and column there, and what cannot be read at all is a finding, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from docgraph.config.node import Node, Origin, to_plain
from docgraph.config.parse import DOCUMENT_BOUNDS, Parsed, parse_yaml
from docgraph.exchange import Document
from docgraph.exchange.errors import Problem
from docgraph.graphql.definition.findings import Finding, Place
from docgraph.graphql.definition.inputs import build_bson

__all__ = ["TEXT_PARTS", "Draft", "locate", "read_draft", "read_text"]

TEXT_PARTS: Final = ("mappings", "descriptor")
_LONGEST_PLACE: Final = 1_000
_INDEX: Final = re.compile(r"\[([0-9]{1,9})\]")


@dataclass(frozen=True, slots=True)
class Draft:
    """The definition; `texts` are the parts that were texts, `flaws` why some cannot be read."""

    document: Document
    texts: Mapping[str, Node] = field(default_factory=dict)
    flaws: tuple[Finding, ...] = ()
    is_text: bool = False

    def describe(self, finding: Finding) -> dict[str, Any]:
        """A finding for JSON, with its line and column where a text has them."""
        place = finding.place or self._locate(finding.where)
        content = finding.as_dict()
        return content if place is None else content | place._asdict()

    def _locate(self, where: str) -> Place | None:
        """The deepest key of a text that the place in the definition leads to."""
        part = next((one for one in self.texts if where[: len(one)] == one), None)
        return None if part is None else locate(self.texts[part], where[len(part) :])


def read_draft(source: Mapping[str, Any]) -> Draft:
    """The definition that JSON, with texts in it perhaps, stands for."""
    document: Document = {}
    texts: dict[str, Node] = {}
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
    is_text = any(isinstance(source.get(part), str) for part in TEXT_PARTS)
    return Draft(document, texts, tuple(flaws), is_text)


def read_text(text: str) -> Node | None:
    """A text of YAML or JSON, with the places of its keys; None where it is neither."""
    parsed = _parse(text)
    return None if parsed.problems else parsed.node


def _parse(text: str) -> Parsed:
    return parse_yaml(
        text, lambda line, column: Origin("", line + 1, column + 1), bounds=DOCUMENT_BOUNDS
    )


def locate(node: Node, where: str) -> Place | None:
    """The place of the deepest key that steps such as `.author.$in[0]` lead to."""
    rest = where
    if len(rest) > _LONGEST_PLACE:
        return None
    while step := _find_step(node, rest):
        node, rest = step
    return Place(node.place.line, node.place.column)


def _read_problem(part: str, problem: Problem) -> Finding:
    """A mistake of the text; its origin is written as `:line:column`."""
    numbers = [int(one) for one in problem.origin.split(":") if one.isdigit()]
    place = Place(numbers[0], numbers[1]) if len(numbers) > 1 else None
    where = (part + problem.path.replace("/", ".")).rstrip(".")
    return Finding(where, problem.message, problem.hint, place)


def _find_step(node: Node, rest: str) -> tuple[Node, str] | None:
    """The child that the rest of a place begins with, and what is left of it.

    Keys may have dots and brackets in them: of several that fit, the longest is meant.
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
