"""Schema search: plain questions to the fields and types that a caller sees, the best match first.

A word counts more in a name than in a description, and more if few fields have it. Word forms
(`ordered`, `orders`) are one word. Fields are also found by the words of their type, of what they
return and of their arguments; ordinary words for quantities, dates and people by general synonyms.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import log
from typing import Any, Final
from weakref import WeakKeyDictionary

from graphql import (
    GraphQLEnumType,
    GraphQLField,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLObjectType,
    GraphQLScalarType,
    GraphQLSchema,
    get_named_type,
)
from graphql.type import introspection_types

from docgraph.graphql.apps.compiled_app import VisibleApp
from docgraph.graphql.definition.mapping import AggregationMapping, GroupMapping

_MAX_WORDS: Final = 30
MAX_SEARCH: Final = 1_000  # characters of a search; the rest is ignored
_MAX_INDEXES: Final = 8  # schemas whose words are kept
_SHORTEST_PREFIX: Final = 4
_LEAST_SHARE: Final = 0.2  # of the best score; matches below it only cost the reader
_PARTIAL: Final = 0.5  # of the weight, for a word that begins alike
# How much a word counts, by where it is.
_NAME, _TEXT, _PARENT, _RESULT, _ARGUMENT, _PARENT_TEXT = 3.0, 1.5, 1.0, 1.0, 0.8, 0.5
_ENTRY: Final = 1.15  # a field of Query, where each query begins
_BREVITY: Final = 0.98  # for each word of a name: `orders` comes before `orderCount`
_TYPE: Final = 0.8  # a type as such: its fields say more
_PURPOSE: Final = 6.0  # a field that counts or groups, if that is asked for


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result: a field as the schema declares it, or a type."""

    place: str
    signature: str
    description: str
    score: float


@dataclass(frozen=True, slots=True)
class _Entry:
    """One field, type or enum value, and the weights of its words."""

    place: str
    signature: str
    description: str
    weights: dict[str, float]
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class _Index:
    entries: list[_Entry]
    frequencies: Counter[str] = field(default_factory=Counter)

    def weigh(self, word: str) -> float:
        """Return the weight of a word: rare words weigh more (inverse document frequency)."""
        return log(1 + len(self.entries) / (1 + self.frequencies[word]))


_indexes: WeakKeyDictionary[GraphQLSchema, _Index] = WeakKeyDictionary()


def split_words(text: str) -> tuple[str, ...]:
    """Return the words of a search, or of a name in camel or snake case, in lower case."""
    return tuple(find_words(text[:MAX_SEARCH]))[:_MAX_WORDS]


def search_schema(
    schema: GraphQLSchema, words: Sequence[str], purposes: Mapping[str, str] | None = None
) -> list[Hit]:
    """Return the fields and types that match the words nearly as well as the best one, in order.

    `purposes` are the fields that count (`count`) or group (`group`) what is stored.
    """
    index = _find_index(schema)
    wanted = [expand(word) for word in words if word not in STOP_WORDS] or [
        {stem(word): 1.0} for word in words
    ]
    hits = []
    for entry in index.entries:
        score = sum(_match(each, entry, index) for each in wanted) * entry.factor
        if score:
            score += _PURPOSE * _serves(words, (purposes or {}).get(entry.place))
            hits.append(Hit(entry.place, entry.signature, entry.description, score))
    least = max((hit.score for hit in hits), default=0.0) * _LEAST_SHARE
    hits = [hit for hit in hits if hit.score >= least]
    return sorted(hits, key=lambda hit: (-hit.score, not hit.place.startswith("Query."), hit.place))


def find_purposes(view: VisibleApp) -> dict[str, str]:
    """Return the fields that count or group what is stored, by `Type.field`."""
    purposes: dict[str, str] = {}
    for type_name, fields in view.app.mappings.items():
        for name, mapping in fields.items():
            if isinstance(mapping, GroupMapping):
                purposes[f"{type_name}.{name}"] = "count" if mapping.is_count else "group"
            elif isinstance(mapping, AggregationMapping):
                stages = mapping.stages.source
                if isinstance(stages, list) and any(
                    isinstance(stage, dict) and "$group" in stage for stage in stages
                ):
                    purposes[f"{type_name}.{name}"] = "group"
    return purposes


