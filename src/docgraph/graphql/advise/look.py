"""A look at one collection: whether it is there, a sample of its documents, its indexes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from docgraph.exchange import Deadline, DocgraphError, Document
from docgraph.exchange.errors import StoreUnavailable
from docgraph.graphql.infer.profile import Profile, Seen
from docgraph.graphql.infer.survey import Run
from docgraph.store import Store
from docgraph.store.catalog import Inventory, Listed, Measure
from docgraph.store.driver.planning import NamedIndex, Planning
from docgraph.store.facts import Index

__all__ = ["Look", "look_at"]

_FEWEST: Final = 20  # documents of a sample that says something about shares

Place = tuple[str, str]
Hold = Callable[[Sequence[Document]], None]
"""Holds documents against what is declared about them."""


@dataclass
class Look:
    """What is known of a collection; `problem` is why that is little."""

    place: Place
    listed: Listed | None = None
    profile: Profile = field(default_factory=Profile)
    documents: int | None = None  # about
    indexes: tuple[NamedIndex, ...] = ()
    is_fair: bool = True
    problem: str = ""

    @property
    def name(self) -> str:
        """The collection with its database."""
        return ".".join(self.place)

    @property
    def is_indexed(self) -> bool:
        """Whether it is one that can have indexes and explains what it does: no view."""
        return self.listed is not None and self.listed.kind == "collection" and not self.problem

    @property
    def is_view(self) -> bool:
        """Whether its documents are those of other collections."""
        return self.listed is not None and self.listed.kind == "view"

    @property
    def plain_indexes(self) -> tuple[Index, ...]:
        """The indexes without their names."""
        return tuple(one.index for one in self.indexes)

    @cached_property
    def is_whole(self) -> bool:
        """Whether every property of the sample was kept."""
        shapes = [self.profile.shape, *(one.shape for one in self.paths.values() if one.shape)]
        return not any(one.omitted for one in shapes)

    @cached_property
    def paths(self) -> dict[str, Seen]:
        """What was seen, by path."""
        return {".".join(path): seen for path, seen in self.profile.shape.walk()}

    def find_seen(self, path: str) -> Seen | None:
        """What was seen at a path; numbers of elements do not count."""
        return self.paths.get(".".join(one for one in path.split(".") if not one.isdigit()))

    def guess(self, path: str) -> Any:
        """The most frequent value; None where none was kept."""
        seen = self.find_seen(path)
        leaf = seen.elements or seen if seen is not None else None
        values = leaf.values if leaf is not None else {}
        return max(values, key=lambda one: values[one]) if values else None

    def is_selective(self, path: str, most: int) -> bool:
        """Whether a value is that of `most` documents or fewer, as far as the sample shows.

        By how often two documents of the sample have the same: the most frequent value of a small
        sample would always seem more frequent than it is.
        """
        seen, sampled = self.find_seen(path), self.profile.documents
        leaf = seen.elements or seen if seen is not None else None
        if leaf is None or not leaf.values or sampled < _FEWEST:
            return False
        counts = leaf.values.values()
        share = sum(one * (one - 1) for one in counts) / (sum(counts) * (sampled - 1))
        return share * (self.documents or sampled) <= most

    def find_array(self, path: str) -> str | None:
        """The outermost array that a path leads into."""
        steps = path.split(".")
        for number in range(1, len(steps) + 1):
            head = ".".join(steps[:number])
            seen = self.paths.get(head)
            if seen is not None and "array" in seen.kinds:
                return head
        return None


async def look_at(  # noqa: PLR0913 - what, how much of it, and how
    store: Store,
    place: Place,
    listed: Listed | None,
    *,
    sample: int,
    deadline: Deadline,
    hold: Hold,
    run: Run,
) -> Look:
    """Sample the collection; what the database refuses is told in `problem`."""
    found = Look(place, listed)
    if listed is None:
        return found
    inventory = Inventory(store)

    async def take(documents: list[Document]) -> None:
        def work() -> None:
            found.profile.add_all(documents)
            hold(documents)

        await run(work)

    try:
        measure: Measure = await inventory.measure(*place, deadline)
        found.documents = measure.documents
        found.is_fair = await inventory.sample(
            *place, sample, measure, deadline=deadline, take=take
        )
        if listed.kind == "collection":
            found.indexes = await Planning(store).list_indexes(place, deadline)
    except StoreUnavailable:
        raise
    except DocgraphError as error:
        found.problem = error.message
    return found
