"""Filters in memory: the keys by which documents find their parents.

`candidate_keys` gives every key that the filter `{path: value}` would compare with: arrays on the
way and at the end count by element, an array at the end as a whole, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from docgraph.codec.equality import OWN_KEY, Key, equality_key
from docgraph.codec.types import Regex

__all__ = ["candidate_keys", "is_comparable", "match_any"]


def candidate_keys(document: Any, path: tuple[str, ...]) -> Sequence[Key]:
    """The keys of everything that `{path: …}` compares with in this document."""
    if len(path) == 1 and type(document) is dict:
        value = document.get(path[0])
        if type(value) is not list:
            return (equality_key(value),)
    return [equality_key(value) for value in _reach(document, path)]


def _reach(value: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """What a path of a filter reaches; an absent field is reached as None."""
    if not path:
        if type(value) is list:
            yield from value
        yield value
        return
    step, rest = path[0], path[1:]
    if type(value) is dict:
        yield from _reach(value.get(step), rest)
    elif type(value) is list:
        for item in value:
            if type(item) is dict:
                yield from _reach(item, path)
        if step.isdigit() and int(step) < len(value):
            # The server does not look inside an array that the last step named by its index.
            element = value[int(step)]
            yield from _reach(element, rest) if rest else (element,)


def match_any(name: str, values: Sequence[Any]) -> dict[str, Any]:
    """The condition that the field equals one of these stored values."""
    if OWN_KEY.issuperset(map(type, values)):
        return {name: {"$in": values}}
    plain = [value for value in values if is_comparable(value)]
    if len(plain) == len(values):
        return {name: {"$in": plain}}
    odd = [value for value in values if not is_comparable(value)]
    return {"$or": [{name: {"$in": plain}}, *({name: {"$eq": value}} for value in odd)]}


def is_comparable(value: Any) -> bool:
    """Whether a stored value can stand in `$in` and mean itself there.

    A pattern would match texts, and a document of `$…` keys would be read as operators.
    """
    if type(value) is dict:
        return not next(iter(value), "").startswith("$")
    return type(value) is not Regex
