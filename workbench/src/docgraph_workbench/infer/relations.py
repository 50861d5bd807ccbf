"""Relations (joins): fields whose values are keys of another collection.

A matching name alone is not enough, and neither are values that could occur anywhere: small numbers
need a name that fits, strings without one need many values that are all found. ObjectIds and UUIDs
are never the same by chance.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from docgraph import Deadline, DocgraphError
from docgraph.tools.data import Store
from docgraph_workbench.infer.candidates import (
    CHANCELESS,
    Candidate,
    CandidateKey,
    ReferenceField,
    convert_texts,
    find_keys,
    find_sources,
    is_copy,
    is_rare_number,
    score_name,
)
from docgraph_workbench.infer.survey import Budget, Surveyed

_MAX_SOURCES: Final = 500  # fields of a collection
_TESTED: Final = 100  # values of a field
_FIRST_LOOK: Final = 8
_MAX_FOUND: Final = 1_000
_PATIENCE_MS: Final = 2_000
_MAX_PROBES: Final = 4_000
_MAX_SLOW: Final = 2  # queries that take too long, before no more are sent
_FEW: Final = 5
_SMALL_NUMBER: Final = 3  # digits
# The kinds of ids that may be stored as texts: their name, and the type for `$convert`.
_STORED_AS_TEXTS: Final = {
    "objectId": ("ObjectIds", "objectId"),
    "uuid": ("UUIDs", None),
    "number": ("numbers", "long"),
}
_HALF, _MAJORITY, _NEARLY_ALL = 0.5, 0.8, 0.95


@dataclass(frozen=True, slots=True)
class InferredRelation:
    """A field that refers to documents by one of their properties, and the evidence."""

    source: ReferenceField
    key: CandidateKey
    strength: int
    found: int
    tested: int
    reverse: float | None = None  # share of the other documents that are referred to

    @property
    def share(self) -> float:
        """Share of the field's values that were found."""
        return self.found / self.tested if self.tested else 0.0

    @property
    def is_indexed(self) -> bool:
        """Whether the reverse relation has an index."""
        return self.source.collection.has_index(self.source.text)

    def describe(self) -> str:
        """Return the evidence in words."""
        source, key = self.source, self.key
        back = "" if self.reverse is None else f"; {self.reverse:.0%} of {key.collection.name} used"
        how = ("by its values only", "by its values", "by name and values")[self.strength]
        index = "; indexed" if self.is_indexed else "; no index for the way back"
        index = index if source.collection.is_explained else ""
        return (
            f"{source.collection.name}.{source.text} refers to {key.collection.name}.{key.name} "
            f"({how}: {self.found} of {self.tested} found{back}{index})"
        )


async def find_relations(
    store: Store, collections: Sequence[Surveyed], budget: Budget, notes: list[str]
) -> list[InferredRelation]:
    """Return the relations between these collections, one for each field at most."""
    search = _Search(store, budget, notes)
    keys = [key for collection in collections for key in find_keys(collection)]
    relations: list[InferredRelation] = []
    unfinished: list[str] = []
    for number, collection in enumerate(collections):
        search.begin(len(collections) - number)
        for source in islice(find_sources(collection), _MAX_SOURCES):
            await asyncio.sleep(0)  # let other tasks run
            if search.is_exhausted:
                unfinished.append(collection.name)
                break
            relation = await search.find(source, keys)
            if relation is not None:
                relations.append(await search.find_back_references(relation))
    if unfinished or search.slow:
        names = ", ".join(dict.fromkeys((*unfinished, *search.slow)))
        notes.append(
            f"relations: there was no time to compare all fields; some of {names} may be missing"
        )
    return relations


