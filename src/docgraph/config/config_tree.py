"""Merged configuration values with their origins, and the overrides of single options.

The grammar of `DOCGRAPH_OVERRIDES` and of `.conf` files: `<path> -> <value>`, entries separated by
`;` (in a file also by line ends, with `#` comments). A path is `/mongo/mongo-mounts[1]/where`. A
value is JSON or a YAML scalar; list indexes begin at 1; missing parents are created.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from docgraph.config.config_node import BUILT_IN, ConfigNode, Origin, to_plain
from docgraph.config.parse import ResolveScalar, parse_yaml, resolve_scalar
from docgraph.exchange.errors import Problem


@dataclass(frozen=True, slots=True)
class ConfigTree:
    """The values that the sources set; for all other options the sections have defaults."""

    root: ConfigNode
    file: Path | None  # the configuration file, if there is one
    directory: Path  # the base of relative paths outside files
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    complete: bool = True  # whether every source could be read to its end

    def find(self, path: str) -> ConfigNode | None:
        """Return the node at a path such as `/mongo/mongo-mounts[1]/what`, if a source set it."""
        try:
            steps = parse_path(path)
        except PathError:
            return None
        node: ConfigNode | None = self.root
        for step in steps:
            node = _step_into(node, step)
        return node

    def is_set(self, path: str) -> bool:
        """Return whether a source gives the option a value other than null."""
        node = self.find(path)
        return node is not None and node.value is not None

    def find_origin(self, path: str) -> Origin:
        """Return where the value at a path, or else its nearest parent, was set."""
        while path:
            if node := self.find(path):
                return node.place
            path = path[: max(path.rfind("/"), path.rfind("["), 0)]
        return BUILT_IN

    def origin(self, path: str) -> str:
        """Return `docgraph.yml:12:3`, `DOCGRAPH_OVERRIDES`, `--set` or `built-in default`."""
        node = self.find(path)
        return str(node.place if node else BUILT_IN)

    def section(self, name: str) -> ConfigNode | None:
        """Return the node of a section; the name is used verbatim, not as a path."""
        return _step_into(self.root, name)

    def to_plain(self) -> Any:
        return to_plain(self.root)


def _step_into(node: ConfigNode | None, step: str | int) -> ConfigNode | None:
    if node is None:
        return None
    if isinstance(step, str) and isinstance(node.value, Mapping):
        return node.value.get(step)
    if isinstance(step, int) and isinstance(node.value, tuple) and step < len(node.value):
        item: ConfigNode = node.value[step]  # mypy takes what a recursive tuple holds for Any
        return item
    return None


Step = str | int

_STEP: Final = re.compile(r"/([^/\[\]]+)((?:\[[^\]]*\])*)")
_POSITIVE: Final = re.compile(r"[1-9][0-9]{0,5}")
_INDEX: Final = re.compile(r"\[([^\]]*)\]")
_MAX_STEPS: Final = 32
_PARTS: Final = r"""
    (?P<quoted>(?<![^\s\[{,:>])(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'))
    |(?P<open>[\[{])|(?P<close>[\]}])|(?P<cut>;)|(?P<line>\n)
"""
_TOKENS: Final = re.compile(_PARTS, re.VERBOSE | re.DOTALL)
_LINES: Final = re.compile(
    r"(?P<comment>^[ \t]*\#[^\n]*)|" + _PARTS, re.VERBOSE | re.DOTALL | re.MULTILINE
)
_GRAMMAR: Final = "write '/section/option -> value'"


class PathError(ValueError):
    """A path that is invalid or leads nowhere."""


@dataclass(frozen=True, slots=True)
class OverrideText:
    """One override as text."""

    path: str
    value: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Override:
    """One parsed override: a path and its value."""

    path: str
    node: ConfigNode


def parse_path(text: str) -> tuple[Step, ...]:
    """Parse the steps of a path: names, and indexes counted from 0."""
    steps: list[Step] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            break
        steps.append(match[1].strip())
        steps.extend(_parse_index(index) for index in _INDEX.findall(match[2]))
        position = match.end()
    if not steps or position < len(text):
        raise PathError("not a path, which looks like '/graphql/max-limit'")
    if len(steps) > _MAX_STEPS:
        raise PathError(f"more than {_MAX_STEPS} steps")
    return tuple(steps)


def _parse_index(text: str) -> int:
    if not _POSITIVE.fullmatch(text):
        raise PathError(f"'[{text}]' is not an index, which counts from 1")
    return int(text) - 1


def parse_entries(
    text: str, locate: Callable[[int, int], Origin], *, lines: bool
) -> tuple[list[OverrideText], list[Problem]]:
    """Split a text into entries; with `lines`, line ends separate and `#` begins a comment."""
    entries: list[OverrideText] = []
    problems: list[Problem] = []
    for number, (start, chunk) in enumerate(_split(text, lines=lines), 1):
        stripped = chunk.strip()
        if not stripped or (lines and stripped.startswith("#")):
            continue
        offset = start + chunk.index(stripped[0])
        line = text.count("\n", 0, offset)
        origin = locate(line, offset - (text.rfind("\n", 0, offset) + 1))
        path, arrow, value = stripped.partition("->")
        if not arrow or not path.strip().startswith("/"):
            # The text itself is not repeated: it may be the rest of a badly quoted secret.
            problems.append(
                Problem(str(origin), "/", f"entry {number} is not an override", _GRAMMAR)
            )
            continue
        entries.append(OverrideText(path.strip(), value.strip(), origin))
    return entries, problems


def _split(text: str, *, lines: bool) -> Iterator[tuple[int, str]]:
    """Split at `;` (and line ends) outside quotes and brackets; yield offset and text."""
    start = depth = 0
    for token in (_LINES if lines else _TOKENS).finditer(text):
        kind = token.lastgroup
        depth += (kind == "open") - (kind == "close")
        if kind == "cut" or (kind == "line" and lines and depth <= 0):
            yield start, text[start : token.start()]
            start, depth = token.end(), 0
    yield start, text[start:]


def read_entry(
    entry: OverrideText, resolve: ResolveScalar = resolve_scalar
) -> tuple[Override | None, tuple[Problem, ...]]:
    parsed = parse_yaml(
        entry.value, lambda line, column: entry.origin, at=entry.path, resolve=resolve
    )
    if parsed.node is None:
        return None, parsed.problems
    return Override(entry.path, parsed.node), parsed.problems


def apply_override(
    root: ConfigNode,
    override: Override,
    default_list: Callable[[tuple[Step, ...]], ConfigNode | None],
) -> ConfigNode:
    """Return `root` with the override applied; `default_list` returns lists that are not set."""
    steps = parse_path(override.path)
    return _place(root, steps, override.node, lambda done: default_list(steps[:done]))


def _place(
    parent: ConfigNode | None,
    steps: tuple[Step, ...],
    value: ConfigNode,
    default_list: Callable[[int], ConfigNode | None],
    done: int = 0,
) -> ConfigNode:
    if done == len(steps):
        return value
    step = steps[done]
    if isinstance(step, int):
        items = _items(parent, default_list(done))
        if step > len(items):
            raise PathError(f"there is no element [{step + 1}]: the list has {len(items)}")
        old = items[step] if step < len(items) else None
        new = _place(old, steps, value, default_list, done + 1)
        return ConfigNode((*items[:step], new, *items[step + 1 :]), value.origin)
    children = parent.value if parent is not None and parent.value is not None else {}
    if not isinstance(children, Mapping):
        raise PathError(f"'{step}' leads nowhere: there is a single value above it")
    new = _place(children.get(step), steps, value, default_list, done + 1)
    whole = {**children, step: new._replace(key=value.origin)}
    return ConfigNode(
        whole, parent.origin if parent else value.origin, parent.key if parent else None
    )


def _items(parent: ConfigNode | None, default: ConfigNode | None) -> tuple[ConfigNode, ...]:
    node = default if parent is None or parent.value is None else parent
    if node is None or not isinstance(node.value, tuple):
        raise PathError("an index, and there is no list")
    return node.value
