"""Join keys: the values by which documents match the filter of their parents, in memory.

`candidate_keys` returns every key that the filter `{path: value}` would compare with: arrays inside
and at the end of the path count by element, an array at the end also as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from docgraph.codec.bson_types import Regex
from docgraph.codec.equality import OWN_KEY, Key, equality_key

__all__ = ["candidate_keys", "is_comparable", "match_any"]


def candidate_keys(document: Any, path: tuple[str, ...]) -> Sequence[Key]:
    """Return the keys of everything that `{path: …}` compares with in this document."""
    if len(path) == 1 and type(document) is dict:
        value = document.get(path[0])
        if type(value) is not list:
            return (equality_key(value),)
    return [equality_key(value) for value in _reach(document, path)]


def _reach(value: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """Yield the values that a filter path reaches; an absent field is None."""
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
            # The server does not descend into an array that the last step named by its index.
            element = value[int(step)]
            yield from _reach(element, rest) if rest else (element,)


def match_any(name: str, values: Sequence[Any]) -> dict[str, Any]:
    """Return the condition that the field equals one of these stored values."""
    if OWN_KEY.issuperset(map(type, values)):
        return {name: {"$in": values}}
    plain = [value for value in values if is_comparable(value)]
    if len(plain) == len(values):
        return {name: {"$in": plain}}
    odd = [value for value in values if not is_comparable(value)]
    return {"$or": [{name: {"$in": plain}}, *({name: {"$eq": value}} for value in odd)]}


def is_comparable(value: Any) -> bool:
    """Return whether a stored value can be in `$in` and is compared literally there.

    A pattern would match strings, and a document of `$…` keys would be read as operators.
    """
    if type(value) is dict:
        return not next(iter(value), "").startswith("$")
    return type(value) is not Regex
