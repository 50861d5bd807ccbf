"""Schema names from database names: words, singulars and plurals, valid names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterator, Sequence
from typing import Final

__all__ = [
    "NamePool",
    "camel",
    "is_name",
    "pascal",
    "plural",
    "safe_name",
    "singular",
    "split_words",
    "upper_snake",
]

_NAME: Final = re.compile(r"[_A-Za-z][_0-9A-Za-z]*")
_WORD: Final = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_UNSAFE: Final = re.compile(r"[^_0-9A-Za-z]+")
_LONGEST: Final = 80

_IRREGULAR: Final = {
    "people": "person",
    "persons": "person",
    "children": "child",
    "men": "man",
    "women": "woman",
    "mice": "mouse",
    "geese": "goose",
    "feet": "foot",
    "teeth": "tooth",
    "criteria": "criterion",
    "indices": "index",
    "matrices": "matrix",
    "vertices": "vertex",
    "analyses": "analysis",
    "theses": "thesis",
    "crises": "crisis",
    "leaves": "leaf",
    "shelves": "shelf",
    "wolves": "wolf",
    "knives": "knife",
    "wives": "wife",
    "lives": "life",
    "halves": "half",
    "heroes": "hero",
    "potatoes": "potato",
    "tomatoes": "tomato",
    "echoes": "echo",
    "caches": "cache",
    "aliases": "alias",
    "gases": "gas",
    "lenses": "lens",
    "quizzes": "quiz",
    "movies": "movie",
    "cookies": "cookie",
    "calories": "calorie",
    "zombies": "zombie",
    "ties": "tie",
    "pies": "pie",
    "dies": "die",
    "staff": "staff",
}
_PLURALS: Final = {one: many for many, one in _IRREGULAR.items() if many != "persons"}
_UNCHANGED: Final = frozenset(
    "news series species gps sms dns aws ios analytics logistics physics media data "
    "metadata equipment information inventory staff software hardware sheep fish feedback "
    "traffic weather history telemetry aircraft spacecraft".split()
)


def split_words(name: str) -> list[str]:
    """Return the words of a name in lower case: `orderItems` and `order_items` are equal."""
    return [word.lower() for word in _WORD.findall(_without_accents(name))]


def singular(word: str) -> str:
    """Return the singular of an English plural; other words unchanged."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word == "ids":
        return "id"
    if word in _UNCHANGED or len(word) < 4 or not word.endswith("s"):  # noqa: PLR2004 - "gas"
        return word
    if word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    if word.endswith("uses") and not word.endswith(("ouses", "auses")):
        return word[:-2]
    if word.endswith(("sses", "ches", "shes", "xes", "zzes")):
        return word[:-2]
    return word[:-1]


def plural(word: str) -> str:
    """Return the plural of an English word."""
    if word in _PLURALS:
        return _PLURALS[word]
    if word in _UNCHANGED or singular(word) != word:
        return word
    if word.endswith("y") and word[-2:-1] not in ("", *"aeiou"):
        return f"{word[:-1]}ies"
    if word.endswith(("s", "x", "ch", "sh", "z")):
        return f"{word}es"
    return f"{word}s"


def pascal(words: Sequence[str]) -> str:
    """Return the words as a name of a type."""
    return "".join(word[:1].upper() + word[1:] for word in words)


def camel(words: Sequence[str]) -> str:
    """Return the words as a name of a field."""
    return safe_name("".join([*words[:1], pascal(words[1:])]))


def upper_snake(text: str) -> str:
    """Return the text as a name of an enum value; empty if it has no letters or digits."""
    if is_name(text) and (text.isupper() or text.islower()):
        return text.upper()  # `A320` is one word, and so is `b2b`
    return "_".join(word.upper() for word in split_words(text))


def is_name(text: str) -> bool:
    """Return whether GraphQL accepts it as a name that is not reserved."""
    return _NAME.fullmatch(text) is not None and not text.startswith("__")


def safe_name(text: str) -> str:
    """Return the nearest name that GraphQL accepts."""
    if is_name(text):
        return text
    safe = _UNSAFE.sub("_", _without_accents(text)).strip("_")[:_LONGEST]
    if not safe:
        return "field"
    return f"_{safe}" if safe[0].isdigit() else safe


class NamePool:
    """Names of one scope, each given once."""

    def __init__(self, taken: Container[str] = ()) -> None:
        self._reserved = taken
        self._taken: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._taken or name in self._reserved

    def claim(self, *wishes: str) -> str:
        """Return the first wish that is free, or the last one with a number."""
        name = next(name for name in _attempts(wishes) if name not in self)
        self._taken.add(name)
        return name


def _without_accents(text: str) -> str:
    """Return the text in English letters: `größe` becomes `grosse`."""
    if text.isascii():
        return text
    apart = unicodedata.normalize("NFKD", text.replace("ß", "ss"))
    return "".join(one for one in apart if not unicodedata.combining(one))


def _attempts(wishes: Sequence[str]) -> Iterator[str]:
    yield from wishes
    number = 1
    while True:
        number += 1
        yield f"{wishes[-1]}{number}"
