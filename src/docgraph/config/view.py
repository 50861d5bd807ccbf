"""What rules see of a configuration, and how they name the option to blame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from docgraph.config.section import Section
from docgraph.config.sections import SECTIONS
from docgraph.config.tree import Tree
from docgraph.exchange.errors import Problem

__all__ = ["NAMES", "Rule", "View"]

S = TypeVar("S", bound=Section)

NAMES: Final = {section: name for name, section in SECTIONS.items()}


@dataclass(frozen=True, slots=True)
class View:
    """What rules see: the sections that could be decoded, and where their values come from."""

    tree: Tree
    sections: Mapping[str, Section]
    names: frozenset[str]

    def get(self, section: type[S]) -> S | None:
        """The section, unless it has mistakes of its own."""
        value = self.sections.get(NAMES[section])
        return value if isinstance(value, section) else None

    def on(self, section: type[S]) -> S | None:
        """The section, where it is enabled."""
        value = self.get(section)
        return value if value is not None and getattr(value, "enabled", True) else None

    def knows(self, *sections: type[Section]) -> bool:
        """Whether all of these could be decoded, so that one that is not on is really off."""
        return all(self.get(section) is not None for section in sections)

    def blame(self, path: str, message: str, hint: str | None = None, *others: str) -> Problem:
        """A problem at the first of the paths that somebody has set, else at `path`."""
        for candidate in (path, *others):
            if self.tree.is_set(candidate):
                path = candidate
                break
        return Problem(str(self.tree.place(path)), path, message, hint)


Rule = Callable[[View], Iterator[Problem]]
