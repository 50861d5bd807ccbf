"""Stages whose arguments can never work, as far as that is known without a database.

Only parts that hold no placeholder are looked at: what a caller supplies is checked when it comes.
The table has what people get wrong most; the rest is left to the database (`Facts.find_refused`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["ConstantPart", "find_shape"]


@dataclass(frozen=True, slots=True)
class ConstantPart:
    """A stage without placeholders, and its place; a part of a filter is a `$match` of its own.

    `is_alone`: no other one is around it, and it can be run by itself.
    """

    where: str
    stage: Mapping[str, Any] = field(hash=False)
    is_alone: bool


def find_shape(stage: Mapping[str, Any]) -> str | None:
    """What the arguments of a stage have to be, if these cannot work."""
    ((name, body),) = stage.items()
    shape = _SHAPES.get(name)
    return None if shape is None or shape[1](body) else shape[0]


def _is_whole(value: Any, least: int) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and value == value // 1 and value >= least


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and len(value) > 1 and value[0] == "$"


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value[:1] not in ("", "$")


def _is_filled(body: Any) -> bool:
    return isinstance(body, Mapping) and bool(body)


def _has(*names: str) -> Callable[[Any], bool]:
    return lambda body: isinstance(body, Mapping) and all(name in body for name in names)


def _is_unwind(body: Any) -> bool:
    return _is_path(body.get("path") if isinstance(body, Mapping) else body)


def _is_unset(body: Any) -> bool:
    names = body if isinstance(body, list) else [body]
    return bool(names) and all(map(_is_name, names))


def _is_sample(body: Any) -> bool:
    return isinstance(body, Mapping) and _is_whole(body.get("size"), 1)


def _is_lookup(body: Any) -> bool:
    return _has("as")(body) and ("pipeline" in body or _has("from")(body))


_FILLED: Final = ("must be an object with one field or more", _is_filled)
_SHAPES: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    "$limit": ("must be a whole number above 0", lambda body: _is_whole(body, 1)),
    "$skip": ("must be a whole number, 0 or more", lambda body: _is_whole(body, 0)),
    "$sample": ("must be an object with size, a whole number above 0", _is_sample),
    "$count": (
        "must be the name of a field, without $ and dots",
        lambda body: _is_name(body) and "." not in body,
    ),
    "$unwind": ('must be the path of a field such as "$items", or an object with path', _is_unwind),
    "$unset": ("must be the name of a field, or an array of names", _is_unset),
    "$sort": _FILLED,
    "$project": _FILLED,
    "$addFields": _FILLED,
    "$set": _FILLED,
    "$facet": _FILLED,
    "$group": ("must be an object with _id", _has("_id")),
    "$replaceRoot": ("must be an object with newRoot", _has("newRoot")),
    "$bucket": ("must be an object with groupBy and boundaries", _has("groupBy", "boundaries")),
    "$bucketAuto": ("must be an object with groupBy and buckets", _has("groupBy", "buckets")),
    "$lookup": ("must be an object with from or pipeline, and as", _is_lookup),
    "$graphLookup": (
        "must be an object with from, startWith, connectFromField, connectToField and as",
        _has("from", "startWith", "connectFromField", "connectToField", "as"),
    ),
}
