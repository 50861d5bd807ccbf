"""Survey of a database before inferring: collections, samples, indexes.

All collections share one time budget, so that many or slow ones cannot make it take longer. The
profile of each collection bounds the memory.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from docgraph import (
    Deadline,
    DocgraphError,
    Document,
    NotFound,
    StoreUnavailable,
    TimeLimitExceeded,
)
from docgraph.tools.data import Index, Inventory, Listed, Store, is_reserved_collection
from docgraph_workbench.infer.profile import Profile, find_enum_values

T = TypeVar("T")

SMALL: Final = 100_000  # documents that are scanned to learn something
SCANNED: Final = 1_000_000  # documents that a query may scan
_SAMPLING_SHARE: Final = 0.6  # of the budget; the rest is for relations
_LONGEST_MS: Final = 6_000  # for one collection
_SHORTEST_MS: Final = 300
_STEPS: Final = 2  # a sample, and if that takes too long, the first documents
_MAX_COLLECTIONS: Final = 500
_MAX_NAMED: Final = 20
_GLANCE_MS: Final = 900  # for a query that is optional
_MAX_GLANCES: Final = 30
_LIST_SECONDS: Final = 5.0  # for the sizes of all collections

MAX_SECONDS: Final = 45.0


class RunAside(Protocol):
    """Runs work that takes long, maybe in a thread."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """Return the result of the work."""


async def run_here(work: Callable[[], T]) -> T:
    """Run the work immediately and return its result."""
    return work()


class Budget:
    """The remaining time of all steps together."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds, negative after the end."""
        return self._end - time.monotonic()

    def split(self, parts: int) -> Budget:
        """Return one of so many equal parts of the remaining time, as a budget."""
        return Budget(max(_SHORTEST_MS / 1000, self.left / max(1, parts)))

    def glance(self) -> Deadline:
        """Return the deadline of a query that is optional."""
        return Deadline.after_ms(max(1, min(_GLANCE_MS, int(self.left * 1000))))

    def share(self, parts: int) -> Deadline:
        """Return the deadline of one of so many equal parts of the remaining time."""
        milliseconds = int(self.left * 1000 / max(1, parts))
        return Deadline.after_ms(min(_LONGEST_MS, max(_SHORTEST_MS, milliseconds)))


@dataclass(frozen=True, slots=True)
class SurveyScope:
    """The scope of a survey; `own` are docgraph's collections, `may_read` checks permissions.

    `is_explained`: whether indexes and counts may be reported. `on_progress` receives the progress.
    """

    db: str
    collections: Collection[str] | None = None
    sample: int = 1000
    own: Collection[str] = ()
    may_read: Callable[[str], Awaitable[bool]] | None = None
    seconds: float = MAX_SECONDS
    is_explained: bool = True
    on_progress: Callable[[int, int, str], None] = lambda number, total, name: None
    run: RunAside = run_here


@dataclass(slots=True)
class Surveyed:
    """A collection of the survey: its sample, indexes and size."""

    db: str
    listed: Listed
    profile: Profile = field(default_factory=Profile)
    documents: int | None = None  # estimate; None: unknown, treated as large
    indexes: tuple[Index, ...] = ()
    is_fair: bool = True
    is_explained: bool = True  # indexes and counts may be reported
    open_ended: set[tuple[str, ...]] = field(default_factory=set)  # more strings than sampled

    @property
    def name(self) -> str:
        """Its name in the database."""
        return self.listed.name

    @property
    def is_view(self) -> bool:
        """Whether it is a view: its documents are those of other collections."""
        return self.listed.kind == "view"

    @property
    def is_small(self) -> bool:
        """Whether a full scan to learn something is acceptable."""
        return self.documents is not None and self.documents <= SMALL

    @property
    def is_scanned(self) -> bool:
        """Whether a query may scan all of it: about a second, if no index serves it."""
        return self.documents is not None and self.documents <= SCANNED

    @property
    def is_complete(self) -> bool:
        """Whether the sample has all documents."""
        return self.documents is not None and self.profile.documents >= self.documents

    def has_index(self, path: str) -> bool:
        """Return whether an index finds documents by this property."""
        return any(
            index.complete and index.keys[0] in ((path, 1), (path, -1)) for index in self.indexes
        )

    def is_unique(self, path: str) -> bool:
        """Return whether a unique index on this property exists."""
        return any(
            index.unique and [path] == [key for key, _ in index.keys] for index in self.indexes
        )


async def measure_collections(
    store: Store, scope: SurveyScope, notes: list[str]
) -> list[tuple[Listed, int | None]]:
    """Return the collections in scope with the number of documents, as far as time allows."""
    inventory, budget = Inventory(store), Budget(_LIST_SECONDS)
    measured: list[tuple[Listed, int | None]] = []
    for listed in await _choose(inventory, scope, notes):
        documents: int | None = None
        if scope.is_explained and budget.left > 0:
            documents = (await inventory.measure(scope.db, listed.name, budget.glance())).documents
        measured.append((listed, documents))
    return measured


async def survey(store: Store, scope: SurveyScope, notes: list[str]) -> list[Surveyed]:
    """Sample the collections in scope; add to the notes what is left out, and why."""
    inventory = Inventory(store)
    budget, end = Budget(scope.seconds * _SAMPLING_SHARE), Budget(scope.seconds)
    listed = await _choose(inventory, scope, notes)
    collections: list[Surveyed] = []
    for number, collection in enumerate(listed):
        if end.left <= 0:
            left = ", ".join(other.name for other in listed[number : number + _MAX_NAMED])
            notes.append(f"left out for lack of time: {left}; name them to inspect them alone")
            break
        scope.on_progress(number, len(listed), collection.name)
        parts = len(listed) - number
        surveyed = await _inspect(store, inventory, scope, collection, budget.split(parts), notes)
        if surveyed is not None:
            collections.append(surveyed)
    return collections


