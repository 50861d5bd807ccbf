"""The values of `mergeRequest` in what is written: documents, operators, pipelines.

They win over those of the caller, wherever these stand: at the same place, inside it, or in an
object around it, of which the rest stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from docgraph.exchange import Document, Write, WriteKind

__all__ = ["merge_into"]

Values = Mapping[str, Any]
Change = tuple[str, str, Any]  # operator, path, operand


def merge_into(write: Write, values: Values) -> Write:
    """The write with these values in every document, or in `$set`."""
    if write.kind is WriteKind.DELETE:
        return write
    if write.pipeline is not None:
        stages = ({"$set": _merge_stage(path.split("."), value)} for path, value in values.items())
        return replace(write, pipeline=(*write.pipeline, *stages))
    if write.update is not None:
        return replace(write, update=_merge_update(write.update, values))
    return replace(write, documents=tuple(_merge(one, values) for one in write.documents))


def _merge_stage(steps: Sequence[str], value: Any, around: str = "") -> Document:
    """What `$set` of a stage takes; whatever is no object on the way is replaced by one.

    A plain path would go into arrays, and set nothing in an empty one.
    """
    first, *rest = steps
    if not rest:
        return {first: {"$literal": value}}
    here = f"{around}.{first}" if around else f"${first}"
    is_object = {"$eq": [{"$type": here}, "object"]}
    kept = {"$cond": [is_object, here, {}]}
    return {first: {"$mergeObjects": [kept, _merge_stage(rest, value, here)]}}


def _merge(document: Document, values: Values) -> Document:
    merged = dict(document)
    for path, value in values.items():
        for key in [key for key in merged if key != path and _is_inside(key, [path])]:
            del merged[key]
        holder = merged
        *steps, last = path.split(".")
        for step in steps:
            inner = holder.get(step)
            holder[step] = holder = dict(inner) if isinstance(inner, dict) else {}
        holder[last] = value
    return merged


def _is_inside(path: str, places: Iterable[str]) -> bool:
    return any(path == place or path.startswith(f"{place}.") for place in places)


# --- operators ------------------------------------------------------------------------------------


def _merge_update(update: Document, values: Values) -> Document:
    """The operators with the values in `$set`, as far as no object of the caller holds them.

    The database refuses two changes of one path, or of a path and one below it, in one update.
    """
    merged = {key: fields for key, fields in update.items() if not isinstance(fields, dict)}
    changes = [
        change
        for operator, fields in update.items()
        for path, operand in (fields.items() if isinstance(fields, dict) else ())
        for change in _give_way((operator, path, operand), values)
    ]
    held = {path for operator, path, _ in changes if operator == "$set"}
    changes += [("$set", *one) for one in values.items() if not _is_inside(one[0], held)]
    for operator, path, operand in changes:
        merged.setdefault(operator, {})[path] = operand
    return merged


def _give_way(change: Change, values: Values) -> Iterator[Change]:
    """What is left of a change by the caller beside the values.

    What they do to the same place, or inside it, falls away; an object around it takes the value.
    """
    operator, path, operand = change
    if _is_inside(path, values):
        return
    below = {
        place.removeprefix(f"{path}."): value
        for place, value in values.items()
        if place.startswith(f"{path}.")
    }
    match operator:
        case "$rename" if not below and _is_inside(str(operand), values):
            yield "$unset", path, ""  # it would be moved to where a value is
        case _ if not below:
            yield change
        case "$set":
            yield "$set", path, _merge(operand if isinstance(operand, dict) else {}, below)
        case "$unset":
            yield "$set", path, _merge({}, below)
        case "$setOnInsert" if isinstance(operand, dict):
            # Only its parts: what is there already keeps the rest of the object.
            for key, one in operand.items():
                yield from _give_way((operator, f"{path}.{key}", one), values)
