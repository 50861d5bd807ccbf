"""Join keys: the condition by which a command finds the documents that have one of the values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from docgraph.codec.bson_types import Regex
from docgraph.codec.equality import OWN_KEY


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
