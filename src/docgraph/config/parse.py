"""YAML 1.2 parser that records the line and column of every value.

It is built from the event stream of PyYAML's C parser, which is iterative, so that no file can
exhaust the stack or the memory: depth, number of values (aliases counted in full) and size are
bounded. Recoverable mistakes are reported and parsing continues; a syntax error ends it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import yaml

from docgraph.config.config_node import ConfigNode, Origin
from docgraph.exchange.errors import Problem

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = dict.fromkeys(("true", "True", "TRUE"), True) | dict.fromkeys(
    ("false", "False", "FALSE"), False
)
_NUMBERS_BEGIN = frozenset("+-.0123456789")
_DECIMAL = re.compile(r"[-+]?[0-9]{1,4000}")
_OCTAL = re.compile(r"0o[0-7]{1,100}")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]{1,100}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"([-+]?)\.(inf|Inf|INF)")
_NOT_A_NUMBER = frozenset({".nan", ".NaN", ".NAN"})

_SIZE = re.compile(r"([0-9]{1,15})\s*([A-Za-z]*)")
_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "k": 1 << 10,
    "kib": 1 << 10,
    "m": 1 << 20,
    "mib": 1 << 20,
    "g": 1 << 30,
    "gib": 1 << 30,
}


def resolve_scalar(text: str) -> str | int | float | bool | None:
    """Return the value of a plain scalar.

    It is a scalar of YAML 1.2 (core schema), or a size such as `64 KiB`. YAML 1.1, which most
    libraries still use, reads `no` as false, `12:30` as 750 and `010` as 8; here they are two texts
    and the number 10.
    """
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text[0] not in _NUMBERS_BEGIN:
        return text
    if _DECIMAL.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text):
        return int(text[2:], 8)
    if _HEXADECIMAL.fullmatch(text):
        return int(text[2:], 16)
    if _FLOAT.fullmatch(text):
        return float(text)
    if infinite := _INFINITE.fullmatch(text):
        return float(f"{infinite[1]}inf")
    return float("nan") if text in _NOT_A_NUMBER else text


def parse_size(text: str) -> int | None:
    """Return the bytes of a text such as `64 KiB` or `1 MB`; None if it is not a size."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or match[2].lower() not in _UNITS:
        return None
    return int(match[1]) * _UNITS[match[2].lower()]


MAX_TEXT: Final = 1 << 20
MAX_DEPTH: Final = 32
MAX_VALUES: Final = 20_000


@dataclass(frozen=True, slots=True)
class TextLimits:
    """The bounds of a text: characters, levels and values; the defaults are for configurations."""

    text: int = MAX_TEXT
    depth: int = MAX_DEPTH
    values: int = MAX_VALUES


DOCUMENT_BOUNDS: Final = TextLimits(16 << 20, 100, 200_000)  # for a document of the database
_CONFIGURATION_BOUNDS: Final = TextLimits()

_CORE_TAGS: Final[dict[str, type]] = {
    f"tag:yaml.org,2002:{name}": kind
    for name, kind in {
        "str": str,
        "int": int,
        "float": float,
        "bool": bool,
        "null": type(None),
        "seq": tuple,
        "map": dict,
    }.items()
}
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Locate = Callable[[int, int], Origin]
ResolveScalar = Callable[[str], str | int | float | bool | None]


@dataclass(frozen=True, slots=True)
class ParsedText:
    """The result of a text; `node` is None if it could not be read to its end."""

    node: ConfigNode | None
    problems: tuple[Problem, ...] = ()


class _UnreadableError(Exception):
    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def parse_yaml(
    text: str,
    locate: Locate,
    *,
    at: str = "",
    bounds: TextLimits = _CONFIGURATION_BOUNDS,
    resolve: ResolveScalar = resolve_scalar,
) -> ParsedText:
    """Parse one document; `locate` returns the origin of a line and column, counted from 0.

    `resolve` returns the value of a scalar that is not quoted.
    """
    composer = _Composer(text, locate, at, bounds, resolve)
    try:
        node = composer.compose()
    except _UnreadableError as error:
        return ParsedText(None, (*composer.problems, error.problem))
    return ParsedText(node, tuple(composer.problems))


