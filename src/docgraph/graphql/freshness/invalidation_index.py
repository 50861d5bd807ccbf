"""Invalidation index: which registrations a change concerns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from docgraph.graphql.freshness.change_facts import ChangeFacts
from docgraph.graphql.freshness.dependency import Dependency


@dataclass(eq=False, slots=True)
class Registration:
    """Something to notify, once, when one of its dependencies changes."""

    dependencies: tuple[Dependency, ...]
    on_change: Callable[[], None]
    bytes: int = 0  # that the index needs for it


class InvalidationIndex:
    """Finds the registrations that a change concerns."""

    bytes: int = 0

    def add(
        self, dependencies: Iterable[Dependency], on_change: Callable[[], None]
    ) -> Registration:
        """Register a function, which is called once, when one of the dependencies changes."""
        raise NotImplementedError

    def remove(self, registration: Registration) -> None:
        """Remove a registration, if it is there."""
        raise NotImplementedError

    def apply(self, facts: ChangeFacts) -> int:
        """Remove and notify the registrations that a change concerns; return how many."""
        raise NotImplementedError

    def reset(self) -> int:
        """Remove and notify all registrations; return how many."""
        raise NotImplementedError

    def namespaces(self) -> frozenset[str]:
        """Return the namespaces with registrations."""
        raise NotImplementedError

    def needs_documents(self, db: str) -> bool:
        """Return whether updates in a database must be read with their documents."""
        raise NotImplementedError
