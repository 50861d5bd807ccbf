"""Field to field: a GraphQL field is a field of the document, nested ones in dot notation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from docgraph.variables import compile_field

__all__ = ["FieldMapping"]


@dataclass(frozen=True, slots=True)
class FieldMapping:
    """`a.b.0`: descend by name, into arrays by index, over arrays by name; absent is null."""

    path: tuple[str, ...]
    get: Callable[[Any], Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "get", compile_field(self.path))

    @property
    def text(self) -> str:
        """The path in dot notation, as written and as a projection takes it."""
        return ".".join(self.path)
