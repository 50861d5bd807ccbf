"""Schema search: words to fields and types that a caller sees, the best match first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphql import (
    GraphQLEnumType,
    GraphQLField,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLObjectType,
    GraphQLSchema,
)
from graphql.type import introspection_types

_MAX_WORDS = 10
MAX_SEARCH = 1_000  # characters of a search; the rest is ignored
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W\d_]+|\d+")
# The score of a word: in a name, in a description, as a whole word, in an argument.
_NAME, _TEXT, _WHOLE, _ARGUMENT = 3, 1, 2, 2


@dataclass(frozen=True, slots=True)
class Hit:
    """A field as it is written in the schema, or a type."""

    place: str
    signature: str
    description: str
    score: int


def split_words(text: str) -> tuple[str, ...]:
    """Return the words of a search, or of a name in camel or snake case, in lower case."""
    return tuple(_find_words(text[:MAX_SEARCH]))[:_MAX_WORDS]


def _find_words(text: str) -> dict[str, None]:
    return dict.fromkeys(word.lower() for word in _WORD.findall(_CAMEL.sub(" ", text)))


def search_schema(schema: GraphQLSchema, words: Sequence[str]) -> list[Hit]:
    """Return names and descriptions that have one of the words; more matches come first."""
    hits = [hit for hit in _score_all(schema, words) if hit.score]
    return sorted(hits, key=lambda hit: (-hit.score, not hit.place.startswith("Query."), hit.place))


def score(words: Sequence[str], name: str, description: str) -> int:
    """Return how well a name and its description match."""
    in_name, text = name.lower(), description.lower()
    whole = _find_words(name) | _find_words(description)
    return sum(
        _NAME * (word in in_name) + _TEXT * (word in text) + _WHOLE * (word in whole)
        for word in words
    )


def _score_all(schema: GraphQLSchema, words: Sequence[str]) -> Iterator[Hit]:
    for name, type_ in schema.type_map.items():
        if name in introspection_types:
            continue
        text = type_.description or ""
        yield Hit(name, name, text, score(words, name, text))
        if isinstance(type_, GraphQLObjectType | GraphQLInterfaceType):
            for field_name, field in type_.fields.items():
                yield _score_field(name, field_name, field, words)
        elif isinstance(type_, GraphQLInputObjectType):
            for field_name, input_field in type_.fields.items():
                text = input_field.description or ""
                signature = f"{name}.{field_name}: {input_field.type}"
                found = score(words, field_name, text)
                yield Hit(f"{name}.{field_name}", signature, text, found)
        elif isinstance(type_, GraphQLEnumType):
            for value_name, value in type_.values.items():
                text = value.description or ""
                place = f"{name}.{value_name}"
                yield Hit(place, place, text, score(words, value_name, text))


def _score_field(type_name: str, name: str, field: GraphQLField, words: Sequence[str]) -> Hit:
    arguments = ", ".join(f"{key}: {argument.type}" for key, argument in field.args.items())
    place, text = f"{type_name}.{name}", field.description or ""
    signature = f"{place}({arguments}): {field.type}" if arguments else f"{place}: {field.type}"
    found = score(words, name, text) + sum(
        _ARGUMENT * (word in arguments.lower()) for word in words
    )
    return Hit(place, signature, text, found)
