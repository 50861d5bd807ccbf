"""What the database is asked before anything is inferred: collections, samples, indexes.

Time is one budget for all collections, so that many or slow ones cannot make it take longer;
memory is bounded by the profile of each.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from docgraph.exchange import Deadline, DocgraphError, Document
from docgraph.exchange.errors import (
    NotFound,
    StoreUnavailable,
    TimeLimitExceeded,
)
from docgraph.graphql.infer.enums import find_enum_values
from docgraph.graphql.infer.profile import Profile
from docgraph.store import Store
from docgraph.store.catalog import Inventory, Listed, Measure
from docgraph.store.facts import Index
from docgraph.store.mounts import is_reserved_collection

__all__ = [
    "MOST_SECONDS",
    "SCANNED",
    "SMALL",
    "Budget",
    "Run",
    "Scope",
    "Surveyed",
    "run_here",
    "survey",
]

T = TypeVar("T")

SMALL: Final = 100_000  # documents that are gone through to learn something
SCANNED: Final = 1_000_000  # documents that a query may go through
_SAMPLING_SHARE: Final = 0.6  # of the budget; relations are looked for in the rest
_LONGEST_MS: Final = 6_000  # for one collection
_SHORTEST_MS: Final = 300
_MOST_COLLECTIONS: Final = 500
_MOST_NAMED: Final = 20
_GLANCE_MS: Final = 900  # for a question that can do without an answer
_MOST_GLANCES: Final = 10

MOST_SECONDS: Final = 45.0


class Run(Protocol):
    """Does work that takes long, perhaps elsewhere."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """The result of the work."""


async def run_here(work: Callable[[], T]) -> T:
    """The work, done at once."""
    return work()


class Budget:
    """Time that is left for everything together."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds, perhaps less than none."""
        return self._end - time.monotonic()

    def share(self, parts: int) -> Deadline:
        """The end of one of so many equal parts of what is left."""
        milliseconds = int(self.left * 1000 / max(1, parts))
        return Deadline.after_ms(min(_LONGEST_MS, max(_SHORTEST_MS, milliseconds)))


@dataclass(frozen=True, slots=True)
class Scope:
    """What is looked at; `own` are the collections of docgraph itself, `may_read` those allowed.

    `tells`: whether indexes and counts may be told. `tell` hears of the progress.
    """

    db: str
    collections: Collection[str] | None = None
    sample: int = 1000
    own: Collection[str] = ()
    may_read: Callable[[str], Awaitable[bool]] | None = None
    seconds: float = MOST_SECONDS
    tells: bool = True
    tell: Callable[[int, int, str], None] = lambda number, total, name: None
    run: Run = run_here


@dataclass(slots=True)
class Surveyed:
    """A collection with what is known of it."""

    db: str
    listed: Listed
    profile: Profile = field(default_factory=Profile)
    documents: int | None = None  # about; None: more than small, for all that is known
    indexes: tuple[Index, ...] = ()
    is_fair: bool = True
    is_told: bool = True  # indexes and counts may be
    open_ended: set[tuple[str, ...]] = field(default_factory=set)  # texts beyond the sample

    @property
    def name(self) -> str:
        """Its name in the database."""
        return self.listed.name

    @property
    def is_view(self) -> bool:
        """Whether its documents are those of other collections."""
        return self.listed.kind == "view"

    @property
    def is_small(self) -> bool:
        """Whether it is worth going through all of it to learn something."""
        return self.documents is not None and self.documents <= SMALL

    @property
    def is_scanned(self) -> bool:
        """Whether a query may go through all of it: about a second, where no index serves it."""
        return self.documents is not None and self.documents <= SCANNED

    @property
    def is_complete(self) -> bool:
        """Whether the sample is all there is."""
        return self.documents is not None and self.profile.documents >= self.documents

    def has_index(self, path: str) -> bool:
        """Whether an index finds documents by this property."""
        return any(one.complete and one.keys[0] in ((path, 1), (path, -1)) for one in self.indexes)

    def is_unique(self, path: str) -> bool:
        """Whether an index lets no two documents have the same value there."""
        return any(one.unique and [path] == [key for key, _ in one.keys] for one in self.indexes)


async def survey(store: Store, scope: Scope, notes: list[str]) -> list[Surveyed]:
    """Sample what is in scope; what is left out, and why, is added to the notes."""
    inventory = Inventory(store)
    budget, end = Budget(scope.seconds * _SAMPLING_SHARE), Budget(scope.seconds)
    listed = await _choose(inventory, scope, notes)
    found: list[Surveyed] = []
    for number, one in enumerate(listed):
        if end.left <= 0:
            left = ", ".join(other.name for other in listed[number : number + _MOST_NAMED])
            notes.append(f"left out, as there was no time: {left}; name them to look at them alone")
            break
        scope.tell(number, len(listed), one.name)
        parts = len(listed) - number
        surveyed = await _look_at(store, inventory, scope, one, budget.share(parts), notes)
        if surveyed is not None:
            found.append(surveyed)
    return found


