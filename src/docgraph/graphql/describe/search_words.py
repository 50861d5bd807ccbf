"""Words of names, descriptions and questions: their forms, and general synonyms."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

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
    own = stem(word)
    found = dict.fromkeys(_find_synonyms().get(own, ()), _SYNONYM)
    return {**found, own: 1.0}


@lru_cache(maxsize=1)
def _find_synonyms() -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for line in _SYNONYMS.strip().splitlines():
        forms = {stem(word) for word in line.split()}
        for form in forms:
            found.setdefault(form, set()).update(forms)
    return {form: tuple(sorted(others)) for form, others in found.items()}