def score(words: Sequence[str], name: str, description: str) -> float:
    """Return how well a name and its description match."""
    weights = _combine((_NAME, find_words(name)), (_TEXT, find_words(description)))
    entry = _Entry(name, name, description, weights)
    return sum(_match(expand(word), entry, None) for word in words if word not in STOP_WORDS)


def _match(wanted: Mapping[str, float], entry: _Entry, index: _Index | None) -> float:
    """Return the best match of a word, or of one of its synonyms."""
    best = 0.0
    for word, share in wanted.items():
        weight = entry.weights.get(word, 0.0)
        if not weight and len(word) >= _SHORTEST_PREFIX:
            alike = (
                other
                for key, other in entry.weights.items()
                if len(key) >= _SHORTEST_PREFIX and (key.startswith(word) or word.startswith(key))
            )
            weight = max(alike, default=0.0) * _PARTIAL
        best = max(best, weight * share * (index.weigh(word) if index else 1.0))
    return best


def _serves(words: Collection[str], purpose: str | None) -> bool:
    """Return whether the words of a question ask for a field of this purpose."""
    if purpose is None:
        return False
    wants_average = not AVERAGES.isdisjoint(words)
    return wants_average if purpose == "group" else not (wants_average or COUNTS.isdisjoint(words))


def _find_index(schema: GraphQLSchema) -> _Index:
    index = _indexes.get(schema)
    if index is None:
        index = _Index(list(_collect(schema)))
        for entry in index.entries:
            index.frequencies.update(entry.weights.keys())
        if len(_indexes) >= _MAX_INDEXES:
            _indexes.clear()
        _indexes[schema] = index
    return index


def _collect(schema: GraphQLSchema) -> Iterator[_Entry]:
    for name, type_ in schema.type_map.items():
        if name in introspection_types or isinstance(type_, GraphQLScalarType):
            continue
        text = type_.description or ""
        weights = _combine((_NAME, find_words(name)), (_TEXT, find_words(text)))
        yield _Entry(name, name, text, weights, _TYPE)
        inner: Mapping[str, Any] = {}
        if isinstance(type_, GraphQLObjectType | GraphQLInterfaceType | GraphQLInputObjectType):
            inner = type_.fields
        elif isinstance(type_, GraphQLEnumType):
            inner = type_.values
        for key, member in inner.items():
            yield _describe(name, key, member, () if name == "Query" else find_words(text))


def _describe(parent: str, name: str, member: Any, about: Iterable[str]) -> _Entry:
    """Return the entry of a field, an input field or a value of an enum."""
    place, text = f"{parent}.{name}", member.description or ""
    parts: list[tuple[float, Iterable[str]]] = [
        (_NAME, find_words(name)),
        (_TEXT, find_words(text)),
        (_PARENT, () if parent == "Query" else find_words(parent)),
        (_PARENT_TEXT, about),
    ]
    signature = place
    if hasattr(member, "type"):
        signature = f"{place}: {member.type}"
        returned = get_named_type(member.type)
        if isinstance(returned, GraphQLScalarType):
            parts.append((_ARGUMENT, find_words(_KINDS.get(returned.name, ""))))
        else:
            parts.append((_RESULT, find_words(returned.name)))
            parts.append((_PARENT_TEXT, find_words(returned.description or "")))
        if isinstance(returned, GraphQLEnumType):
            parts.append((_ARGUMENT, find_words(" ".join(returned.values))))
    if isinstance(member, GraphQLField) and member.args:
        arguments = ", ".join(f"{key}: {argument.type}" for key, argument in member.args.items())
        signature = f"{place}({arguments}): {member.type}"
        texts = (f"{key} {argument.description or ''}" for key, argument in member.args.items())
        parts.append((_ARGUMENT, find_words(" ".join(texts))))
    factor = (_ENTRY if parent == "Query" else 1.0) * _BREVITY ** len(find_words(name))
    return _Entry(place, signature, text, _combine(*parts), factor)


