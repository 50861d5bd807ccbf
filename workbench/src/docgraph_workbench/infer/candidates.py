"""Relation candidates: which fields may refer to which collections, by names and values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any, Final

from bson import ObjectId

from docgraph.tools.data import read_uuid
from docgraph_workbench.infer.field_names import plural, singular, split_words
from docgraph_workbench.infer.profile import Seen, kind_of
from docgraph_workbench.infer.sensitive_names import PEOPLE
from docgraph_workbench.infer.survey import Surveyed

_FAMILIES: Final = {
    "objectId": "objectId",
    "uuid": "uuid",
    "string": "string",
    "int": "number",
    "long": "number",
    "double": "number",
}
_UUID: Final = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
CHANCELESS: Final = frozenset({"objectId", "uuid"})  # never the same by chance
_SOME: Final = 0.05  # share of values that are no mistakes
_NEARLY_ALL: Final = 0.9
_FORMS: Final = frozenset({"array", "object", "dbRef"})
_OTHER_IDS: Final = frozenset({"decimal", "date", "timestamp"})  # ids that prove nothing
_TEXTS_OF_IDS: Final[tuple[tuple[str, re.Pattern[str], Callable[[str], Any]], ...]] = (
    ("objectId", re.compile("[0-9a-fA-F]{24}"), ObjectId),
    ("uuid", _UUID, read_uuid),
    ("uuid", _UUID, lambda text: read_uuid(text, is_legacy=True)),
    ("number", re.compile("0|[1-9][0-9]{0,17}"), int),
)
_SUFFIXES: Final = frozenset(
    "id ids oid uuid guid ref refs fk key keys code codes no number slug iata icao sku isbn nr "
    "nummer num numero cod codigo codice".split()
)
# The same, where the word comes first: `id_producto`, `cod_prod`, `fk_customer`.
_PREFIXES: Final = frozenset("id ids fk ref cod codigo codice".split())
_ATTACHED: Final = re.compile("([a-z]{2,})(nr|nummer)")  # `kdnr`, `Kundennummer`
_NATURAL: Final = frozenset(
    "email username login handle iata icao sku isbn ean symbol ticker".split()
)
_KEY_WORDS: Final = _SUFFIXES - {"ids", "refs", "fk", "keys", "codes"} | _NATURAL
_ID_WORDS: Final = frozenset("id ids oid ref refs fk key keys".split())
_RARE: Final = 0.1  # of the numbers in a range are keys
_LIKE: Final = 0.85  # of two words, by the letters that they share
_SHORTEST_LIKE: Final = 5
_SHORTEST_ABBREVIATION: Final = 2
_LONGEST_ABBREVIATION: Final = 4
_GENERIC: Final = frozenset("id name code type key slug number no email title label".split())
_OWN: Final = frozenset(
    "parent ancestor root reply previous next predecessor successor child related similar manager "
    "supervisor boss mentor reports replace sibling friend follower following referrer".split()
)
_REFERENCE_ID: Final = "$id"
_SAMPLE_FOR_KEYS: Final = 5
_STEP: Final = re.compile(r"""[^.\[\]'"()\s$\0][^.\[\]'"()\s\0]*""")


@dataclass(frozen=True, slots=True)
class ReferenceField:
    """A field that may have keys of another collection; `stem` is the part of its name for that."""

    collection: Surveyed
    path: tuple[str, ...]
    family: str
    values: tuple[Any, ...]
    is_many: bool
    stem: list[str]
    targets: frozenset[str] = frozenset()  # the collections that DBRefs name; empty: any
    texts: tuple[str, ...] = ()  # among values of another family: maybe ids that are stored as text

    @property
    def is_reference(self) -> bool:
        """Whether it is the `$id` of a DBRef."""
        return self.path[-1] == _REFERENCE_ID

    @property
    def text(self) -> str:
        """Its path in dot notation."""
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class CandidateKey:
    """A property whose values identify the documents of a collection; `words` are its name."""

    collection: Surveyed
    name: str
    family: str
    values: tuple[Any, ...]
    words: list[str]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A field and its possible target; `strength` of its name: 2 exact, 1 similar, 0 neither."""

    source: ReferenceField
    key: CandidateKey
    strength: int


def type_words(collection: str) -> list[str]:
    """Return the words of a collection's name, for one of its documents."""
    words = split_words(collection)
    return [*words[:-1], singular(words[-1])] if words else ["document"]


