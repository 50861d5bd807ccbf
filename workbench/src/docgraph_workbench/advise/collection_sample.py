"""Sample of one collection: whether it exists, its indexes, and some of its documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from docgraph import Deadline, DocgraphError, Document, StoreUnavailable, TimeLimitExceeded
from docgraph.tools.data import CollectionName, Index, Inventory, Listed, Store, list_indexes
from docgraph_workbench.advise.index_uses import NamedIndex
from docgraph_workbench.infer.profile import Profile, Seen
from docgraph_workbench.infer.survey import RunAside, count_scanned

_FEWEST: Final = 20  # documents of a sample that is large enough for shares
_COUNT_MS: Final = 1_000
_FILTERING: Final = frozenset({"$match", "$sort"})

Hold = Callable[[Sequence[Document]], None]
"""Holds documents against what is declared about them."""


@dataclass
class CollectionSample:
    """The known facts of a collection; `problem` says why little is known."""

    place: CollectionName
    listed: Listed | None = None
    profile: Profile = field(default_factory=Profile)
    documents: int | None = None  # estimated
    indexes: tuple[NamedIndex, ...] = ()
    is_fair: bool = True
    problem: str = ""
    is_slow: bool = False  # the problem is that the time was over

    @property
    def name(self) -> str:
        """The collection with its database."""
        return ".".join(self.place)

    @property
    def is_indexed(self) -> bool:
        """Whether it can have indexes and explain queries: not a view."""
        return self.listed is not None and self.listed.kind == "collection" and not self.problem

    @property
    def is_view(self) -> bool:
        """Whether it is a view: its documents are those of other collections."""
        return self.listed is not None and self.listed.kind == "view"

    @property
    def is_series(self) -> bool:
        """Whether it is a time series, whose documents are stored in buckets."""
        return self.listed is not None and self.listed.kind == "timeseries" and not self.problem

    @property
    def base(self) -> CollectionName | None:
        """The collection whose indexes serve a view; None if the view computes its documents."""
        if self.listed is None or not self.listed.source:
            return None
        is_kept = all(_FILTERING.issuperset(stage) for stage in self.listed.stages)
        return (self.place[0], self.listed.source) if is_kept else None

    @property
    def plain_indexes(self) -> tuple[Index, ...]:
        """The indexes without their names."""
        return tuple(index.index for index in self.indexes)

    @cached_property
    def is_whole(self) -> bool:
        """Whether the profile has every property of the sample."""
        shapes = [self.profile.shape, *(seen.shape for seen in self.paths.values() if seen.shape)]
        return not any(shape.omitted for shape in shapes)

    @cached_property
    def paths(self) -> dict[str, Seen]:
        """The sampled properties, by path."""
        return {".".join(path): seen for path, seen in self.profile.shape.walk()}

    def find_seen(self, path: str) -> Seen | None:
        """Return what was sampled at a path; array positions are ignored."""
        return self.paths.get(".".join(part for part in path.split(".") if not part.isdigit()))

    def guess(self, path: str) -> Any:
        """Return the most frequent value; None if no value was recorded."""
        seen = self.find_seen(path)
        leaf = seen.elements or seen if seen is not None else None
        values = leaf.values if leaf is not None else {}
        return max(values, key=lambda value: values[value]) if values else None

    def is_selective(self, path: str, most: int) -> bool:
        """Return whether a value occurs in `most` documents or fewer, estimated from the sample.

        The estimate counts how often two documents of the sample have the same value: the most
        frequent value of a small sample would always seem more frequent than it is.
        """
        seen, sampled = self.find_seen(path), self.profile.documents
        leaf = seen.elements or seen if seen is not None else None
        if leaf is None or not leaf.values or sampled < _FEWEST:
            return False
        counts = leaf.values.values()
        share = sum(count * (count - 1) for count in counts) / (sum(counts) * (sampled - 1))
        return share * (self.documents or sampled) <= most

    def find_array(self, path: str) -> str | None:
        """Return the outermost array that a path leads into."""
        steps = path.split(".")
        for number in range(1, len(steps) + 1):
            head = ".".join(steps[:number])
            seen = self.paths.get(head)
            if seen is not None and "array" in seen.kinds:
                return head
        return None


async def inspect_values(  # noqa: PLR0913 - what, how much of it, and how
    store: Store,
    place: CollectionName,
    listed: Listed | None,
    *,
    sample: int,
    deadline: Deadline,
    hold: Hold,
    run: RunAside,
) -> CollectionSample:
    """Sample the collection; `problem` has what the database rejects."""
    inspected = CollectionSample(place, listed)
    if listed is None:
        return inspected
    inventory = Inventory(store)

    async def tally_batch(documents: list[Document]) -> None:
        def work() -> None:
            inspected.profile.add_all(documents)
            hold(documents)

        await run(work)

    try:
        measure = await inventory.measure(*place, deadline)
        inspected.documents = measure.documents
        inspected.is_fair = await inventory.sample(
            *place, sample, measure, deadline=deadline, take=tally_batch
        )
        if listed.kind == "timeseries":
            inspected.documents = await _count_series(store, place)
        if listed.kind != "view":
            indexes = await list_indexes(store, place, deadline)
            inspected.indexes = tuple(map(NamedIndex.read, indexes))
    except StoreUnavailable:
        raise
    except DocgraphError as error:
        inspected.problem = error.message
        inspected.is_slow = isinstance(error, TimeLimitExceeded)
    return inspected


async def _count_series(store: Store, place: CollectionName) -> int | None:
    """Return how many documents a time series has, of which only buckets are counted."""
    try:
        return await count_scanned(store, place, Deadline.after_ms(_COUNT_MS))
    except TimeLimitExceeded:
        return None
