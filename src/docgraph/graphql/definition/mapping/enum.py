"""Enums: the names of the schema and the values in the database."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from docgraph.codec.equality import unordered_key

__all__ = ["EnumMapping"]


@dataclass(frozen=True, slots=True)
class EnumMapping:
    """`stored` by name, every name of the enum in it; a name without mapping stores itself."""

    name: str
    stored: Mapping[str, Any]
    _names: Mapping[Hashable, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names: dict[Hashable, str] = {}
        for name, value in self.stored.items():
            names.setdefault(unordered_key(value), name)
        object.__setattr__(self, "_names", names)

    def name_of(self, value: Any) -> str:
        """The name of a stored value, numbers by value; raises ValueError for an unknown one."""
        try:
            return self._names[unordered_key(value)]
        except KeyError:
            raise ValueError(f"enum {self.name} has no name for the stored value") from None