_KINDS: Final = {"DateTime": "date time", "Timestamp": "time"}


def _combine(*parts: tuple[float, Iterable[str]]) -> dict[str, float]:
    """Return the highest weight of each word form."""
    weights: dict[str, float] = {}
    for weight, words in parts:
        for word in words:
            if word not in STOP_WORDS:
                key = stem(word)
                weights[key] = max(weights.get(key, 0.0), weight)
    return weights


_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD: Final = re.compile(r"[^\W\d_]+|\d+")
_SHORTEST: Final = 3  # letters that a form keeps
_SYNONYM: Final = 0.7  # of the weight of the word itself
_ENDINGS: Final = ("ings", "ing", "ied", "ed", "ies", "es", "s", "ly")

STOP_WORDS: Final = frozenset(
    "a all an and any are as at be been by call can could did do does each find for from get "
    "give had has have he her his how i in into is it its list many me more my no not of off "
    "on one or our ourselves see she some tell than that the their them themselves there "
    "these they this those to up was we were what which will with would you your per most".split()
)
# Words of questions about numbers of documents, and about totals of groups.
COUNTS: Final = frozenset({"many", "count", "counts", "number"})
AVERAGES: Final = frozenset(
    "per each most least best worst average mean sum total top grouped group monthly daily yearly "
    "weekly statistics ranking distribution".split()
)

# Words that mean nearly the same in most schemas; each one also finds all others of its line.
_SYNONYMS: Final = """
price cost cheap expensive much pay
order purchase buy bought
product item good article goods
customer client buyer
amount quantity number count pieces many
total sum turnover revenue sales earnings money earn
date time when day
created placed made issued date when
newest latest last recent new
released published out came come
send sent ship shipped deliver delivered dispatched
return returned back
cancel cancelled abandon
open pending unfinished
name title called
person people who actor actress somebody
director directed direct
doctor physician
film movie
prize award win won
born birth old age birthday
length long duration minutes
phone telephone mobile
email mail
city town live where
country nation where
address street where
picture photo image
score rating stars rate
kind type category sort genre
department ward division
head lead leader boss chief
drug medication
bill invoice
unpaid open owe settled paid
month monthly
year yearly annual
day daily
week weekly
stock inventory left available
allergic allergy
play cast role
missed appear show
"""


def find_words(text: str) -> dict[str, None]:
    """Return the words of a sentence, or of a name in camel or snake case, in lower case."""
    return dict.fromkeys(word.lower() for word in _WORD.findall(_CAMEL.sub(" ", text)))


@lru_cache(maxsize=4_096)
def stem(word: str) -> str:
    """Return the form that `orders`, `ordered` and `ordering` have in common."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST and word[-2:] != "ss":
            word = word.removesuffix(ending)
            if ending in ("ies", "ied"):
                return word + "y"
            break
    if len(word) > _SHORTEST and word[-1] == word[-2] and word[-1] not in "aeiousl":
        word = word[:-1]
    return word.removesuffix("e") if len(word) > _SHORTEST else word


@lru_cache(maxsize=4_096)
def expand(word: str) -> dict[str, float]:
    """Return the form of a word and those of its synonyms, each with its share."""
    form = stem(word)
    forms = dict.fromkeys(_find_synonyms().get(form, ()), _SYNONYM)
    return {**forms, form: 1.0}


@lru_cache(maxsize=1)
def _find_synonyms() -> dict[str, tuple[str, ...]]:
    synonyms: dict[str, set[str]] = {}
    for line in _SYNONYMS.strip().splitlines():
        forms = {stem(word) for word in line.split()}
        for form in forms:
            synonyms.setdefault(form, set()).update(forms)
    return {form: tuple(sorted(others)) for form, others in synonyms.items()}
