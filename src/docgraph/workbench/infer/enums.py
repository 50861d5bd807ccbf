"""Enums: which string fields have only a few constants."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from docgraph.workbench.infer.profile import Seen
from docgraph.workbench.infer.sensitive import is_about_people
from docgraph.workbench.infer.words import is_name, singular, split_words, upper_snake

_MAX_VALUES: Final = 12
_FEWEST_VALUES: Final = 2
_ENOUGH: Final = 50  # strings in the sample
_EACH: Final = 3  # occurrences of each: if one is rare, others are probably missing
_LONGEST: Final = 30
_SHORTEST_CONSTANT: Final = 3  # short names like `US` usually have more values than the sample
_CONSTANTS: Final = (
    re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*"),
    re.compile(r"[A-Z][A-Z0-9]*([_-][A-Z0-9]+)*"),
)
_WORDS: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*([ _/-][A-Za-z0-9]+)*")
_TELLING: Final = frozenset(
    "status type kind level role tier priority mode plan phase severity stage visibility "
    "size unit cabin gender condition reason channel method".split()
)
_CODES: Final = frozenset(
    "code coupon voucher promo promotion discount sku serial reference ref number no plate "
    "ticker symbol iata icao gate seat room batch lot".split()
)
_RESERVED: Final = frozenset({"true", "false", "null"})


def find_enum_values(name: str, seen: Seen, *, repeated: bool = False) -> dict[str, str] | None:
    """Return the names and stored values of an enum; None if the field is not one.

    Lists of strings are tags more often than constants: only their name can distinguish them.
    """
    values = [value for value in seen.values if isinstance(value, str)]
    if not _are_few(seen, values) or not _are_constants(name, values):
        return None
    if is_about_people(name) and not _is_telling(name):
        return None  # the names of people, of whom there will be others
    if repeated and not _is_telling(name):
        return None
    named = {upper_snake(value): value for value in sorted(values)}
    is_clear = len(named) == len(values) and all(map(is_name, named))
    return named if is_clear and _RESERVED.isdisjoint(map(str.lower, named)) else None


def _are_few(seen: Seen, values: list[str]) -> bool:
    if set(seen.kinds) != {"string"} or seen.overflowed or seen.dates:
        return False
    is_enough = seen.filled >= _ENOUGH and min(seen.values.values(), default=0) >= _EACH
    return is_enough and _FEWEST_VALUES <= len(values) <= _MAX_VALUES


def _are_constants(name: str, values: Iterable[str]) -> bool:
    """Return whether the strings are written like constants, or the name suggests it."""
    texts = list(values)
    if not all(len(text) <= _LONGEST for text in texts):
        return False
    if _is_telling(name):
        return all(_WORDS.fullmatch(text) for text in texts)
    if all(len(text) <= _SHORTEST_CONSTANT for text in texts) or _are_codes(name, texts):
        return False
    return any(all(pattern.fullmatch(text) for text in texts) for pattern in _CONSTANTS)


def _are_codes(name: str, texts: list[str]) -> bool:
    """Return whether the strings identify something, such as coupons: there will be others."""
    with_digits = sum(1 for text in texts if any(map(str.isdigit, text)))
    is_named = any(singular(word) in _CODES for word in split_words(name)[-1:])
    return is_named or with_digits * 2 > len(texts)


def _is_telling(name: str) -> bool:
    return any(singular(word) in _TELLING for word in split_words(name)[-1:])
