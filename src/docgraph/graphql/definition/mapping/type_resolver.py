"""`$typeResolver`: which object type a document of an interface or union is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from docgraph.predicates import Predicate

__all__ = ["TypeResolver"]


@dataclass(frozen=True, slots=True)
class TypeResolver:
    """The first predicate that holds, in the order of the definition, names the type."""

    abstract_type: str
    predicates: tuple[tuple[str, Predicate], ...]
    needed_paths: frozenset[str]  # "": the whole value

    def resolve(self, value: Any) -> str | None:
        """The name of the type, or None when no predicate holds."""
        for name, predicate in self.predicates:
            if predicate(value):
                return name
        return None
