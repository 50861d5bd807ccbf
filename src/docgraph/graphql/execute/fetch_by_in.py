"""Joins by `$fk`: fetch the documents of all parents with one `$in` (no N+1).

The documents are assigned to their parents in memory. The first attempt is bounded. If it returns a
full batch, there may be more, and no parent is known to be complete: then the database stops early
for each of them (decision 13: a result that a bound cut short is fetched again by another method,
never trimmed silently). A plan remembers which of its relations are large, and skips the first
attempt for them. It is also skipped if a collation decides which texts are equal: only the database
can compare by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from docgraph.codec.equality import OWN_KEY, SINGLE_TYPES, EqualityKey, candidate_keys, equality_key
from docgraph.exchange import Document
from docgraph.exchange.data import SeveralKinds
from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.conditions import combine, match_any
from docgraph.graphql.errors import FieldFailure, describe_failure
from docgraph.graphql.execute.batched_queries import Find
from docgraph.graphql.execute.complete import view
from docgraph.graphql.execute.execution import Run
from docgraph.graphql.execute.joined import Joined, JoinedFirsts, JoinedLists
from docgraph.graphql.execute.lookup import fetch_by_lookup
from docgraph.graphql.execute.per_parent import MAX_KEYS, fetch_per_parent
from docgraph.graphql.execute.window import Window
from docgraph.graphql.joins import Join
from docgraph.graphql.plan.plan_tree import Fetch
from docgraph.runtime.native import find_native
from docgraph.runtime.tasks import concurrently
from docgraph.store.collection_stats import BY_BYTES
from docgraph.store.driver.malformed import reading_reply
from docgraph.store.driver.portions import OneField
from docgraph.store.repeated_names import is_ambiguous
from docgraph.variables import matches_nothing

FIRST_TRY = 5_000  # documents that the first attempt may always return
LARGEST_TRY = 100_000
LARGE_FROM = 20  # documents per parent from which a lookup per parent is cheaper

_DECODED = frozenset({dict})  # an `AmbiguousDocument` is another type
_WITHOUT_TEXT = SINGLE_TYPES - {str}

JoinValues = dict[EqualityKey, Any]  # a join key, and the value that represents it in a command


@dataclass(slots=True)
class _Side:
    """One join of a batch: the values to find, and which parents need each of them."""

    join: Join
    values: JoinValues = field(default_factory=dict)
    seekers: dict[EqualityKey, list[int]] = field(default_factory=dict)

    def add(self, number: int, keys: JoinValues) -> None:
        """Add the keys of a parent."""
        for key, value in keys.items():
            seekers = self.seekers.get(key)
            if seekers is None:
                self.seekers[key] = [number]
                self.values[key] = value
            else:
                seekers.append(number)

    def as_filter(self) -> Document:
        """Return the condition that documents for any of the parents satisfy."""
        return match_any(self.join.target, list(self.values.values()))

    def find_seekers(self, document: Document) -> set[int]:
        """Return the parents that a document belongs to by this join."""
        keys = candidate_keys(document, self.join.path)
        return {number for key in keys for number in self.seekers.get(key, ())}


@dataclass(slots=True)
class _Batch:
    """The parents of one command.

    `keys` are those of the parents, one by one, if each has just one and all of them are of types
    that Python compares as MongoDB does. Then the seekers are often not needed. If this is the only
    batch, `all_keys` has None for each parent without a key.
    """

    sides: list[_Side]
    numbers: list[int] = field(default_factory=list)
    keys: list[EqualityKey] | None = None
    all_keys: list[EqualityKey | None] | None = None

    @property
    def size(self) -> int:
        """The number of keys in the command."""
        return max([len(side.values) for side in self.sides])

    @property
    def has_texts(self) -> bool:
        """Whether a collation could compare some of the keys."""
        return any(
            not _WITHOUT_TEXT.issuperset(map(type, side.values.values())) for side in self.sides
        )

    def add(self, number: int, keys: Sequence[JoinValues]) -> None:
        """Add a parent, with its keys for each of the joins."""
        for side, side_keys in zip(self.sides, keys, strict=True):
            side.add(number, side_keys)
        self.numbers.append(number)

    def split(self, size: int) -> list[_Batch]:
        """Split into batches of so many keys, for parents that have one key each."""
        if self.size <= size:
            return [self] if self.numbers else []
        side = self._index()
        keys = list(side.values)
        parts: list[_Batch] = []
        for start in range(0, len(keys), size):
            part_keys = keys[start : start + size]
            seekers = {key: side.seekers[key] for key in part_keys}
            part = _Side(side.join, {key: side.values[key] for key in part_keys}, seekers)
            parts.append(_Batch([part], [number for key in part_keys for number in seekers[key]]))
        return parts

    def keys_by_parent(self) -> dict[int, JoinValues]:
        """Return the keys of each parent, by the only join."""
        side = self._index()
        wanted: dict[int, JoinValues] = {number: {} for number in self.numbers}
        for key, numbers in side.seekers.items():
            for number in numbers:
                wanted[number][key] = side.values[key]
        return wanted

    def distribute(
        self, documents: Sequence[Any], views: Sequence[Document]
    ) -> dict[int, list[Any]] | None:
        """Return the documents of each parent, in their order; `views` has the values to join.

        None if the only join assigns a document to no parent, though the database found it: then
        memory does not compare as the database does. Its property may exist twice, for instance.
        """
        reached = None if self.keys is None else self._reach(views)
        if self.keys is not None and reached is not None:
            groups: dict[EqualityKey, list[Any]] = {key: [] for key in self.sides[0].values}
            if not groups.keys() >= set(reached):
                return None
            for key, document in zip(reached, documents, strict=True):
                groups[key].append(document)
            return {n: groups[key] for n, key in zip(self.numbers, self.keys, strict=True)}
        shares: dict[int, list[Any]] = {number: [] for number in self.numbers}
        is_only = len(self.sides) == 1
        if is_only:
            self._index()
        for document, seen in zip(documents, views, strict=True):
            numbers = set.intersection(*[side.find_seekers(seen) for side in self.sides])
            if is_only and not numbers:
                return None
            for number in numbers:
                shares[number].append(document)
        return shares

    def pick_first(
        self, documents: Sequence[Any], views: Sequence[Document]
    ) -> dict[int, Any] | None:
        """Return the first document of each parent that has one; None as in `distribute`."""
        reached = self._reach(views)
        if self.keys is not None and reached is not None:
            # From the last to the first, so that the first one stays.
            firsts = dict(zip(reversed(reached), reversed(documents), strict=True))
            if not self.sides[0].values.keys() >= firsts.keys():
                return None
            pairs = zip(self.numbers, self.keys, strict=True)
            return {number: firsts[key] for number, key in pairs if key in firsts}
        if self.keys is None and len(self.sides[0].values) > len(self.numbers):
            documents, views = self._sort_by_kind(documents, views)
        shares = self.distribute(documents, views)
        return shares and {number: share[0] for number, share in shares.items() if share}

    def _sort_by_kind(
        self, documents: Sequence[Any], views: Sequence[Document]
    ) -> tuple[Sequence[Any], Sequence[Document]]:
        """Sort by the keys, of which those of a parent have the preferred kind first."""
        side = self.sides[0]
        ranks = {key: rank for rank, key in enumerate(side.values)}

        def rank(number: int) -> int:
            keys = candidate_keys(views[number], side.join.path)
            return min((ranks[key] for key in keys if key in ranks), default=len(ranks))

        order = sorted(range(len(documents)), key=rank)
        return [documents[n] for n in order], [views[n] for n in order]

    def _reach(self, documents: Sequence[Document]) -> list[EqualityKey] | None:
        """Return the join values of the documents, if all of them are their own keys."""
        (side,) = self.sides
        if len(side.join.path) != 1:
            return None
        name = side.join.target
        values = documents.read(name) if type(documents) is OneField else None
        if values is None:
            values = [document.get(name) for document in documents]
        return values if OWN_KEY.issuperset(map(type, values)) else None

    def _index(self) -> _Side:
        """Return the only join, with its seekers."""
        (side,) = self.sides
        if self.keys is not None and not side.seekers:
            for number, key in zip(self.numbers, self.keys, strict=True):
                side.seekers.setdefault(key, []).append(number)
        return side


async def fetch_joined(fetch: Fetch, parents: Sequence[Any], run: Run) -> Sequence[Any]:
    """Return the answer per parent: documents, the first of them, or why there are none."""
    prepared = run.prepared[id(fetch)]
    relation = fetch.relation
    assert relation.rest is not None  # noqa: S101 - joins come from a find
    try:
        rest = prepared.narrow(relation.rest.render(prepared.scope))
    except DocgraphError as error:
        return [describe_failure(error)] * len(parents)
    numbers = range(len(parents))  # to iterate over the parents would build all of them
    answers: list[Any] = [[] for _ in numbers] if fetch.is_list else [None] * len(parents)
    if matches_nothing(rest):
        return answers
    window = prepared.window  # a count has none
    if not fetch.is_list and window is not None and Find(rest, window).narrow():
        return await fetch_per_parent(fetch, parents, None, run)
    batches = _make_batches(fetch, parents, answers)
    calls = [_fetch_batch(fetch, parents, batch, rest, run) for batch in batches]
    for answered in await concurrently(calls) if calls else ():
        if isinstance(answered, Joined):
            return answered  # there is no other batch
        for number, answer in answered.items():
            answers[number] = answer
    return answers


def _make_batches(fetch: Fetch, parents: Sequence[Any], answers: list[Any]) -> list[_Batch]:
    """Group parents with keys into batches of bounded size; a parent is never divided."""
    joins = fetch.relation.joins
    size = min(fetch.mapping.loader.max_batch_size or MAX_KEYS, MAX_KEYS)
    if len(joins) == 1 and not joins[0].many and not _mean_several(fetch, joins[0], parents):
        return _make_simple_batch(joins[0], parents).split(size)
    batches: list[_Batch] = []
    placed: dict[Any, _Batch] = {}  # parents with the same keys belong together
    for number, parent in enumerate(parents):
        try:
            keys = [_read_keys(fetch, join, parent) for join in joins]
        except FieldFailure as failure:
            answers[number] = failure
            continue
        if not all(keys):
            continue  # decision 11: a parent without a key has no documents and needs no command
        sought = tuple(map(tuple, keys))
        batch = placed.get(sought)
        if batch is None:
            if not batches or batches[-1].size + max(map(len, keys)) > size:
                batches.append(_Batch([_Side(join) for join in joins]))
            batch = placed[sought] = batches[-1]
        batch.add(number, keys)
    return batches


def _mean_several(fetch: Fetch, join: Join, parents: Sequence[Any]) -> bool:
    """Return whether keys are texts of an `ID` that values of several kinds have."""
    return fetch.is_entity and any(isinstance(join.get(parent), SeveralKinds) for parent in parents)


def _make_simple_batch(join: Join, parents: Sequence[Any]) -> _Batch:
    """Build the batch of the usual case: each parent has one key at most."""
    all_keys = keys = join.read_keys(parents)
    numbers = list(range(len(keys)))
    if None in keys:
        numbers = [number for number in numbers if keys[number] is not None]
        keys = [key for key in keys if key is not None]
    if OWN_KEY.issuperset(map(type, keys)):
        side = _Side(join, dict(zip(keys, keys, strict=True)))
        return _Batch([side], numbers, keys, all_keys)
    side = _Side(join)
    for number, value in zip(numbers, keys, strict=True):
        side.add(number, {equality_key(value): value})
    return _Batch([side], numbers)


def _read_keys(fetch: Fetch, join: Join, parent: Any) -> JoinValues:
    """Return the foreign keys of a parent; null is not a key."""
    value = join.get(parent)
    if value is None:
        return {}
    if isinstance(value, SeveralKinds):
        return {equality_key(kind): kind for kind in value.candidates}
    if not join.many or type(value) is not list:
        return {equality_key(value): value}
    if len(value) > MAX_KEYS:
        raise FieldFailure(
            f"{fetch.position.coordinates} has more than {MAX_KEYS} foreign keys", "too-many-keys"
        )
    return {equality_key(item): item for item in value if item is not None}


async def _fetch_batch(
    fetch: Fetch, parents: Sequence[Any], batch: _Batch, rest: Document, run: Run
) -> dict[int, Any] | Joined:
    """Return the answers for the parents of a batch: by `$in` unless the relation is large."""
    window, mapping = run.prepared[id(fetch)].window, fetch.mapping
    fetched: dict[int, Any] | Joined | None = None
    try:
        collation: bytes | None = BY_BYTES  # as memory compares
        if batch.has_texts:
            collation = await run.store.stats.collation(mapping.db, mapping.collection)
        if collation != BY_BYTES:
            pass  # the database decides which texts are equal
        elif window is None:  # nothing but the joins of a query is per parent
            fetched = await _count_together(fetch, batch, rest, run)
        elif not any(window.related) and not run.plan.large_relations.expects(fetch):
            fetched = await _try_together(fetch, batch, rest, window, run)
        if fetched is not None:
            return fetched
        if len(batch.sides) == 1 and window is not None:
            join = batch.sides[0].join
            fetched = await fetch_by_lookup(fetch, join, batch.keys_by_parent(), rest, run)
            if fetched is not None:
                return fetched
    except DocgraphError as error:
        return dict.fromkeys(batch.numbers, describe_failure(error))
    answers = await fetch_per_parent(fetch, [parents[n] for n in batch.numbers], None, run)
    return dict(zip(batch.numbers, answers, strict=True))


async def _try_together(
    fetch: Fetch, batch: _Batch, rest: Document, window: Window, run: Run
) -> dict[int, Any] | Joined | None:
    """Fetch with one `$in` for all parents; None if there is more than it may return."""
    bound = min(max(FIRST_TRY, len(batch.numbers) * window.end), LARGEST_TRY)
    filter_ = combine([rest, *(side.as_filter() for side in batch.sides)])
    documents = await run.find(fetch, filter_, window._replace(skip=0, limit=bound + 1))
    if len(documents) > bound:
        run.plan.large_relations.remember(fetch)
        return None
    joined = None if window.skip else _join_raw(fetch, batch, documents, window.limit)
    if joined is not None:
        if fetch.is_list:
            _count(fetch, batch, len(documents), joined.total, run)
        else:
            run.count(min(len(documents), joined.total))
        return joined
    if not _DECODED.issuperset(map(type, documents)) and any(
        is_ambiguous(document, side.join.path) for side in batch.sides for document in documents
    ):
        return None  # only the database knows which of two values it compares
    views = await view(documents, [side.join.path[0] for side in batch.sides], run, fetch)
    if not fetch.is_list and not window.skip and len(batch.sides) == 1:
        firsts = batch.pick_first(documents, views)
        run.count(min(len(documents), len(firsts or ())))
        return firsts
    shares = batch.distribute(documents, views)
    if shares is None:
        return None
    lists = {
        number: share
        if len(share) <= window.limit and not window.skip
        else run.trim(share[window.skip :] if window.skip else share, window.limit)
        for number, share in shares.items()
    }
    _count(fetch, batch, len(documents), sum(map(len, lists.values())), run)
    return lists


def _join_raw(fetch: Fetch, batch: _Batch, documents: Sequence[Any], limit: int) -> Joined | None:
    """Join documents that are not decoded; None if that is not possible."""
    native, join = find_native(), batch.sides[0].join
    if native is None or batch.all_keys is None or len(join.path) > 1:
        return None
    if not documents or native.measure(documents) is None:
        return None
    try:
        if fetch.is_list:
            return JoinedLists(*native.join_lists(documents, join.target, batch.all_keys, limit))
        return JoinedFirsts(*native.join_firsts(documents, join.target, batch.all_keys))
    except native.misfit:
        return None


def _count(fetch: Fetch, batch: _Batch, count_found: int, used: int, run: Run) -> None:
    """Count the documents of all parents; remember a relation that is large."""
    counted = min(count_found, used)
    run.count(counted)
    if count_found > max(LARGE_FROM * batch.size, 2 * counted):
        run.plan.large_relations.remember(fetch)


async def _count_together(
    fetch: Fetch, batch: _Batch, rest: Document, run: Run
) -> dict[int, Any] | None:
    """Count the documents of all parents with one `$in`; None if their keys are too many.

    Documents with the same value belong to the same parents, as arrays may belong to several.
    """
    (side,) = batch.sides
    name = side.join.target
    bound = max(FIRST_TRY, 2 * batch.size)
    pipeline: list[Document] = [
        {"$match": combine([rest, side.as_filter()])},
        {"$group": {"_id": f"${name}", "count": {"$sum": 1}}},
    ]
    results = await run.aggregate(fetch, [*pipeline, {"$limit": bound + 1}], bound + 1)
    if len(results) > bound:
        return None
    with reading_reply():
        counted = [{name: result["_id"], "": int(result["count"])} for result in results]
    shares = batch.distribute(counted, counted)
    if shares is None:
        return None
    counts = {
        number: sum(result[""] for result in share) for number, share in shares.items() if share
    }
    run.count(len(counts))
    return {number: {"count": count} for number, count in counts.items()}
