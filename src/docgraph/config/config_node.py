"""Configuration values with the location they come from.

A `ConfigNode` is a scalar, a mapping or a list from a source. Nodes are immutable and are merged
into new ones. An `Origin` is the location of the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

Scalar = str | int | float | bool | None


class Origin(NamedTuple):
    """A position in a file, or the variable or option that set the value."""

    source: str
    line: int = 0  # 1-based; 0 where the source has no lines
    column: int = 0
    directory: Path | None = None  # the base of relative paths in this source

    def __str__(self) -> str:
        name = self.source if self.source.isprintable() else ascii(self.source)
        return f"{name}:{self.line}:{self.column}" if self.line else name


BUILT_IN = Origin("built-in default")


class ConfigNode(NamedTuple):
    """A value and its origin; in a mapping, also the origin of its key."""

    value: Scalar | Mapping[str, ConfigNode] | tuple[ConfigNode, ...]
    origin: Origin
    key: Origin | None = None

    @property
    def place(self) -> Origin:
        """The position to report to a user: that of the key, else of the value."""
        return self.key or self.origin


EMPTY = ConfigNode({}, BUILT_IN)


def merge(base: ConfigNode, over: ConfigNode) -> ConfigNode:
    """Merge `over` into `base`: mappings are merged, all other values are replaced."""
    if not isinstance(base.value, Mapping) or not isinstance(over.value, Mapping):
        return over
    joined = dict(base.value)
    for name, node in over.value.items():
        joined[name] = merge(joined[name], node) if name in joined else node
    return over._replace(value=joined)


def to_plain(node: ConfigNode) -> Any:
    if isinstance(node.value, Mapping):
        return {name: to_plain(child) for name, child in node.value.items()}
    if isinstance(node.value, tuple):
        return [to_plain(child) for child in node.value]
    return node.value


def from_plain(value: Any, origin: Origin) -> ConfigNode:
    """Convert plain Python objects to nodes that all have the same origin."""
    if isinstance(value, Mapping):
        children = {name: from_plain(child, origin) for name, child in value.items()}
        return ConfigNode(children, origin)
    if isinstance(value, list | tuple):
        return ConfigNode(tuple(from_plain(child, origin) for child in value), origin)
    return ConfigNode(value, origin)