def list_words(collection: str) -> list[str]:
    """Return the words of a collection's name, for several of its documents."""
    words = split_words(collection) or ["document"]
    is_plural = singular(words[-1]) != words[-1]
    return words if is_plural else [*words[:-1], plural(words[-1])]


def stem_of(path: Sequence[str]) -> list[str]:
    """Return the part of a field's name that names the target: `items.productIds` → `product`."""
    for name in reversed(path):
        words = _split_key(name)
        while words and words[-1] in _SUFFIXES:
            words = words[:-1]
        while len(words) > 1 and words[0] in _PREFIXES:
            words = words[1:]
        if words:
            return [*words[:-1], singular(words[-1])]
    return []


def find_sources(collection: Surveyed) -> Iterator[ReferenceField]:
    """Yield the fields of a collection that may refer to documents."""
    name_words = type_words(collection.name)
    for path, seen in collection.profile.shape.walk():
        if path[-1] == _REFERENCE_ID:
            yield from _find_references(collection, path, seen)
            continue
        if path == ("_id",) or not all(map(is_plain, path)):
            continue
        leaf = seen.elements if set(seen.kinds) == {"array"} and seen.elements else seen
        families = _families_of(leaf)
        stem = stem_of(path)
        is_own_key = stem == name_words or (stem == [] and not _is_repeated(seen))
        is_own_key = is_own_key and len(path) == 1 and leaf is seen
        if not families or (is_own_key and _has_key_word(path[-1])):
            continue
        family = families[0]
        values = tuple(value for value in _values_of(leaf, family) if value != "")
        if values and leaf.dates * 2 <= leaf.filled:
            texts = () if family == "string" else _values_of(leaf, "string")
            is_many = leaf is not seen
            yield ReferenceField(collection, path, family, values, is_many, stem, texts=texts)


def _find_references(
    collection: Surveyed, path: tuple[str, ...], ids: Seen
) -> Iterator[ReferenceField]:
    """Yield a property that holds DBRefs, if none of them names another database."""
    owner = collection.profile.shape.find(path[:-1])
    families = _families_of(ids)
    if owner is None or not families or not all(map(is_plain, path[:-1])):
        return
    is_many = "array" in owner.kinds
    parts = (owner.elements if is_many and owner.elements else owner).shape
    names = parts.fields.get("$ref") if parts is not None else None
    if parts is None or names is None:
        return
    databases = parts.fields.get("$db")
    if databases is not None and set(databases.values) != {collection.db}:
        return
    targets = frozenset(name for name in names.values if isinstance(name, str))
    values = _values_of(ids, families[0])
    yield ReferenceField(collection, path, families[0], values, is_many, stem_of(path), targets)


def convert_texts(source: ReferenceField) -> Iterator[ReferenceField]:
    """Yield the field with the ids that its texts may be, once for each kind of ids."""
    if source.family != "string":
        return
    for family, pattern, parse in _TEXTS_OF_IDS:
        values = tuple(parse(text) for text in source.values if pattern.fullmatch(text))
        if len(values) >= len(source.values) * _NEARLY_ALL:
            yield replace(source, family=family, values=values)


def find_keys(collection: Surveyed) -> Iterator[CandidateKey]:
    """Yield `_id`, and other properties that seem unique, once for each family of its values."""
    words = type_words(collection.name)
    for name, seen in collection.profile.shape.fields.items():
        if not is_plain(name):
            continue
        is_key = name == "_id" or collection.is_unique(name)
        if is_key or (not collection.is_view and _looks_unique(collection, name, seen)):
            for family in _families_of(seen, is_key=True):
                yield CandidateKey(collection, name, family, _values_of(seen, family), words)


def is_copy(source: ReferenceField, key: CandidateKey) -> bool:
    """Return whether both have a property of one name with another meaning: not a key."""
    if source.path[-1] != key.name or not _NATURAL.isdisjoint(split_words(key.name)[-1:]):
        return False
    return stem_of((key.name,)) not in ([], key.words)