@dataclass(slots=True)
class _Composer:
    text: str
    locate: Locate
    at: str
    bounds: TextLimits
    resolve: ResolveScalar
    problems: list[Problem] = field(default_factory=list)
    count: int = 0
    anchors: dict[str, tuple[ConfigNode, int]] = field(default_factory=dict)
    events: Any = field(init=False)  # a parser of PyYAML

    def compose(self) -> ConfigNode:
        if len(self.text) > self.bounds.text:
            longest = self.bounds.text
            self._give_up(self.locate(0, 0), self.at, f"longer than {longest} characters")
        try:
            self.events = _LOADER(self.text)
            return self._compose_document()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line, mark.column) if mark else (0, 0)
            message, hint = _explain_syntax(self.text, error, line, column)
            self._give_up(self.locate(line, column), self.at, message, hint)
        except (yaml.YAMLError, UnicodeError):
            line, column = _find_unprintable(self.text)
            self._give_up(
                self.locate(line, column),
                self.at,
                "a character that YAML does not allow",
                "remove it, or write it as an escape such as \\x07 in double quotes",
            )

    def _compose_document(self) -> ConfigNode:
        self._next()  # stream start
        event = self._next()
        if isinstance(event, yaml.StreamEndEvent):
            return ConfigNode(None, self.locate(0, 0))
        node = self._compose_node(self._next(), self.at, 0)
        self._next()  # document end
        event = self._next()
        if not isinstance(event, yaml.StreamEndEvent):
            self._give_up(
                self._origin(event),
                self.at,
                "a second document begins here",
                "keep one document and remove the '---'",
            )
        return node

    def _next(self) -> Any:
        return self.events.get_event()

    def _compose_node(self, event: Any, path: str, depth: int) -> ConfigNode:
        origin = self._origin(event)
        if depth > self.bounds.depth:
            self._give_up(origin, path, f"nested deeper than {self.bounds.depth} levels")
        if isinstance(event, yaml.AliasEvent):
            return self._follow_alias(event, path)
        before = self.count
        self._count(1, origin, path)
        if isinstance(event, yaml.ScalarEvent):
            node = ConfigNode(self._resolve(event, path), origin)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._check_tag(event, tuple, path)
            node = ConfigNode(self._compose_list(path, depth), origin)
        else:
            self._check_tag(event, dict, path)
            node = ConfigNode(self._compose_mapping(path, depth), origin)
        if event.anchor is not None:
            self.anchors[event.anchor] = (node, self.count - before)
        return node

    def _compose_list(self, path: str, depth: int) -> tuple[ConfigNode, ...]:
        items: list[ConfigNode] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            items.append(self._compose_node(event, f"{path}[{len(items) + 1}]", depth + 1))
        return tuple(items)

    def _compose_mapping(self, path: str, depth: int) -> dict[str, ConfigNode]:
        children: dict[str, ConfigNode] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            place = self._origin(event)
            if not isinstance(event, yaml.ScalarEvent):
                self._give_up(place, path or "/", "a key must be text", "write 'name: value'")
            name = str(event.value)
            child = self._compose_node(self._next(), f"{path}/{name}", depth + 1)
            if name in children:
                first = children[name].place
                self._report(
                    place,
                    f"{path}/{name}",
                    f"'{name}' appears twice",
                    f"it is already set at {first}; keep one of them",
                )
                continue
            children[name] = ConfigNode(child.value, child.origin, place)
        return children

    def _follow_alias(self, event: Any, path: str) -> ConfigNode:
        origin = self._origin(event)
        if event.anchor not in self.anchors:
            self._give_up(origin, path, f"nothing is marked with '&{event.anchor}' before this")
        node, size = self.anchors[event.anchor]
        self._count(size, origin, path)
        return node._replace(origin=origin)

    def _resolve(self, event: Any, path: str) -> str | int | float | bool | None:
        text = str(event.value)
        if event.tag is None or event.tag == "!":
            return self.resolve(text) if event.implicit[0] else text
        if _CORE_TAGS.get(event.tag) is str:
            return text
        value = self.resolve(text)
        self._check_tag(event, type(value), path)
        return value

    def _check_tag(self, event: Any, kind: type, path: str) -> None:
        if event.tag not in (None, "!") and _CORE_TAGS.get(event.tag) is not kind:
            self._report(
                self._origin(event), path, f"the tag '{event.tag}' does not fit here", "remove it"
            )

    def _count(self, values: int, origin: Origin, path: str) -> None:
        self.count += values
        if self.count > self.bounds.values:
            most = self.bounds.values
            self._give_up(origin, path, f"more than {most} values, aliases included")

    def _origin(self, event: Any) -> Origin:
        mark = event.start_mark
        return self.locate(mark.line, mark.column)

    def _report(self, origin: Origin, path: str, message: str, hint: str | None = None) -> None:
        self.problems.append(Problem(str(origin), path or "/", message, hint))

    def _give_up(
        self, origin: Origin, path: str, message: str, hint: str | None = None
    ) -> NoReturn:
        raise _UnreadableError(Problem(str(origin), path or "/", message, hint))


_EXPLANATIONS: Final = (
    (
        "mapping values are not allowed",
        "a second ':' in one line, or an indentation that does not fit the line above",
        "put texts that contain ': ' in quotes, and indent options of one section alike",
    ),
    ("did not find expected ',' or", "a list or mapping in brackets is not closed", "close it"),
    ("expected node content", "a list or mapping in brackets is not closed", "close it"),
    ("found unexpected end of stream", "a quoted text is not closed", "close the quotes"),
    (
        "did not find expected key",
        "this line does not fit the indentation of the lines above",
        "indent options of one section alike",
    ),
    (
        "did not find expected '-' indicator",
        "this line does not fit the list above",
        "begin entries of a list with '- ', indented alike",
    ),
    ("could not find expected ':'", "a key without ':'", "write 'name: value'"),
)


def _explain_syntax(
    text: str, error: yaml.MarkedYAMLError, line: int, column: int
) -> tuple[str, str | None]:
    reason = error.problem or "not YAML"
    if "cannot start any token" in reason:
        lines = text.splitlines()
        character = lines[line][column : column + 1] if line < len(lines) else ""
        if character == "\t":
            return "a tab where YAML wants spaces", "indent with spaces"
        return f"a value cannot begin with {character!r}", "put it in quotes"
    for part, message, hint in _EXPLANATIONS:
        if part in reason:
            return message, hint
    return f"not YAML: {reason}", None


def _find_unprintable(text: str) -> tuple[int, int]:
    for number, line in enumerate(text.split("\n")):
        for column, character in enumerate(line):
            if not character.isprintable() and character not in "\t\r\x85\xa0\ufeff":
                return number, column
    return 0, 0
