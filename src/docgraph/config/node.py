"""Values together with the place they come from.

A `Node` is a scalar, a mapping or a list as a source gave it; nodes are immutable and are merged
into new ones. An `Origin` is what a person needs to find the value again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

__all__ = ["BUILT_IN", "EMPTY", "Node", "Origin", "from_plain", "merge", "to_plain"]

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Origin:
    """A place in a file, or the variable or option that carried the value."""

    source: str
    line: int = 0  # 1-based; 0 where the source has no lines
    column: int = 0
    directory: Path | None = None  # what relative paths in this source are relative to

    def __str__(self) -> str:
        name = self.source if self.source.isprintable() else ascii(self.source)
        return f"{name}:{self.line}:{self.column}" if self.line else name


BUILT_IN = Origin("built-in default")


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its origin; in a mapping, the origin of its key too."""

    value: Scalar | Mapping[str, Node] | tuple[Node, ...]
    origin: Origin
    key: Origin | None = field(default=None)

    @property
    def place(self) -> Origin:
        """Where a reader would look for it: at the key, else at the value."""
        return self.key or self.origin


EMPTY = Node({}, BUILT_IN)


def merge(base: Node, over: Node) -> Node:
    """`over` on top of `base`: mappings join, everything else is replaced."""
    if not isinstance(base.value, Mapping) or not isinstance(over.value, Mapping):
        return over
    joined = dict(base.value)
    for name, node in over.value.items():
        joined[name] = merge(joined[name], node) if name in joined else node
    return replace(over, value=joined)


def to_plain(node: Node) -> Any:
    """The value as ordinary Python objects."""
    if isinstance(node.value, Mapping):
        return {name: to_plain(child) for name, child in node.value.items()}
    if isinstance(node.value, tuple):
        return [to_plain(child) for child in node.value]
    return node.value


def from_plain(value: Any, origin: Origin) -> Node:
    """Ordinary Python objects as nodes that all have the same origin."""
    if isinstance(value, Mapping):
        children = {name: from_plain(child, origin) for name, child in value.items()}
        return Node(children, origin)
    if isinstance(value, list | tuple):
        return Node(tuple(from_plain(child, origin) for child in value), origin)
    return Node(value, origin)