async def _choose(inventory: Inventory, scope: Scope, notes: list[str]) -> list[Listed]:
    deadline = Deadline.after_ms(_LONGEST_MS)
    there = await inventory.list_collections(scope.db, deadline)
    chosen: list[Listed] = []
    for one in there:
        if scope.collections is not None and one.name not in scope.collections:
            continue
        if scope.may_read is not None and not await scope.may_read(one.name):
            continue
        if one.name in scope.own:
            notes.append(f"{one.name}: left out, it belongs to docgraph itself")
        elif is_reserved_collection(one.name):
            if not one.name.startswith("system."):
                notes.append(f"{one.name}: left out, it is reserved")
        else:
            chosen.append(one)
    _require_all(scope, [one.name for one in there], chosen)
    if len(chosen) > _MOST_COLLECTIONS:
        notes.append(f"only the first {_MOST_COLLECTIONS} of {len(chosen)} collections were read")
    return chosen[:_MOST_COLLECTIONS]


def _require_all(scope: Scope, there: Sequence[str], chosen: Sequence[Listed]) -> None:
    """What somebody names has to be there; whoever may not read it is told the same."""
    names = {one.name for one in chosen}
    for name in scope.collections or ():
        is_left_out = name in scope.own or is_reserved_collection(name)
        if name not in names and not (is_left_out and name in there and scope.may_read is None):
            raise NotFound(f"there is no collection {name!r} in the database {scope.db!r}")


async def _look_at(
    store: Store,
    inventory: Inventory,
    scope: Scope,
    listed: Listed,
    deadline: Deadline,
    notes: list[str],
) -> Surveyed | None:
    db, name = scope.db, listed.name
    found = Surveyed(db, listed)
    try:
        measure = await inventory.measure(db, name, deadline)
        found.is_fair = await inventory.sample(
            db, name, scope.sample, measure, deadline=deadline, take=_taker(scope, found.profile)
        )
        found.documents = await _count(store, found, measure)
        found.indexes = await store.facts.indexes(db, name) or ()
        await _look_at_ends(store, found)
        await _look_for_others(store, found)
        found.is_told = scope.tells
        if not scope.tells:
            found.indexes = ()  # which what is inferred would tell of
    except StoreUnavailable:
        raise
    except DocgraphError as error:
        notes.append(f"{name}: left out, it cannot be sampled: {error.message}")
        return None
    if not found.profile.documents:
        notes.append(f"{name}: left out, it has no documents to learn from")
        return None
    if not found.is_fair:
        notes.append(f"{name}: sampling took too long, so only its first documents were read")
    return found


def _taker(scope: Scope, profile: Profile) -> Callable[[list[Document]], Awaitable[None]]:
    async def take(documents: list[Document]) -> None:
        await scope.run(lambda: profile.add_all(documents))

    return take


async def _count(store: Store, found: Surveyed, measure: Measure) -> int | None:
    """About how many documents; of views and time series only whether they are few."""
    if measure.documents is not None:
        return measure.documents
    deadline = Deadline.after_ms(_GLANCE_MS)
    try:
        count = await store.count(found.db, found.name, {}, limit=SCANNED + 1, deadline=deadline)
    except DocgraphError:
        return None
    return count if count <= SCANNED else None


async def _look_at_ends(store: Store, found: Surveyed) -> None:
    """The first and the last `_id`: the database sorts by kind, so others lie between no two alike.

    Views and time series have no index for that.
    """
    if found.listed.kind != "collection" or not found.indexes:
        return
    for direction in (1, -1):
        one = await _glance(store, found, {}, {"_id": direction})
        if one is not None:
            found.profile.add_id(one["_id"])


async def _look_for_others(store: Store, found: Surveyed) -> None:
    """Whether what looks like an enum has other values, where that costs little."""
    if found.is_complete:
        return
    glances = 0
    for path, seen in found.profile.shape.walk():
        leaf = seen.elements or seen
        text = ".".join(path)
        if find_enum_values(path[-1], leaf) is None or any("." in step for step in path):
            continue
        if not (found.is_small or found.has_index(text)):
            continue
        glances += 1
        if glances > _MOST_GLANCES:
            return  # as sure as the sample is
        known: list[Any] = [*leaf.values, None]
        if await _glance(store, found, {text: {"$nin": known}}) is not None:
            found.open_ended.add(path)


async def _glance(
    store: Store, found: Surveyed, filter: dict[str, Any], sort: dict[str, int] | None = None
) -> Document | None:
    """The `_id` of one document; None also where it takes too long to find."""
    try:
        return await store.find_one(
            found.db,
            found.name,
            filter,
            projection={"_id": 1},
            sort=sort,
            deadline=Deadline.after_ms(_GLANCE_MS),
        )
    except TimeLimitExceeded:
        return None
