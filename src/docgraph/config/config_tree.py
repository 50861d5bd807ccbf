"""Merged configuration values of all sources with their origins, and the problems found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docgraph.config.config_node import BUILT_IN, ConfigNode, Origin, to_plain
from docgraph.config.overrides import PathError, parse_path
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

    def place(self, path: str) -> Origin:
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
        """Convert all values to plain Python objects."""
        return to_plain(self.root)


def _step_into(node: ConfigNode | None, step: str | int) -> ConfigNode | None:
    if node is None:
        return None
    if isinstance(step, str) and isinstance(node.value, Mapping):
        return node.value.get(step)
    if isinstance(step, int) and isinstance(node.value, tuple) and step < len(node.value):
        return node.value[step]
    return None