def score_name(source: ReferenceField, key: CandidateKey) -> int:
    """Return how well the name of a field matches the name of a collection."""
    stem, target = source.stem, key.words
    is_self = source.collection is key.collection
    if stem and (stem[-len(target) :] == target or target[-len(stem) :] == stem):
        return 2
    if source.path[-1] == key.name and not is_self and not _GENERIC.issuperset(stem):
        return 2
    if is_self:
        return 1 if stem and not _OWN.isdisjoint(stem) else 0
    is_person = bool(stem) and (stem[-1] in PEOPLE or "by" in stem)
    is_similar = bool(stem) and _is_like(stem[-1], target[-1])
    if stem and _has_key_word(source.path[-1]) and _is_abbreviation(stem[-1], target[-1]):
        is_similar = True
    return 1 if is_similar or (is_person and target[-1] in PEOPLE) else 0


def is_rare_number(source: ReferenceField, key: CandidateKey) -> bool:
    """Return whether keys are numbers far apart, which others are not by chance.

    Documents that are counted from 1 or from 1000 have numbers that are found everywhere.
    """
    words = split_words(source.path[-1])
    documents = key.collection.documents
    if key.family != "number" or words[-1:] == [] or words[-1] not in _ID_WORDS or not key.values:
        return False
    return documents is not None and documents < (max(key.values) - min(key.values)) * _RARE


def _is_like(word: str, other: str) -> bool:
    """Return whether the words differ by a misspelling or the plural of another language."""
    if min(len(word), len(other)) < _SHORTEST_LIKE or word[0] != other[0]:
        return False
    return SequenceMatcher(None, word, other, autojunk=False).ratio() >= _LIKE


def _is_abbreviation(word: str, other: str) -> bool:
    """Return whether it is the beginning, or a short word with letters in the same order."""
    if len(other) <= max(len(word), _LONGEST_ABBREVIATION) or word[0] != other[0]:
        return False
    if len(word) < _SHORTEST_ABBREVIATION:
        return False
    if len(word) > _LONGEST_ABBREVIATION:
        return other.startswith(word)
    letters = iter(other)
    return all(letter in letters for letter in word)


def _families_of(seen: Seen, *, is_key: bool = False) -> list[str]:
    """Return the families of its values, the one that proves most first.

    Values of other kinds do not matter for a key; in a field they are exceptions, or it is none.
    Ids of some kinds are not compared: the others are the evidence.
    """
    counts: Counter[str] = Counter()
    for kind, count in seen.kinds.items():
        if kind not in _OTHER_IDS:
            counts[_FAMILIES.get(kind, "")] += count
    some = counts.total() * _SOME
    if not _FORMS.isdisjoint(seen.kinds) or (counts.pop("", 0) > some and not is_key):
        return []
    return sorted(
        counts,
        key=lambda family: (family not in CHANCELESS or counts[family] < some, -counts[family]),
    )


def _values_of(seen: Seen, family: str) -> tuple[Any, ...]:
    return tuple(value for value in seen.values if _FAMILIES.get(kind_of(value)) == family)


def is_plain(name: str) -> bool:
    """Return whether the name can be a step of a path in a filter and of a foreign key."""
    # These two mark escaped keys of a stored definition.
    return _STEP.fullmatch(name) is not None and "::" not in name and not name.startswith("_$")


def _has_key_word(name: str) -> bool:
    """Return whether the name ends, or begins, with a word for keys."""
    words = _split_key(name)
    return bool(words) and (words[-1] in _SUFFIXES or words[0] in _PREFIXES)


def _split_key(name: str) -> list[str]:
    """Return the words of a name; a number that is attached to the last one is a word, too."""
    *words, last = split_words(name) or [""]
    attached = _ATTACHED.fullmatch(last)
    return [*words, *(attached.groups() if attached else [last] if last else [])]


def _is_repeated(seen: Seen) -> bool:
    return any(count > 1 for count in seen.values.values())


def _looks_unique(collection: Surveyed, name: str, seen: Seen) -> bool:
    words = _split_key(name)
    if not words or (words[-1] not in _KEY_WORDS and words[0] not in _PREFIXES):
        return False
    total = collection.profile.documents
    is_enough = total >= _SAMPLE_FOR_KEYS or (collection.is_complete and total > 1)
    return seen.filled == total and is_enough and not _is_repeated(seen)
