"""The merged values of all sources, each with its origin, and the mistakes found on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docgraph.config.node import BUILT_IN, Node, Origin, to_plain
from docgraph.config.overrides import PathError, parse_path
from docgraph.exchange.errors import Problem

__all__ = ["Tree"]


@dataclass(frozen=True, slots=True)
class Tree:
    """What the sources say; what they do not say is left to the defaults of the sections."""

    root: Node
    file: Path | None  # the configuration file, where there is one
    directory: Path  # what relative paths outside files are relative to
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    complete: bool = True  # whether every source could be read to its end

    def find(self, path: str) -> Node | None:
        """The node at a path such as `/mongo/mongo-mounts[1]/what`, where a source has set it."""
        try:
            steps = parse_path(path)
        except PathError:
            return None
        node: Node | None = self.root
        for step in steps:
            node = _step_into(node, step)
        return node

    def is_set(self, path: str) -> bool:
        """Whether a source gives the option a value other than null."""
        node = self.find(path)
        return node is not None and node.value is not None

    def place(self, path: str) -> Origin:
        """Where the value at a path, or else the nearest thing above it, was set."""
        while path:
            if node := self.find(path):
                return node.place
            path = path[: max(path.rfind("/"), path.rfind("["), 0)]
        return BUILT_IN

    def origin(self, path: str) -> str:
        """`docgraph.yml:12:3`, `DOCGRAPH_OVERRIDES`, `--set` or `built-in default`."""
        node = self.find(path)
        return str(node.place if node else BUILT_IN)

    def section(self, name: str) -> Node | None:
        """The node of a section; the name is taken as it is, whatever it contains."""
        return _step_into(self.root, name)

    def to_plain(self) -> Any:
        """All values as ordinary Python objects."""
        return to_plain(self.root)


def _step_into(node: Node | None, step: str | int) -> Node | None:
    if node is None:
        return None
    if isinstance(step, str) and isinstance(node.value, Mapping):
        return node.value.get(step)
    if isinstance(step, int) and isinstance(node.value, tuple) and step < len(node.value):
        return node.value[step]
    return None