async def _choose(inventory: Inventory, scope: SurveyScope, notes: list[str]) -> list[Listed]:
    deadline = Deadline.after_ms(_LONGEST_MS)
    listed = await inventory.list_collections(scope.db, deadline)
    chosen: list[Listed] = []
    for collection in listed:
        if scope.collections is not None and collection.name not in scope.collections:
            continue
        if scope.may_read is not None and not await scope.may_read(collection.name):
            continue
        if collection.name in scope.own:
            notes.append(f"{collection.name}: left out, it belongs to docgraph itself")
        elif is_reserved_collection(collection.name):
            if not collection.name.startswith("system."):
                notes.append(f"{collection.name}: left out, it is reserved")
        else:
            chosen.append(collection)
    _require_all(scope, [collection.name for collection in listed], chosen)
    if len(chosen) > _MAX_COLLECTIONS:
        notes.append(f"only the first {_MAX_COLLECTIONS} of {len(chosen)} collections were read")
    return chosen[:_MAX_COLLECTIONS]


def _require_all(
    scope: SurveyScope, existing_names: Sequence[str], chosen: Sequence[Listed]
) -> None:
    """Raise if a named collection does not exist or may not be read; the error is the same."""
    names = {collection.name for collection in chosen}
    for name in scope.collections or ():
        is_left_out = name in scope.own or is_reserved_collection(name)
        if name not in names and not (
            is_left_out and name in existing_names and scope.may_read is None
        ):
            raise NotFound(f"there is no collection {name!r} in the database {scope.db!r}")


async def _inspect(
    store: Store,
    inventory: Inventory,
    scope: SurveyScope,
    listed: Listed,
    budget: Budget,
    notes: list[str],
) -> Surveyed | None:
    db, name = scope.db, listed.name
    deadline = budget.share(_STEPS)
    surveyed = Surveyed(db, listed)

    async def profile_batch(documents: list[Document]) -> None:
        await scope.run(lambda: surveyed.profile.add_all(documents))

    try:
        measure = await inventory.measure(db, name, deadline)
        surveyed.is_fair = await inventory.sample(
            db, name, scope.sample, measure, deadline=deadline, take=profile_batch
        )
        surveyed.documents = measure.documents
        if surveyed.documents is None:
            surveyed.documents = await _count(store, surveyed, budget)
        surveyed.indexes = await store.stats.indexes(db, name) or ()
        await _inspect_ends(store, surveyed, budget)
        await _find_others(store, surveyed, budget)
        surveyed.is_explained = scope.is_explained
        if not scope.is_explained:
            surveyed.indexes = ()  # the inferred definition would reveal them
    except StoreUnavailable:
        raise
    except DocgraphError as error:
        notes.append(f"{name}: left out, it cannot be sampled: {error.message}")
        return None
    if not surveyed.profile.documents:
        notes.append(f"{name}: left out, it has no documents to learn from")
        return None
    if not surveyed.is_fair:
        notes.append(f"{name}: sampling took too long, so only its first documents were read")
    return surveyed


async def _count(store: Store, surveyed: Surveyed, budget: Budget) -> int | None:
    """Return how many documents a view or a time series has, if they are few."""
    try:
        return await count_scanned(store, (surveyed.db, surveyed.name), budget.glance())
    except DocgraphError:
        return None


async def count_scanned(store: Store, place: tuple[str, str], deadline: Deadline) -> int | None:
    """Return how many documents a collection has; None if they are too many to be scanned."""
    count = await store.reads.count(*place, {}, limit=SCANNED + 1, deadline=deadline)
    return count if count <= SCANNED else None


async def _inspect_ends(store: Store, surveyed: Surveyed, budget: Budget) -> None:
    """Add the first and the last `_id`: the database sorts by kind, so they show other kinds.

    Views and time series have no index for that.
    """
    if surveyed.listed.kind != "collection" or not surveyed.indexes:
        return
    for direction in (1, -1):
        document = await _glance(store, surveyed, budget, {}, {"_id": direction})
        if document is not None:
            surveyed.profile.add_id(document["_id"])


async def _find_others(store: Store, surveyed: Surveyed, budget: Budget) -> None:
    """Check whether an apparent enum has other values; if that is unknown, it may have some."""
    if surveyed.is_complete:
        return
    glances = 0
    for path, seen in surveyed.profile.shape.walk():
        leaf = seen.elements or seen
        text = ".".join(path)
        if find_enum_values(path[-1], leaf) is None or any("." in step for step in path):
            continue
        glances += 1
        if glances > _MAX_GLANCES or not (surveyed.is_small or surveyed.has_index(text)):
            surveyed.open_ended.add(path)
            continue
        known_values: list[Any] = [*leaf.values, None]
        other = await _glance(store, surveyed, budget, {text: {"$nin": known_values}}, unknown={})
        if other is not None:
            surveyed.open_ended.add(path)


async def _glance(
    store: Store,
    surveyed: Surveyed,
    budget: Budget,
    filter: dict[str, Any],
    sort: dict[str, int] | None = None,
    *,
    unknown: Document | None = None,
) -> Document | None:
    """Return the `_id` of one document; `unknown` if finding it takes too long."""
    if budget.left <= 0:
        return unknown  # the rest of the time belongs to other collections
    try:
        return await store.reads.find_one(
            surveyed.db,
            surveyed.name,
            filter,
            projection={"_id": 1},
            sort=sort,
            deadline=budget.glance(),
        )
    except TimeLimitExceeded:
        return unknown