class _Search:
    """Queries the database for which values are keys of which collections."""

    def __init__(self, store: Store, budget: Budget, notes: list[str]) -> None:
        self._store = store
        self._all = self._budget = budget
        self._notes = notes
        self._probes = _MAX_PROBES
        self.slow: Counter[str] = Counter()  # collections in which looking up values took too long

    def begin(self, collections: int) -> None:
        """Begin with the first of so many collections, which have equal shares of the time."""
        self._budget = self._all.split(collections)

    @property
    def _deadline(self) -> Deadline:
        return Deadline.after_ms(max(1, min(_PATIENCE_MS, int(self._budget.left * 1000))))

    @property
    def is_exhausted(self) -> bool:
        """Whether there is no time left."""
        return self._probes <= 0 or min(self._budget.left, self._all.left) <= 0

    async def find(
        self, source: ReferenceField, keys: Sequence[CandidateKey]
    ) -> InferredRelation | None:
        """Return the best relation of a field, if any."""
        if len(source.targets) > 1:
            named = ", ".join(sorted(source.targets))
            self._notes.append(
                f"{source.collection.name}.{source.text} refers to several collections ({named}): "
                "no relation"
            )
            return None
        candidates = sorted(
            find_candidates(source, keys), key=lambda candidate: -candidate.strength
        )
        relations: list[InferredRelation] = []
        for candidate in candidates:
            if self.is_exhausted:
                break
            if relations and candidate.strength < relations[0].strength:
                break  # a weaker name cannot be better
            relation = await self._test(candidate)
            if relation is not None and _is_believable(relation):
                relations.append(relation)
        if not relations:
            if not await self._find_texts(source, keys):
                self._remark(source, candidates)
            return None
        best = max(
            relations, key=lambda relation: (relation.strength, relation.share, _weigh(relation))
        )
        if len(relations) > 1 and best.strength == 0 and source.family not in CHANCELESS:
            self._notes.append(f"{source.collection.name}.{source.text} fits several collections")
            return None
        await self._find_some_texts(best)
        return best

    async def _find_some_texts(self, relation: InferredRelation) -> None:
        """Report ids that are stored as texts next to others: the relation does not find them."""
        source, key = relation.source, relation.key
        texts = replace(source, family="string", values=source.texts)
        for converted in convert_texts(texts) if source.texts else ():
            if converted.family != key.family or self.is_exhausted:
                continue
            partial_relation = await self._test(Candidate(converted, key, relation.strength))
            if partial_relation is not None and partial_relation.found:
                self._notes.append(_describe_ids_as_texts(partial_relation, is_partial=True))
                return

    async def _find_texts(self, source: ReferenceField, keys: Sequence[CandidateKey]) -> bool:
        """Report ids that are stored as texts; return whether there are any."""
        for converted in convert_texts(source):
            candidates = sorted(
                find_candidates(converted, keys), key=lambda candidate: -candidate.strength
            )
            for candidate in candidates:
                relation = None if self.is_exhausted else await self._test(candidate)
                if relation is not None and _is_believable(relation):
                    self._notes.append(_describe_ids_as_texts(relation))
                    return True
        return False

    def _remark(self, source: ReferenceField, candidates: Sequence[Candidate]) -> None:
        named = [candidate for candidate in candidates if candidate.strength > 1]
        if named and source.path[-1] not in ("_id", "id"):  # of an object in the document itself
            key = named[0].key
            self._notes.append(
                f"{source.collection.name}.{source.text} sounds like {key.collection.name}."
                f"{key.name}, but too few of its values are found there: no relation"
            )

    async def _test(self, candidate: Candidate) -> InferredRelation | None:
        source, key = candidate.source, candidate.key
        key_values = set(key.values)
        first, rest = source.values[:_FIRST_LOOK], source.values[_FIRST_LOOK:_TESTED]
        if key.collection.is_complete and len(key_values) >= key.collection.profile.documents:
            tested = source.values[:_TESTED]
            matches = sum(1 for value in tested if value in key_values)
            return InferredRelation(source, key, candidate.strength, matches, len(tested))
        if key.name != "_id" and not (
            key.collection.is_small or key.collection.has_index(key.name)
        ):
            return None
        matches = await self._probe(key.collection, key.name, first)
        if rest and (matches or candidate.strength > 1):
            matches += await self._probe(key.collection, key.name, rest)
            return InferredRelation(
                source, key, candidate.strength, matches, len(first) + len(rest)
            )
        return InferredRelation(source, key, candidate.strength, matches, len(first))

    async def _probe(self, collection: Surveyed, path: str, values: Sequence[Any]) -> int:
        """Query how many of the values occur in a property."""
        if self.slow[collection.name] >= _MAX_SLOW:
            return 0  # it would take the time of the others
        self._probes -= 1
        try:
            documents = await self._store.reads.find(
                collection.db,
                collection.name,
                {path: {"$in": list(values)}},
                projection={path: 1},
                limit=_MAX_FOUND,
                deadline=self._deadline,
            )
        except DocgraphError:
            self.slow[collection.name] += 1
            return 0  # unknown: the query takes too long
        stored = {
            value for document in documents for value in _values_at(document, path.split("."))
        }
        return sum(1 for value in values if value in stored)

    async def find_back_references(self, relation: InferredRelation) -> InferredRelation:
        """Return the relation with the share of referenced documents, if that costs little."""
        source, key = relation.source, relation.key
        collection = source.collection
        if self.is_exhausted or not (collection.is_small or relation.is_indexed):
            return relation
        if source.is_reference:
            return relation  # no stage can read the parts of a DBRef
        tested = list(key.values[:_TESTED])
        if not tested:
            return relation
        self._probes -= 1
        among = {"$in": tested}
        stages: list[dict[str, Any]] = [
            {"$match": {source.text: among}},
            {"$project": {"value": f"${source.text}"}},
            *([{"$unwind": "$value"}] * len(source.path)),  # each step may be an array
            {"$match": {"value": among}},
            {"$group": {"_id": "$value"}},
        ]
        try:
            groups = await self._store.reads.aggregate(
                collection.db,
                collection.name,
                stages,
                limit=_MAX_FOUND,
                deadline=self._deadline,
            )
        except DocgraphError:
            return relation  # unknown: the query takes too long
        return replace(relation, reverse=len(groups) / len(tested))


def find_candidates(source: ReferenceField, keys: Sequence[CandidateKey]) -> Iterator[Candidate]:
    """Yield the keys that are worth comparing with the values of a field."""
    for key in keys:
        is_same = key.collection is source.collection and source.path == (key.name,)
        is_unsure = not key.collection.is_unique(key.name) and is_copy(source, key)
        if key.family != source.family or is_same or is_unsure:
            continue
        if source.targets:
            if key.collection.name in source.targets and key.name == "_id":
                yield Candidate(source, key, 2)
            continue
        strength = score_name(source, key)
        is_rare = source.family in CHANCELESS or is_rare_number(source, key)
        if strength or is_rare or _is_alike(source, key):
            yield Candidate(source, key, strength)


def _is_alike(source: ReferenceField, key: CandidateKey) -> bool:
    """Return whether strings resemble these keys, so that a query is worth it without a name."""
    if source.family != "string" or len(source.values) < _FEW:
        return False
    lengths = [len(value) for value in key.values]
    if not lengths:
        return False
    source_lengths = [len(value) for value in source.values]
    is_small = max(source_lengths) <= _SMALL_NUMBER and all(
        value.isdigit() for value in source.values
    )
    if min(source_lengths) <= 1 or is_small:  # letters and small numbers occur everywhere
        return False
    is_as_long = min(source_lengths) >= min(lengths) - 1 and max(source_lengths) <= max(lengths) + 1
    is_upper = {value.isupper() for value in source.values}
    return is_as_long and not is_upper.isdisjoint(value.isupper() for value in key.values)


def _is_believable(relation: InferredRelation) -> bool:
    """Return whether so many matches are unlikely by chance."""
    family, strength, share = relation.source.family, relation.strength, relation.share
    if relation.found == 0:
        return False
    if family in CHANCELESS:
        return share >= _HALF or strength > 1
    if strength > 1:
        return share >= (_HALF if family == "string" else _MAJORITY)
    if strength == 1:
        return share >= _NEARLY_ALL
    is_telling = family == "string" or is_rare_number(relation.source, relation.key)
    return is_telling and share >= _NEARLY_ALL and relation.found >= _FEW


def _describe_ids_as_texts(relation: InferredRelation, *, is_partial: bool = False) -> str:
    """Return what a relation does not find, and the mapping that finds it all the same."""
    source, key = relation.source, relation.key
    plural_, convert = _STORED_AS_TEXTS[key.family]
    some, what = ("some ", "the relation misses them") if is_partial else ("", "no relation")
    told = (
        f"{source.collection.name}.{source.text} holds {some}ids of {key.collection.name} as "
        f"texts, which never equal {plural_}: {what}"
    )
    if convert is None:
        return f"{told}; store them as {plural_}, or create a view with $toUUID (MongoDB 8.0)"
    if source.is_many or len(source.path) > 1:
        return told
    value = {"$convert": {"input": {"$fk": source.text}, "to": convert, "onError": None}}
    stages = [{"$match": {"$expr": {"$eq": [f"${key.name}", value]}}}, {"$limit": 1}]
    mapping = {"db": source.collection.db, "collection": key.collection.name, "stages": stages}
    others = " all" if is_partial else " them"
    return f"{told}; to join{others}, add a field with this mapping: {json.dumps(mapping)}"


def _weigh(relation: InferredRelation) -> tuple[bool, int]:
    """Prefer `_id` to other properties, large collections to small ones."""
    return relation.key.name == "_id", relation.key.collection.documents or 1 << 40


def _values_at(value: Any, path: Sequence[str]) -> Iterator[Any]:
    if isinstance(value, list):
        for element in value:
            yield from _values_at(element, path)
    elif not path:
        if not isinstance(value, dict):
            yield value
    elif isinstance(value, dict) and path[0] in value:
        yield from _values_at(value[path[0]], path[1:])
